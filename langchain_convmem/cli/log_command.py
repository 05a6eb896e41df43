"""`convmem log`."""

from __future__ import annotations

import argparse

from langchain_convmem.cli.database import existing_memory, known_thread
from langchain_convmem.cli.rendering import log_data, log_lines
from langchain_convmem.cli.terminal import Terminal

__all__ = ["run"]


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Print the entries of a thread."""
    with existing_memory(arguments.db) as memory:
        known_thread(memory, arguments.user, arguments.thread)
        entries = memory.history(arguments.thread, user_id=arguments.user).entries
    if arguments.json:
        terminal.data(log_data(entries))
    else:
        terminal.lines(log_lines(entries))
    return 0
