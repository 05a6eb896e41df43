"""Sessions of a text engine: how much of its conversation each holds, and how many live at once."""

from __future__ import annotations

import threading
from collections import OrderedDict

from langchain_convmem.errors import ConversationBusyError
from langchain_convmem.gates import Gate, Refusals, Ticket
from langchain_convmem.protocols import ClonableSession, RewindableSession, TextEngine, TextSession
from langchain_convmem.steps import Steps

__all__ = ["LiveSession", "SessionPool"]


class LiveSession:
    """A session, and how much of its conversation's text it holds. One caller at a time.

    What it holds is always a beginning of that text; it may be nothing.
    """

    def __init__(self) -> None:
        self.session: TextSession | None = None
        self.held = 0
        self._marks: list[tuple[int, object]] = []

    def opened(self, engine: TextEngine) -> TextSession:
        """Return the session; a new one if there is none."""
        if self.session is None:
            self.session = engine.create_session()
            self.held, self._marks = 0, []
        return self.session

    def mark(self, held: int) -> None:
        """Note that the session holds so many code points now, to come back to."""
        self.held = held
        if isinstance(self.session, RewindableSession):
            self._marks.append((held, self.session.checkpoint()))

    def back_to(self, held: int, *, is_sound: bool = True) -> None:
        """Make the session hold no more than so many code points, if it holds more.

        Args:
            held: How many; it may hold fewer then.
            is_sound: Whether its state is known; if not, it is put back in any case.
        """
        if is_sound and self.held <= held:
            return
        while self._marks and self._marks[-1][0] > held:
            self._marks.pop()
        if self.session is None:
            return
        if self._marks and isinstance(self.session, RewindableSession):
            self.held, checkpoint = self._marks[-1]
            self.session.rewind(checkpoint)
        else:
            self.held, self._marks = 0, []
            self.session.reset()

    def branch(self) -> LiveSession:
        """Return one that goes on by itself; it holds nothing if the session cannot be copied."""
        twin = LiveSession()
        if isinstance(self.session, ClonableSession):
            twin.session = self.session.clone()
            twin.held, twin._marks = self.held, list(self._marks)
        return twin

    def drop(self) -> None:
        """Close the session; the next use opens another."""
        session, self.session = self.session, None
        self.held, self._marks = 0, []
        if session is not None:
            session.close()


class SessionPool:
    """The live sessions of an engine; where there may be only so many, those rest that are idle.

    Thread-safe.
    """

    def __init__(self, engine: TextEngine, max_live: int | None) -> None:
        """Create an empty pool.

        Args:
            engine: Makes the sessions.
            max_live: How many may live at once; None is any number.
        """
        self.engine = engine
        self._max_live = max_live
        self._gate = Gate(_REFUSALS, capacity=max_live or 1)
        self._lock = threading.Lock()
        self._idle: OrderedDict[int, LiveSession] = OrderedDict()
        self._busy: dict[int, Ticket | None] = {}

    def borrow_steps(self, live: LiveSession) -> Steps[TextSession]:
        """Return an open session, for one turn; wait until there may be one more."""
        if id(live) not in self._busy:
            ticket = None if self._max_live is None else self._gate.enter()
            try:
                if ticket is not None:
                    yield from self._gate.wait_steps(ticket)
                self._make_room(live, ticket)
            except BaseException:
                if ticket is not None:
                    self._gate.leave(ticket)
                raise
        return live.opened(self.engine)

    def give_back(self, live: LiveSession) -> None:
        """End the turn of a session; it stays alive until another one needs its place."""
        with self._lock:
            if id(live) not in self._busy:
                return
            ticket = self._busy.pop(id(live))
            if live.session is not None:
                self._idle[id(live)] = live
        if ticket is not None:
            self._gate.leave(ticket)

    def is_free_for(self, live: LiveSession) -> bool:
        """Return whether a session may be copied now: no turn uses it, and there is room."""
        return self._max_live is None and id(live) not in self._busy

    def forget(self, live: LiveSession) -> None:
        """Close a session for good."""
        with self._lock:
            self._idle.pop(id(live), None)
        live.drop()

    def _make_room(self, live: LiveSession, ticket: Ticket | None) -> None:
        rested = []
        with self._lock:
            self._idle.pop(id(live), None)
            if self._max_live is not None and live.session is None:
                while len(self._idle) + len(self._busy) >= self._max_live and self._idle:
                    rested.append(self._idle.popitem(last=False)[1])
            self._busy[id(live)] = ticket
        for one in rested:
            one.drop()


def _late(timeout_s: float) -> ConversationBusyError:
    return ConversationBusyError(
        f"all sessions of the engine were in use for {timeout_s:g} s; raise max_live_sessions"
    )


def _inside() -> ConversationBusyError:
    return ConversationBusyError(
        "a turn started a turn of another conversation, and their engine has no session left for "
        "it, so that it would wait for itself; raise max_live_sessions"
    )


_REFUSALS = Refusals(_late, _inside)
