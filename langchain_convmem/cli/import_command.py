"""`convmem import`: every file is checked before the first line is written, embedding is last."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from langchain_convmem.cli.database import memory_at
from langchain_convmem.cli.terminal import Terminal
from langchain_convmem.errors import ConfigError
from langchain_convmem.memory import ConversationMemory
from langchain_convmem.moving import ImportedFile, ImportReport, read_files, store_file

__all__ = ["run"]


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Import the files and make them ready to be recalled."""
    if arguments.thread is not None and len(arguments.files) > 1:
        msg = f"--thread names one dialogue, but there are {len(arguments.files)} files"
        raise ConfigError(msg)
    paths = [Path(name) for name in arguments.files]
    with terminal.progress() as stage:
        files = read_files(paths, thread_id=arguments.thread, progress=stage("reading"))
    with memory_at(arguments.db) as memory:
        with terminal.progress() as stage:
            reports = _store(memory, files, arguments.user, stage("writing"))
        for report in reports:
            terminal.line(_sentence(report))
        # Everything is stored and found by its words by now; meaning may take minutes.
        _embed(memory, arguments.user, terminal)
    return 0


def _embed(memory: ConversationMemory, user_id: str, terminal: Terminal) -> None:
    try:
        with terminal.progress() as stage:
            problems = memory.refresh(user_id=user_id, progress=stage("embedding"))
    except KeyboardInterrupt:
        terminal.note(
            "embedding was interrupted: all lines are stored and found by their words; a later "
            "recall, or the same import again, goes on"
        )
        raise
    for problem in problems:
        terminal.note(problem)


def _store(
    memory: ConversationMemory,
    files: Sequence[ImportedFile],
    user_id: str,
    progress: Callable[[int, int], None],
) -> list[ImportReport]:
    total = sum(len(thread) for file in files for thread in file.threads)
    progress(0, total)
    reports: list[ImportReport] = []
    for file in files:
        before = sum(map(len, reports))
        report = store_file(
            memory.log,
            file,
            user_id=user_id,
            drafting=memory.turn_memory.drafting,
            progress=lambda done, _, before=before: progress(before + done, total),  # type: ignore[misc]
        )
        reports.append(report)
    return reports


def _sentence(report: ImportReport) -> str:
    threads = report.thread_ids
    where = f"thread {threads[0]}" if len(threads) == 1 else f"{len(threads)} threads"
    if report.branches:
        where += f", {report.branches} of them branches"
    counts = f"{len(report)} lines, {report.added} new, {report.sessions} sessions"
    return f"{report.path}: {counts}, {where}"
