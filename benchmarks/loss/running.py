"""Every scenario against every system, and what comes of it."""

from __future__ import annotations

import logging
import platform
import sqlite3
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from langchain_core.messages import HumanMessage

from benchmarks.loss import scenarios, tool_scenarios
from benchmarks.loss.judging import KINDS, Happened, judged
from benchmarks.loss.models import ScriptedModel
from benchmarks.loss.ours import MemoryAgent, MemoryChain, MemoryConversation, MemoryGraph
from benchmarks.loss.peers import Checkpointer, LangMem, MessageHistory
from benchmarks.loss.processes import turns_at_once_in_processes
from benchmarks.loss.suite import Suite, table_rows, tried
from benchmarks.loss.summaries import judging as summary_judging
from benchmarks.loss.summaries.scenarios import SCENARIOS as SUMMARY_SCENARIOS
from benchmarks.loss.summaries.stage import Stage
from benchmarks.loss.summaries.systems import SYSTEMS as SUMMARISING
from benchmarks.loss.summaries.systems import Summarising
from benchmarks.loss.systems import Setup, System

__all__ = ["SCENARIOS", "SUITES", "SYSTEMS", "measured", "table"]

_OURS: tuple[type[System], ...] = (MemoryChain, MemoryConversation, MemoryGraph, MemoryAgent)
_CHATS: tuple[type[System], ...] = (*_OURS, MessageHistory, Checkpointer, LangMem)
_NOISY = (
    "langchain_core.callbacks.manager",
    "asyncio",
    "langchain_convmem",
    "langgraph.checkpoint.serde.jsonplus",
)
"""Where failures end up that nobody is told of; the table says so instead."""


def _judged_chat(
    scenario: Callable[[System], Happened], kind: type[System], folder: Path
) -> dict[str, Any]:
    """Run a scenario; judge what the model gets when the user comes back after a restart."""
    with kind(folder) as system:
        happened = scenario(system)
        if system.undoes_failed_turns:
            happened = happened.without_failed()
        system.reopen()
        model = ScriptedModel()
        system.chat(Setup(model)).ask(scenarios.THREAD, HumanMessage("Q9: and now?", id="q9"))
        *before, last = model.seen[-1]
        # What was never answered may be joined with what is asked now, so that roles alternate.
        rest = str(last.text).replace("Q9", "")
        return judged(happened, [*before, last.model_copy(update={"content": rest})]).as_json()


def _judged_summary(
    scenario: Callable[[Stage], None], kind: type[Summarising], folder: Path
) -> dict[str, Any]:
    stage = Stage(kind, folder)
    scenario(stage)
    return dict(stage.verdict())


SUITES: dict[str, Suite] = {
    "chats": Suite(
        scenarios={
            "failing-log-question": scenarios.failing_write_of_the_question,
            "failing-log-answer": scenarios.failing_write_of_the_answer,
            "provider-error-retry": scenarios.provider_error_then_retry,
            "retry-without-id": scenarios.provider_error_then_retry_without_id,
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
            "tool-loop-of-caller": tool_scenarios.tool_loop_of_the_caller,
            "calls-without-end": tool_scenarios.stream_of_calls_without_an_end,
            "calls-broken-off": tool_scenarios.stream_of_calls_that_breaks,
            "structured-output": tool_scenarios.structured_output,
            "checkpoint-resume": tool_scenarios.tool_loop_resumed_after_a_restart,
            "edit-then-regenerate": scenarios.edited_question,
            "whole-chat-sent": scenarios.whole_chat_sent,
            "whole-chat-with-ids": scenarios.whole_chat_sent_with_ids,
        },
        systems={kind.name: kind for kind in _CHATS},
        ours={kind.name for kind in _OURS},
        kinds=KINDS,
        judge=_judged_chat,
    ),
    "summaries": Suite(
        scenarios=dict(SUMMARY_SCENARIOS),
        systems=SUMMARISING,
        ours={"convmem", "convmem-step"},
        kinds=summary_judging.KINDS,
        judge=_judged_summary,
        sums=("evicted", "read"),
    ),
}
SCENARIOS = [name for suite in SUITES.values() for name in suite.scenarios]
SYSTEMS = list(dict.fromkeys(name for suite in SUITES.values() for name in suite.systems))


def measured(names: Sequence[str], systems: Sequence[str]) -> dict[str, Any]:
    """Run scenarios against systems, both by name; return what was found as plain JSON."""
    report: dict[str, Any] = {
        "machine": {
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
            "system": f"{sys.platform} {platform.machine()}",
            **{
                package: _version(package)
                for package in ("langchain-core", "langchain", "langgraph", "langmem")
            },
        },
    }
    with _quiet():
        for title, suite in SUITES.items():
            chosen = [name for name in names if name in suite.scenarios]
            able = [name for name in suite.systems if name in systems]
            if chosen and able:
                report[title] = tried(suite, chosen, able)
    report["bars"] = [bar for title in SUITES for bar in report.get(title, {"bars": ()})["bars"]]
    return report


def _version(package: str) -> str:
    """Return what is installed; a part of the systems can be tried without the rest."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "-"


@contextmanager
def _quiet() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in _NOISY]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            # langmem warns where it cannot trim, and where it is imported.
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def table(report: dict[str, Any]) -> str:
    """Return the report for people."""
    machine = report["machine"]
    rows = [
        (
            f"Python {machine['python']}, SQLite {machine['sqlite']}, {machine['system']}, "
            f"langchain-core {machine['langchain-core']}, langchain {machine['langchain']}, "
            f"langgraph {machine['langgraph']}, langmem {machine['langmem']}"
        )
    ]
    for title, suite in SUITES.items():
        if title in report:
            rows += ["", title, *table_rows(suite, report[title])]
    return "\n".join(rows)
