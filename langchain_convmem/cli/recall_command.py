"""`convmem recall`."""

from __future__ import annotations

import argparse

from langchain_convmem.cli.database import existing_memory, known_thread
from langchain_convmem.cli.rendering import recall_data, recall_lines
from langchain_convmem.cli.terminal import Terminal
from langchain_convmem.records import Owner

__all__ = ["run"]


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Print what was said that fits the question, best first."""
    with existing_memory(arguments.db) as memory:
        within = None
        if arguments.thread is not None:
            within = known_thread(memory, arguments.user, arguments.thread).key
        # Not `memory.recall`: a thread named there is the current one, whose lines are left out.
        found = memory.line_recall.recall(
            Owner(user_id=arguments.user),
            arguments.question,
            within=within,
            max_tokens=arguments.max_tokens,
            k=arguments.k,
        )
    for problem in found.problems:
        terminal.note(problem)
    if arguments.json:
        terminal.data(recall_data(arguments.question, found))
    else:
        terminal.lines(recall_lines(found))
    return 0
