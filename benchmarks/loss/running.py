"""Every scenario against every system, and what comes of it."""

from __future__ import annotations

import logging
import platform
import sqlite3
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from langchain_core.messages import HumanMessage

from benchmarks.loss import scenarios, tool_scenarios
from benchmarks.loss.judging import KINDS, Happened, Verdict, judged
from benchmarks.loss.models import ScriptedModel
from benchmarks.loss.ours import MemoryAgent, MemoryChain
from benchmarks.loss.peers import Checkpointer, MessageHistory
from benchmarks.loss.processes import turns_at_once_in_processes
from benchmarks.loss.systems import Setup, System, UnsupportedError

__all__ = ["OURS", "SCENARIOS", "SYSTEMS", "measured", "table"]

Scenario = Callable[[System], Happened]

OURS: dict[str, type[System]] = {"convmem": MemoryChain, "convmem-agent": MemoryAgent}
SYSTEMS: dict[str, type[System]] = {
    **OURS,
    "message-history": MessageHistory,
    "checkpointer": Checkpointer,
}
SCENARIOS: dict[str, Scenario] = {
    "failing-log-question": scenarios.failing_write_of_the_question,
    "failing-log-answer": scenarios.failing_write_of_the_answer,
    "provider-error-retry": scenarios.provider_error_then_retry,
    "provider-error-goes-on": scenarios.provider_error_then_another_question,
    "retry-inside": scenarios.retries_inside,
    "fallback-model": scenarios.a_fallback_model,
    "answer-lost-sent-again": scenarios.an_answer_lost_on_the_way,
    "abandoned-stream": scenarios.left_stream,
    "broken-stream": scenarios.stream_that_breaks,
    "cancelled-task": scenarios.cancelled_task,
    "two-turns-threads": scenarios.turns_at_once_in_threads,
    "two-turns-tasks": scenarios.turns_at_once_in_tasks,
    "two-turns-processes": turns_at_once_in_processes,
    "batch": scenarios.a_batch,
    "tool-loop": tool_scenarios.whole_tool_loop,
    "tool-loop-cut-short": tool_scenarios.tool_loop_cut_short,
    "checkpoint-resume": tool_scenarios.tool_loop_resumed_after_a_restart,
    "edit-then-regenerate": scenarios.edited_question,
}

_NOISY = ("langchain_core.callbacks.manager", "asyncio")
"""Where failures end up that nobody is told of; the table says so instead."""


def measured(names: Sequence[str], systems: Sequence[str]) -> dict[str, Any]:
    """Run scenarios against systems, both by name; return what was found as plain JSON."""
    rows = []
    with _quiet():
        for name in names:
            _progress(name)
            found = {system: _tried(SCENARIOS[name], SYSTEMS[system]) for system in systems}
            what = (SCENARIOS[name].__doc__ or "").strip()
            rows.append({"scenario": name, "what": what, "systems": found})
    return {
        "machine": {
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
            "system": f"{sys.platform} {platform.machine()}",
            "langchain-core": version("langchain-core"),
            "langgraph": version("langgraph"),
        },
        "scenarios": rows,
        "totals": {system: _totals(rows, system) for system in systems},
        "bars": [_bar(rows, system) for system in systems if system in OURS],
    }


def _tried(scenario: Scenario, kind: type[System]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="benchmark-loss-") as folder:
        try:
            return _judged(scenario, kind, Path(folder)).as_json()
        except UnsupportedError as error:
            return {"unsupported": str(error)}
        except Exception as error:  # noqa: BLE001 - a system that breaks down is a finding
            traceback.print_exc()
            return {"failed": f"{type(error).__name__}: {error}"}


def _judged(scenario: Scenario, kind: type[System], folder: Path) -> Verdict:
    """Run a scenario; judge what the model gets when the user comes back after a restart."""
    with kind(folder) as system:
        happened = scenario(system)
        system.reopen()
        model = ScriptedModel()
        system.chat(Setup(model)).ask(scenarios.THREAD, HumanMessage("Q9: and now?", id="q9"))
        *before, last = model.seen[-1]
        # What was never answered may be joined with what is asked now, so that roles alternate.
        rest = str(last.text).replace("Q9", "")
        return judged(happened, [*before, last.model_copy(update={"content": rest})])


@contextmanager
def _quiet() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in _NOISY]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text:<40}", end="", file=sys.stderr, flush=True)


# -- reporting -------------------------------------------------------------------------------


def _totals(rows: Sequence[dict[str, Any]], system: str) -> dict[str, int]:
    found = [row["systems"][system] for row in rows]
    return {
        "tried": sum("unsupported" not in one for one in found),
        "clean": sum(not one for one in found),
        **{kind: sum(_count(one.get(kind, 0)) for one in found) for kind in KINDS},
        "failed": sum("failed" in one for one in found),
    }


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int) else len(value)


def _bar(rows: Sequence[dict[str, Any]], system: str) -> dict[str, Any]:
    totals = _totals(rows, system)
    wrong = totals["tried"] - totals["clean"]
    decides = system == MemoryChain.name
    return {
        "what": f"{system}, scenarios with anything wrong" + ("" if decides else " (an aim)"),
        "value": wrong,
        "bound": 0,
        "ok": wrong == 0,
        "decides": decides,
    }


def table(report: dict[str, Any]) -> str:
    """Return the report for people."""
    machine, systems = report["machine"], list(report["totals"])
    rows = [
        (
            f"Python {machine['python']}, SQLite {machine['sqlite']}, {machine['system']}, "
            f"langchain-core {machine['langchain-core']}, langgraph {machine['langgraph']}"
        ),
        "",
        _line("scenario", systems),
    ]
    rows += [
        _line(f"  {row['scenario']}", [_cell(row["systems"][one]) for one in systems])
        for row in report["scenarios"]
    ]
    totals = report["totals"]
    rows += ["", _line("clean of tried", [_clean(totals[one]) for one in systems])]
    for kind in (*KINDS, "failed"):
        rows.append(_line(f"  {kind}", [str(totals[one][kind]) for one in systems]))
    rows += ["", "bars"]
    for bar in report["bars"]:
        verdict = "ok" if bar["ok"] else "FAILED"
        rows.append(f"  {bar['what']:<56}{bar['value']:>4}  at most {bar['bound']:<3} {verdict}")
    return "\n".join(row.rstrip() for row in rows)


def _line(first: str, cells: Sequence[str]) -> str:
    return f"{first:<26}" + "".join(f"{cell:<24}" for cell in cells)


def _clean(totals: dict[str, int]) -> str:
    return f"{totals['clean']} of {totals['tried']}"


def _cell(found: dict[str, Any]) -> str:
    if "unsupported" in found:
        return "-"
    if "failed" in found:
        return "failed"
    parts = [f"{_count(found[kind])} {kind}" for kind in KINDS if kind in found]
    return ", ".join(parts) or "clean"
