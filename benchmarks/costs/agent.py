"""What the chat of an agent takes on disk: checkpoints and log, with our middleware and without.

One chat, the same for all: an agent made with `create_agent` and a `SqliteSaver`; a scripted model
calls a tool every third turn. Questions, results and answers have 40 to 400 characters. Sizes are
those of the SQLite files with the write-ahead log folded in, after a quarter, half and all of the
turns.

Systems:
    plain state     the agent alone: its messages live in the checkpoints
    convmem, all    with `ConversationMemoryMiddleware(memory)`, which leaves the state as it is
    convmem, turn   with `ConversationMemoryMiddleware(memory, keep_state="turn")`: the state holds
                    the turn under way, and the log holds the thread

Figures:
    checkpoints     KiB of the checkpointer's file
    log             KiB of the memory's file: every message verbatim, terms and vectors of recall
    twice           all bytes : all bytes after half of the turns; 2 is growth with the chat, 4 with
                    the square of it
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver

from benchmarks import ui
from benchmarks.log.dialogue import exchange
from benchmarks.log.stores import file_bytes
from benchmarks.scripted_model import AnsweringModel
from langchain_convmem import ConversationMemory
from langchain_convmem.integrations import ConversationMemoryMiddleware

SYSTEMS: dict[str, Any] = {"plain state": None, "convmem, all": "all", "convmem, turn": "turn"}
"""What each keeps in the state; None is an agent without a memory."""

_HERE: RunnableConfig = {"configurable": {"thread_id": "chat", "user_id": "ana"}}
_TOOL_EVERY = 3
_FOUND = 250
"""What a tool finds in a turn is what is answered in another one, so many turns on."""


@tool
def look_up(number: int) -> str:
    """Return what is known of a matter."""
    return exchange(number + _FOUND).answer


def _script(turns: int) -> Iterator[AIMessage]:
    """Yield what the model says, one message a call."""
    for number in range(turns):
        reply = exchange(number).reply()
        if number % _TOOL_EVERY == _TOOL_EVERY - 1:
            call = {"name": look_up.name, "args": {"number": number}, "id": f"call_{number:024}"}
            calls = [{**call, "type": "tool_call"}]
            made = {"id": f"{reply.id}-0", "content": "", "tool_calls": calls}
            yield reply.model_copy(update=made)
        yield reply


def measure(turns: int) -> dict[str, dict[str, Any]]:
    """Return the sizes of every system's files as plain JSON."""
    rows: dict[str, dict[str, Any]] = {}
    for name, keep_state in SYSTEMS.items():
        ui.show_progress(f"an agent, {name}: {turns} turns")
        with tempfile.TemporaryDirectory(prefix="benchmark-costs-") as folder:
            sizes = list(_chat(Path(folder), keep_state, (turns // 4, turns // 2, turns)))
        kib = {part: [round(one[part] / 1024) for one in sizes] for part in sizes[0]}
        twice = sum(sizes[2].values()) / sum(sizes[1].values())
        rows[name] = {**kib, "twice": round(twice, 2)}
    return rows


def _chat(folder: Path, keep_state: Any, marks: Sequence[int]) -> Iterator[dict[str, int]]:
    """Chat, and yield the sizes of the files after each mark."""
    checkpoints, log = folder / "checkpoints.db", folder / "memory.db"
    script = _script(marks[-1])
    model = AnsweringModel(reply=lambda _: next(script))
    with (
        closing(ConversationMemory.open(log)) as memory,
        SqliteSaver.from_conn_string(str(checkpoints)) as saver,
    ):
        own = ConversationMemoryMiddleware(memory, keep_state=keep_state) if keep_state else None
        middleware = [] if own is None else [own]
        agent = create_agent(model, [look_up], middleware=middleware, checkpointer=saver)
        for number in range(marks[-1]):
            agent.invoke({"messages": [exchange(number).user()]}, _HERE)
            if number + 1 in marks:
                yield {
                    "checkpoints": file_bytes(checkpoints),
                    "log": 0 if own is None else file_bytes(log),
                }
