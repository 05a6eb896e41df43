"""Turns as plain maps, which `history.to_maps()` gives out: a JSON list, or one map on each line.

    {"id", "message": {"role", "contents": [text, ...], "messages"?: [{type, data}, ...]},
     "metadata": {"timing": {"creation", ...}, "summaryIds"?, "attribute"?, "aux"?}}

Items of DynamoDB's form (`to_dynamodb`) are read as well. Everything comes back, summaries with
what they cover, marks, times and `aux` too; only the ids are the log's own. A placeholder is made
anew where it is needed. A turn that a sink was given several times counts as it was given last, and
one that was marked as retracted not at all. The file is one thread, named after its stem.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from pydantic import Field

from langchain_convmem.causes import ErrorTrap
from langchain_convmem.records import Cover, Entry, Metadata, ThreadKey
from langchain_convmem.transfer.formats.convmem import check_storable
from langchain_convmem.transfer.formats.langchain import list_items, unwrap_item
from langchain_convmem.transfer.source import Form, Label, Node, Source
from langchain_convmem.transfer.threads import (
    ImportedThread,
    Reader,
    build_entry_thread,
    read_stored_message,
    rename_threads,
)
from langchain_convmem.views.codec import get_text_pieces, load_json
from langchain_convmem.views.live import LEVEL, PLACEHOLDER_TEXT, RECORD, read_record
from langchain_convmem.views.messages import make_content
from langchain_convmem.views.summaries import CHILDREN, CITES

_Role = Literal["user", "assistant", "system", "tool", "summary"]
_MESSAGES: dict[str, type[BaseMessage]] = {"user": HumanMessage, "assistant": AIMessage}
_MERGED = "merged"


class _Message(Form):
    role: _Role
    contents: list[str]
    messages: list[Any] | None = None


class _Metadata(Form):
    timing: dict[str, int] = Field({})
    attribute: list[str] = Field([])
    summary_ids: list[str] = Field([], alias="summaryIds")
    aux: dict[str, Any] = Field({})


class _Turn(Form):
    id: Label
    message: _Message
    metadata: _Metadata = Field(default_factory=lambda: _Metadata.model_validate({}))

    @property
    def is_shown(self) -> bool:
        """Whether it counts, and is no placeholder, which views make by themselves."""
        said, marks = self.message, self.metadata.attribute
        is_made = (said.role, said.contents, marks) == ("user", [PLACEHOLDER_TEXT], ["fake"])
        return "retracted" not in marks and not is_made


def fits_maps(source: Source) -> bool:
    """Return whether the file starts with the map of a turn."""
    item = unwrap_item(source.sample)
    if not isinstance(item, dict) or "id" not in item:
        return False
    message = item.get("message")
    message = message.get("M", message) if isinstance(message, dict) else {}
    return message.keys() - {"messages"} == {"role", "contents"}


def read_maps(source: Source, thread_id: str | None) -> list[ImportedThread]:
    """Return the file's one thread.

    Raises:
        ImportFormatError: If an item is not the map of a turn, or all of them are empty.
    """
    latest = {}
    for node in list_items(source):
        turn = node.parse(_Turn)
        latest[turn.id] = turn, node
    reader = _Reader(Path(source.path).stem)
    for turn, node in latest.values():
        if turn.is_shown:
            reader.read(turn, node)
    found = [build_entry_thread(reader.name, reader.entries, unread=reader.unread)]
    holds_any = any(entry.role != "summary" for entry in reader.entries)
    return rename_threads(found if holds_any else [], thread_id, source.path)


class _Reader:
    """Makes entries of the turns of one file."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.entries: list[Entry] = []
        self.unread: list[str] = []
        self._turns: dict[str, list[Entry]] = {}
        self._covered: set[str] = set()
        self._turn_id = ""

    def read(self, turn: _Turn, node: Node) -> None:
        """Add the entries of a turn.

        Raises:
            ImportFormatError: If one of them cannot be stored.
        """
        known = turn.metadata
        messages = self._read_messages(turn, node)
        marks = list(known.attribute)
        for _ in messages[1:]:
            if marks[-1:] == [_MERGED]:
                marks.pop()
        cover, aux = None, known.aux
        if turn.message.role == "summary":
            aux = self._translate_record(turn)
            is_made = bool(read_record(aux).get(LEVEL))
            cover = self._join_covers(known) if is_made else self._find_cover(known)
        elif turn.message.role in ("user", "system") or not self._turn_id:
            self._turn_id = turn.id
        timing = {name: ms for name, ms in known.timing.items() if name == "creation"}
        made: list[Entry] = []
        for number, message in enumerate(messages):
            metadata = Metadata(tuple(marks), known.timing, tuple(known.summary_ids), aux)
            entry = Entry(
                id=turn.id if number == 0 else f"{turn.id}~{number + 1}",
                key=ThreadKey(None, self.name),
                position=len(self.entries) + 1,
                turn_id=turn.id if cover else self._turn_id,
                role=turn.message.role,
                message=message,
                contents=get_text_pieces(message),
                metadata=metadata if number == 0 else Metadata(timing=timing),
                cover=cover,
            )
            with ErrorTrap(ValueError, TypeError, RecursionError) as trap:
                check_storable(entry)
            if trap.reason:
                node.fail(f"a turn that can be stored ({trap.reason})")
            made.append(entry)
            self.entries.append(entry)
        if made:
            self._turns[turn.id] = made

    def _read_messages(self, turn: _Turn, node: Node) -> list[BaseMessage]:
        """Return the parts of a turn; texts of merged parts are given to as many messages."""
        said = turn.message
        if said.messages is not None:
            parts = node.at(said.messages, "message", "messages").items()
            return [read_stored_message(part, _read_tags).message for part in parts]
        texts = [text for text in said.contents if text.strip()]
        count = min(turn.metadata.attribute[::-1].count(_MERGED) + 1, len(texts))
        head = len(texts) - count + 1
        pieces = [texts[:head], *([text] for text in texts[head:])] if texts else []
        contents = list(map(make_content, pieces))
        if said.role == "tool":
            return [ToolMessage(one, tool_call_id=f"call-{turn.id}") for one in contents]
        return list(map(_MESSAGES.get(said.role, SystemMessage), contents))

    # -- summaries --------------------------------------------------------------------------------

    def _find_cover(self, known: _Metadata) -> Cover:
        """Return what a summary covers: the turns it names, and what was merged with them."""
        covered: list[Entry] = []
        role = ""
        for own_id, entries in self._turns.items():
            if own_id in known.summary_ids and entries[0].role != "summary":
                role = entries[0].role
            elif entries[0].role in ("summary", "system"):
                continue
            elif entries[0].role != role or own_id in self._covered:
                role = ""
                continue
            covered += entries
            self._covered.add(own_id)
        return Cover(tuple((entry.position, entry.position) for entry in covered))

    def _join_covers(self, known: _Metadata) -> Cover:
        """Return what the summaries that a summary was made of by rule cover together."""
        inner = [entry for name in known.summary_ids for entry in self._turns.get(name, ())]
        return Cover(tuple(sorted(pair for one in inner if one.cover for pair in one.cover.ranges)))

    def _translate_record(self, turn: _Turn) -> dict[str, Any]:
        """Return the `aux` of a summary; positions in the log it comes from mean nothing here."""
        aux = turn.metadata.aux
        record = dict(read_record(aux))
        if record.pop(CITES, None):
            self.unread.append(
                f"of the summary {turn.id!r}: which sentences come from which messages"
            )
        if CHILDREN in record:
            names = turn.metadata.summary_ids
            children = [self._turns[name][0] for name in names if name in self._turns]
            record[CHILDREN] = [[child.id, child.position] for child in children]
        return {**aux, RECORD: record} if record else aux


def _read_tags(data: Any) -> Any:
    """Return the fields of a message, with what `to_maps` tagged as it was."""
    return load_json(json.dumps(data))


FORM = 'turns of to_maps() [{"id", "message": {"role", "contents"}, "metadata"}]'
READER = Reader("maps", FORM, fits_maps, read_maps)
