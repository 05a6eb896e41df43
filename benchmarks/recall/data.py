"""Dialogues with questions whose evidence is known, out of JSON files."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

T = TypeVar("T")
Role = Literal["user", "assistant"]

_ROLE_OF_SPEAKER: dict[str, Role] = {"User": "user", "Assistant": "assistant"}
_UNANSWERABLE = "abstention"
"""The category of questions that nothing in the dialogue answers."""


def _read_time(text: str) -> datetime:
    """Return a time: ISO 8601, or as LoCoMo writes them, `1:56 pm on 8 May, 2023`."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return datetime.strptime(text, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)


class BadDataError(Exception):
    """A folder or file is not what the benchmark reads; the message is for people."""


def read_file(file: Path, convert: Callable[[Any], T]) -> T:
    """Return what a JSON file is converted to.

    Raises:
        BadDataError: If it is missing or has another form.
    """
    try:
        return convert(json.loads(file.read_text(encoding="utf-8")))
    except KeyError as error:
        raise BadDataError(f"{file}: the field {error} is missing somewhere") from error
    except (OSError, TypeError, ValueError, AttributeError) as error:
        raise BadDataError(f"{file} is no JSON of the expected form: {error}") from error


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

    def to_message(self) -> BaseMessage:
        """Return a message: by its role without a name, else of a named person."""
        marks = {"session": self.session, "timestamp": self.time}
        if self.role == "assistant":
            return AIMessage(content=self.text, id=self.id, additional_kwargs=marks)
        name = None if self.role == "user" else self.speaker
        return HumanMessage(content=self.text, id=self.id, name=name, additional_kwargs=marks)


class Evidence(NamedTuple):
    """A line that answers a question, or the part of it that does."""

    line: str
    part: str | None = None


class Question(NamedTuple):
    """A question, the evidence that answers it, of an update the new lines, and where it is from.

    Intervals are taken by `origin`: the dialogue, and of the precision set the case.
    """

    text: str
    evidence: tuple[Evidence, ...]
    category: str
    origin: str
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


def load_dialogues(folder: Path) -> list[Dialogue]:
    """Return the dialogues of a folder; those that name the same user as one.

    Raises:
        BadDataError: If there is nothing to ask or a file is of another form.
    """
    if (folder / "beliefs.json").exists():
        return [_read_precision(folder)]
    by_user: dict[str, list[Dialogue]] = defaultdict(list)
    for file in sorted(folder.glob("*.json")):
        user, dialogue = read_file(file, _read_dialogue)
        by_user[user].append(dialogue)
    dialogues = [_join(user, parts) for user, parts in by_user.items()]
    if not any(dialogue.questions for dialogue in dialogues):
        raise BadDataError(f"{folder} holds no dialogue as JSON with a question with evidence")
    return dialogues


def _read_precision(folder: Path) -> Dialogue:
    """Return the precision set: every belief of its one user as a message in its own thread."""

    def read_belief(one: dict[str, Any]) -> Line:
        name, said = one["_id"], one["created_at"]
        return Line(name, name, "1", _read_time(said).isoformat(), "User", one["content"], "user")

    def read_case(one: dict[str, Any]) -> Question:
        wanted = one["expect"]["relevantBeliefs"]
        wanted = wanted.get("shouldOnlyInclude", wanted.get("mustInclude", ()))
        found = tuple(Evidence(name) for name in wanted if name not in pinned)
        return Question(one["query"], found, _UNANSWERABLE, one["caseId"])

    beliefs = read_file(folder / "beliefs.json", list)
    [(user, _)] = Counter(one["user_id"] for one in beliefs).most_common(1)
    own = [one for one in beliefs if one["user_id"] == user]
    pinned = {one["_id"] for one in own if one["pinned"]}
    lines = {one["_id"]: read_belief(one) for one in own}
    # One case asks nothing: its query is blank.
    cases = read_file(
        folder / "cases.json", lambda all_: [read_case(x) for x in all_ if x["query"].strip()]
    )
    _check_evidence(cases, lines)
    asked = tuple(case for case in cases if case.evidence)
    return Dialogue(user, lines, asked, tuple(case for case in cases if not case.evidence))


def _join(user: str, parts: Sequence[Dialogue]) -> Dialogue:
    lines = {key: line for part in parts for key, line in part.lines.items()}
    if len(lines) < sum(len(part.lines) for part in parts):
        raise BadDataError(f"two dialogues of the user {user!r} have a line id in common")
    asked = tuple(one for part in parts for one in part.questions)
    return Dialogue(user, lines, asked, tuple(one for part in parts for one in part.unanswerable))


def _read_dialogue(value: Any) -> tuple[str, Dialogue]:
    name = str(value["conversation_id"])
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
    asked = [_read_question(item, name) for item in value["questions"]]
    questions = tuple(one for one in asked if one.evidence)
    _check_evidence(questions, lines)
    others = (one for one in asked if not one.evidence and one.category == _UNANSWERABLE)
    return str(value.get("user", name)), Dialogue(name, lines, questions, tuple(others))


def _read_question(item: dict[str, Any], origin: str) -> Question:
    groups = item.get("groups") or {}
    new = tuple(groups["updated_info"] or ()) if groups.get("original_info") else ()
    evidence = (
        Evidence(one) if isinstance(one, str) else Evidence(one["line"], one["part"])
        for one in item["evidence"]
    )
    return Question(item["question"], tuple(evidence), str(item["category"]), origin, new)


def _check_evidence(questions: Sequence[Question], lines: dict[str, Line]) -> None:
    evidence = {item for question in questions for item in question.evidence}
    named = {item.line for item in evidence}
    named |= {line for question in questions for line in question.new}
    if unknown := named - lines.keys():
        raise ValueError(f"evidence names lines that do not exist: {', '.join(sorted(unknown))}")
    for line, part in evidence:
        if part is not None and lines[line].text.count(part) != 1:
            raise ValueError(f"evidence must stand in its line exactly once: {part!r} in {line}")
