"""What `memory.profile` finds of twelve people, held against labels by hand.

    python -m benchmarks.profiles [--people NAME ...] [--folder DIR] [--errors]

Each person's chats go into a memory with their times. A sentence is found if an item of the profile
quotes it or a part of it. Printed are, by person and together: precision (of the sentences that the
profile quotes, those that are standing statements), recall (of the standing statements, those that
it quotes), kinds (of those, the ones whose kind is right), and replaced (of the statements that
take an earlier one's place, those whose item names the earlier one as what it replaces, while that
one is past). "held" are the statements that nothing replaces and that the profile holds as current
or as a plan that is over.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_convmem import ConversationMemory
from langchain_convmem.logs import InMemoryLog
from langchain_convmem.profile import ProfileItem, UserProfile

FOLDER = Path(__file__).parent / "data" / "profiles"
_ENDS = ".!?\u2026\"'\u201d\u00bb"


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


class Score(NamedTuple):
    """Counts of one person, or of several; see the module."""

    quoted: int = 0
    right: int = 0
    standing: int = 0
    kinds: int = 0
    replacing: int = 0
    replaced: int = 0
    lasting: int = 0
    held: int = 0

    def add(self, other: Score) -> Score:
        return Score(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def to_shares(self) -> dict[str, float]:
        return {
            "precision": _share(self.right, self.quoted),
            "recall": _share(self.right, self.standing),
            "kinds": _share(self.kinds, self.right),
            "replaced": _share(self.replaced, self.replacing),
            "held": _share(self.held, self.lasting),
        }


def _share(part: int, whole: int) -> float:
    return round(part / whole, 3) if whole else 1.0


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


def score_person(person: Person, *, shows_errors: bool = False) -> Score:
    """Return how a person's profile compares with the labels."""
    profile = read_profile(person)
    found = {n: _list_quoting(profile, one) for n, one in enumerate(person.sentences)}
    score = Score()
    for number, sentence in enumerate(person.sentences):
        one = _score_sentence(sentence, found[number])
        score = score.add(one)
        if shows_errors and one.quoted - one.right + one.standing - one.right:
            what = "missed" if one.standing else "wrong"
            print(f"{person.name}: {what}: {sentence.text}", [item.slot for item in found[number]])
    return score.add(_score_replacements(person, profile, found, shows_errors=shows_errors))


def _list_quoting(profile: UserProfile, sentence: Sentence) -> list[ProfileItem]:
    return [
        item
        for item in profile.items
        if item.message_id == sentence.message_id
        and (item.text in sentence.text or sentence.text in item.text)
    ]


def _score_sentence(sentence: Sentence, found: Sequence[ProfileItem]) -> Score:
    standing = sentence.standing
    right = bool(found and standing)
    kinds = {item.kind for item in found}
    return Score(
        quoted=bool(found),
        right=right,
        standing=standing is not None,
        kinds=right and standing is not None and standing["kind"] in kinds,
    )


def _score_replacements(
    person: Person,
    profile: UserProfile,
    found: dict[int, list[ProfileItem]],
    *,
    shows_errors: bool,
) -> Score:
    """Return how many replacements are right, and how many other statements still hold."""
    by_id = {
        one.standing["id"]: number
        for number, one in enumerate(person.sentences)
        if one.standing and "id" in one.standing
    }
    replaced_ids = {one.standing.get("replaces") for one in person.sentences if one.standing}
    score = Score()
    for number, one in enumerate(person.sentences):
        standing = one.standing
        if standing is None:
            continue
        if "replaces" in standing:
            old = found[by_id[standing["replaces"]]]
            names = {item.replaces for item in found[number]}
            ended = {item.id for item in old if item.state in ("replaced", "ended")}
            is_right = bool(ended) and (not names.isdisjoint(ended) or _is_ended(old))
            score = score.add(Score(replacing=1, replaced=int(is_right)))
            if shows_errors and not is_right:
                print(f"{person.name}: not replaced by: {one.text}")
        if standing.get("id") not in replaced_ids and found[number]:
            states = {item.state for item in found[number] if item.kind == standing["kind"]}
            holds = not states or not states.isdisjoint({"current", "expired"})
            score = score.add(Score(lasting=1, held=int(holds)))
            if shows_errors and not holds:
                print(f"{person.name}: wrongly past: {one.text}")
    del profile
    return score


def _is_ended(items: Sequence[ProfileItem]) -> bool:
    return any(item.state == "ended" for item in items)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code."""
    parser = argparse.ArgumentParser(prog="benchmarks.profiles", description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--people", nargs="+", default=None, metavar="NAME")
    parser.add_argument("--errors", action="store_true", help="print what is wrong")
    options = parser.parse_args(arguments)
    total = Score()
    sentences = 0
    for path in sorted(options.folder.glob("*.json")):
        if options.people is not None and path.stem not in options.people:
            continue
        person = load_person(path)
        score = score_person(person, shows_errors=options.errors)
        total = total.add(score)
        sentences += len(person.sentences)
        print(f"{person.name:10}", json.dumps(score.to_shares()))
    print(f"{'all':10}", json.dumps(total.to_shares()))
    print(
        f"{sentences} sentences, {total.standing} standing statements, "
        f"{total.replacing} replacements"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
