"""What the chat of an agent takes on disk: checkpoints and log, with our middleware and without.

    python -m benchmarks.agent_storage [--turns 200] [--tool-every 3] [--json]

One chat, the same for all: an agent made with `create_agent` and a `SqliteSaver`; a scripted model
calls a tool every few turns. Questions, results and answers have 40 to 400 characters. Sizes are
those of the SQLite files with the write-ahead log folded in, after a quarter, half and all of the
turns. Files are in a temporary folder that is removed.

Systems:
    plain state     the agent alone: its messages live in the checkpoints
    convmem, all    with `ConversationMemoryMiddleware(memory)`, which leaves the state as it is
    convmem, turn   with `ConversationMemoryMiddleware(memory, keep_state="turn")`: the state holds
                    the turn under way, and the log holds the thread

Figures:
    checkpoints     bytes of the checkpointer's file
    log             bytes of the memory's file: every message verbatim, terms and vectors of recall
    twice           all bytes : all bytes after half of the turns; 2 is growth with the chat, 4 with
                    the square of it
    said            bytes of what was said: the text of all messages, in UTF-8

At the end the checkpoints of `plain state` are imported into a memory of their own
(`memory.import_file`), and each message of the log is compared with that of the state, field by
field:
    imported        messages, and how many differ: must be none
    shrunk          bytes of the checkpoints : bytes of that memory, indexed
"""

# ruff: noqa: ARG002 - LangChain names what its models are called with

from __future__ import annotations

import json
import platform
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver

from benchmarks.log.dialogue import Exchange, exchange
from benchmarks.log.measuring import progress
from benchmarks.log.stores import file_bytes
from benchmarks.scripted_model import InstantModel
from benchmarks.terminal import make_parser
from langchain_convmem import ConversationMemory
from langchain_convmem.integrations import ConversationMemoryMiddleware

KeepState = Literal["all", "turn"]

SYSTEMS: dict[str, KeepState | None] = {
    "plain state": None,
    "convmem, all": "all",
    "convmem, turn": "turn",
}
"""What each keeps in the state; None is an agent without a memory."""

_HERE: RunnableConfig = {"configurable": {"thread_id": "chat", "user_id": "ana"}}
_FOUND = 250
"""What a tool finds in a turn is what is answered in another one, so many turns on."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code."""
    parser = make_parser("benchmarks.agent_storage", __doc__)
    parser.add_argument("--turns", type=int, default=200, help="a multiple of four")
    parser.add_argument("--tool-every", type=int, default=3, help="one turn in so many has a call")
    options = parser.parse_args(arguments)
    if options.turns < 4 or options.turns % 4:
        parser.error(f"--turns must be a multiple of four, got {options.turns}")
    if options.tool_every < 1:
        parser.error(f"--tool-every must be at least 1, got {options.tool_every}")
    report = measured(options.turns, options.tool_every)
    print(json.dumps(report, indent=2) if options.json else table(report))
    return 1 if report["imported"]["differing"] else 0


# -- the chat --------------------------------------------------------------------------------


@tool
def look_up(number: int) -> str:
    """Return what is known of a matter."""
    return _found(number)


def _found(number: int) -> str:
    return exchange(number + _FOUND).answer


class _ScriptedModel(InstantModel):
    """Says what it was given to say, one message a call."""

    replies: Any

    def answer(self, messages: Sequence[BaseMessage]) -> AIMessage:
        said: AIMessage = next(self.replies)
        return said


def _replies(turns: int, tool_every: int) -> Iterator[AIMessage]:
    for number in range(turns):
        said = exchange(number)
        if _has_call(number, tool_every):
            yield _call(said)
        yield said.reply()


def _has_call(number: int, tool_every: int) -> bool:
    return number % tool_every == tool_every - 1


def _call(said: Exchange) -> AIMessage:
    made = {
        "name": look_up.name,
        "args": {"number": said.number},
        "id": f"call_{said.number:024}",
        "type": "tool_call",
    }
    reply = said.reply()
    return reply.model_copy(update={"id": f"{reply.id}-0", "content": "", "tool_calls": [made]})


def _said_bytes(turns: int, tool_every: int) -> int:
    texts = []
    for number in range(turns):
        said = exchange(number)
        found = [_found(number)] if _has_call(number, tool_every) else []
        texts += [said.question, *found, said.answer]
    return sum(len(text.encode()) for text in texts)


# -- measuring -------------------------------------------------------------------------------


