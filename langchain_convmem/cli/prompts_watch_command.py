"""`convmem prompts watch`."""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from langchain_convmem.cli.prompts_reading import finding_lines, read_prompt, verdict
from langchain_convmem.cli.terminal import Terminal

__all__ = ["run", "watch"]

_State: TypeAlias = tuple[int, int, int] | None


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Check the files now and after each change, until Ctrl-C."""
    watch(arguments.files, arguments.functions, terminal, _ticks(arguments.interval))
    return 0


def _ticks(interval_s: float) -> Iterator[None]:
    while True:
        time.sleep(interval_s)
        yield


def watch(
    paths: Sequence[str], declared: Sequence[str], terminal: Terminal, ticks: Iterable[None]
) -> None:
    """Check each file at the start, and at every tick those that changed since.

    Args:
        paths: The files; one may come and go.
        declared: Functions, as `NAME` or `NAME=VALUE`.
        terminal: Gets the findings.
        ticks: Ends the watch when it ends.
    """
    known: dict[str, _State] = {}
    for _ in itertools.chain([None], ticks):
        for path in paths:
            state = _state(Path(path))
            if path in known and known[path] == state:
                continue
            known[path] = state
            findings = read_prompt(path, declared).findings
            terminal.lines(finding_lines(findings))
            terminal.line(verdict(path, findings))


def _state(path: Path) -> _State:
    """Return what changes whenever the file is written or replaced; None without a file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
