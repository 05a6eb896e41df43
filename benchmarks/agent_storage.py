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
_FOUND = 250
"""What a tool finds in a turn is what is answered in another one, so many turns on."""


@tool
def look_up(number: int) -> str:
    """Return what is known of a matter."""
    return exchange(number + _FOUND).answer


def _script(turns: int, tool_every: int) -> Iterator[AIMessage]:
    """Yield what the model says, one message a call."""
    for number in range(turns):
        reply = exchange(number).reply()
        if number % tool_every == tool_every - 1:
            call = {"name": look_up.name, "args": {"number": number}, "id": f"call_{number:024}"}
            calls = [{**call, "type": "tool_call"}]
            made = {"id": f"{reply.id}-0", "content": "", "tool_calls": calls}
            yield reply.model_copy(update=made)
        yield reply


def measure(turns: int, tool_every: int) -> dict[str, Any]:
    """Return the sizes of every system's files as plain JSON."""
    marks = [turns // 4, turns // 2, turns]
    rows: dict[str, list[dict[str, int]]] = {}
    with tempfile.TemporaryDirectory(prefix="benchmark-agent-storage-") as folder:
        for name, keep_state in SYSTEMS.items():
            ui.show_progress(f"{name}: {turns} turns")
            place = Path(folder) / name
            place.mkdir()
            rows[name] = list(_chat(place, keep_state, marks, tool_every))
    totals = {name: [sum(one.values()) for one in own] for name, own in rows.items()}
    return {
        "machine": ui.describe_machine("langchain", "langgraph", "langgraph-checkpoint-sqlite"),
        "turns": marks,
        "tool_every": tool_every,
        "bytes": rows,
        "twice": {name: round(own[2] / own[1], 2) for name, own in totals.items()},
        "plain_to_convmem_turn": round(totals["plain state"][2] / totals["convmem, turn"][2], 1),
    }


def _chat(
    folder: Path, keep_state: Any, marks: Sequence[int], tool_every: int
) -> Iterator[dict[str, int]]:
    """Chat, and yield the sizes of the files after each mark."""
    checkpoints, log = folder / "checkpoints.db", folder / "memory.db"
    script = _script(marks[-1], tool_every)
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


def make_table(report: dict[str, Any]) -> list[str]:
    """Return the report as text, sizes in KiB."""
    rows = [("KiB after turns", *report["turns"])]
    for name, own in report["bytes"].items():
        rows += [
            (f"  {name}: {part}", *(f"{one[part] / 1024:,.0f}" for one in own))
            for part in ("checkpoints", "log")
            if own[0][part]
        ]
    rows.append(("twice the turns, times the bytes",))
    rows += [(f"  {name}", times) for name, times in report["twice"].items()]
    head = f"{ui.format_machine(report['machine'])}; a call every {report['tool_every']} turns"
    return [
        *(head, "", *ui.format_rows(rows, 9), ""),
        f"plain state : convmem, turn = {report['plain_to_convmem_turn']:.1f}",
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code."""
    parser = ui.make_parser("benchmarks.agent_storage", __doc__)
    parser.add_argument("--turns", type=int, default=200, help="a multiple of four")
    parser.add_argument(
        "--tool-every", type=ui.parse_positive, default=3, help="one turn in so many has a call"
    )
    options = parser.parse_args(arguments)
    if options.turns < 4 or options.turns % 4:
        parser.error(f"--turns must be a multiple of four, got {options.turns}")
    report = measure(options.turns, options.tool_every)
    return ui.print_report(report, make_table, as_json=options.json)


if __name__ == "__main__":
    raise SystemExit(main())
