"""Spans and metrics of turns and recalls, through OpenTelemetry's own SDK."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.messages import HumanMessage
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from opentelemetry.semconv.attributes import error_attributes
from scripted_chat import ProviderError, ScriptedChatModel
from turn_hosts import HOSTS, RUNS

from langchain_convmem import ConversationMemory, EmbeddedEmbeddings, InMemoryLog, SummarySettings
from langchain_convmem.integrations import MemoryTelemetry
from langchain_convmem.offline import ExtractiveSummarizer

SECRET = "zebrafinch"  # stands in what is said, and may stand nowhere else


class Watch:
    """A telemetry with the spans and metrics that it made."""

    def __init__(self, **options):
        self._exporter, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.telemetry = MemoryTelemetry(
            tracer_provider=tracers,
            meter_provider=MeterProvider([self._reader]),
            **options,
        )

    @property
    def spans(self):
        return self._exporter.get_finished_spans()

    @property
    def metrics(self):
        data = self._reader.get_metrics_data()
        scopes = [] if data is None else [s for r in data.resource_metrics for s in r.scope_metrics]
        return {one.name: one.data.data_points for scope in scopes for one in scope.metrics}

    def config(self, thread_id="t"):
        ids = {"user_id": "ana", "thread_id": thread_id}
        return {"configurable": ids, "callbacks": [self.telemetry]}

    @property
    def text(self):
        return "\n".join(one.to_json() for one in self.spans) + str(self.metrics)


@pytest.fixture
def memory():
    with ConversationMemory(InMemoryLog(), embeddings=EmbeddedEmbeddings()) as memory:
        said = HumanMessage(f"My {SECRET} is called Pip.")
        memory.add_messages([said], thread_id="old", user_id="ana")
        yield memory


@pytest.fixture
def watch():
    return Watch()


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
@pytest.mark.parametrize("host", HOSTS.values(), ids=list(HOSTS))
def test_a_turn_is_a_span_with_its_recall_in_it_at_every_host(memory, watch, host, run):
    app = host.app(memory, ScriptedChatModel(replies=[f"It is a {SECRET}."]))
    run(app, f"What is my {SECRET} called?", watch.config())
    turns = [one for one in watch.spans if one.attributes["gen_ai.operation.name"] != "retrieval"]
    [recall] = [
        one for one in watch.spans if one.attributes["gen_ai.operation.name"] == "retrieval"
    ]
    [turn] = turns
    assert recall.parent is not None
    assert recall.parent.span_id == turn.context.span_id
    assert turn.attributes["gen_ai.conversation.id"] == "t"
    assert turn.attributes["convmem.context.lines"] == 1
    assert recall.attributes["convmem.recall.lines"] == 1
    assert recall.attributes["convmem.recall.tokens"] > 0
    assert SECRET not in watch.text


def test_names_are_those_of_the_conventions(memory, watch):
    chain = memory.wrap(ScriptedChatModel(replies=["Yes."]))
    chain.invoke("Hello?", watch.config())
    known = {
        value
        for module in (gen_ai_attributes, error_attributes)
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, str)
    }
    used = {key for span in watch.spans for key in span.attributes}
    assert {key for key in used if not key.startswith("convmem.")} <= known
    operations = {one.value for one in gen_ai_attributes.GenAiOperationNameValues}
    assert {span.attributes["gen_ai.operation.name"] for span in watch.spans} <= operations
    names = {name for name in watch.metrics if not name.startswith("convmem.")}
    assert names == {gen_ai_metrics.GEN_AI_CLIENT_OPERATION_DURATION}


def test_what_turns_do_is_counted(memory, watch):
    chain = memory.wrap(ScriptedChatModel(replies=["Yes."]))
    for number in range(3):
        chain.invoke("And what about the boiler pressure?", watch.config(f"t{number}"))
    metrics = watch.metrics
    durations = {
        point.attributes["gen_ai.operation.name"]: point.count
        for point in metrics["gen_ai.client.operation.duration"]
    }
    assert durations == {"invoke_workflow": 3, "retrieval": 3}
    assert [point.count for point in metrics["convmem.recall.tokens"]] == [3]
    assert [point.value for point in metrics["convmem.stored.messages"]] == [3]


def test_a_recall_that_brings_nothing_is_counted(memory, watch):
    memory.wrap(ScriptedChatModel(replies=["Hi."])).invoke("Hello!", watch.config())
    assert [point.value for point in watch.metrics["convmem.recall.abstained"]] == [1]


def test_a_failure_is_told_by_its_class_alone(memory, watch):
    chain = memory.wrap(ScriptedChatModel(replies=[ProviderError(f"no {SECRET} today")]))
    with pytest.raises(ProviderError):
        chain.invoke(f"My {SECRET}?", watch.config())
    turn = watch.spans[-1]
    assert turn.attributes["error.type"] == "ProviderError"
    assert not turn.status.is_ok
    assert not turn.events
    assert SECRET not in watch.text


def test_text_stands_in_spans_on_request(memory):
    watch = Watch(include_text=True)
    chain = memory.wrap(ScriptedChatModel(replies=["Pip."]))
    chain.invoke(f"What is my {SECRET} called?", watch.config())
    [recall] = [one for one in watch.spans if one.name == "retrieval recall"]
    assert recall.attributes["gen_ai.retrieval.query.text"] == f"What is my {SECRET} called?"
    assert f"My {SECRET} is called Pip." in str(recall.attributes["gen_ai.retrieval.documents"])


def test_other_runs_of_an_application_make_no_spans(watch):
    ScriptedChatModel(replies=["Yes."]).invoke("Hi", {"callbacks": [watch.telemetry]})
    assert watch.spans == ()


def test_turns_at_once_keep_their_own_spans(memory, watch):
    chain = memory.wrap(ScriptedChatModel(replies=["Yes."]))

    async def talk():
        calls = (chain.ainvoke("My finch?", watch.config(f"t{n}")) for n in range(8))
        await asyncio.gather(*calls)

    asyncio.run(talk())
    turns = {one.context.span_id: one for one in watch.spans if one.parent is None}
    recalls = [one for one in watch.spans if one.parent is not None]
    assert len(turns) == len(recalls) == 8
    assert {one.parent.span_id for one in recalls} == set(turns)
    assert {one.attributes["gen_ai.conversation.id"] for one in turns.values()} == {
        f"t{n}" for n in range(8)
    }


def test_summaries_are_counted_by_kind(watch):
    memory = ConversationMemory(
        InMemoryLog(),
        summarizer=ExtractiveSummarizer(),
        summary_settings=SummarySettings(trigger=("messages", 6), keep=("messages", 2)),
        on_summary=watch.telemetry.on_summary,
    )
    said = [(role, f"The gate number {n} is red.") for n in range(8) for role in ("user", "ai")]
    memory.add_messages(said, thread_id="t", user_id="ana")
    memory.summarize("t", user_id="ana", force=True)
    kinds = {
        point.attributes["convmem.summary.kind"]: point.value
        for point in watch.metrics["convmem.summaries"]
    }
    assert kinds["compacted"] == 1
