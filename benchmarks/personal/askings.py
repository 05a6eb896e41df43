"""Whether a memory still finds a fact after its user asked for it, again and again, in vain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.embeddings import Embeddings

from benchmarks.personal.data import Message, Person, Question, Thread
from benchmarks.personal.measuring import Outcome, judge
from benchmarks.personal.memories import PersonalMemory
from benchmarks.recall.systems import DAY_MS

__all__ = ["TIMES_ASKED", "earlier_askings", "sample_questions", "with_askings"]

TIMES_ASKED = (0, 3, 10, 30)
_OPTIONS: dict[str, dict[str, int]] = {
    "300 tokens": {"max_tokens": 300},
    "1000 tokens": {"max_tokens": 1000},
    "k=3": {"k": 3},
}
# One question for every so many facts of a person: three of each.
_EVERY = 12

_KNOWS_NOTHING = (
    "I don't have any record of that, sorry.",
    "I'm afraid I can't see that in anything you've shared with me.",
    "That hasn't come up in this conversation, so I can't say. Could you tell me?",
    "I have no information about that. If you let me know, I can help from there.",
    "Sorry, I don't know. You haven't mentioned it here.",
    "I can't find that. Where did you last write it down?",
    "Unfortunately I have nothing on this, but I'm happy to help you look it up.",
    "I'm not able to answer that without more details from you.",
    "Hmm, I don't seem to have that. Can you remind me?",
    "There is nothing about that in our chat so far.",
)


def sample_questions(person: Person) -> list[Question]:
    """Return the questions of the sample that are this person's."""
    asked = [question for question in person.questions if question.kind == "word"]
    return asked[::_EVERY]


def with_askings(
    threads: Sequence[Thread], questions: Sequence[Question], times: int
) -> list[Thread]:
    """Return threads and after them each question, so often, in a thread of its own a day."""
    last_ms = max(message.time_ms for thread in threads for message in thread.messages)
    result = list(threads)
    for day in range(times):
        for number, question in enumerate(questions):
            time_ms = last_ms + (day + 1) * DAY_MS + number * 3_600_000
            reply = _KNOWS_NOTHING[(day + number) % len(_KNOWS_NOTHING)]
            asked = Message("user", question.text, time_ms)
            answered = Message("assistant", reply, time_ms + 1000)
            result.append(Thread(f"asked-{day}-{number}", (asked, answered)))
    return result


def earlier_askings(
    people: Sequence[tuple[Person, Sequence[Thread]]],
    embeddings: Embeddings,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Return how many of the sample's facts are found, by times asked before and kind of answer.

    Args:
        people: Each with the threads of the memory.
        embeddings: What these are embedded with.
        say: Told what is measured now.
    """
    found: dict[str, dict[str, int]] = {}
    for times in TIMES_ASKED:
        outcomes: dict[str, list[Outcome]] = {name: [] for name in _OPTIONS}
        for person, threads in people:
            say(f"{person.name}: asked {times} times before")
            questions = sample_questions(person)
            memory = PersonalMemory(
                person.name, with_askings(threads, questions, times), embeddings
            )
            for name, options in _OPTIONS.items():
                outcomes[name] += [
                    judge(question, memory.ask(question.text, **options)) for question in questions
                ]
        found[str(times)] = {
            name: sum(outcome.found == 1.0 for outcome in part) for name, part in outcomes.items()
        }
    asked = sum(len(sample_questions(person)) for person, _ in people)
    return {"questions": asked, "found": found}
