"""What a scripted session writes, where it fails, and the record of what it did."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from langchain_convmem.errors import ConfigError
from langchain_convmem.testing.scripted_replies import words_of

__all__ = [
    "Action",
    "Chunking",
    "Doing",
    "SessionEvent",
    "SessionFault",
    "SessionMisuseError",
    "SessionReply",
    "SessionScript",
    "chunker",
]

Action: TypeAlias = Literal[
    "create", "prefill", "decode", "checkpoint", "rewind", "clone", "score", "reset", "close"
]
SessionReply: TypeAlias = str | BaseException | Callable[[str], str]
"""What a session writes: a text, an error, or what a callable makes of all that it holds."""
Chunking: TypeAlias = Literal["words", "characters", "whole"] | Callable[[str], Sequence[str]]

_CHUNKINGS: Mapping[str, Callable[[str], Sequence[str]]] = {
    "words": words_of,
    "characters": list,
    "whole": lambda text: [text] if text else [],
}


def chunker(chunking: Chunking) -> Callable[[str], list[str]]:
    """Return the function that cuts a text into tokens, and loses nothing of it.

    Raises:
        ConfigError: If there is no such chunking; by the function: if it loses something.
    """
    if isinstance(chunking, str) and chunking not in _CHUNKINGS:
        raise ConfigError(f"chunking {chunking!r}: there are {sorted(_CHUNKINGS)}, or a callable")
    cut = _CHUNKINGS[chunking] if isinstance(chunking, str) else chunking

    def chunks(text: str) -> list[str]:
        found = list(cut(text))
        if "".join(found) != text:
            raise ConfigError(f"the chunking lost something: {found!r:.80} is not {text!r:.80}")
        return found

    return chunks


class SessionMisuseError(AssertionError):
    """The code under test broke the protocol of sessions."""


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """What a session did.

    Attributes:
        action: What.
        session: Number of the session, from 1; a clone has its own.
        text: What was read or written, as far as it came; with a rewind, all that is left.
        outcome: `left` is a decode that was not read to its end.
        options: Of a decode: `stop`, `max_tokens` and whatever else it was given.
    """

    action: Action
    session: int
    text: str = ""
    outcome: Literal["done", "failed", "left"] = "done"
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFault:
    """An error at one point, once.

    Attributes:
        at: What fails.
        nth: Which of them, from 1, over all sessions of the engine.
        after: How much of it happens first: parts of a prefill, chunks of a decode. More than
            there are: all of it. Other actions happen for any number but 0.
        error: What is raised.
    """

    at: Action
    nth: int = 1
    after: int = 0
    error: BaseException = field(default_factory=lambda: RuntimeError("scripted fault"))


class SessionScript:
    """The replies to come and the faults to come. Thread-safe."""

    def __init__(
        self, replies: SessionReply | Sequence[SessionReply], faults: Sequence[SessionFault]
    ) -> None:
        self._always: SessionReply | None = None
        self._left: deque[SessionReply] = deque()
        if isinstance(replies, str | BaseException) or callable(replies):
            self._always = replies
        else:
            self._left.extend(replies)
        self._length = len(self._left)
        self._faults = list(faults)
        self._counts: Counter[Action] = Counter()
        self._lock = threading.Lock()

    def next_reply(self, text: str) -> str:
        reply = self._taken() if self._always is None else self._always
        if isinstance(reply, BaseException):
            raise reply
        return str(reply(text)) if callable(reply) else reply

    def _taken(self) -> SessionReply:
        with self._lock:
            if not self._left:
                msg = f"the script has {self._length} replies, and one more decode came"
                raise ConfigError(msg)
            return self._left.popleft()

    def fault_at(self, action: Action) -> SessionFault | None:
        with self._lock:
            self._counts[action] += 1
            for fault in self._faults:
                if fault.at == action and fault.nth == self._counts[action]:
                    return fault
        return None


class Doing:
    """How far one action of a session has come."""

    def __init__(self, fault: SessionFault | None) -> None:
        self.text = ""
        self._fault = fault

    def reached(self, number: int) -> None:
        """Fail if the fault is to come after so many."""
        if self._fault is not None and self._fault.after == number:
            raise self._fault.error

    def ended(self) -> None:
        """Fail if a fault was to come, and has not."""
        if self._fault is not None:
            raise self._fault.error
