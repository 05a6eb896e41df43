"""The sessions of a scripted engine.

Strict where the protocol leaves the state of a session open: code that goes on with a session after
an error, or uses one from two places at once, is told so.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from langchain_convmem.errors import UnknownCheckpointError
from langchain_convmem.protocols.sessions import Part
from langchain_convmem.testing.session_script import Action, Doing, SessionEvent

if TYPE_CHECKING:
    from langchain_convmem.testing.scripted_engine import ScriptedEngine

__all__ = ["Mark", "ScriptedSession", "session_class"]


class ScriptedSession:
    """A `TextSession` of a `ScriptedEngine`, with the abilities that the engine was told to give.

    Raises `SessionMisuseError` if it is used by two callers at once, after it was closed, or, but
    for `rewind`, `reset` and `close`, after an error or a decode that was left early.
    """

    def __init__(
        self, engine: ScriptedEngine, number: int, parts: Sequence[Part], marks: Sequence[Mark]
    ) -> None:
        """Created by its engine."""
        self.number = number
        """Its number, from 1."""
        self.closed = False
        self.finish_reason: Literal["stop", "length"] | None = None
        self.stop_text = ""
        self._engine = engine
        self._parts = list(parts)
        self._marks = list(marks)
        self._is_unknown = False
        self._occupied = threading.Lock()

    # -- what it holds ------------------------------------------------------------------------

    @property
    def holds_stop(self) -> bool:
        """As the engine says."""
        return self._engine.holds_stop

    @property
    def parts(self) -> list[Part]:
        """All that it holds, in the pieces in which it came."""
        return list(self._parts)

    @property
    def text(self) -> str:
        """All that it holds; media as marks."""
        return self._engine.shown(self._parts)

    @property
    def events(self) -> list[SessionEvent]:
        """What it did."""
        return [event for event in self._engine.events if event.session == self.number]

    # -- the protocol -------------------------------------------------------------------------

    def prefill(self, parts: Sequence[Part]) -> None:
        """Read text and media."""
        with self._doing("prefill") as doing:
            for _waiting in self._read(list(parts), doing):
                pass

    async def aprefill(self, parts: Sequence[Part]) -> None:
        """Read text and media."""
        with self._doing("prefill") as doing:
            for waiting in self._read(list(parts), doing):
                await _waited(waiting)

    def decode(
        self, *, stop: Sequence[str] = (), max_tokens: int | None = None, **options: Any
    ) -> Iterator[str]:
        """Write what the script says."""
        with closing(self._write(stop, max_tokens, options)) as writing:
            for _waiting, chunk in writing:
                yield chunk

    async def adecode(
        self, *, stop: Sequence[str] = (), max_tokens: int | None = None, **options: Any
    ) -> AsyncIterator[str]:
        """Write what the script says."""
        with closing(self._write(stop, max_tokens, options)) as writing:
            for waiting, chunk in writing:
                await _waited(waiting)
                yield chunk

    def reset(self) -> None:
        """Forget everything."""
        with self._doing("reset", mends=True):
            self._parts.clear()
            self._marks.clear()
            self._is_unknown = False

    def close(self) -> None:
        """Refuse everything from here on."""
        if not self.closed:
            with self._doing("close", mends=True):
                self.closed = True

    # -- doing it -----------------------------------------------------------------------------

    @contextmanager
    def _doing(
        self, action: Action, *, mends: bool = False, options: Mapping[str, Any] | None = None
    ) -> Iterator[Doing]:
        """Be the only one that uses the session, and record how it went."""
        if not self._occupied.acquire(blocking=False):
            raise self._engine.misuse(f"session {self.number}: {action} while another caller is in")
        doing = Doing(self._engine.fault_at(action))
        outcome: Literal["done", "failed", "left"] = "failed"
        try:
            self._check(action, mends=mends)
            doing.reached(0)
            yield doing
            doing.ended()
            outcome = "done"
        except GeneratorExit:
            outcome = "left"
            raise
        finally:
            self._is_unknown = self._is_unknown or outcome != "done"
            event = SessionEvent(action, self.number, doing.text, outcome, dict(options or {}))
            self._engine.record(event)
            self._occupied.release()

    def _check(self, action: Action, *, mends: bool) -> None:
        if action != "close" and (self.closed or self._engine.closed):
            raise self._engine.misuse(f"session {self.number}: {action} after it was closed")
        if self._is_unknown and not mends:
            raise self._engine.misuse(
                f"session {self.number}: {action} although its state is unknown, after an error or "
                "a decode that was left early; rewind or reset it first"
            )

    def _read(self, parts: list[Part], doing: Doing) -> Iterator[object]:
        hook = self._engine.before_prefill
        yield None if hook is None else hook(self._engine.shown(parts))
        for number, part in enumerate(parts):
            doing.reached(number)
            self._parts.append(part)
            doing.text += self._engine.shown([part])

    def _write(
        self, stop: Sequence[str], max_tokens: int | None, options: Mapping[str, Any]
    ) -> Generator[tuple[object, str]]:
        given = {**options, "stop": tuple(stop), "max_tokens": max_tokens}
        with self._doing("decode", options=given) as doing:
            self.finish_reason, self.stop_text = None, ""
            chunks, stop_text = self._reply(stop)
            limit = self._engine.max_tokens if max_tokens is None else max_tokens
            is_cut = limit is not None and len(chunks) > limit
            for number, chunk in enumerate(chunks[:limit]):
                doing.reached(number)
                hook = self._engine.before_chunk
                waiting = None if hook is None else hook(number)
                self._parts.append(chunk)
                doing.text += chunk
                yield waiting, chunk
            self.stop_text = "" if is_cut else stop_text
            if self.holds_stop and self.stop_text:
                self._parts.append(self.stop_text)
            self.finish_reason = "length" if is_cut else "stop"

    def _reply(self, stop: Sequence[str]) -> tuple[list[str], str]:
        """Return the chunks of the next reply, and the text that ends it."""
        reply = self._engine.next_reply(self.text)
        found = [(place, text) for text in stop if text and (place := reply.find(text)) >= 0]
        # Of two that begin at one place the longer one would have been the model's token.
        nothing = (len(reply), self._engine.end_text)
        place, end = min(found, key=lambda one: (one[0], -len(one[1])), default=nothing)
        return self._engine.chunks(reply[:place]), end


class Mark:
    """How many parts a session held."""

    def __init__(self, length: int) -> None:
        self.length = length


# -- abilities: a session has the methods of those that it was given, and no others ---------------


class _Rewindable(ScriptedSession):
    def checkpoint(self) -> object:
        """Return a mark of the state as it is."""
        with self._doing("checkpoint"):
            mark = Mark(len(self._parts))
            self._marks.append(mark)
        return mark

    def rewind(self, checkpoint: object) -> None:
        """Go back to a mark."""
        with self._doing("rewind", mends=True) as doing:
            if not any(mark is checkpoint for mark in self._marks):
                raise UnknownCheckpointError(f"session {self.number} has no such checkpoint")
            mark: Any = checkpoint
            del self._parts[mark.length :]
            self._marks = [known for known in self._marks if known.length <= mark.length]
            self._is_unknown = False
            doing.text = self.text


class _Clonable(ScriptedSession):
    def clone(self) -> ScriptedSession:
        """Return a session that goes on from here by itself."""
        with self._doing("clone"):
            return self._engine.admit(self._parts, self._marks)


class _Counting(ScriptedSession):
    @property
    def token_count(self) -> int:
        """Chunks of its state; media count one."""
        return sum(
            len(self._engine.chunks(part)) if isinstance(part, str) else 1 for part in self._parts
        )


class _Scoring(ScriptedSession):
    def score(self, texts: Sequence[str]) -> list[float]:
        """Return what the engine's scorer says of each text."""
        scorer = self._engine.scorer
        with self._doing("score"):
            return [] if scorer is None else [scorer(self.text, text) for text in texts]


@cache
def session_class(
    *, rewindable: bool, clonable: bool, counting: bool, scoring: bool
) -> type[ScriptedSession]:
    switches = {
        _Rewindable: rewindable,
        _Clonable: clonable,
        _Counting: counting,
        _Scoring: scoring,
    }
    bases = tuple(ability for ability, is_on in switches.items() if is_on)
    return type("ScriptedSession", bases, {}) if bases else ScriptedSession


async def _waited(waiting: object) -> None:
    """Let others run, and wait for what can be awaited."""
    if inspect.isawaitable(waiting):
        await waiting
    else:
        await asyncio.sleep(0)
