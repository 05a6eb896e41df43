"""What is no summary, given to the real compactor; and summaries that it must not refuse.

    python -m benchmarks.summary_gates [--list]

A scripted summariser answers with each text of `data/summaries`. Refused must be 1,000 of them:

    refusal     by text, in many languages
    sign        a good summary that its provider marked as refused, broken or cut off
    blank       nothing, a word or a placeholder
    leftover    of thinking, tools, chat templates and prompts
    garbage     repetitions, errors, code
    elsewhere   about something that no chat mentions
    echo        the chat, the prompt or the summary before, given back; one sentence again and again
    other chat  the good summary of one chat for another

In another language than the chat, 10 summaries without names and numbers must be committed, and
10 of something else refused. Committed must be the good summaries of each chat, also with thinking
before and a fence around.
`--list` prints what was judged wrong: by kind, chat and place, so that no text stands in logs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_convmem import (
    ConversationMemory,
    InMemoryLog,
    SummarizingMemory,
    SummarySettings,
)

DATA = Path(__file__).parent / "data" / "summaries"
REFUSED = 1000
_SETTINGS = SummarySettings(trigger=("messages", 4), keep=("messages", 2), retries=0)
_KINDS = {
    "refusals": "refusal",
    "blanks": "blank",
    "leftovers": "leftover",
    "garbage": "garbage",
    "elsewhere": "elsewhere",
}


@dataclass(frozen=True, slots=True)
class Case:
    """An answer for a chat.

    Attributes:
        kind: What it is.
        chat: The chat that it should summarise.
        answer: What the summariser returns.
        before: A summary that the thread has already; empty for none.
    """

    kind: str
    chat: dict[str, Any]
    answer: str | BaseMessage
    before: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print how many were committed; return whether a bar was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.summary_gates")
    parser.add_argument("--list", action="store_true", help="print what was judged wrong")
    wanted = parser.parse_args(arguments)
    chats = json.loads((DATA / "good.json").read_text("utf-8"))
    seeds = json.loads((DATA / "refused.json").read_text("utf-8"))
    wrong = _run("no summaries", build_refused(chats, seeds), expected=False, shown=wanted.list)
    wrong += _run("summaries", build_good(chats), expected=True, shown=wanted.list)
    for expected in (False, True):
        cases = build_cross_language(expected=expected)
        wrong += _run("in another language", cases, expected=expected, shown=wanted.list)
    return int(bool(wrong))


def _run(title: str, cases: Sequence[Case], *, expected: bool, shown: bool) -> int:
    tried, committed = Counter[str](), Counter[str]()
    for number, case in enumerate(cases):
        is_committed = commit(case)
        tried[case.kind] += 1
        committed[case.kind] += is_committed
        if shown and is_committed != expected:
            print(f"  wrong: {case.kind} {number}, for {case.chat['id']}")
    print(f"{title}: {committed.total():,} of {tried.total():,} committed")
    for kind, count in tried.items():
        print(f"  {kind:24}{committed[kind]:5} of {count}")
    return committed.total() if not expected else tried.total() - committed.total()


def commit(case: Case) -> bool:
    """Return whether an answer is taken as the summary of a chat."""
    if case.before:
        return _commit_on_top(case)
    memory = ConversationMemory(
        InMemoryLog(), summarizer=lambda _: case.answer, summary_settings=_SETTINGS
    )
    with memory:
        memory.add_messages(_read_messages(case.chat), thread_id="t")
        return bool(memory.summarize("t", force=True))


def _commit_on_top(case: Case) -> bool:
    """Return whether an answer is taken as what continues the summary before it."""
    answers: list[str | BaseMessage] = [case.before, case.answer]
    compact = SummarizingMemory(summarizer=lambda _: answers.pop(0), settings=_SETTINGS)
    # What stays as it was said is a goodbye, so that the first summary tells of all of the chat.
    said = [*_read_messages(case.chat), HumanMessage("Bye."), AIMessage("Bye.")]
    before = compact.invoke(said)
    if len(before) == len(said):
        return True  # a case that cannot be tried counts as wrong
    return len(compact.invoke([*before, *said])) < len(before) + len(said)


def _read_messages(chat: dict[str, Any]) -> list[BaseMessage]:
    lines = [*chat["lines"], *(["OK."] if len(chat["lines"]) % 2 else [])]
    return [(HumanMessage, AIMessage)[n % 2](line) for n, line in enumerate(lines)]


# -- cases ----------------------------------------------------------------------------------------


def build_refused(chats: Sequence[dict[str, Any]], seeds: dict[str, list[Any]]) -> list[Case]:
    """Return a thousand answers that are no summaries of their chats."""
    seeded = [
        Case(name, chats[(number * 7 + place) % len(chats)], text)
        for place, (key, name) in enumerate(_KINDS.items())
        for number, text in enumerate(seeds[key])
    ]
    signs = [
        Case("sign", chat, AIMessage(**{"content": chat["summaries"][0]["text"], **sign}))
        for number, sign in enumerate(seeds["signs"])
        for chat in (chats[number % len(chats)], chats[(number + 9) % len(chats)])
    ]
    echoes = [case for chat in chats for case in _list_echoes(chat)]
    cases = [*seeded, *signs, *echoes]
    return [*cases, *islice(_list_mismatches(chats), max(REFUSED - len(cases), 0))]


def build_cross_language(*, expected: bool) -> list[Case]:
    """Return summaries in another language that share few names and numbers with their chats.

    Args:
        expected: Those of their chats; else those of something else.
    """
    chats = json.loads((DATA / "cross_language.json").read_text("utf-8"))
    name = "good" if expected else "wrong"
    return [Case(f"cross, {name}", chat, text) for chat in chats for text in chat[name]]


def _list_echoes(chat: dict[str, Any]) -> Iterator[Case]:
    lines, good = chat["lines"], chat["summaries"][0]["text"]
    said = "\n".join(f"{('User', 'Assistant')[n % 2]}: {line}" for n, line in enumerate(lines))
    yield Case("echo", chat, said)
    yield Case("echo", chat, "\n".join(lines))
    yield Case("echo", chat, f"Here is the transcript:\n\n{said}")
    yield Case("echo", chat, f"<transcript>\n{said}\n</transcript>\n\nWrite the summary now.")
    yield Case("echo", chat, " ".join([lines[0]] * 30))
    yield Case("echo", chat, good, before=good)
    yield Case("leftover", chat, f"<think>{good}")
    yield Case("leftover", chat, f"{good}<|im_end|>\n<|im_start|>user\n{lines[0]}")


def _list_mismatches(chats: Sequence[dict[str, Any]]) -> Iterator[Case]:
    for step in range(1, len(chats)):
        for number, chat in enumerate(chats):
            for summary in chat["summaries"]:
                yield Case("other chat", chats[(number + step) % len(chats)], summary["text"])


def build_good(chats: Sequence[dict[str, Any]]) -> list[Case]:
    """Return the good summaries of each chat, as they are and with what is taken off."""
    return [
        Case(f"{kind}, {summary['style']}", chat, form.format(summary["text"]))
        for kind, form in _FORMS.items()
        for chat in chats
        for summary in chat["summaries"]
    ]


_FORMS = {
    "plain": "{}",
    "after thinking": "<think>I should list the facts.</think>\n\n{}",
    "in a fence": "```markdown\n{}\n```",
    "with an end token": "{}<|im_end|>",
}


if __name__ == "__main__":
    sys.exit(main())
