"""What a turn reports to LangChain's callbacks, and the memory's own runs in it.

Recall is a retriever run under the chain's. Models that the memory itself calls (in a rewriter, an
embedder or a write hook) run under tags, so that streams leave them out, and their tokens are
counted. Metadata and events hold names and counts, never what was said.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from langchain_core.callbacks import (
    BaseCallbackManager,
    adispatch_custom_event,
    dispatch_custom_event,
)
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import (
    get_async_callback_manager_for_config,
    get_callback_manager_for_config,
    patch_config,
    var_child_runnable_config,
)

from langchain_convmem.background import ask, can_await
from langchain_convmem.runnables import INTERNAL_TAGS, OwnTokens
from langchain_convmem.views.edits import INTERRUPTED

if TYPE_CHECKING:
    from langchain_convmem.records import Draft, Entry
    from langchain_convmem.views.lines import Recall

_logger = logging.getLogger("langchain_convmem")

T = TypeVar("T")


@dataclass(slots=True)
class TurnTrace:
    """The callbacks of one turn. Not thread-safe, as the turn.

    Attributes:
        config: The config under which the turn runs.
        own_tokens: Counts the tokens of the memory's own models; None until one may be called.
    """

    config: RunnableConfig
    own_tokens: OwnTokens | None = None

    @property
    def _thread_id(self) -> object:
        return self.config.get("metadata", {}).get("thread_id")

    @contextmanager
    def mark_internal(self, callbacks: BaseCallbackManager | None = None) -> Iterator[None]:
        """Mark calls inside the block as the memory's own: tagged, counted, under the given run."""
        parent: Any = callbacks or self.config.get("callbacks")
        if isinstance(parent, BaseCallbackManager):
            parent, self.own_tokens = parent.copy(), self.own_tokens or OwnTokens()
            parent.add_handler(self.own_tokens, inherit=True)
        config = patch_config(self.config, callbacks=parent)
        config["tags"] = [*config["tags"], *INTERNAL_TAGS]
        before = var_child_runnable_config.get()
        var_child_runnable_config.set(config)
        try:
            yield
        finally:
            # Not by a token: an abandoned turn may be closed in another context.
            var_child_runnable_config.set(before)

    def run_internal(self, call: Callable[[], T]) -> T:
        """Make a call as the memory's own work, and report what its models took."""
        with self.mark_internal():
            done = call()
            self.report_own_models()
        return done

    def trace_recall(self, query: str, recall: Callable[[], Recall]) -> Recall:
        """Run a recall as a retriever run named `recall`, and write its figures at DEBUG."""
        callbacks, began = self.config.get("callbacks"), time.monotonic()
        is_watched = not isinstance(callbacks, BaseCallbackManager) or callbacks.handlers
        found = self._run_recall(query, recall) if is_watched else recall()
        lines = sum(len(block.lines) for block in found.blocks)
        figures = (self._thread_id, found.verdict, lines, 1000 * (time.monotonic() - began))
        _logger.debug("recall in %s: %s, %d lines, %d ms", *figures)
        return found

    def _run_recall(self, query: str, recall: Callable[[], Recall]) -> Recall:
        from langchain_core.documents import Document

        from langchain_convmem.recall.retriever import to_document

        find_manager: Any = get_callback_manager_for_config
        if can_await():
            find_manager = get_async_callback_manager_for_config
        manager = find_manager(self.config)
        run: Any = _tell(partial(manager.on_retriever_start, None, query, name="recall"))
        try:
            with self.mark_internal(run.get_child()):
                found = recall()
        except BaseException as error:
            _tell(partial(run.on_retriever_error, error))
            raise
        opened = (Document(one.text, id=one.summary_id) for one in found.opened)
        _tell(partial(run.on_retriever_end, [*map(to_document, found.blocks), *opened]))
        return found

    def get_own_tokens(self) -> dict[str, dict[str, int]]:
        """Return what the memory's own models took, for an entry's `aux`; see `OwnTokens`."""
        return {} if self.own_tokens is None else self.own_tokens.to_aux()

    def report_stored(self, stored: Sequence[Draft | Entry]) -> None:
        """Dispatch what was stored of a reply, in numbers."""
        self.dispatch_event("convmem.stored", partial(count_stored, stored))

    def report_own_models(self) -> None:
        """Dispatch the token counts of the memory's own models, if any was called."""
        if own := self.own_tokens and self.own_tokens.to_counts():
            self.dispatch_event("convmem.own_models", lambda: own)

    def dispatch_event(self, name: str, count: Callable[[], dict[str, int]]) -> None:
        """Dispatch a custom event of the run, and log it at DEBUG; its data are counts.

        Without a run, for example when a conversation stores a turn that its reader left, there is
        no event.

        Args:
            name: The event.
            count: Returns the counts; called only if somebody listens.
        """
        callbacks: Any = self.config.get("callbacks")
        is_run = isinstance(callbacks, BaseCallbackManager) and callbacks.parent_run_id
        is_watched = is_run and callbacks.handlers
        if is_watched or _logger.isEnabledFor(logging.DEBUG):
            data = count()
            _logger.debug("%s in %s: %s", name, self._thread_id, data)
        if is_watched:
            dispatch: Any = adispatch_custom_event if can_await() else dispatch_custom_event
            _tell(partial(dispatch, name, data, config=self.config))


def _tell(call: Callable[[], Any]) -> Any:
    """Call a callback manager; in an event loop it is asynchronous, and the loop awaits it."""
    return ask(call, call)


def count_stored(stored: Sequence[Draft | Entry]) -> dict[str, int]:
    """Return what an append stored, in numbers."""
    return {
        "messages": sum(one.control is None for one in stored),
        "replaced": sum(len(one.control.retracts) for one in stored if one.control is not None),
        "interrupted": sum(INTERRUPTED in one.metadata.attributes for one in stored),
    }
