from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage

from langchain_convmem import ConversationMemory, ConvMemError, InMemoryLog
from tests.fuzz.generator import KEY, fill

__all__ = ["GoldenThread", "open_thread"]


class GoldenThread:
    """A thread that lived through random things.

    Attributes:
        history: The thread.
        entries: What its log holds.
        increments: What was exported meanwhile, one list of maps for each export.
    """

    def __init__(self, memory: ConversationMemory, seed: int) -> None:
        """Let it live."""
        self._rng = random.Random(seed)
        self._memory = memory
        self.history = memory.history(KEY.thread_id, user_id=KEY.user_id)
        self.increments: list[list[dict[str, Any]]] = []
        fill(memory.log, self._rng)
        steps: list[Callable[[], object]] = [
            self._exchange,
            self._replace,
            self._summarize,
            self._annotate,
            self._forget,
            self._export,
            self.history.undo,
            self.history.redo,
            self.history.undo_summary,
            lambda: self.history.edit_summary("They never met."),
            lambda: self.history.cut_reply(self._rng.choice((0, 3, 10))),
            lambda: self.history.pin(self._rng.choice(("level 3", "rye", "Where did I park?"))),
        ]
        for step in self._rng.choices(steps, k=self._rng.choice((0, 3, 6, 12))):
            with contextlib.suppress(ConvMemError):  # such as a cut of a reply that is not there
                step()
        self.entries = self.history.entries

    def _exchange(self) -> None:
        said = [HumanMessage("Where did I park?"), AIMessage("On level 3, next to the lift.")]
        self.history.add_messages(said)

    def _replace(self) -> None:
        shown = [turn for turn in self.history.turns if turn.entries and turn.role == "user"]
        if shown:
            said = HumanMessage("Where did I leave the car?")
            keeps = self._rng.random() < 0.5
            self.history.replace(shown[-1].entries[0].message_id, said, keep_later=keeps)

    def _summarize(self) -> None:
        texts = ("They met.", "Ana parked on level 3.", ["A first piece.", "A second one."])
        window = self.history.summary_window()
        self.history.add_summary(self._rng.choice(texts), window, model="golden")

    def _annotate(self) -> None:
        turn = self._rng.choice(self.history.turns or [self.history.add("user", "Hello.")])
        turn.add_attribute("starred")
        turn.add_timing("playStart", 1_700_000_000_000)
        turn.add_data("score", {"value": 0.5, "tags": ["a"]})

    def _forget(self) -> None:
        gone = [self._rng.choice(self.history.entries).id]
        self._memory.forget(user_id=KEY.user_id, thread_id=KEY.thread_id, entry_ids=gone)

    def _export(self) -> None:
        self.increments.append(self.history.to_maps(exclude_last=self._rng.random() < 0.8))


@contextlib.contextmanager
def open_thread(seed: int) -> Iterator[GoldenThread]:
    """Yield the thread of a seed, in a memory of its own."""
    with InMemoryLog() as log, ConversationMemory(log=log) as memory:
        yield GoldenThread(memory, seed)
