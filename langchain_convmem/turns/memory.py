"""What a turn needs of the memory that it runs over, and the turns of one memory under way."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_convmem.forks import make_lock
from langchain_convmem.turns.runtime import Profiles, Recaller, Summaries, find_place

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


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TurnMemory:
    """A memory as a turn sees it: the parts of a `ConversationMemory` that turns run over.

    Thread-safe, as they are: the turns of all threads share it.

    Attributes:
        log: Where entries are kept.
        drafting: Makes drafts of messages, through the write hook.
        recaller: Finds lines of earlier conversations.
        summaries: Compacts threads after turns.
        profiles: Reads what is known of users.
        token_counters: What counts tokens, as the models of the turns were seen to take them.
        profile_tokens: Budget of the profile in a turn whose options name none.
        active_turns: The turns under way: who closes the memory waits for them.
    """

    log: MessageLog
    drafting: DraftBuilder
    recaller: Recaller
    summaries: Summaries
    profiles: Profiles
    token_counters: TokenCounters
    profile_tokens: int = 0
    active_turns: WritingTurns = field(default_factory=WritingTurns)

    @property
    def log_place(self) -> Hashable:
        """Identifies the log in this process."""
        return find_place(self.log)

    @property
    def line_recall(self) -> DialogRecall:
        """Finds lines of earlier conversations."""
        return self.recaller.recall

    def get_recall_budget(self, options: TurnOptions) -> int:
        """Return the token budget for recalled lines of a turn with these options."""
        return (options.recall_tokens or self.recaller.default_tokens) if options.recall else 0

    def get_profile_budget(self, options: TurnOptions) -> int:
        """Return the token budget for what is known of the user in a turn with these options."""
        return self.profile_tokens if options.profile_tokens is None else options.profile_tokens

    def read_profile(self, owner: Owner) -> FollowedProfile:
        """Return what is known of a user."""
        return self.profiles.reader.read(owner)

    def check_options(self, options: TurnOptions) -> None:
        """Have threads summarised before these options leave something out."""
        self.summaries.fit_budget(options.history_tokens)
        if options.budget is not None:
            recalled = self.get_recall_budget(options)
            self.summaries.fit_budget(options.budget.list_message_budgets(recalled)[0])

    def use_model(self, model: ModelFacts, chain: Runnable[Any, Any] | None = None) -> None:
        """Have threads summarised before the window of a turn's model is full."""
        self.summaries.use_model(model, chain)

    def check_call(self, *, recalls: bool = False) -> None:
        """Refuse a synchronous turn that would need a coroutine, before anything is stored.

        Raises:
            ConfigError: If a summary in the foreground would be one that only an event loop awaits,
                or a recall of the turn would ask such a rewriter.
        """
        self.summaries.check_call()
        if recalls:
            self.recaller.check_call()

    def note_turn(self, key: ThreadKey) -> None:
        """Have a turn that was stored embedded soon, and read by a profiler when it is time."""
        self.recaller.embed_soon(key.owner)
        self.profiles.note_turn(key)

    def compact(
        self, key: ThreadKey, view: Context | None = None, replies: Sequence[BaseMessage] = ()
    ) -> None:
        """Compact a thread if that is due, now or later.

        Args:
            key: The thread.
            view: The thread as the model saw it; None if not available.
            replies: What was stored of the answer.
        """
        self.summaries.compact(key, view, replies)


def get_turn_memory(memory: Any) -> TurnMemory:
    """Return what the turns of a `ConversationMemory` run over; for the package's own hosts."""
    found: TurnMemory = memory._turn_memory  # noqa: SLF001 - no application has a use for it
    return found
