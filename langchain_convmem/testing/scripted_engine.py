"""A text engine that plays a script: records what its sessions read, fails where a test says."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, TypeAlias

from langchain_convmem.errors import ConversationError
from langchain_convmem.testing.scripted_replies import ReplyQueue, split_words
from langchain_convmem.text import ChatTemplate
from langchain_convmem.text.sessions import Media, Part

Action: TypeAlias = Literal[
    "create", "prefill", "decode", "checkpoint", "rewind", "clone", "reset", "close"
]

SessionReply: TypeAlias = str | BaseException | Callable[[str], str]
"""What a session writes: a text, an error, or what a callable makes of all that it holds."""


class ScriptedEngine:
    """A `TextEngine` for tests whose sessions follow a script. Thread-safe.

    Example:
        ```python
        engine = ScriptedEngine(["Level 3.", "You are welcome."])
        session = engine.create_session()
        session.prefill(["Where did I park?"])
        assert "".join(session.decode()) == "Level 3."
        assert engine.prefills == ["Where did I park?"]
        ```
    """

    def __init__(
        self,
        replies: SessionReply | Sequence[SessionReply] = "",
        *,
        template: ChatTemplate | None = None,
        reply_format: str | None = None,
        stop: Sequence[str] = (),
        end_text: str = "",
        chunking: Callable[[str], Sequence[str]] = split_words,
        rewindable: bool = True,
        clonable: bool = True,
        counting: bool = True,
        holds_stop: bool = False,
        max_tokens: int | None = None,
        faults: Sequence[SessionFault] = (),
        before_prefill: Callable[[str], object] | None = None,
        before_chunk: Callable[[int], object] | None = None,
        media_mark: Callable[[Media], str] = lambda media: f"<{media.kind}>",
    ) -> None:
        """Create the engine.

        Args:
            replies: One for every decode, or a list of one each, in the order of decodes over all
                sessions; one that fails or is left has used up its reply.
            template: What the engine says of itself.
            reply_format: What the engine says of itself.
            stop: What the engine says of itself; a decode stops only at what it is given.
            end_text: How the model ends a reply of its own accord: the `stop_text` of a decode that
                met no other, never yielded.
            chunking: Cuts a reply into chunks, by default into words. A chunk counts as a token.
            rewindable: Whether sessions have `checkpoint` and `rewind`.
            clonable: Whether sessions have `clone`.
            counting: Whether sessions have `token_count`.
            holds_stop: Whether sessions hold the text that ended a reply.
            max_tokens: The most chunks that a session writes when its decode names no number.
            faults: Where to fail.
            before_prefill: Called with the text before it is read. It may block, so that a test
                decides how far a turn has come; asynchronously, what it returns is awaited if it
                can be.
            before_chunk: The same with the number of each chunk, from 0, before it is yielded.
            media_mark: What stands for media in the text of a session.
        """
        self.template = template
        self.reply_format = reply_format
        self.stop = tuple(stop)
        self.end_text = end_text
        self.holds_stop = holds_stop
        self.max_tokens = max_tokens
        self.before_prefill = before_prefill
        self.before_chunk = before_chunk
        self.media_mark = media_mark
        self.closed = False
        self.sessions: list[ScriptedSession] = []
        """All sessions that were made, clones included, in order."""
        self.misuses: list[str] = []
        """What `SessionMisuseError`s said, in case that somebody caught them."""
        self.chunks = chunking
        """Cuts a text into tokens."""
        self._kind = _build_session_class(
            rewindable=rewindable, clonable=clonable, counting=counting
        )
        self.script = _SessionScript(replies, faults)
        """What its sessions write, and where they fail."""
        self._events: list[SessionEvent] = []
        self._lock = threading.Lock()

    # -- the protocol -------------------------------------------------------------------------

    def create_session(self) -> ScriptedSession:
        """Return a new, empty session."""
        if self.closed:
            raise ConversationError("the scripted engine is closed")
        fault = self.script.take_fault("create")
        if fault is not None:
            raise fault.error
        session = self.admit([], [])
        self.record(SessionEvent("create", session.number))
        return session

    def close(self) -> None:
        """Release nothing; sessions can no longer be used."""
        self.closed = True

    # -- what happened ------------------------------------------------------------------------

    @property
    def events(self) -> list[SessionEvent]:
        """What all sessions did, in the order in which it ended."""
        with self._lock:
            return list(self._events)

    @property
    def prefills(self) -> list[str]:
        """What all sessions read, in order; media as marks."""
        return [event.text for event in self.events if event.action == "prefill"]

    @property
    def open_sessions(self) -> list[ScriptedSession]:
        """The sessions that nobody closed."""
        return [session for session in list(self.sessions) if not session.closed]

    # -- for its sessions ---------------------------------------------------------------------

    def admit(self, parts: Sequence[Part], marks: Sequence[_Mark]) -> ScriptedSession:
        """Return a new session that holds `parts` and knows `marks`."""
        with self._lock:
            session = self._kind(self, len(self.sessions) + 1, parts, marks)
            self.sessions.append(session)
        return session

    def record(self, event: SessionEvent) -> None:
        """Note what a session did."""
        with self._lock:
            self._events.append(event)

    def note_misuse(self, what: str) -> SessionMisuseError:
        """Note a breach of the protocol, and return the error to raise."""
        with self._lock:
            self.misuses.append(what)
        return SessionMisuseError(what)

    def show(self, parts: Sequence[Part]) -> str:
        """Return parts as text."""
        return "".join(part if isinstance(part, str) else self.media_mark(part) for part in parts)


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """An action of a session.

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
    """An error that is raised once, at a given point.

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


class SessionMisuseError(AssertionError):
    """The code under test used a session incorrectly."""


# -- Its sessions ---------------------------------------------------------------------------------


class ScriptedSession:
    """A `ModelSession` of a `ScriptedEngine`, with the abilities that the engine sets.

    Raises `SessionMisuseError` if it is used by two callers at once, after it was closed, or, but
    for `rewind`, `reset` and `close`, after an error or a decode that was left early.
    """

    def __init__(
        self, engine: ScriptedEngine, number: int, parts: Sequence[Part], marks: Sequence[_Mark]
    ) -> None:
        """Created by its engine."""
        self.number = number
        """Its number, from 1."""
        self.closed = False
        self.finish_reason: Literal["stop", "length"] | None = None
        self.stop_text = ""
        self.holds_stop = engine.holds_stop
        self._engine = engine
        self._parts = list(parts)
        self._marks = list(marks)
        self._is_unknown = False
        self._occupied = threading.Lock()

    # -- what it holds ------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """All that it holds; media as marks."""
        return self._engine.show(self._parts)

    # -- the protocol -------------------------------------------------------------------------

    def prefill(self, parts: Sequence[Part]) -> None:
        """Read text and media."""
        with self._record_action("prefill") as progress:
            for _waiting in self._read(list(parts), progress):
                pass

    async def aprefill(self, parts: Sequence[Part]) -> None:
        """Read text and media."""
        with self._record_action("prefill") as progress:
            for waiting in self._read(list(parts), progress):
                await _wait(waiting)

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
                await _wait(waiting)
                yield chunk

    def reset(self) -> None:
        """Forget everything."""
        with self._record_action("reset", repairs=True):
            self._parts.clear()
            self._marks.clear()
            self._is_unknown = False

    def close(self) -> None:
        """Refuse everything from here on."""
        if not self.closed:
            with self._record_action("close", repairs=True):
                self.closed = True

    # -- doing it -----------------------------------------------------------------------------

    @contextmanager
    def _record_action(
        self, action: Action, *, repairs: bool = False, options: Mapping[str, Any] | None = None
    ) -> Iterator[_Progress]:
        """Be the only one that uses the session, and record how it went."""
        if not self._occupied.acquire(blocking=False):
            raise self._engine.note_misuse(
                f"session {self.number}: {action} while another caller is in"
            )
        progress = _Progress(self._engine.script.take_fault(action))
        outcome: Literal["done", "failed", "left"] = "failed"
        try:
            self._check(action, repairs=repairs)
            progress.reach(0)
            yield progress
            progress.end()
            outcome = "done"
        except GeneratorExit:
            outcome = "left"
            raise
        finally:
            self._is_unknown = self._is_unknown or outcome != "done"
            event = SessionEvent(action, self.number, progress.text, outcome, dict(options or {}))
            self._engine.record(event)
            self._occupied.release()

    def _check(self, action: Action, *, repairs: bool) -> None:
        if action != "close" and (self.closed or self._engine.closed):
            raise self._engine.note_misuse(f"session {self.number}: {action} after it was closed")
        if self._is_unknown and not repairs:
            raise self._engine.note_misuse(
                f"session {self.number}: {action} although its state is unknown, after an error or "
                "a decode that was left early; rewind or reset it first"
            )

    def _read(self, parts: list[Part], progress: _Progress) -> Iterator[object]:
        hook = self._engine.before_prefill
        yield None if hook is None else hook(self._engine.show(parts))
        for number, part in enumerate(parts):
            progress.reach(number)
            self._parts.append(part)
            progress.text += self._engine.show([part])

    def _write(
        self, stop: Sequence[str], max_tokens: int | None, options: Mapping[str, Any]
    ) -> Generator[tuple[object, str]]:
        given = {**options, "stop": tuple(stop), "max_tokens": max_tokens}
        with self._record_action("decode", options=given) as progress:
            self.finish_reason, self.stop_text = None, ""
            chunks, stop_text = self._cut_reply(stop)
            limit = self._engine.max_tokens if max_tokens is None else max_tokens
            is_cut = limit is not None and len(chunks) > limit
            for number, chunk in enumerate(chunks[:limit]):
                progress.reach(number)
                hook = self._engine.before_chunk
                waiting = None if hook is None else hook(number)
                self._parts.append(chunk)
                progress.text += chunk
                yield waiting, chunk
            self.stop_text = "" if is_cut else stop_text
            if self.holds_stop and self.stop_text:
                self._parts.append(self.stop_text)
            self.finish_reason = "length" if is_cut else "stop"

    def _cut_reply(self, stop: Sequence[str]) -> tuple[Sequence[str], str]:
        """Return the chunks of the next reply, and the text that ends it."""
        reply = self._engine.script.take_reply(self.text)
        found = [(place, text) for text in stop if text and (place := reply.find(text)) >= 0]
        # Of two that begin at one place the longer one would have been the model's token.
        nothing = (len(reply), self._engine.end_text)
        place, end = min(found, key=lambda one: (one[0], -len(one[1])), default=nothing)
        return self._engine.chunks(reply[:place]), end


class _Mark:
    """How many parts a session held."""

    def __init__(self, length: int) -> None:
        self.length = length


class _Progress:
    """How far one action of a session has come."""

    def __init__(self, fault: SessionFault | None) -> None:
        self.text = ""
        self._fault = fault

    def reach(self, number: int) -> None:
        """Fail if the fault is to come after so many."""
        if self._fault is not None and self._fault.after == number:
            raise self._fault.error

    def end(self) -> None:
        """Fail if a fault was to come, and has not."""
        if self._fault is not None:
            raise self._fault.error


async def _wait(waiting: object) -> None:
    """Let others run, and wait for what can be awaited."""
    if inspect.isawaitable(waiting):
        await waiting
    else:
        await asyncio.sleep(0)


# -- Abilities: a session has the methods of those that it was given, and no others ---------------


class _Rewindable(ScriptedSession):
    def checkpoint(self) -> object:
        """Return a mark of the state as it is."""
        with self._record_action("checkpoint"):
            mark = _Mark(len(self._parts))
            self._marks.append(mark)
        return mark

    def rewind(self, checkpoint: object) -> None:
        """Go back to a mark."""
        with self._record_action("rewind", repairs=True) as progress:
            if not any(mark is checkpoint for mark in self._marks):
                raise ConversationError(f"session {self.number} has no such checkpoint")
            mark: Any = checkpoint
            del self._parts[mark.length :]
            self._marks = [known for known in self._marks if known.length <= mark.length]
            self._is_unknown = False
            progress.text = self.text


class _Clonable(ScriptedSession):
    def clone(self) -> ScriptedSession:
        """Return a session that goes on from here by itself."""
        with self._record_action("clone"):
            return self._engine.admit(self._parts, self._marks)


class _Counting(ScriptedSession):
    @property
    def token_count(self) -> int:
        """Chunks of its state; media count one."""
        return sum(
            len(self._engine.chunks(part)) if isinstance(part, str) else 1 for part in self._parts
        )


@cache
def _build_session_class(
    *, rewindable: bool, clonable: bool, counting: bool
) -> type[ScriptedSession]:
    switches = {
        _Rewindable: rewindable,
        _Clonable: clonable,
        _Counting: counting,
    }
    bases = tuple(ability for ability, is_on in switches.items() if is_on)
    return type("ScriptedSession", bases, {}) if bases else ScriptedSession


# -- What sessions write, and where they fail -----------------------------------------------------


class _SessionScript:
    """The replies to come and the faults to come. Thread-safe."""

    def __init__(
        self, replies: SessionReply | Sequence[SessionReply], faults: Sequence[SessionFault]
    ) -> None:
        self._replies: ReplyQueue[SessionReply] = ReplyQueue(replies, str | BaseException, "decode")
        self._faults = list(faults)
        self._counts: Counter[Action] = Counter()
        self._lock = threading.Lock()

    def take_reply(self, text: str) -> str:
        """Return what a session that holds `text` writes, or raise it."""
        reply = self._replies.take()
        if isinstance(reply, BaseException):
            raise reply
        return str(reply(text)) if callable(reply) else reply

    def take_fault(self, action: Action) -> SessionFault | None:
        """Count an action; return the fault that it is to end with, if any."""
        with self._lock:
            self._counts[action] += 1
            for fault in self._faults:
                if fault.at == action and fault.nth == self._counts[action]:
                    return fault
        return None
