"""What people told an assistant and later ask, out of JSON files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from benchmarks.recall.data import Role, read_file
from langchain_convmem.transfer.source import parse_time

FOLDER = Path(__file__).parents[1] / "data" / "personal"

Kind = Literal[
    "word", "other", "replies", "updates", "several", "near_topic", "off_topic", "courtesies"
]


class Message(NamedTuple):
    role: Role
    text: str
    time_ms: int


class Thread(NamedTuple):
    """Messages in order; each of the user's begins an exchange."""

    name: str
    messages: tuple[Message, ...]

    @property
    def exchanges(self) -> int:
        return sum(message.role == "user" for message in self.messages)


class Piece(NamedTuple):
    """The words of a message that state a fact."""

    role: Role
    says: str


class Question(NamedTuple):
    """A question, the pieces that answer it, and of an update the piece that is no longer true."""

    text: str
    kind: Kind
    needs: tuple[Piece, ...] = ()
    replaced: Piece | None = None


class Person(NamedTuple):
    """A user: what was said, in threads, and what is asked later."""

    name: str
    language: str
    threads: tuple[Thread, ...]
    questions: tuple[Question, ...]

    @property
    def exchanges(self) -> int:
        return sum(thread.exchanges for thread in self.threads)


class Data(NamedTuple):
    """All that is measured with.

    Attributes:
        people: Whose memories are asked.
        languages: One person for each language beside English.
        requests: Those that no memory helps with, and the courtesies.
        ordinary: Threads in which nobody tells anything about themselves.
    """

    people: Sequence[Person]
    languages: Sequence[Person]
    requests: Sequence[Question]
    ordinary: Sequence[Thread]


def load_data(folder: Path = FOLDER) -> Data:
    """Return the data of a folder.

    Raises:
        BadDataError: If a file is missing or has another form.
    """
    beside = {"ordinary.json", "requests.json"}
    files = sorted(file for file in folder.glob("*.json") if file.name not in beside)
    kinds: tuple[Kind, ...] = ("off_topic", "courtesies")
    requests = read_file(
        folder / "requests.json",
        lambda value: [Question(text, kind) for kind in kinds for text in value[kind]],
    )
    return Data(
        [read_file(file, _read_person) for file in files],
        [read_file(file, _read_person) for file in sorted((folder / "languages").glob("*.json"))],
        requests,
        read_file(folder / "ordinary.json", lambda value: _read_threads(value["exchanges"])),
    )


def _read_threads(exchanges: Iterable[dict[str, str]]) -> tuple[Thread, ...]:
    by_name: dict[str, list[Message]] = defaultdict(list)
    for item in exchanges:
        time_ms = int(parse_time(item["time"]).timestamp() * 1000)
        by_name[item["thread"]] += [
            Message("user", item["user"], time_ms),
            Message("assistant", item["assistant"], time_ms + 1000),
        ]
    return tuple(Thread(name, tuple(messages)) for name, messages in by_name.items())


def _read_person(value: dict[str, Any]) -> Person:
    threads, questions = _read_threads(value["exchanges"]), tuple(_list_questions(value))
    return Person(value["person"], value["language"], threads, questions)


def _list_questions(value: dict[str, Any]) -> Iterator[Question]:
    for fact in value["facts"]:
        needs = (_read_piece(fact),)
        yield Question(fact["word"], "word", needs)
        yield Question(fact["other"], "other", needs)
    for reply in value.get("replies", ()):
        yield Question(reply["question"], "replies", (_read_piece(reply, "assistant"),))
    for update in value.get("updates", ()):
        new, old = _read_piece(update["new"]), _read_piece(update["old"])
        yield Question(update["question"], "updates", (new,), old)
    for several in value.get("several", ()):
        yield Question(several["question"], "several", tuple(map(_read_piece, several["needs"])))
    for text in value.get("near_topic", ()):
        yield Question(text, "near_topic")


def _read_piece(item: dict[str, str], role: Role = "user") -> Piece:
    return Piece(role, item["says"])
