"""Dialogues with questions whose evidence is known, out of JSON files."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_convmem.logs import InMemoryLog
from langchain_convmem.records import ThreadKey
from langchain_convmem.views.codec import make_draft

__all__ = [
    "BadDataError",
    "Dialogue",
    "Evidence",
    "Line",
    "Question",
    "Role",
    "load_dialogues",
    "log_of",
    "message_of",
    "read_json",
]

Role = Literal["user", "assistant"]

_ROLE_OF_SPEAKER: dict[str, Role] = {"User": "user", "Assistant": "assistant"}
# The category of questions that nothing in the dialogue answers.
_UNANSWERABLE = "abstention"


def _read_time(text: str) -> datetime:
    """Return a time: ISO 8601, or as LoCoMo writes them, `1:56 pm on 8 May, 2023`."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return datetime.strptime(text, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)


class BadDataError(Exception):
    """A folder or file is not what the benchmark reads; the message is for people."""


class Line(NamedTuple):
    id: str
    thread: str
    session: str
    time: str
    speaker: str
    text: str
    role: Role | None = None

    @property
    def labelled(self) -> str:
        return f"{self.speaker}: {self.text}"


class Evidence(NamedTuple):
    """A line that answers a question, or the part of it that does."""

    line: str
    part: str | None = None


class Question(NamedTuple):
    """A question, the evidence that answers it, and of an update the old and the new lines."""

    text: str
    evidence: tuple[Evidence, ...]
    category: str
    old: tuple[str, ...] = ()
    new: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dialogue:
    """What one user said and heard, and what is asked about it.

    Attributes:
        name: The user.
        lines: By their ids, in order.
        questions: Those with evidence.
        unanswerable: Those that nothing in the dialogue answers.
    """

    name: str
    lines: dict[str, Line]
    questions: tuple[Question, ...]
    unanswerable: tuple[Question, ...] = ()

    @property
    def is_by_role(self) -> bool:
        """Whether all lines are of a user and an assistant without names."""
        return all(line.role is not None for line in self.lines.values())


def load_dialogues(folder: Path) -> list[Dialogue]:
    """Return the dialogues of a folder; those that name the same user as one.

    Raises:
        BadDataError: If there is nothing to ask or a file is of another form.
    """
    if not folder.is_dir():
        msg = f"{folder} is not a folder; --data takes a folder of dialogue JSON files"
        raise BadDataError(msg)
    files = sorted(folder.glob("*.json"))
    if not files:
        msg = f"{folder} holds no .json file; --data takes a folder of dialogue JSON files"
        raise BadDataError(msg)
    by_user: dict[str, list[Dialogue]] = defaultdict(list)
    for file in files:
        user, dialogue = _load(file)
        by_user[user].append(dialogue)
    dialogues = [_joined(user, parts) for user, parts in by_user.items()]
    if not any(dialogue.questions for dialogue in dialogues):
        msg = f"no dialogue in {folder} has a question with evidence"
        raise BadDataError(msg)
    return dialogues


def _joined(user: str, parts: Sequence[Dialogue]) -> Dialogue:
    if len(parts) == 1:
        return parts[0]
    lines = {key: line for part in parts for key, line in part.lines.items()}
    if len(lines) < sum(len(part.lines) for part in parts):
        msg = f"two dialogues of the user {user!r} have a line id in common"
        raise BadDataError(msg)
    return Dialogue(
        user,
        lines,
        tuple(asked for part in parts for asked in part.questions),
        tuple(asked for part in parts for asked in part.unanswerable),
    )


def read_json(file: Path) -> Any:
    """Return the value in a file.

    Raises:
        BadDataError: If it holds none.
    """
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        msg = f"{file} cannot be read as JSON: {error}"
        raise BadDataError(msg) from error


def _load(file: Path) -> tuple[str, Dialogue]:
    value = read_json(file)
    try:
        name = str(value.get("conversation_id", file.stem))
        return str(value.get("user", name)), _dialogue(value, name)
    except KeyError as error:
        msg = f"{file}: the field {error} is missing somewhere"
        raise BadDataError(msg) from error
    except (TypeError, ValueError, AttributeError) as error:
        msg = f"{file} is no dialogue of the expected form: {error}"
        raise BadDataError(msg) from error


def _dialogue(value: dict[str, Any], name: str) -> Dialogue:
    is_by_role = {item["speaker"] for item in value["lines"]} <= _ROLE_OF_SPEAKER.keys()
    lines = {
        item["id"]: Line(
            item["id"],
            name,
            str(item["session"]),
            _read_time(item["time"]).isoformat(),
            item["speaker"],
            item["text"],
            _ROLE_OF_SPEAKER[item["speaker"]] if is_by_role else None,
        )
        for item in value["lines"]
    }
    asked = [_question(item) for item in value["questions"]]
    questions = tuple(question for question in asked if question.evidence)
    unanswerable = tuple(
        question
        for question in asked
        if not question.evidence and question.category == _UNANSWERABLE
    )
    _check_evidence(questions, lines)
    return Dialogue(name, lines, questions, unanswerable)


def _question(item: dict[str, Any]) -> Question:
    groups = item.get("groups") or {}
    return Question(
        item["question"],
        _evidence(item["evidence"]),
        str(item["category"]),
        tuple(groups.get("original_info") or ()),
        tuple(groups.get("updated_info") or ()),
    )


def _evidence(items: Iterable[str | dict[str, str]]) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(item) if isinstance(item, str) else Evidence(item["line"], item["part"])
        for item in items
    )


def _check_evidence(questions: Sequence[Question], lines: dict[str, Line]) -> None:
    evidence = {item for question in questions for item in question.evidence}
    named = {item.line for item in evidence}
    named |= {line for question in questions for line in (*question.old, *question.new)}
    unknown = named - lines.keys()
    if unknown:
        msg = f"evidence names lines that do not exist: {', '.join(sorted(unknown))}"
        raise ValueError(msg)
    for line, part in evidence:
        if part is not None and lines[line].text.count(part) != 1:
            msg = f"evidence must stand in its line exactly once: {part!r} in {line}"
            raise ValueError(msg)


def log_of(dialogue: Dialogue) -> InMemoryLog:
    """Return a log with every line of a dialogue, a thread for each file it came from."""
    by_thread: dict[str, list[Line]] = defaultdict(list)
    for line in dialogue.lines.values():
        by_thread[line.thread].append(line)
    log = InMemoryLog()
    for thread, lines in by_thread.items():
        drafts = [make_draft(message_of(line)) for line in lines]
        log.append(ThreadKey(dialogue.name, thread), drafts)
    return log


def message_of(line: Line) -> BaseMessage:
    """Return a line as a message: by its role without a name, else of a named person."""
    marks = {"session": line.session, "timestamp": line.time}
    if line.role == "assistant":
        return AIMessage(content=line.text, id=line.id, additional_kwargs=marks)
    name = None if line.role == "user" else line.speaker
    return HumanMessage(content=line.text, id=line.id, name=name, additional_kwargs=marks)