def measured(turns: int, tool_every: int) -> dict[str, Any]:
    """Return the sizes of every system's files as plain JSON."""
    marks = [turns // 4, turns // 2, turns]
    rows = []
    with tempfile.TemporaryDirectory(prefix="benchmark-agent-storage-") as folder:
        for name, keep_state in SYSTEMS.items():
            place = Path(folder) / name
            place.mkdir()
            progress(f"{name}: {turns} turns")
            rows += [
                {"system": name, **sizes}
                for sizes in _chatted(place, keep_state, marks, tool_every)
            ]
        imported = _imported(Path(folder) / "plain state")
    return {
        "python": platform.python_version(),
        "langchain": version("langchain"),
        "langgraph": version("langgraph"),
        "langgraph_checkpoint_sqlite": version("langgraph-checkpoint-sqlite"),
        "turns": marks,
        "tool_every": tool_every,
        "said": {str(mark): _said_bytes(mark, tool_every) for mark in marks},
        "bytes": rows,
        "twice": {
            name: round(_total(rows, name, 2) / _total(rows, name, 1), 2) for name in SYSTEMS
        },
        "imported": imported,
        "plain_to_convmem_turn": round(
            _total(rows, "plain state", 2) / _total(rows, "convmem, turn", 2), 1
        ),
    }


def _chatted(
    folder: Path, keep_state: KeepState | None, marks: Sequence[int], tool_every: int
) -> Iterator[dict[str, int]]:
    """Chat, and yield the sizes of the files after each mark."""
    checkpoints, log = folder / "checkpoints.db", folder / "memory.db"
    model = _ScriptedModel(replies=_replies(marks[-1], tool_every))
    with (
        closing(ConversationMemory.open(log)) as memory,
        SqliteSaver.from_conn_string(str(checkpoints)) as saver,
    ):
        own = [] if keep_state is None else [_middleware(memory, keep_state)]
        agent = create_agent(model, [look_up], middleware=own, checkpointer=saver)
        for number in range(marks[-1]):
            agent.invoke({"messages": [exchange(number).user()]}, _HERE)
            if number + 1 in marks:
                sizes = (file_bytes(checkpoints), file_bytes(log) if own else 0)
                yield {
                    "turns": number + 1,
                    "checkpoints": sizes[0],
                    "log": sizes[1],
                    "total": sum(sizes),
                }


def _imported(folder: Path) -> dict[str, Any]:
    """Import the checkpoints of a chat, and compare what the log has with what the state had."""
    checkpoints, log = folder / "checkpoints.db", folder / "imported.db"
    with SqliteSaver.from_conn_string(str(checkpoints)) as saver:
        state = saver.get_tuple(_HERE)
        kept: list[BaseMessage] = state.checkpoint["channel_values"]["messages"] if state else []
    with closing(ConversationMemory.open(log)) as memory:
        report = memory.import_file(checkpoints, user_id="ana")
        memory.refresh(user_id="ana")
        [thread] = report.thread_ids
        entries = memory.history(thread, user_id="ana").entries
    stored = [entry.message for entry in entries]
    pairs = zip(kept, stored, strict=False)
    differing = sum(one != other for one, other in pairs) + abs(len(kept) - len(stored))
    sizes = file_bytes(checkpoints), file_bytes(log)
    return {
        "messages": len(kept),
        "differing": differing,
        "checkpoints": sizes[0],
        "log": sizes[1],
        "shrunk": round(sizes[0] / sizes[1], 1),
    }


def _middleware(memory: ConversationMemory, keep_state: KeepState) -> ConversationMemoryMiddleware:
    return ConversationMemoryMiddleware(memory, keep_state=keep_state)


def _total(rows: Sequence[dict[str, Any]], name: str, mark: int) -> int:
    totals: list[int] = [row["total"] for row in rows if row["system"] == name]
    return totals[mark]


# -- printing --------------------------------------------------------------------------------


def table(report: dict[str, Any]) -> str:
    """Return the report as text, sizes in KiB."""
    marks = report["turns"]
    head = (
        f"Python {report['python']}, langchain {report['langchain']}, langgraph "
        f"{report['langgraph']}, langgraph-checkpoint-sqlite "
        f"{report['langgraph_checkpoint_sqlite']}; a call every {report['tool_every']} turns"
    )
    lines = [head, "", _line("KiB after turns", [f"{mark:,}" for mark in marks])]
    lines.append(_line("  said", [_kib(size) for size in report["said"].values()]))
    for name in SYSTEMS:
        own = [row for row in report["bytes"] if row["system"] == name]
        lines += [
            _line(f"  {name}: {part}", [_kib(row[part]) for row in own])
            for part in ("checkpoints", "log")
            if any(row[part] for row in own)
        ]
    lines += ["", _line("twice the turns, times the bytes", [])]
    lines += [_line(f"  {name}", [f"{times:.2f}"]) for name, times in report["twice"].items()]
    lines += ["", f"plain state : convmem, turn = {report['plain_to_convmem_turn']:.1f}"]
    found = report["imported"]
    compared = f"{found['messages']} messages, {found['differing']} differ"
    sizes = f"{_kib(found['checkpoints'])} KiB of checkpoints became {_kib(found['log'])} KiB"
    lines += ["", f"imported: {compared}; {sizes}, {found['shrunk']:.1f} times less"]
    return "\n".join(lines)


def _line(first: str, cells: Sequence[str]) -> str:
    return (f"{first:<36}" + "".join(f"{cell:>12}" for cell in cells)).rstrip()


def _kib(size: int) -> str:
    return f"{size / 1024:,.0f}"


if __name__ == "__main__":
    raise SystemExit(main())
