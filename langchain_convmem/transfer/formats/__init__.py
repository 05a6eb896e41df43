"""The table of formats. A format is known by a file's content, never by its name.

To add one: a function that says whether a file is meant to be of this format, one that returns its
threads, and what such a file looks like, in one phrase; then a line below. An export that is a list
of conversations needs two others instead: which value is one, and the tree of its messages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from langchain_convmem.transfer.formats import chatgpt, claude, convmem, langchain, maps, openai
from langchain_convmem.transfer.source import Database, Node, Source
from langchain_convmem.transfer.threads import (
    FindAttachment,
    ImportedThread,
    Tree,
    build_all_threads,
)

__all__ = ["READERS", "Reader"]


@dataclass(frozen=True, slots=True)
class Reader:
    """One format.

    Attributes:
        name: What a caller calls it, who knows what the file must be.
        form: What such a file looks like, in one phrase.
        fits: Whether a file is meant to be of this format; it may still be a bad one.
        read: The file's threads; the second argument renames the only one.
        opens: What the file is read as: its text, or a SQLite database.
        is_conversation: Whether a value is a conversation of a service's export. Such an export is
            read one conversation at a time, by
        read_tree: the tree of a conversation's messages.
    """

    name: str
    form: str
    fits: Callable[[Any], bool]
    read: Callable[[Any, str | None], list[ImportedThread]]
    opens: type[Source | Database] = Source
    is_conversation: Callable[[Any], bool] = lambda _: False
    read_tree: Callable[[Node, FindAttachment], Tree] | None = None


def _make_tree_reader(
    name: str,
    form: str,
    is_conversation: Callable[[Any], bool],
    read_tree: Callable[[Node, FindAttachment], Tree],
) -> Reader:
    def fits(source: Source) -> bool:
        return is_conversation(source.sample)

    read = partial(build_all_threads, read_tree)
    return Reader(name, form, fits, read, Source, is_conversation, read_tree)


READERS: tuple[Reader, ...] = (
    # Those that may be lines stand first: the others need the file to be one JSON document.
    Reader("convmem", convmem.FORM, convmem.fits_export, convmem.read_export),
    Reader(
        "dynamodb_history",
        langchain.DYNAMODB_FORM,
        langchain.fits_dynamodb,
        langchain.read_dynamodb,
    ),
    Reader("maps", maps.FORM, maps.fits_maps, maps.read_maps),
    Reader("jsonl", openai.ROWS_FORM, openai.fits_jsonl, openai.read_jsonl),
    Reader("openai", openai.FORM, openai.fits_openai, openai.read_openai),
    _make_tree_reader("chatgpt", chatgpt.FORM, chatgpt.is_conversation, chatgpt.read_tree),
    _make_tree_reader("claude", claude.FORM, claude.is_conversation, claude.read_tree),
    Reader(
        "checkpoints",
        langchain.CHECKPOINTS_FORM,
        langchain.fits_checkpoints,
        langchain.read_checkpoints,
        Database,
    ),
    Reader(
        "sql_history",
        langchain.SQL_FORM,
        langchain.fits_sql_history,
        langchain.read_sql_history,
        Database,
    ),
)
