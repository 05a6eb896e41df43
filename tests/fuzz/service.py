"""Contexts over real HTTP: a strict Chat Completions service must answer each with 200."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from importlib import import_module
from types import TracebackType
from typing import Any, Self

from langchain_core.messages import BaseMessage, SystemMessage

from tests.support.strict_chats import StrictChatCompletions

__all__ = ["Service"]


class Service:
    """`ChatOpenAI` in front of the strict server, for the time of a `with` block."""

    profiles = ("openai", "strict")

    def __init__(self) -> None:
        """Prepare the server.

        Raises:
            ImportError: If `langchain-openai` is not installed.
        """
        self._model_class = import_module("langchain_openai").ChatOpenAI
        self._server = StrictChatCompletions(reply="Yes.")
        self._model: Any = None

    def __enter__(self) -> Self:
        """Start the server."""
        self._server.__enter__()
        self._model = self._model_class(
            base_url=self._server.url, api_key="test", model="test-model", max_retries=0
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the server."""
        self._server.__exit__(kind, error, trace)

    def faults(self, messages: Sequence[BaseMessage]) -> list[str]:
        """Return the service's refusal, if it refuses."""
        if all(isinstance(message, SystemMessage) for message in messages):
            return []
        try:
            self._model.invoke(copy.deepcopy(list(messages)))
        except Exception as error:  # noqa: BLE001 - whatever the client raises is a refusal
            return [f"{type(error).__name__}: {error!s:.200}"]
        return []
