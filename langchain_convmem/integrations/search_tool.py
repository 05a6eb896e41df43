"""`search_dialog`: a tool with which a model looks up what was said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from pydantic import BaseModel, Field

from langchain_convmem.background import hop
from langchain_convmem.records import Entry, Owner, ThreadKey
from langchain_convmem.turns.memory import get_turn_memory
from langchain_convmem.turns.options import read_thread_id, read_tool_user, refuse_unnamed_run
from langchain_convmem.turns.recalled import fence_blocks, select_visible
from langchain_convmem.turns.view import SPOKEN
from langchain_convmem.views.lines import format_iso_time
from langchain_convmem.views.live import find_live_entries
from langchain_convmem.views.shown import RecalledBlock

if TYPE_CHECKING:
    from langchain_convmem.memory import ConversationMemory


_DESCRIPTION = (
    "Look up what was said in this conversation and in earlier ones. "
    "Returns the lines that fit best, word for word, with speaker and date."
)


_NOTHING = "Nothing that fits was said before."


_MAX_TOKENS = 1000


_LATEST = 256
"""So many of a thread's latest entries are looked through for the turn under way."""


_Answer: TypeAlias = tuple[str, list[dict[str, Any]]]


class _Question(BaseModel):
    """What the model may say: never whose dialog is searched."""

    query: str = Field(description="What to look for, in the words that were probably used.")


def create_search_tool(
    memory: ConversationMemory,
    *,
    user_id: str | None = None,
    k: int | None = None,
    max_tokens: int | None = None,
    threshold: float | Literal["auto"] | None = None,
    name: str = "search_dialog",
    description: str = _DESCRIPTION,
) -> BaseTool:
    """Return a tool that searches the dialog lines of the run's user.

    The run's config says whose lines are searched, under `configurable`: all threads of `user_id`,
    or without one the thread `thread_id` alone; a graph's context may name the user instead. What
    the model says cannot change that. The current turn of the asking thread is left out,
    since the model already sees it.
    The content is for the model: verbatim lines, fenced and marked as data. The artifact
    holds the same as plain values, one map per block of neighbouring lines, best first:
    `similarity`, `relevance`, `thread_id`, and `lines` with `line_id`, `speaker`, `trust`, `time`
    (ISO 8601, UTC) and `text`. Where the settings keep a relevance buffer, what is found enters
    that of the thread, and the whole buffer is shown, latest find first. Thread-safe.

    Args:
        memory: The memory to use; the caller closes it.
        user_id: Search the lines of this user, whatever the config says.
        k: Exactly so many blocks; with `max_tokens`, at most so many.
        max_tokens: As many as fit this budget; None is 1,000, unless there is a
            `k`.
        threshold: Leave out lines whose cosine similarity does not surpass this; "auto": find
            nothing if the question is unrelated to anything in the log.
        name: The tool's name.
        description: The tool's description for the model.

    Raises:
        ConfigError: When called without a user or thread in the config.
    """
    if k is None and max_tokens is None:
        max_tokens = _MAX_TOKENS
    limits = {"k": k, "max_tokens": max_tokens, "threshold": threshold}

    def search(query: str, config: RunnableConfig) -> _Answer:
        return _search(memory, query, _read_scope(config, user_id), limits)

    async def asearch(query: str, config: RunnableConfig) -> _Answer:
        return await hop(lambda: search(query, config))

    return StructuredTool.from_function(
        search,
        asearch,
        name=name,
        description=description,
        args_schema=_Question,
        infer_schema=False,
        response_format="content_and_artifact",
    )


def _read_scope(config: RunnableConfig, user_id: str | None) -> tuple[Owner, ThreadKey | None]:
    """Return whose lines are searched, and the thread that asks, if there is one."""
    configurable: Mapping[str, Any] = config.get("configurable", {})
    thread_id = read_thread_id(configurable)
    user = read_tool_user(configurable, user_id)
    if user is None and thread_id is None:
        refuse_unnamed_run("search_dialog does not know whose lines to search")
    key = None if thread_id is None else ThreadKey(user, thread_id)
    return (Owner(user_id=user) if key is None else key.owner), key


def _search(
    memory: ConversationMemory,
    query: str,
    scope: tuple[Owner, ThreadKey | None],
    limits: Mapping[str, Any],
) -> _Answer:
    if not query.strip():
        return "The query is blank; say what to look for.", []
    owner, key = scope
    exclude: dict[ThreadKey, set[int]] = {}
    if key is not None:
        exclude[key] = _find_open_turn(memory.log.entries(key, last=_LATEST))
    engine = get_turn_memory(memory).line_recall
    found = engine.recall(owner, query, exclude=exclude, buffer=key, **limits)
    has_buffer = key is not None and bool(engine.settings.buffer_size)
    blocks, by_time = select_visible(found, has_buffer=has_buffer)
    return fence_blocks(blocks, by_time=by_time) or _NOTHING, [
        _describe_block(block) for block in blocks
    ]


def _find_open_turn(latest: Sequence[Entry]) -> set[int]:
    """Return the positions of the latest turn, unless it came to its end: then nobody sees it."""
    spoken = [one for one in find_live_entries(latest) if one.role in SPOKEN]
    if not spoken or _is_answer(spoken[-1]):
        return set()
    return {entry.position for entry in latest if entry.turn_id == spoken[-1].turn_id}


def _is_answer(entry: Entry) -> bool:
    return entry.role == "assistant" and not getattr(entry.message, "tool_calls", None)


def _describe_block(block: RecalledBlock) -> dict[str, Any]:
    return {
        "similarity": float(block.similarity),
        "relevance": float(block.relevance),
        "thread_id": block.lines[0].key.thread_id,
        "lines": [
            {
                "line_id": line.line_id,
                "speaker": line.speaker,
                "trust": line.trust,
                "time": format_iso_time(line.time_ms),
                "text": line.text,
            }
            for line in block.lines
        ],
    }
