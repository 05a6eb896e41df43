"""Dialogues with questions whose evidence is known, out of JSON files."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.messages import HumanMessage

from langchain_convmem.logs import InMemoryLog
from langchain_convmem.moving.times import parse_time
from langchain_convmem.records import ThreadKey
from langchain_convmem.views.codec import draft_of

__all__ = ["BadDataError", "Dialogue", "Evidence", "Line", "Question", "load_dialogues", "log_of"]


class BadDataError(Exception):
    """A folder or file is not what the benchmark reads; the message is for people."""


class Line(NamedTuple):
    id: str
    thread: str
    session: str
    time: str
    speaker: str
    text: str

    @property
    def labelled(self) -> str:
        return f"{self.speaker}: {self.text}"


class Evidence(NamedTuple):
    """A line that answers a question, or the part of it that does."""

    line: str
    part: str | None = None


class Question(NamedTuple):
    text: str
    evidence: tuple[Evidence, ...]
    category: str


@dataclass(frozen=True)
class Dialogue:
    """What one user said and heard, and what is asked about it."""

    name: str
    lines: dict[str, Line]
    questions: tuple[Question, ...]


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
    return Dialogue(user, lines, tuple(asked for part in parts for asked in part.questions))


def _load(file: Path) -> tuple[str, Dialogue]:
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        msg = f"{file} cannot be read as JSON: {error}"
        raise BadDataError(msg) from error
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
    lines = {
        item["id"]: Line(
            item["id"],
            name,
            str(item["session"]),
            parse_time(item["time"]).isoformat(),
            item["speaker"],
            item["text"],
        )
        for item in value["lines"]
    }
    questions = tuple(
        Question(item["question"], _evidence(item["evidence"]), str(item["category"]))
        for item in value["questions"]
        if item["evidence"]
    )
    _check_evidence(questions, lines)
    return Dialogue(name, lines, questions)


def _evidence(items: Iterable[str | dict[str, str]]) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(item) if isinstance(item, str) else Evidence(item["line"], item["part"])
        for item in items
    )


def _check_evidence(questions: Sequence[Question], lines: dict[str, Line]) -> None:
    evidence = {item for question in questions for item in question.evidence}
    unknown = {item.line for item in evidence} - lines.keys()
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
        drafts = [
            draft_of(
                HumanMessage(
                    content=line.text,
                    id=line.id,
                    name=line.speaker,
                    additional_kwargs={"session": line.session, "timestamp": line.time},
                )
            )
            for line in lines
        ]
        log.append(ThreadKey(dialogue.name, thread), drafts)
    return log
