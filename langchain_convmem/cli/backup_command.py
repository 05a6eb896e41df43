"""`convmem backup`."""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path

from langchain_convmem.cli.log_files import existing_file
from langchain_convmem.cli.terminal import Terminal

__all__ = ["run"]


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Copy the file, whole or not at all."""
    target = Path(arguments.target)
    with closing(existing_file(arguments.database)) as log, terminal.progress() as stage:
        log.backup(target, progress=stage("copying"))
    terminal.line(f"{arguments.target}: {target.stat().st_size} bytes")
    return 0
