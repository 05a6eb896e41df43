"""What `memory.profile` finds of twelve people, held against labels by hand.

    python -m benchmarks.profiles [--json]

Each person's chats go into a memory with their times. A sentence is found if an item of the profile
quotes it or a part of it. Printed are, by person and together: precision (of the sentences that the
profile quotes, those that are standing statements), recall (of the standing statements, those that
it quotes), kinds (of those, the ones whose kind is right), and replaced (of the statements that
take an earlier one's place, those whose item names the earlier one as what it replaces, while that
one is past). "held" are the statements that nothing replaces and that the profile holds as current
or as a plan that is over.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from benchmarks.ui import format_rows, make_parser, print_report
from langchain_convmem import ConversationMemory
from langchain_convmem.logs import InMemoryLog
from langchain_convmem.profile import ProfileItem, UserProfile

FOLDER = Path(__file__).parent / "data" / "profiles"
_ENDS = ".!?\u2026\"'\u201d\u00bb"
_SHARES = {
    "precision": ("right", "quoted"),
    "recall": ("right", "standing"),
    "kinds": ("kinds", "right"),
    "replaced": ("replaced", "replacing"),
    "held": ("held", "lasting"),
}
"""Each figure by the counts whose quotient it is."""


class Sentence(NamedTuple):
    """A sentence of a user's message, and its label, if it is a standing statement."""

    message_id: str
    text: str
    standing: dict[str, str] | None


class Person(NamedTuple):
    """A user: messages by thread, in order of time, and the sentences of the user's."""

    name: str
    threads: dict[str, list[BaseMessage]]
    sentences: list[Sentence]


def load_person(path: Path) -> Person:
    """Return the person of a file; see `benchmarks/data/README.md` for its form."""
    data = json.loads(path.read_text("utf-8"))
    threads: dict[str, list[BaseMessage]] = {}
    sentences: list[Sentence] = []
    for row in data["messages"]:
        at = int(datetime.fromisoformat(row["time"]).timestamp() * 1000)
        marks = {"timestamp": at}
        said: BaseMessage
        if row["role"] == "assistant":
            said = AIMessage(row["text"], id=row["id"], additional_kwargs=marks)
        else:
            parts = row["sentences"]
            said = HumanMessage(join_sentences(parts), id=row["id"], additional_kwargs=marks)
            sentences += (Sentence(row["id"], one["text"], one.get("standing")) for one in parts)
        threads.setdefault(row["thread"], []).append(said)
    return Person(data["person"], threads, sentences)


def join_sentences(sentences: Iterable[dict[str, Any]]) -> str:
    """Return sentences as one message: by blanks, or by line ends where a sentence has no mark."""
    text = ""
    for one in sentences:
        if text:
            text += "\n" if one.get("starts_line") or text[-1] not in _ENDS else " "
        text += one["text"]
    return text


def read_profile(person: Person) -> UserProfile:
    """Return the profile of a person out of a memory, as of the last message."""
    with ConversationMemory(InMemoryLog()) as memory:
        for name, messages in person.threads.items():
            memory.add_messages(messages, thread_id=name, user_id=person.name)
        return memory.profile(person.name)


def judge_person(person: Person) -> Counter[str]:
    """Return counts of how a person's profile compares with the labels."""
    profile = read_profile(person)
    found = [
        [
            item
            for item in profile.items
            if item.message_id == one.message_id
            and (item.text in one.text or one.text in item.text)
        ]
        for one in person.sentences
    ]
    counts: Counter[str] = Counter()
    for one, items in zip(person.sentences, found, strict=True):
        label = one.standing
        counts["quoted"] += bool(items)
        counts["standing"] += label is not None
        counts["right"] += bool(items and label)
        counts["kinds"] += bool(label and any(item.kind == label["kind"] for item in items))
    for count in _judge_replacements(person, found):
        counts.update(count)
    return counts


def _judge_replacements(
    person: Person, found: Sequence[Sequence[ProfileItem]]
) -> Iterator[dict[str, int]]:
    """Yield how many replacements are right, and how many other statements still hold."""
    labels = [one.standing or {} for one in person.sentences]
    by_id = {label["id"]: number for number, label in enumerate(labels) if "id" in label}
    replaced_ids = {label["replaces"] for label in labels if "replaces" in label}
    for label, items in zip(labels, found, strict=True):
        if "replaces" in label:
            old = found[by_id[label["replaces"]]]
            ended = {item.id for item in old if item.state in ("replaced", "ended")}
            names = {item.replaces for item in items}
            is_stopped = any(item.state == "ended" for item in old)
            is_right = bool(ended) and (not names.isdisjoint(ended) or is_stopped)
            yield {"replacing": 1, "replaced": is_right}
        if label and items and label.get("id") not in replaced_ids:
            states = {item.state for item in items if item.kind == label["kind"]}
            holds = not states or not states.isdisjoint({"current", "expired"})
            yield {"lasting": 1, "held": holds}


def list_shares(counts: Mapping[str, int]) -> dict[str, float]:
    """Return the figures of counts."""
    return {
        name: round(counts[part] / counts[whole], 3) if counts[whole] else 1.0
        for name, (part, whole) in _SHARES.items()
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code."""
    parser = make_parser("benchmarks.profiles", __doc__)
    options = parser.parse_args(arguments)
    total: Counter[str] = Counter()
    report: dict[str, Any] = {}
    sentences = 0
    for path in sorted(FOLDER.glob("*.json")):
        person = load_person(path)
        counts = judge_person(person)
        total.update(counts)
        sentences += len(person.sentences)
        report[person.name] = list_shares(counts)
    report["all"] = list_shares(total)

    def make_table(report: dict[str, Any]) -> list[str]:
        rows = [(name, *row.values()) for name, row in report.items()]
        counted = f"{total['standing']} standing statements, {total['replacing']} replacements"
        table = format_rows([("", *_SHARES), *rows])
        return [*table, f"{sentences} sentences, {counted}"]

    return print_report(report, make_table, as_json=options.json)


if __name__ == "__main__":
    raise SystemExit(main())
