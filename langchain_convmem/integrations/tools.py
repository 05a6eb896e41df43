"""The tool `search_dialog`, with which a model looks up what was said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from pydantic import BaseModel, Field

from langchain_convmem.recall.options import check_limits
from langchain_convmem.recall.retriever import to_document
from langchain_convmem.records import Owner, ThreadKey
from langchain_convmem.turns.memory import get_turn_memory, read_ids, refuse_unnamed_run
from langchain_convmem.turns.view import SPOKEN, fit_blocks
from langchain_convmem.views.live import find_live_entries

if TYPE_CHECKING:
    from langchain_convmem.memory import ConversationMemory

_SEARCH = (
    "Look up what was said in this conversation and in earlier ones. "
    "Returns the most relevant lines, word for word, with speaker and date."
)
_LATEST = 256
"""So many of a thread's latest entries are looked through for the turn under way."""


class _Question(BaseModel):
    """What the model may say: never whose dialog is searched."""

    query: str = Field(
        description="What to look for, in the words that were probably used. "
        "If it has more than 8,000 characters, only the first and last 4,000 are read."
    )


def create_search_tool(
    memory: ConversationMemory,
    *,
    user_id: str | None = None,
    k: int | None = None,
    max_tokens: int | None = None,
    threshold: float | Literal["auto"] | None = None,
    name: str = "search_dialog",
    description: str = _SEARCH,
) -> BaseTool:
    """Return a tool that searches the dialog lines of the run's user.

    The run's config determines whose lines are searched, under `configurable`: all threads of
    `user_id`, or only the thread `thread_id` if there is no user. A graph's context can name the
    user instead. The model cannot change this. The thread's current turn is left out, because the
    model already sees it.

    The content is for the model: verbatim lines, fenced and marked as data. The artifact contains
    the same as plain values, one dict per block of neighbouring lines, best first: its `text`, and
    the metadata of a retriever's `Document`. If the settings keep a relevance buffer, the result is
    added to the thread's buffer, and the tool shows the whole buffer, latest result first.
    Thread-safe.

    Args:
        memory: The memory to use; the caller closes it.
        user_id: Search the lines of this user, whatever the config contains.
        k: Number of blocks; with `max_tokens`, the maximum.
        max_tokens: Token budget; None means 1,000 unless `k` is set.
        threshold: Leave out lines whose cosine similarity does not exceed this; "auto" finds
            nothing if the question is related to no line.
        name: The tool's name.
        description: The tool's description for the model.

    Raises:
        ConfigError: If an argument is invalid; when called, if the config names neither a user nor
            a thread.
    """
    turn_memory = get_turn_memory(memory)
    check_limits(k, max_tokens, threshold)
    if user_id is not None:
        user_id = ThreadKey(user_id, "-").user_id
    if k is None and max_tokens is None:
        max_tokens = 1000

    def search(config: RunnableConfig, query: str) -> tuple[str, Any]:
        thread_id, user = read_ids(config.get("configurable", {}))
        user = user if user_id is None else user_id
        if user is None and thread_id is None:
            refuse_unnamed_run("search_dialog does not know whose lines to search")
        if not query.strip():
            return "The query is blank; say what to look for.", []
        asking = None if thread_id is None else ThreadKey(user, thread_id)
        found = turn_memory.line_recall.recall(
            Owner(user_id=user) if asking is None else asking.owner,
            query,
            exclude={asking: _find_open_turn(memory, asking)} if asking else {},
            buffer=asking,
            k=k,
            max_tokens=max_tokens,
            threshold=threshold,
        )
        blocks, _, text = fit_blocks(found)
        shown = text or "No earlier lines are relevant."
        return shown, [{"text": block.text, **to_document(block).metadata} for block in blocks]

    return StructuredTool.from_function(
        search,
        name=name,
        description=description,
        args_schema=_Question,
        infer_schema=False,
        response_format="content_and_artifact",
    )


def _find_open_turn(memory: ConversationMemory, key: ThreadKey) -> set[int]:
    """Return the positions of the latest turn, unless it came to its end: then nobody sees it."""
    latest = memory.log.entries(key, last=_LATEST)
    spoken = [one for one in find_live_entries(latest) if one.role in SPOKEN]
    is_over = not spoken or (
        spoken[-1].role == "assistant" and not getattr(spoken[-1].message, "tool_calls", None)
    )
    return {one.position for one in latest if not is_over and one.turn_id == spoken[-1].turn_id}
