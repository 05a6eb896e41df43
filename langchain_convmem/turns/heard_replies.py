"""Hears the words of a model as they come, for the case that they break off.

A node of a graph and an agent's middleware get whole replies only. What a stream had brought before
it broke passes through LangChain's callbacks and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs, var_child_runnable_config

from langchain_convmem.ids import now_ms
from langchain_convmem.turns.replies import ReplyCollector

__all__ = ["HeardReplies", "hearing"]

_NOSTREAM = "nostream"
"""Tag of runs whose words LangGraph shows nobody."""


class HeardReplies(BaseCallbackHandler):
    """Collects the words of replies under way. For the model calls of one hook, one at a time."""

    run_inline = True
    ignore_chain = True
    ignore_retriever = True
    ignore_agent = True
    ignore_custom_event = True

    def __init__(self) -> None:
        """Start with nothing heard."""
        self.first_token_ms: int | None = None
        """When the first words of the latest reply came, if it was streamed."""
        self._replies: dict[UUID, ReplyCollector] = {}

    def listen(self, config: RunnableConfig | None) -> RunnableConfig:
        """Return the config with which models are called that are to be heard."""
        return merge_configs(config, {"callbacks": [self]})

    def broken(self) -> list[BaseMessage]:
        """Return what the last reply that was begun and not ended had brought, if anything."""
        latest = list(self._replies.values())[-1:]
        return [message for reply in latest for message in reply.interrupted(())]

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],  # noqa: ARG002 - LangChain passes it by place
        messages: Sequence[Any],  # noqa: ARG002
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: Sequence[str] | None = None,
        **_: Any,
    ) -> None:
        """Listen to a reply, unless it is made for another one that is listened to."""
        if parent_run_id not in self._replies and _NOSTREAM not in (tags or ()):
            self._replies[run_id] = ReplyCollector()
            self.first_token_ms = None

    def on_llm_new_token(self, *_: Any, run_id: UUID, chunk: Any = None, **__: Any) -> None:
        """Take a chunk."""
        message = getattr(chunk, "message", None)
        if message is not None and run_id in self._replies:
            self._add(run_id, message)

    def on_stream_event(self, event: Mapping[str, Any], *, run_id: UUID, **_: Any) -> None:
        """Take the text of an event; such streams bring no chunks."""
        delta = event.get("delta") or {}
        if delta.get("type") == "text-delta" and run_id in self._replies:
            self._add(run_id, AIMessageChunk(content=delta["text"], id=f"lc_run--{run_id}"))

    def _add(self, run_id: UUID, chunk: BaseMessage) -> None:
        reply = self._replies[run_id]
        reply.add(chunk)
        if self.first_token_ms is None and reply.has_text:
            self.first_token_ms = now_ms()

    def on_llm_end(self, response: Any, *, run_id: UUID, **_: Any) -> None:  # noqa: ARG002
        """Forget what broke before a reply that came whole: it was tried again."""
        if run_id in self._replies:
            self._replies.clear()


@contextmanager
def hearing() -> Iterator[HeardReplies]:
    """Hear the models that are called meanwhile."""
    heard = HeardReplies()
    before = var_child_runnable_config.get()
    var_child_runnable_config.set(heard.listen(before))
    try:
        yield heard
    finally:
        var_child_runnable_config.set(before)
