"""`convmem import`: every file is checked before the first line is written."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from langchain_convmem.cli.database import memory_at
from langchain_convmem.cli.terminal import Terminal
from langchain_convmem.errors import ConfigError
from langchain_convmem.memory import ConversationMemory
from langchain_convmem.moving import ImportedFile, read_files, store_thread
from langchain_convmem.records import Owner

__all__ = ["run"]


@dataclass(frozen=True, slots=True)
class _Stored:
    """A file that is in the log now, and how many of its lines had not been there before."""

    file: ImportedFile
    new: int

    def sentence(self) -> str:
        threads = self.file.threads
        lines = sum(len(thread) for thread in threads)
        sessions = sum(thread.sessions for thread in threads)
        branches = sum(thread.branch_of is not None for thread in threads)
        where = f"thread {threads[0].thread_id}" if len(threads) == 1 else f"{len(threads)} threads"
        if branches:
            where += f", {branches} of them branches"
        return f"{self.file.path}: {lines} lines, {self.new} new, {sessions} sessions, {where}"


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Import the files and make them ready to be recalled."""
    if arguments.thread is not None and len(arguments.files) > 1:
        msg = f"--thread names one dialogue, but there are {len(arguments.files)} files"
        raise ConfigError(msg)
    with terminal.progress() as stage:
        paths = [Path(name) for name in arguments.files]
        files = read_files(paths, thread_id=arguments.thread, progress=stage("reading"))
        with memory_at(arguments.db) as memory:
            stored = _store(memory, files, arguments.user, stage("writing"))
            owner = Owner(user_id=arguments.user)
            # Not `memory.refresh`, which keeps the problems to itself.
            problems = memory.line_recall.refresh(owner, progress=stage("indexing"))
    for problem in problems:
        terminal.note(problem)
    for item in stored:
        terminal.line(item.sentence())
    return 0


def _store(
    memory: ConversationMemory,
    files: Sequence[ImportedFile],
    user_id: str,
    progress: Callable[[int, int], None],
) -> list[_Stored]:
    total = sum(len(thread) for file in files for thread in file.threads)
    done = 0
    stored = []
    for file in files:
        new = 0
        for thread in file.threads:
            progress(done, total)
            new += store_thread(memory.log, thread, user_id=user_id)
            done += len(thread)
        stored.append(_Stored(file, new))
    progress(total, total)
    return stored
