"""What a turn reports to LangChain's callbacks, and the memory's own runs in it.

Recall is a retriever run under the chain's. Models that the memory itself calls (inside an
embedder, a write hook, a log) run under tags by which streams leave them out, and their tokens are
counted. Metadata and events hold names and counts, never what was said.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeVar

from langchain_core.callbacks import (
    BaseCallbackManager,
    adispatch_custom_event,
    dispatch_custom_event,
)
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import (
    ensure_config,
    get_async_callback_manager_for_config,
    get_callback_manager_for_config,
    patch_config,
    var_child_runnable_config,
)

from langchain_convmem.background import ask
from langchain_convmem.runnables import INTERNAL_TAGS, OwnTokens
from langchain_convmem.turns.replies import INTERRUPTED

if TYPE_CHECKING:
    from langchain_convmem.records import Draft
    from langchain_convmem.views.lines import Recall

_logger = logging.getLogger("langchain_convmem")

T = TypeVar("T")


def stamp_config(config: RunnableConfig | None, *, thread_id: str | None = None) -> RunnableConfig:
    """Return the config of a call with trace metadata: the version and the thread.

    Args:
        config: What the call was given.
        thread_id: The thread, where the call does not name it.
    """
    stamped = ensure_config(config)
    metadata, configurable = stamped["metadata"], stamped["configurable"]
    versions = {**metadata.get("lc_versions", {}), "langchain-convmem": _read_version()}
    noted: dict[str, Any] = {"lc_versions": versions}
    thread_id = thread_id or configurable.get("thread_id", configurable.get("session_id"))
    if isinstance(thread_id, str):
        noted["thread_id"] = thread_id
    stamped["metadata"] = {**metadata, **noted}
    return stamped


@cache
def _read_version() -> str:
    return version("langchain-convmem")


@dataclass(frozen=True, slots=True)
class TurnTrace:
    """The callbacks of one turn. Not thread-safe, as the turn.

    Attributes:
        config: What the inner chain is called with: a child of the chain's run.
        own_tokens: What models of the memory's own took.
    """

    config: RunnableConfig
    own_tokens: OwnTokens = field(default_factory=OwnTokens)

    @property
    def _thread_id(self) -> Any:
        configurable = self.config.get("configurable", {})
        return configurable.get("thread_id", configurable.get("session_id"))

    @contextmanager
    def mark_internal(self, callbacks: BaseCallbackManager | None = None) -> Iterator[None]:
        """Mark calls inside the block as the memory's own: tagged, counted, under the given run."""
        parent = self.config.get("callbacks") if callbacks is None else callbacks
        if isinstance(parent, BaseCallbackManager):
            callbacks = parent.copy()
            callbacks.add_handler(self.own_tokens, inherit=True)
        config = patch_config(self.config, callbacks=callbacks)
        config["tags"] = [*config["tags"], *INTERNAL_TAGS]
        before = var_child_runnable_config.get()
        var_child_runnable_config.set(config)
        try:
            yield
        finally:
            # Not by a token: a forgotten turn may be closed in another context.
            var_child_runnable_config.set(before)

    def run_internal(self, call: Callable[[], T]) -> T:
        """Make a call as the memory's own work, and report what its models took."""
        with self.mark_internal():
            done = call()
            self.report_own_models()
        return done

    def trace_recall(self, query: str, recall: Callable[[], Recall]) -> Recall:
        """Run a recall as a retriever run named `recall`, and write its figures at DEBUG."""
        began = time.monotonic()
        callbacks = self.config.get("callbacks")
        if isinstance(callbacks, BaseCallbackManager) and not callbacks.handlers:
            found = recall()
        else:
            found = self._run_recall(query, recall)
        if _logger.isEnabledFor(logging.DEBUG):
            _logger.debug(
                "recall in %s: %s, %d lines in %d blocks, %d summaries opened, %d ms",
                self._thread_id,
                found.verdict,
                sum(len(block.lines) for block in found.blocks),
                len(found.blocks),
                len(found.opened),
                (time.monotonic() - began) * 1_000,
            )
        return found

    def _run_recall(self, query: str, recall: Callable[[], Recall]) -> Recall:
        from langchain_core.documents import Document

        from langchain_convmem.recall.retriever import to_document

        config = self.config
        manager = get_callback_manager_for_config(config)
        amanager = get_async_callback_manager_for_config(config)
        run: Any = ask(
            partial(manager.on_retriever_start, None, query, name="recall"),
            partial(amanager.on_retriever_start, None, query, name="recall"),
        )
        try:
            with self.mark_internal(run.get_child()):
                found = recall()
        except BaseException as error:
            _tell(partial(run.on_retriever_error, error))
            raise
        documents = [to_document(block) for block in found.blocks]
        documents += [
            Document(one.text, id=one.summary_id, metadata={"position": one.position})
            for one in found.opened
        ]
        _tell(partial(run.on_retriever_end, documents))
        return found

    def report_stored(self, drafts: Sequence[Draft]) -> None:
        """Dispatch what an append of a reply stored."""
        self.dispatch_event("convmem.stored", partial(count_stored, drafts))

    def report_own_models(self) -> None:
        """Dispatch the token counts of the memory's own models, if any was called."""
        own = self.own_tokens.to_counts()
        if own:
            self.dispatch_event("convmem.own_models", lambda: own)

    def dispatch_event(self, name: str, count: Callable[[], Mapping[str, int]]) -> None:
        """Dispatch a custom event of the run, and write it at DEBUG; its data are counts.

        Without a run, as where a conversation stores what its reader left, there is no event.

        Args:
            name: The event.
            count: Returns the counts; it is called only where somebody listens.
        """
        config, callbacks = self.config, self.config.get("callbacks")
        is_watched = isinstance(callbacks, BaseCallbackManager) and bool(
            callbacks.parent_run_id and callbacks.handlers
        )
        if not (is_watched or _logger.isEnabledFor(logging.DEBUG)):
            return
        data = dict(count())
        _logger.debug("%s in %s: %s", name, self._thread_id, data)
        if is_watched:
            ask(
                partial(dispatch_custom_event, name, data, config=config),
                partial(adispatch_custom_event, name, data, config=config),
            )


def _tell(call: Callable[[], Any]) -> None:
    """Make a call of a run's manager, which is of the kind that the run was started by."""
    ask(call, call)


def count_stored(drafts: Sequence[Draft]) -> dict[str, int]:
    """Return what an append stored, in numbers."""
    return {
        "messages": sum(draft.control is None for draft in drafts),
        "replaced": sum(len(d.control.retracts) for d in drafts if d.control is not None),
        "interrupted": sum(INTERRUPTED in draft.metadata.attributes for draft in drafts),
    }
