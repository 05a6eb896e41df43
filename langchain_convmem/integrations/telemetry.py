"""`MemoryTelemetry`: what turns and recalls did, as OpenTelemetry spans and metrics.

A callback handler of LangChain, so it works at every host of a turn: wrapped chains, conversations,
graphs and agents. It follows the GenAI conventions where they have a name for a thing; what is the
memory's own begins with `convmem.`. Spans and metrics hold names and counts. Calls of models are
left to whoever instruments those.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document

from langchain_convmem.errors import MissingExtraError
from langchain_convmem.forks import make_lock
from langchain_convmem.views.tokens import count_text_tokens

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

    from langchain_convmem.summarizing import SummaryEvent

try:
    from opentelemetry import metrics, trace
    from opentelemetry.trace import SpanKind, Status, StatusCode
except ImportError as error:
    raise MissingExtraError.build("Telemetry", "otel") from error

_SCOPE = "langchain_convmem"
_TURN = "invoke_workflow"
_RECALL = "retrieval"
_RECALL_RUN = "recall"
_MOST_OPEN = 10_000
"""Runs under way at most: what never reports its end is given up by then."""


@dataclass(slots=True, eq=False)
class OpenRun:
    """A run whose end has not come yet; the runs below it share it.

    A graph's run is not known for a turn of the memory's when it begins, so the span is made when
    something of the memory happens in it.
    """

    run_id: UUID
    operation: str
    name: str
    attributes: dict[str, Any]
    is_marked: bool = False
    started_ns: int = field(default_factory=time.time_ns)
    span: Span | None = None


class MemoryTelemetry(BaseCallbackHandler):
    """Reports turns and recalls to OpenTelemetry. Thread-safe; one object serves an application.

    Pass it among the callbacks of calls, or bind it: `memory.wrap(model).with_config(callbacks=
    [telemetry])`. `on_summary` is for `ConversationMemory(on_summary=telemetry.on_summary)`.

    Spans: `invoke_workflow` for a turn, with the thread as `gen_ai.conversation.id` and what the
    model got and what was stored as `convmem.context.*` and `convmem.stored.*`; in it `retrieval`
    for the recall. A failed one has `error.type`, the class of the error.

    Metrics: `gen_ai.client.operation.duration` (s) of both; `convmem.recall.tokens` and `.lines`,
    histograms of what a recall brought; the counters `convmem.recall.abstained`,
    `convmem.context.repairs`, `convmem.context.left_out`, `convmem.stored.messages`,
    `convmem.stored.interrupted`, `convmem.own_models.input_tokens`, `.output_tokens`, and
    `convmem.summaries` by `convmem.summary.kind`.
    """

    run_inline = True
    ignore_llm = True
    ignore_chat_model = True
    ignore_agent = True

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        include_text: bool = False,
    ) -> None:
        """Make a handler.

        Args:
            tracer_provider: Where spans go; None is the application's own.
            meter_provider: Where metrics go; None is the application's own.
            include_text: Put questions and recalled lines into the spans of recalls. They are what
                people said: think of where your spans are kept.
        """
        self._tracer = trace.get_tracer(_SCOPE, tracer_provider=tracer_provider)
        self._include_text = include_text
        self._lock = make_lock()
        self._open: OrderedDict[UUID, OpenRun] = OrderedDict()
        meter = metrics.get_meter(_SCOPE, meter_provider=meter_provider)
        self._duration = meter.create_histogram(
            "gen_ai.client.operation.duration", "s", "How long turns and recalls take."
        )
        self._tokens = meter.create_histogram(
            "convmem.recall.tokens", "{token}", "Tokens of what a recall brought."
        )
        self._lines = meter.create_histogram(
            "convmem.recall.lines", "{line}", "Lines that a recall brought."
        )
        self._abstained = meter.create_counter(
            "convmem.recall.abstained", "{recall}", "Recalls that brought nothing."
        )
        self._summaries = meter.create_counter(
            "convmem.summaries", "{event}", "What happened to summaries, by kind."
        )
        self._counters = {
            name: meter.create_counter(name, unit, text) for name, unit, text in _COUNTED
        }

    # -- turns ------------------------------------------------------------------------------------

    def on_chain_start(
        self,
        serialized: dict[str, Any],  # noqa: ARG002 - LangChain's signature
        inputs: Any,  # noqa: ARG002
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **more: Any,
    ) -> None:
        """Note a run that may be a turn, or part of one."""
        marks = metadata or {}
        is_marked = "langchain-convmem" in marks.get("lc_versions", {})
        with self._lock:
            above = None if parent_run_id is None else self._open.get(parent_run_id)
        if above is not None and (above.is_marked or not is_marked):
            self._note(run_id, above)
            return
        name = str(more.get("name") or "turn")
        attributes = {"gen_ai.operation.name": _TURN, "gen_ai.workflow.name": name}
        if isinstance(marks.get("thread_id"), str):
            attributes["gen_ai.conversation.id"] = marks["thread_id"]
        self._note(run_id, OpenRun(run_id, _TURN, name, attributes, is_marked))

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **_: Any) -> None:  # noqa: ARG002
        """End the span of a turn."""
        self._end(run_id, None)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """End the span of a turn that failed."""
        self._end(run_id, error)

    def on_custom_event(self, name: str, data: Any, *, run_id: UUID, **_: Any) -> None:
        """Add what a turn reports of itself to its span, and count it."""
        if not name.startswith("convmem.") or not isinstance(data, Mapping):
            return
        counts = {f"{name}.{key}": value for key, value in data.items() if isinstance(value, int)}
        for key, value in counts.items():
            counter = self._counters.get(key)
            if counter is not None and value:
                counter.add(value)
        run = self._find(run_id)
        if run is not None:
            self._get_span(run).set_attributes(counts)

    # -- recalls ----------------------------------------------------------------------------------

    def on_retriever_start(
        self,
        serialized: dict[str, Any],  # noqa: ARG002 - LangChain's signature
        query: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **more: Any,
    ) -> None:
        """Begin the span of a recall, if this run is one."""
        with self._lock:
            above = None if parent_run_id is None else self._open.get(parent_run_id)
        if above is None or more.get("name") != _RECALL_RUN:
            return
        attributes = {"gen_ai.operation.name": _RECALL, "gen_ai.data_source.id": _SCOPE}
        if self._include_text:
            attributes["gen_ai.retrieval.query.text"] = query
        run = OpenRun(run_id, _RECALL, _RECALL_RUN, attributes)
        self._get_span(run, trace.set_span_in_context(self._get_span(above)))
        self._note(run_id, run)

    def on_retriever_end(self, documents: Sequence[Document], *, run_id: UUID, **_: Any) -> None:
        """End the span of a recall."""
        run = self._find(run_id)
        if run is None:
            return
        span = self._get_span(run)
        lines = sum(len(one.metadata.get("line_ids", ())) for one in documents)
        tokens = sum(count_text_tokens(one.page_content) for one in documents)
        found = {"documents": len(documents), "lines": lines, "tokens": tokens}
        span.set_attributes({f"convmem.recall.{key}": found[key] for key in found})
        if self._include_text:
            texts = [one.page_content for one in documents]
            span.set_attribute("gen_ai.retrieval.documents", texts)
        self._lines.record(lines)
        self._tokens.record(tokens)
        if not documents:
            self._abstained.add(1)
        self._end(run_id, None)

    def on_retriever_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """End the span of a recall that failed."""
        self._end(run_id, error)

    # -- summaries --------------------------------------------------------------------------------

    def on_summary(self, event: SummaryEvent) -> None:
        """Count what happened to the summaries of a thread."""
        self._summaries.add(1, {"convmem.summary.kind": event.kind})

    # -- runs under way ---------------------------------------------------------------------------

    def _find(self, run_id: UUID) -> OpenRun | None:
        with self._lock:
            return self._open.get(run_id)

    def _note(self, run_id: UUID, run: OpenRun) -> None:
        with self._lock:
            self._open[run_id] = run
            given_up = self._open.popitem(last=False) if len(self._open) > _MOST_OPEN else None
        if given_up is not None and given_up[0] == given_up[1].run_id:
            self._finish(given_up[1], None)

    def _get_span(self, run: OpenRun, context: Context | None = None) -> Span:
        """Return the span of a run, which begins when the run did."""
        with self._lock:
            if run.span is None:
                run.span = self._tracer.start_span(
                    f"{run.operation} {run.name}",
                    context,
                    kind=SpanKind.INTERNAL,
                    attributes=run.attributes,
                    start_time=run.started_ns,
                )
            return run.span

    def _end(self, run_id: UUID, error: BaseException | None) -> None:
        with self._lock:
            run = self._open.pop(run_id, None)
        if run is not None and run.run_id == run_id:
            self._finish(run, error)

    def _finish(self, run: OpenRun, error: BaseException | None) -> None:
        """End the span of a run, if anything of the memory happened in it."""
        if run.is_marked:
            self._get_span(run)
        if run.span is None:
            return
        attributes = {"gen_ai.operation.name": run.operation}
        if error is not None:
            attributes["error.type"] = type(error).__qualname__
            run.span.set_attribute("error.type", attributes["error.type"])
            run.span.set_status(Status(StatusCode.ERROR))  # its text may quote what was said
        now_ns = time.time_ns()
        self._duration.record((now_ns - run.started_ns) / 1e9, attributes)
        run.span.end(now_ns)


_COUNTED = (
    ("convmem.context.repairs", "{repair}", "Repairs that made a thread valid for its model."),
    ("convmem.context.left_out", "{message}", "Messages neither shown nor summarised."),
    ("convmem.stored.messages", "{message}", "Messages that turns stored."),
    ("convmem.stored.interrupted", "{message}", "Replies that were cut off."),
    ("convmem.own_models.input_tokens", "{token}", "Input of the memory's own models."),
    ("convmem.own_models.output_tokens", "{token}", "Output of the memory's own models."),
)
