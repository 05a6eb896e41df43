"""What was recalled for a thread lately: a list that newer blocks push older ones out of.

Kept as a document of the thread, which holds references alone: ids of entries, parts, segments, and
how well they matched. What they refer to is looked up in the index each time, with the lines around
it, so that a forgotten or retracted line is never shown again, even from an old document.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pydantic import TypeAdapter, ValidationError

from langchain_convmem.errors import LogError
from langchain_convmem.message_log import CACHE_PREFIX, MessageLog
from langchain_convmem.recall.blocks import TableView, make_block, pack
from langchain_convmem.records import ThreadKey
from langchain_convmem.views.lines import LineMatch, RecalledBlock

if TYPE_CHECKING:
    from langchain_convmem.recall.segments import SegmentTable

BUFFER_DOCUMENT = f"{CACHE_PREFIX}relevance"
"""Name of the document. A cache, so that forgetting any entry of its thread deletes it."""


class BufferedHit(NamedTuple):
    """A segment that was looked for, as the document names it, and how well it matched."""

    entry_id: str
    part: int
    segment: int
    relevance: float
    similarity: float


BufferedBlock: TypeAlias = tuple[BufferedHit, ...]
"""The hits of a block, best first; at least one."""


def push_blocks(
    found: Sequence[BufferedBlock], old: Sequence[BufferedBlock]
) -> list[BufferedBlock]:
    """Return the new blocks followed by those old ones that show anything else."""
    seen: set[tuple[str, int, int]] = set()
    blocks: list[BufferedBlock] = []
    for block in (*found, *old):
        names = {hit[:3] for hit in block}
        if not names <= seen:
            blocks.append(block)
        seen |= names
    return blocks


def select_living(blocks: Sequence[BufferedBlock], table: SegmentTable) -> list[BufferedBlock]:
    """Return the blocks without hits that no longer exist."""
    living = (
        tuple(hit for hit in block if table.number_of(hit[:3]) is not None) for block in blocks
    )
    return [block for block in living if block]


def show_blocks(
    blocks: Sequence[BufferedBlock], ground: TableView, why: Mapping[str, LineMatch]
) -> tuple[RecalledBlock, ...]:
    """Return the blocks as a model reads them, newest first.

    Those that share lines become one, at the place of the newest. What may not be shown is left
    out, as is what does not fit the budget of the query.

    Args:
        blocks: Newest first.
        ground: Where the lines stand, and which of them may be shown.
        why: The matches of the present question, by line.
    """
    table = ground.table
    hits: dict[int, BufferedHit] = {}
    for hit in chain.from_iterable(blocks):
        number = table.number_of(hit[:3])
        if number is not None and ground.allowed[number]:
            hits.setdefault(number, hit)
    shown: list[RecalledBlock] = []
    for group in pack(hits, ground):
        said = {number: table.find_line(number) for number in group.hits}
        found = [
            why.get(line.line_id) or LineMatch(line, *hits[number][3:])
            for number, line in said.items()
        ]
        found.sort(key=lambda match: -match.relevance)
        shown.append(make_block(group, found, ground))
    return tuple(shown)


# -- reading and writing -----------------------------------------------------------------------


_FORM = TypeAdapter(list[BufferedBlock])


def decode_blocks(value: Any) -> list[BufferedBlock]:
    """Return the blocks of a document; none of one that has another form."""
    try:
        blocks = _FORM.validate_python(value)
    except ValidationError:
        return []
    return [block for block in blocks if block]


def update_buffer(
    log: MessageLog,
    key: ThreadKey,
    blocks: Sequence[RecalledBlock],
    select_kept: Callable[[Sequence[BufferedBlock]], list[BufferedBlock]],
    *,
    remember: bool,
) -> tuple[list[BufferedBlock], str | None]:
    """Push new blocks into a thread's buffer; return what it holds now, and what went wrong.

    If another turn wrote first, its document is read again, so neither loses blocks.

    Args:
        log: Keeps the document.
        key: The thread.
        blocks: The new ones, best first.
        select_kept: Returns as many of some blocks as are kept, of those that are still there.
        remember: Whether to write. What is returned is the same.
    """
    found = [
        tuple(
            BufferedHit(
                one.line.entry_id, one.line.part, one.segment, one.relevance, one.similarity
            )
            for one in block.matches
        )
        for block in blocks
    ]
    try:
        while True:
            document = log.get_state(key, BUFFER_DOCUMENT)
            old = [] if document is None else decode_blocks(document.value)
            kept = select_kept(push_blocks(found, old))
            version = None if document is None else document.version
            if not remember or kept == old:
                return kept, None
            if log.set_state(key, BUFFER_DOCUMENT, kept, expected=version) is not None:
                return kept, None
    except LogError as error:
        problem = f"the relevance buffer of {key.thread_id!r} could not be kept: {error}"
    return select_kept(found), problem
