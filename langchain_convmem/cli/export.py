"""`convmem export`: a user's conversations as lines for programs, or as one page for people."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from langchain_convmem.cli.options import (
    command,
    find_thread,
    memory_options,
    open_memory,
    refuse_usage,
    require_web,
    thread_options,
)
from langchain_convmem.cli.output import Terminal, format_count, write_rows
from langchain_convmem.errors import ConfigError

if TYPE_CHECKING:
    from langchain_convmem.memory import ConversationMemory

_PRINTED = "-"


@command(
    "export",
    "convmem export --user ana -o ana.jsonl",
    "convmem export garden -o - | wc -l",
    "convmem export --html -o report.html",
    "convmem export garden --html --redact -o bug.html",
    prints=False,
)
@memory_options
@thread_options("This thread only, by its id or title.")
@click.option("--html", is_flag=True, help="Write one HTML page instead.")
@click.option("--redact", is_flag=True, help="Leave all texts, names and ids out of the page.")
@click.option(
    "-o",
    "--out",
    metavar="FILE",
    type=click.Path(),
    required=True,
    help="The file to write; - for standard output.",
)
def export(
    terminal: Terminal,
    *,
    db: str,
    user: str,
    thread: str | None,
    html: bool,
    redact: bool,
    out: str,
) -> int:
    """Write conversations as JSON lines or as one HTML page.

    Exports all threads of a user, or one. Each line is an entry with its metadata; `convmem import`
    reads the file back without loss. With --html, the page shows the messages, the summaries, and
    what was recalled for each reply and why; it needs no server, script or network. The file is
    written completely or not at all, and only you can read it.
    """
    from langchain_convmem.logs.addresses import log_name
    from langchain_convmem.records import Owner
    from langchain_convmem.transfer import export_rows

    if redact and not html:
        refuse_usage("--redact requires --html")
    if html:
        require_web("convmem export --html")
    with open_memory(db) as memory:
        if thread is None and not memory.log.threads(user):
            raise ConfigError(f"user {user!r} has no messages in {log_name(db)}")
        name = None if thread is None else find_thread(memory.log, user, thread).key.thread_id
        rows = export_rows(memory.log, Owner(user_id=user), thread_id=name)
        if html:
            rows = _read_report(memory, user, name, redact=redact)
        if out == _PRINTED:
            terminal.print_rows(rows)  # as they are, with --json and without
            return 0
        count = write_rows(Path(out), rows)
    size = Path(out).stat().st_size
    counts = {"bytes": size, "redacted": redact} if html else {"lines": count}
    said = f"{size / 1000:,.0f} kB" if html else format_count(count, "line")
    return terminal.print_result({"path": out, **counts}, [f"{out}: {said}"])


def _read_report(
    memory: ConversationMemory, user: str, thread: str | None, *, redact: bool
) -> Iterator[str]:
    """Yield the lines of the report, of which no more than a thread is held."""
    from langchain_convmem.web.report import stream_report

    pieces = stream_report(memory, user, thread_id=thread, redact=redact)

    async def read_next() -> str | None:
        return await anext(pieces, None)

    with asyncio.Runner() as runner:
        while (piece := runner.run(read_next())) is not None:
            yield from piece.splitlines()
