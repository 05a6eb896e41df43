"""`convmem forget`."""

from __future__ import annotations

import argparse

from langchain_convmem.cli.database import existing_memory, known_thread
from langchain_convmem.cli.rendering import receipt_line
from langchain_convmem.cli.terminal import Terminal
from langchain_convmem.errors import ConfigError
from langchain_convmem.memory import ConversationMemory

__all__ = ["run"]


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Erase for good, after asking; exit with 1 when the answer was no."""
    with existing_memory(arguments.db) as memory:
        scope = _scope(memory, arguments)
        if not arguments.yes and not _agreed(terminal, scope):
            terminal.note("nothing was erased")
            return 1
        receipt = memory.forget(user_id=arguments.user, thread_id=arguments.thread)
    terminal.line(receipt_line(receipt))
    return 0


def _scope(memory: ConversationMemory, arguments: argparse.Namespace) -> str:
    """Return in words what will be erased."""
    if arguments.thread is not None:
        thread = known_thread(memory, arguments.user, arguments.thread)
        return f"thread {arguments.thread!r} of user {arguments.user!r}, {thread.entries} entries"
    threads = memory.threads(user_id=arguments.user)
    return f"all {len(threads)} threads of user {arguments.user!r}"


def _agreed(terminal: Terminal, scope: str) -> bool:
    if not terminal.is_interactive:
        msg = f"this would erase {scope}, for good; add --yes to do it without being asked"
        raise ConfigError(msg)
    return terminal.agrees(f"Erase {scope}, for good?")
