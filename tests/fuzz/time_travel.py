"""`memory.as_of(t)` against a memory that was given the same and no more, on random logs.

Each log is a random script of messages, edits, undoing, clearing, forks, summaries, decisions of a
profile, and forgetting. It is run whole, and up to a random step in a second memory, with the same
ids; what is forgotten later is forgotten there as well. Then the first memory as of the last entry
of that step and the second one are compared by value: threads, contexts, summaries, profile, and
what recall finds.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage

from langchain_convmem import ConversationMemory, ids
from langchain_convmem.errors import ConvMemError
from langchain_convmem.logs import InMemoryLog
from langchain_convmem.testing import HashEmbeddings

START_MS = 1_736_000_000_000
STEP_MS = 60_000
USER = "ana"
SAID = (
    "I'm Ana.",
    "I live in Lisbon.",
    "We moved to Porto.",
    "I'm vegetarian.",
    "Always answer in metric units.",
    "My exam is on the 14th.",
    "I drive a Ford.",
    "I sold the Ford.",
    "What is the capital of Peru?",
    "The spare key is with Teresa on the second floor.",
    "I love jazz and long walks.",
    "Thanks!",
)
ANSWERED = ("Noted.", "Lima is the capital of Peru.", "The key is with Teresa.", "You're welcome.")
QUESTIONS = ("Where do I live?", "Who has the key?", "What is the capital of Peru?")


class ScriptedClock:
    """Hands out the same ids to every run, a minute apart."""

    def __init__(self) -> None:
        self._count = 0

    def advance(self) -> int:
        self._count += 1
        at_ms = START_MS + self._count * STEP_MS
        return at_ms << 80 | self._count << 40 | self._count


@contextmanager
def script_ids() -> Iterator[None]:
    """Let all ids come from a clock of our own for a while."""
    known = ids.CLOCK
    ids.CLOCK = ScriptedClock()
    try:
        yield
    finally:
        ids.CLOCK = known


def make_memory() -> ConversationMemory:
    return ConversationMemory(InMemoryLog(), embeddings=HashEmbeddings())


Step = Callable[[ConversationMemory], object]


def make_step(rng: random.Random) -> tuple[str, Step]:
    """Return a step of a random log, with its name."""
    thread = rng.choice(("t1", "t2"))
    name = rng.choice(
        [
            *("say", "say", "say", "say", "edit", "undo", "redo", "clear", "fork"),
            *("summarize", "undo_summary", "retract", "restore", "forget", "forget_thread"),
        ]
    )
    said, answered, number = rng.choice(SAID), rng.choice(ANSWERED), rng.randrange(100)
    return name, lambda memory: _STEPS[name](memory, thread, said, answered, number)


def _edit(memory: ConversationMemory, thread: str, said: str, number: int) -> None:
    history = memory.history(thread, user_id=USER)
    users = [entry for turn in history.turns if turn.role == "user" for entry in turn.entries]
    if users:
        history.replace(users[number % len(users)].message_id, said)


def _summarize(memory: ConversationMemory, thread: str, said: str, *_: object) -> None:
    history = memory.history(thread, user_id=USER)
    history.add_summary(f"They spoke: {said}", history.summary_window())


def _decide(memory: ConversationMemory, number: int, *, restores: bool) -> None:
    profile = memory.profile(USER)
    items = [one for one in profile.items if not restores or one.state == "retracted"]
    if items:
        decide = profile.restore if restores else profile.retract
        decide(items[number % len(items)].id)


def _forget(memory: ConversationMemory, thread: str, number: int) -> None:
    known = memory.history(thread, user_id=USER).entries
    if known:
        memory.forget(user_id=USER, thread_id=thread, entry_ids=[known[number % len(known)].id])


_STEPS: dict[str, Callable[..., object]] = {
    "say": lambda memory, thread, said, answered, _: memory.add_messages(
        [HumanMessage(said), AIMessage(answered)], thread_id=thread, user_id=USER
    ),
    "edit": lambda memory, thread, said, _, number: _edit(memory, thread, said, number),
    "undo": lambda memory, thread, *_: memory.history(thread, user_id=USER).undo(),
    "redo": lambda memory, thread, *_: memory.history(thread, user_id=USER).redo(),
    "clear": lambda memory, thread, *_: memory.history(thread, user_id=USER).clear(),
    "fork": lambda memory, thread, _, __, number: memory.fork(
        thread, user_id=USER, new_thread_id=f"fork{number}"
    ),
    "summarize": _summarize,
    "undo_summary": lambda memory, thread, *_: memory.history(thread, user_id=USER).undo_summary(),
    "retract": lambda memory, *said: _decide(memory, said[-1], restores=False),
    "restore": lambda memory, *said: _decide(memory, said[-1], restores=True),
    "forget": lambda memory, thread, _, __, number: _forget(memory, thread, number),
    "forget_thread": lambda memory, thread, *_: memory.forget(user_id=USER, thread_id=thread),
}


def describe(memory: ConversationMemory) -> dict[str, Any]:
    """Return all that an assistant could know of the user, by value."""
    threads = sorted(info.key.thread_id for info in memory.threads(USER))
    histories = {name: memory.history(name, user_id=USER) for name in threads}
    return {
        "threads": threads,
        "contexts": {
            name: [one.model_dump() for one in history.context().messages]
            for name, history in histories.items()
        },
        "summaries": {
            name: history.last_summary and history.last_summary.contents
            for name, history in histories.items()
        },
        "profile": memory.profile(USER).to_json(),
        "recall": {
            text: [
                (block.text, [(one.line.line_id, round(one.relevance, 9)) for one in block.matches])
                for block in memory.recall(text, user_id=USER, k=3).blocks
            ]
            for text in QUESTIONS
        },
    }


def compare(seed: int) -> str | None:
    """Return what is different in the random log of a seed; None if nothing is."""
    rng = random.Random(seed)
    script = [make_step(rng) for _ in range(rng.randint(3, 14))]
    cut = rng.randint(1, len(script))
    with script_ids(), make_memory() as whole:
        for number, (_, step) in enumerate(script):
            with suppress(ConvMemError, ValueError):  # it has nothing to work on
                step(whole)
            if number + 1 == cut:
                last, then = ids.make_ulid(), _list_entries(whole)
        now = _list_entries(whole)
        erased = {name: sorted(known - now.get(name, set())) for name, known in then.items()}
        past = whole.as_of(last)
        found = describe(past)
    with script_ids(), make_memory() as fresh:
        for _, step in script[:cut]:
            with suppress(ConvMemError, ValueError):
                step(fresh)
        assert ids.make_ulid() == last
        for thread, names in erased.items():
            if names:
                fresh.forget(user_id=USER, thread_id=thread, entry_ids=names)
        expected = describe(fresh.as_of(last))
    if found == expected:
        return None
    names = [name for name, _ in script]
    wrong = [name for name in expected if found[name] != expected[name]]
    return f"seed {seed}, cut {cut} of {names}: {wrong} differ"


def _list_entries(memory: ConversationMemory) -> dict[str, set[str]]:
    """Return the ids of all entries by thread."""
    log = memory.log
    return {
        info.key.thread_id: {entry.id for entry in log.entries(info.key)}
        for info in log.threads(USER)
    }
