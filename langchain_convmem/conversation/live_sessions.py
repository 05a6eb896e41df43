"""Sessions of a text engine: how much of its conversation each holds, and how many live at once."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar
from weakref import WeakSet

from langchain_convmem.errors import ConversationBusyError
from langchain_convmem.gates import Gate, Refusals, Ticket
from langchain_convmem.protocols import ClonableSession, RewindableSession, TextEngine, TextSession
from langchain_convmem.steps import Steps

__all__ = ["LiveSession", "SessionPool"]

T = TypeVar("T")

_logger = logging.getLogger("langchain_convmem")


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

        A session that fails here is closed; the next use opens another.

        Args:
            held: How many; it may hold fewer then.
            is_sound: Whether its state is known; if not, it is put back in any case.
        """
        if self.session is None or (is_sound and self.held <= held):
            return
        while self._marks and self._marks[-1][0] > held:
            self._marks.pop()
        is_back = False
        try:
            is_back = self._put_back(self.session)
        finally:
            if not is_back:
                self.drop()

    def _put_back(self, session: TextSession) -> bool:
        """Take the session to the last mark, or to its beginning; return whether it went."""
        try:
            if self._marks and isinstance(session, RewindableSession):
                session.rewind(self._marks[-1][1])
                self.held = self._marks[-1][0]
            else:
                session.reset()
                self.held, self._marks = 0, []
        # Border to foreign code: a turn that failed is undone whatever its session does.
        except Exception:
            _logger.warning("a session could not be taken back; it is replaced", exc_info=True)
            return False
        return True

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
        if session is None:
            return
        try:
            session.close()
        # Border to foreign code: nothing more is wanted of this session.
        except Exception:
            _logger.warning("a session could not be closed", exc_info=True)


class SessionPool:
    """The live sessions of an engine; where there may be only so many, those rest that are idle.

    Thread-safe.
    """

    def __init__(self, engine: TextEngine, max_live: int | None) -> None:
        """Create an empty pool.

        Args:
            engine: Makes the sessions; it is closed with the pool.
            max_live: How many may live at once; None is any number.
        """
        self.engine = engine
        self._max_live = max_live
        self._gate = Gate(_REFUSALS, capacity=max_live or 1)
        # Reentrant: the garbage collector may close a forgotten stream at any moment.
        self._lock = threading.RLock()
        self._idle: OrderedDict[LiveSession, None] = OrderedDict()
        self._busy: dict[LiveSession, Ticket | None] = {}
        self._known: WeakSet[LiveSession] = WeakSet()
        self._unwanted: WeakSet[LiveSession] = WeakSet()
        self._is_closed = False

    def borrow_steps(self, live: LiveSession, stopped: Future[None] | None = None) -> Steps[None]:
        """Take a session for one turn; wait until there may be one more.

        Args:
            live: What holds the session, or will.
            stopped: Ends the wait; see `Gate.wait_steps`.
        """
        if live not in self._busy:
            ticket = None if self._max_live is None else self._gate.enter()
            try:
                if ticket is not None:
                    yield from self._gate.wait_steps(ticket, stopped=stopped)
                self._make_room(live, ticket)
            except BaseException:
                if ticket is not None:
                    self._gate.leave(ticket)
                raise

    def give_back(self, live: LiveSession) -> None:
        """End the turn of a session; it stays alive until another one needs its place."""
        with self._lock:
            if live not in self._busy:
                return
            ticket = self._busy.pop(live)
            if self._is_closed or live in self._unwanted:
                live.drop()
            elif live.session is not None and self._max_live is not None:
                self._idle[live] = None
        if ticket is not None:
            self._gate.leave(ticket)
        self._close_engine()

    def while_idle(self, live: LiveSession, use: Callable[[LiveSession], T]) -> T | None:
        """Return what is made of a session while no turn uses it; None if one does.

        Turns wait meanwhile.
        """
        with self._lock:
            return None if live in self._busy else use(live)

    def branch(self, live: LiveSession) -> LiveSession:
        """Return a copy of a session that no turn uses; it holds nothing if there is no room."""
        twin = live.branch() if self._max_live is None else LiveSession()
        with self._lock:
            self._known.add(twin)
        return twin

    def forget(self, live: LiveSession) -> None:
        """Close a session for good; if a turn still uses it, as soon as that ends."""
        with self._lock:
            self._unwanted.add(live)
            self._idle.pop(live, None)
            if live not in self._busy:
                live.drop()

    def close(self) -> None:
        """Close all sessions and the engine, as soon as no turn uses them. Idempotent."""
        with self._lock:
            self._is_closed = True
            self._idle.clear()
            for live in set(self._known) - set(self._busy):
                live.drop()
        self._close_engine()

    def _close_engine(self) -> None:
        if self._is_closed and not self._busy:
            self.engine.close()

    def _make_room(self, live: LiveSession, ticket: Ticket | None) -> None:
        with self._lock:
            self._known.add(live)
            self._idle.pop(live, None)
            if self._max_live is not None and live.session is None:
                while len(self._idle) + len(self._busy) >= self._max_live and self._idle:
                    self._idle.popitem(last=False)[0].drop()
            self._busy[live] = ticket


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
