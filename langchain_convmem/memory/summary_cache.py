"""Summaries of the beginnings of message lists, so that no beginning is summarised twice."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, Self

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

__all__ = ["SummaryCache", "digests"]


class SummaryCache:
    """What was summarised, by digest; the least recently used goes first. Thread-safe.

    Copies of what holds a cache share it; what is pickled starts with an empty one.
    """

    def __init__(self, most: int = 1024) -> None:
        """Create an empty cache of at most so many summaries."""
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[str, ...]] = OrderedDict()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._most,)

    def longest(self, names: Sequence[str]) -> tuple[int, tuple[str, ...]]:
        """Return how many messages the longest known beginning has, and its summary.

        Args:
            names: The digests of a list's beginnings, of none of its messages first.
        """
        with self._lock:
            for count in range(len(names) - 1, -1, -1):
                if names[count] in self._kept:
                    self._kept.move_to_end(names[count])
                    return count, self._kept[names[count]]
        return 0, ()

    def keep(self, name: str, pieces: tuple[str, ...]) -> None:
        """Keep the summary of a beginning."""
        with self._lock:
            self._kept[name] = pieces
            self._kept.move_to_end(name)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)


def digests(start: Sequence[str], messages: Iterable[BaseMessage]) -> list[str]:
    """Return the digest of each beginning of a list: of none of its messages, of one, of two ...

    Ids do not count: a chain may make its messages anew for each call.

    Args:
        start: The summary that the list continues.
        messages: The list.
    """
    digest = hashlib.blake2b(json.dumps(list(start)).encode(), digest_size=16)
    found = [digest.hexdigest()]
    for message in messages:
        digest.update(json.dumps(_said(message), default=str, sort_keys=True).encode())
        found.append(digest.hexdigest())
    return found


def _said(message: BaseMessage) -> list[Any]:
    calls = message.tool_calls if isinstance(message, AIMessage) else None
    answers = message.tool_call_id if isinstance(message, ToolMessage) else None
    return [message.type, message.name, message.content, calls, answers]
