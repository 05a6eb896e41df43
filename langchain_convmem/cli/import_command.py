"""`convmem import`: every file is checked before the first line is written."""

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
    with terminal.progress() as stage:
        paths = [Path(name) for name in arguments.files]
        files = read_files(paths, thread_id=arguments.thread, progress=stage("reading"))
        with memory_at(arguments.db) as memory:
            reports = _store(memory, files, arguments.user, stage("writing"))
            problems = memory.refresh(user_id=arguments.user, progress=stage("indexing"))
    for problem in problems:
        terminal.note(problem)
    for report in reports:
        terminal.line(_sentence(report))
    return 0


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
            drafting=memory.drafting,
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
