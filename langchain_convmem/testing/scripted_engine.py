"""A text engine that plays a script: records what its sessions read, fails where a test says."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from langchain_convmem.chat_templates import ChatTemplate
from langchain_convmem.errors import ConversationClosedError
from langchain_convmem.protocols.sessions import Media, Part
from langchain_convmem.testing.scripted_session import Mark, ScriptedSession, session_class
from langchain_convmem.testing.session_script import (
    Action,
    Chunking,
    SessionEvent,
    SessionFault,
    SessionMisuseError,
    SessionReply,
    SessionScript,
    chunker,
)

__all__ = ["ScriptedEngine"]


class ScriptedEngine:
    """A `TextEngine` for tests, whose sessions write what a script says. Thread-safe.

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
        chunking: Chunking = "words",
        rewindable: bool = True,
        clonable: bool = True,
        counting: bool = True,
        scorer: Callable[[str, str], float] | None = None,
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
            chunking: How replies are cut. A chunk counts as a token.
            rewindable: Whether sessions have `checkpoint` and `rewind`.
            clonable: Whether sessions have `clone`.
            counting: Whether sessions have `token_count`.
            scorer: Gives sessions `score`; called with what the session holds and the text.
            holds_stop: Whether sessions hold the text that ended a reply.
            max_tokens: The most chunks that a session writes when its decode names no number.
            faults: Where to fail.
            before_prefill: Called with the text before it is read. It may block, so that a test
                decides how far a turn has come; asynchronously, what it returns is awaited if it
                can be.
            before_chunk: The same with the number of each chunk, from 0, before it is yielded.
            media_mark: What stands for media in the text of a session.

        Raises:
            ConfigError: If there is no such chunking.
        """
        self.template = template
        self.reply_format = reply_format
        self.stop = tuple(stop)
        self.end_text = end_text
        self.holds_stop = holds_stop
        self.max_tokens = max_tokens
        self.scorer = scorer
        self.before_prefill = before_prefill
        self.before_chunk = before_chunk
        self.media_mark = media_mark
        self.closed = False
        self.sessions: list[ScriptedSession] = []
        """All sessions that were made, clones included, in order."""
        self.misuses: list[str] = []
        """What `SessionMisuseError`s said, in case that somebody caught them."""
        self.chunks = chunker(chunking)
        """Cuts a text into tokens."""
        self._kind = session_class(
            rewindable=rewindable, clonable=clonable, counting=counting, scoring=bool(scorer)
        )
        self._script = SessionScript(replies, faults)
        self._events: list[SessionEvent] = []
        self._lock = threading.Lock()

    # -- the protocol -------------------------------------------------------------------------

    def create_session(self) -> ScriptedSession:
        """Return a new, empty session."""
        if self.closed:
            raise ConversationClosedError("the scripted engine is closed")
        fault = self._script.fault_at("create")
        if fault is not None and not fault.after:
            raise fault.error
        session = self.admit([], [])
        self.record(SessionEvent("create", session.number))
        if fault is not None:
            raise fault.error
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

    def admit(self, parts: Sequence[Part], marks: Sequence[Mark]) -> ScriptedSession:
        """Return a new session that holds `parts` and knows `marks`."""
        with self._lock:
            session = self._kind(self, len(self.sessions) + 1, parts, marks)
            self.sessions.append(session)
        return session

    def record(self, event: SessionEvent) -> None:
        """Note what a session did."""
        with self._lock:
            self._events.append(event)

    def misuse(self, what: str) -> SessionMisuseError:
        """Note a breach of the protocol, and return the error to raise."""
        with self._lock:
            self.misuses.append(what)
        return SessionMisuseError(what)

    def fault_at(self, action: Action) -> SessionFault | None:
        """Count an action; return the fault that it is to end with, if any."""
        return self._script.fault_at(action)

    def next_reply(self, text: str) -> str:
        """Return what a session that holds `text` writes, or raise it."""
        return self._script.next_reply(text)

    def shown(self, parts: Sequence[Part]) -> str:
        """Return parts as text."""
        return "".join(part if isinstance(part, str) else self.media_mark(part) for part in parts)
