"""`convmem reindex`."""

from __future__ import annotations

import argparse

from langchain_convmem.cli.database import existing_memory
from langchain_convmem.cli.models import choose_embeddings
from langchain_convmem.cli.terminal import Terminal

__all__ = ["run"]


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Embed lines anew; exit with 1 where some are left, which another call goes on with."""
    embeddings = choose_embeddings(arguments.embeddings)
    user = None if arguments.everybody else arguments.user
    with existing_memory(arguments.db, embeddings) as memory, terminal.progress() as stage:
        problems = memory.reindex(
            user_id=user, all_users=arguments.everybody, progress=stage("embedding")
        )
    for problem in problems:
        terminal.note(problem)
    if problems:
        return 1
    whose = "everybody" if user is None else f"user {user!r}"
    terminal.line(
        f"every line of {whose} is embedded by {arguments.embeddings or 'the embedded embedder'}"
    )
    return 0
