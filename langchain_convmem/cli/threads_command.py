"""`convmem threads`."""

from __future__ import annotations

import argparse

from langchain_convmem.cli.database import existing_memory
from langchain_convmem.cli.rendering import threads_data, threads_lines
from langchain_convmem.cli.terminal import Terminal

__all__ = ["run"]


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Print the user's threads, latest first."""
    with existing_memory(arguments.db) as memory:
        threads = memory.threads(user_id=arguments.user)
    if arguments.json:
        terminal.data(threads_data(threads))
    else:
        terminal.lines(threads_lines(threads))
    return 0
