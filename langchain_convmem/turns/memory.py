"""What a turn needs of the memory that it runs over, and the turns of one memory under way."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from langchain_convmem.forks import make_lock

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import Runnable

    from langchain_convmem.message_log import MessageLog
    from langchain_convmem.profile.reader import FollowedProfile
    from langchain_convmem.recall import DialogRecall
    from langchain_convmem.records import Owner, ThreadKey
    from langchain_convmem.turns.options import TurnOptions
    from langchain_convmem.views.counting import TokenCounters
    from langchain_convmem.views.messages import DraftBuilder
    from langchain_convmem.views.models import ModelFacts
    from langchain_convmem.views.shown import Context


class TurnMemory(Protocol):
    """A memory as a turn sees it: `ConversationMemory.turn_memory`.

    Thread-safe: the turns of all threads share it.
    """

    @property
    def log(self) -> MessageLog:
        """Where entries are kept."""
        ...

    @property
    def log_place(self) -> Hashable:
        """Identifies the log in this process."""
        ...

    @property
    def active_turns(self) -> WritingTurns:
        """The turns under way: who closes the memory waits for them."""
        ...

    @property
    def drafting(self) -> DraftBuilder:
        """Makes drafts of messages, through the write hook."""
        ...

    @property
    def line_recall(self) -> DialogRecall:
        """Finds lines of earlier conversations."""
        ...

    @property
    def token_counters(self) -> TokenCounters:
        """What counts tokens, as the models of the turns were seen to take them."""
        ...

    def get_recall_budget(self, options: TurnOptions) -> int:
        """Return the token budget for recalled lines of a turn with these options."""
        ...

    def get_profile_budget(self, options: TurnOptions) -> int:
        """Return the token budget for what is known of the user in a turn with these options."""
        ...

    def read_profile(self, owner: Owner) -> FollowedProfile:
        """Return what is known of a user."""
        ...

    def check_options(self, options: TurnOptions) -> None:
        """Have threads summarised before these options leave something out."""
        ...

    def use_model(self, model: ModelFacts, chain: Runnable[Any, Any] | None = None) -> None:
        """Have threads summarised before the window of a turn's model is full."""
        ...

    def check_call(self, *, recalls: bool = False) -> None:
        """Refuse a synchronous turn that would need a coroutine, before anything is stored.

        Raises:
            ConfigError: If a summary in the foreground would be one that only an event loop awaits,
                or a recall of the turn would ask such a rewriter.
        """
        ...

    def note_turn(self, key: ThreadKey) -> None:
        """Have a turn that was stored embedded soon, and read by a profiler when it is time."""
        ...

    def compact(
        self, key: ThreadKey, view: Context | None = None, replies: Sequence[BaseMessage] = ()
    ) -> None:
        """Compact a thread if that is due, now or later.

        Args:
            key: The thread.
            view: The thread as the model saw it; None if not available.
            replies: What was stored of the answer.
        """
        ...


# -- The turns of one memory that have begun and are not over -------------------------------------
class WritingTurns:
    """Counts turns from the first write to the last. Thread-safe; a forked child has none."""

    def __init__(self) -> None:
        # Reentrant: the garbage collector may close a forgotten stream at any moment.
        self._lock = make_lock()
        self._turns: dict[Hashable, _ActiveTurn] = {}

    @contextmanager
    def count(self) -> Iterator[None]:
        """Count a turn while it runs."""
        name = object()
        self.begin(name)
        try:
            yield
        finally:
            self.end(name)

    def begin(self, name: Hashable) -> None:
        """Count a turn under a name of its own."""
        with self._lock:
            self._turns[name] = _ActiveTurn()

    def end(self, name: Hashable) -> None:
        """Stop counting a turn. Idempotent."""
        with self._lock:
            turn = self._turns.pop(name, None)
        if turn is not None:
            turn.over.set_result(None)

    def wait(self, timeout_s: float | None) -> bool:
        """Wait until the turns of other threads are over.

        Those that began in this thread cannot go on while it waits.

        Args:
            timeout_s: Seconds to wait at most; None waits for ever.

        Returns:
            Whether they are.
        """
        this = threading.get_ident()
        waiting = [turn.over for turn in self._list_own() if turn.thread != this]
        return not wait(waiting, timeout_s).not_done

    async def await_all(self, timeout_s: float | None) -> bool:
        """Wait until all turns are over, and let the event loop run meanwhile; see `wait`."""
        waiting = [asyncio.wrap_future(turn.over) for turn in self._list_own()]
        if not waiting:
            return True
        _, running = await asyncio.wait(waiting, timeout=timeout_s)
        return not running

    def _list_own(self) -> list[_ActiveTurn]:
        """Return the turns of this process."""
        with self._lock:
            return [turn for turn in self._turns.values() if turn.process == os.getpid()]


@dataclass(frozen=True, slots=True)
class _ActiveTurn:
    """A turn: where it began, and what is done when it is over."""

    over: Future[None] = field(default_factory=Future)
    thread: int = field(default_factory=threading.get_ident)
    process: int = field(default_factory=os.getpid)
