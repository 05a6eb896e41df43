"""The tables of formats, one file each. A format is known by a file's content, never by its name.

To add one: a module with `FORM` (what such a file looks like, in one phrase), a function that says
whether a file is meant to be of this format, and one that returns its threads; then a line below.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from langchain_convmem.transfer.formats import (
    chatgpt,
    checkpoints,
    claude,
    convmem,
    dialogue,
    dynamodb_history,
    jsonl,
    maps,
    openai,
    sql_history,
)
from langchain_convmem.transfer.source import Database, Node, Source
from langchain_convmem.transfer.threads import FindAttachment, ImportedThread, Tree

__all__ = ["DATABASE_READERS", "READERS", "DatabaseReader", "Reader"]


def _fit_nothing(_value: Any) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Reader:
    """One format of text.

    Attributes:
        name: What a caller calls it, who knows what the file must be.
        form: What such a file looks like, for the sentence about a file that fits none.
        fits: Whether a file is meant to be of this format; it may still be a bad one.
        read: The file's threads; the second argument renames the only one.
        fits_sample: Whether a value is a conversation of a service's export; such an export is
            read one conversation at a time, by
        read_tree: the tree of a conversation's messages.
    """

    name: str
    form: str
    fits: Callable[[Source], bool]
    read: Callable[[Source, str | None], list[ImportedThread]]
    fits_sample: Callable[[Any], bool] = _fit_nothing
    read_tree: Callable[[Node, FindAttachment], Tree] | None = None


@dataclass(frozen=True, slots=True)
class DatabaseReader:
    """One kind of SQLite file; see `Reader`."""

    name: str
    form: str
    fits: Callable[[Database], bool]
    read: Callable[[Database, str | None], list[ImportedThread]]


READERS: tuple[Reader, ...] = (
    # Those that may be lines stand first: the others need the file to be one JSON document.
    Reader("convmem", convmem.FORM, convmem.fits_export, convmem.read_export),
    Reader(
        "dynamodb_history",
        dynamodb_history.FORM,
        dynamodb_history.fits_dynamodb,
        dynamodb_history.read_dynamodb,
    ),
    Reader("maps", maps.FORM, maps.fits_maps, maps.read_maps),
    Reader("jsonl", jsonl.FORM, jsonl.fits_jsonl, jsonl.read_jsonl),
    Reader("openai", openai.FORM, openai.fits_openai, openai.read_openai),
    Reader(
        "chatgpt",
        chatgpt.FORM,
        chatgpt.fits_chatgpt,
        chatgpt.read_chatgpt,
        chatgpt.is_conversation,
        chatgpt.read_tree,
    ),
    Reader(
        "claude",
        claude.FORM,
        claude.fits_claude,
        claude.read_claude,
        claude.is_conversation,
        claude.read_tree,
    ),
    Reader("dialogue", dialogue.FORM, dialogue.fits_dialogue, dialogue.read_dialogue),
)

DATABASE_READERS: tuple[DatabaseReader, ...] = (
    DatabaseReader(
        "checkpoints",
        checkpoints.FORM,
        checkpoints.fits_checkpoints,
        checkpoints.read_checkpoints,
    ),
    DatabaseReader(
        "sql_history",
        sql_history.FORM,
        sql_history.fits_sql_history,
        sql_history.read_sql_history,
    ),
)
