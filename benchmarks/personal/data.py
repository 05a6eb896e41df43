"""What people told an assistant and later ask, out of JSON files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from benchmarks.recall.data import BadDataError, Role, read_json
from langchain_convmem.transfer.source import parse_time

__all__ = [
    "FOLDER",
    "Kind",
    "Message",
    "Person",
    "Piece",
    "Question",
    "Thread",
    "load_languages",
    "load_ordinary",
    "load_people",
    "load_person",
    "load_requests",
]

_T = TypeVar("_T")

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

    exchange: str
    role: Role
    says: str


class Question(NamedTuple):
    """A question and the pieces that answer it.

    Attributes:
        text: What is asked.
        kind: Of what kind it is.
        needs: What answers it; nothing does where it is empty.
        replaced: Of an update, the piece that is no longer true.
    """

    text: str
    kind: Kind
    needs: tuple[Piece, ...] = ()
    replaced: Piece | None = None


@dataclass(frozen=True)
class Person:
    """A user: what was said, in threads, and what is asked later."""

    name: str
    language: str
    threads: tuple[Thread, ...]
    questions: tuple[Question, ...]

    @property
    def exchanges(self) -> int:
        return sum(thread.exchanges for thread in self.threads)


# -- files -----------------------------------------------------------------------------------


def load_people(folder: Path = FOLDER) -> list[Person]:
    """Return the people of a folder, by name.

    Raises:
        BadDataError: If there is nobody, or a file has another form.
    """
    beside = {"ordinary.json", "requests.json"}
    files = sorted(file for file in folder.glob("*.json") if file.name not in beside)
    if not files:
        msg = f"{folder} holds no person's .json file"
        raise BadDataError(msg)
    return [load_person(file) for file in files]


def load_languages(folder: Path = FOLDER) -> list[Person]:
    """Return one person for each file in `languages`."""
    return [load_person(file) for file in sorted((folder / "languages").glob("*.json"))]


def load_person(file: Path) -> Person:
    """Return the person of a file.

    Raises:
        BadDataError: If the file has another form.
    """
    return _read(file, _person)


def load_ordinary(folder: Path = FOLDER) -> list[Thread]:
    """Return the threads in which nobody tells anything about themselves."""
    return list(_read(folder / "ordinary.json", lambda value: _threads(value["exchanges"])))


def load_requests(folder: Path = FOLDER) -> tuple[Question, ...]:
    """Return the requests that no memory helps with, and the courtesies."""
    return _read(folder / "requests.json", _requests)


def _read(file: Path, convert: Callable[[Any], _T]) -> _T:
    value = read_json(file)
    try:
        return convert(value)
    except KeyError as error:
        msg = f"{file}: the field {error} is missing somewhere"
        raise BadDataError(msg) from error
    except (TypeError, ValueError, AttributeError) as error:
        msg = f"{file} does not have the expected form: {error}"
        raise BadDataError(msg) from error


# -- threads ---------------------------------------------------------------------------------


def _time_ms(text: str) -> int:
    return int(parse_time(text).timestamp() * 1000)


def _threads(exchanges: Iterable[dict[str, str]]) -> tuple[Thread, ...]:
    by_name: dict[str, list[Message]] = defaultdict(list)
    for item in exchanges:
        time_ms = _time_ms(item["time"])
        by_name[item["thread"]] += [
            Message("user", item["user"], time_ms),
            Message("assistant", item["assistant"], time_ms + 1000),
        ]
    return tuple(Thread(name, tuple(messages)) for name, messages in by_name.items())


# -- questions -------------------------------------------------------------------------------


def _person(value: dict[str, Any]) -> Person:
    return Person(
        value["person"],
        value["language"],
        _threads(value["exchanges"]),
        tuple(_questions(value)),
    )


def _questions(value: dict[str, Any]) -> list[Question]:
    questions: list[Question] = []
    for fact in value["facts"]:
        needs = (_piece(fact),)
        questions += [
            Question(fact["word"], "word", needs),
            Question(fact["other"], "other", needs),
        ]
    for reply in value.get("replies", ()):
        questions.append(Question(reply["question"], "replies", (_piece(reply, "assistant"),)))
    for update in value.get("updates", ()):
        new, old = _piece(update["new"]), _piece(update["old"])
        questions.append(Question(update["question"], "updates", (new,), old))
    for several in value.get("several", ()):
        pieces = tuple(_piece(item) for item in several["needs"])
        questions.append(Question(several["question"], "several", pieces))
    return questions + _unanswered(value.get("near_topic", ()), "near_topic")


def _piece(item: dict[str, str], role: Role = "user") -> Piece:
    return Piece(item["exchange"], role, item["says"])


def _requests(value: dict[str, Any]) -> tuple[Question, ...]:
    off_topic = _unanswered(value["off_topic"], "off_topic")
    return (*off_topic, *_unanswered(value["courtesies"], "courtesies"))


def _unanswered(texts: Sequence[str], kind: Kind) -> list[Question]:
    return [Question(text, kind) for text in texts]
