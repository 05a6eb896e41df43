"""Commands on what is stored: in and out, found and shown, erased, checked and backed up."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from langchain_convmem.cli.options import (
    LOG,
    CommandGroup,
    command,
    db_option,
    find_latest_thread,
    find_thread,
    is_address,
    open_existing_file,
    open_existing_log,
    open_memory,
    read_signing_key,
    refuse_usage,
    user_option,
)
from langchain_convmem.cli.output import Terminal, format_count
from langchain_convmem.cli.profile import as_of_option
from langchain_convmem.errors import ConfigError, ConvMemError
from langchain_convmem.turns.memory import get_turn_memory

if TYPE_CHECKING:
    from langchain_convmem.memory import ConversationMemory
    from langchain_convmem.message_log import MessageLog
    from langchain_convmem.records import Owner
    from langchain_convmem.transfer import CopyReport, ImportReport
    from langchain_convmem.transfer.imports import ImportedFile


# -- import ---------------------------------------------------------------------------------------

_SHOWN_UNREAD = 20
_LONGEST_AGE = 5
"""Digits of an age in days or hours at most."""


@command(
    "import",
    "convmem import chatgpt-export.zip --user ana",
    "convmem import conversations.json --user ana",
    "convmem import garden.jsonl --thread garden",
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@db_option
@user_option
@click.option("--thread", metavar="ID", help="Name the thread of a single dialogue.")
def import_files(
    terminal: Terminal, *, files: tuple[str, ...], db: str, user: str, thread: str | None
) -> int:
    """Import conversations from exports, stores and other files.

    Reads exports of ChatGPT and Claude as they come, zip, folder or JSON; exports of convmem,
    messages of OpenAI's API, stores of LangChain and LangGraph, and dialogues. The content tells
    the format. All files are checked before anything is written, and importing a file twice adds
    nothing twice. What cannot be read of a zip or folder is left out and named.
    """
    from langchain_convmem.transfer.imports import read_files

    if thread is not None and len(files) > 1:
        raise ConfigError(f"--thread names one dialogue, but there are {len(files)} files")
    with terminal.show_progress() as add_stage:
        paths = [Path(name) for name in files]
        read = read_files(paths, thread_id=thread, progress=add_stage("reading"))
    with open_memory(db, create=True) as memory:
        with terminal.show_progress() as add_stage:
            reports = _store(memory, read, user, add_stage("writing"))
        if not terminal.as_json:
            for report in reports:
                terminal.print_line(_format_import(report))
                for sentence in report.unread[:_SHOWN_UNREAD]:
                    terminal.print_line(f"  not read: {sentence}")
                if len(report.unread) > _SHOWN_UNREAD:
                    more = len(report.unread) - _SHOWN_UNREAD
                    terminal.print_line(f"  and {more} more; --json names all")
        # Everything is stored and found by its words by now; meaning may take minutes.
        problems = _embed(memory, user, terminal)
    if terminal.as_json:
        encoded = [_encode_import(report) for report in reports]
        terminal.print_json({"files": encoded, "problems": list(problems)})
    return 0


def _store(
    memory: ConversationMemory,
    files: Sequence[ImportedFile],
    user_id: str,
    progress: Callable[[int, int], None],
) -> list[ImportReport]:
    from langchain_convmem.transfer.imports import store_file

    total = sum(file.entries for file in files)
    progress(0, total)
    reports: list[ImportReport] = []
    for file in files:
        before = sum(map(len, reports))
        report = store_file(
            memory.log,
            file,
            user_id=user_id,
            drafting=get_turn_memory(memory).drafting,
            progress=lambda done, _, before=before: progress(before + done, total),  # type: ignore[misc]
        )
        reports.append(report)
    return reports


def _embed(memory: ConversationMemory, user_id: str, terminal: Terminal) -> tuple[str, ...]:
    try:
        with terminal.show_progress() as add_stage:
            problems = memory.refresh(user_id=user_id, progress=add_stage("embedding"))
    except KeyboardInterrupt:
        terminal.note(
            "embedding was interrupted: all lines are stored and found by their words; a later "
            "recall, or the same import again, continues from there"
        )
        raise
    for problem in problems:
        terminal.note(problem)
    return problems


def _format_import(report: ImportReport) -> str:
    threads = report.thread_ids
    where = f"thread {threads[0]}" if len(threads) == 1 else f"{len(threads)} threads"
    if report.branches:
        where += f", {report.branches} of them {'a branch' if report.branches == 1 else 'branches'}"
    lines, sessions = format_count(len(report), "line"), format_count(report.sessions, "session")
    counts = f"{lines}, {report.added} new, {sessions}"
    years = _format_years(report) if len(threads) > 1 else ""
    unread = f"; {len(report.unread)} could not be read:" if report.unread else ""
    return f"{report.path}: {counts}, {where}{years}{unread}"


def _format_years(report: ImportReport) -> str:
    """Return from when the lines of a report are, such as `, said from 2019 to 2026`."""
    from langchain_convmem.views.lines import get_moment

    found = (None if at is None else get_moment(at) for at in (report.first_ms, report.last_ms))
    first, last = (None if moment is None else moment.year for moment in found)
    if first is None or last is None:
        return ""
    return f", said in {first}" if first == last else f", said from {first} to {last}"


def _encode_import(report: ImportReport) -> dict[str, Any]:
    data = asdict(report)
    return {
        "path": data.pop("path"),
        "lines": len(report),
        "thread_ids": list(data.pop("thread_ids")),
        "skipped": list(data.pop("skipped")),
        "unread": list(data.pop("unread")),
        "first": _format_time(data.pop("first_ms")),
        "last": _format_time(data.pop("last_ms")),
        **data,
    }


def _format_time(at_ms: int | None) -> str | None:
    from langchain_convmem.cli.rendering import format_millisecond

    return None if at_ms is None else format_millisecond(at_ms)


# -- recall ---------------------------------------------------------------------------------------


@command(
    "recall",
    "convmem recall 'Where did I park?'",
    "convmem recall 'spare key' --user ana -k 3 --json",
)
@click.argument("question", metavar="QUESTION")
@db_option
@user_option
@click.option("--thread", metavar="ID", help="Search this thread only.")
@click.option("-k", "count", metavar="N", type=click.IntRange(min=1), help="At most N blocks.")
@click.option(
    "--max-tokens",
    metavar="N",
    type=click.IntRange(min=1),
    help="At most N tokens of text.  [default: 1000]",
)
@as_of_option
def recall(
    terminal: Terminal,
    *,
    question: str,
    db: str,
    user: str,
    thread: str | None,
    count: int | None,
    max_tokens: int | None,
    as_of: str | None,
) -> int:
    """Find what was said that helps answer a question.

    Prints blocks of lines, best first, with speaker, time, thread and the reasons for each match.
    """
    from langchain_convmem.cli.rendering import encode_recall, format_recall
    from langchain_convmem.logs.as_of import LogBound
    from langchain_convmem.records import Owner

    if count is not None and max_tokens is not None:
        refuse_usage("-k and --max-tokens exclude each other")
    with open_memory(db) as memory:
        past = memory if as_of is None else memory.as_of(as_of)
        within = None if thread is None else find_thread(past, user, thread).key
        # Not `memory.recall`: a thread named there is the current one, whose lines are left out.
        found = get_turn_memory(past).line_recall.recall(
            Owner(user_id=user),
            question,
            within=within,
            max_tokens=max_tokens,
            k=count,
            now_ms=None if as_of is None else LogBound(as_of).time_ms,
        )
    for problem in found.problems:
        terminal.note(problem)
    if terminal.as_json:
        terminal.print_json(encode_recall(question, found))
    else:
        terminal.print_lines(format_recall(found))
    return 0


# -- log and threads ------------------------------------------------------------------------------


@command("log", "convmem log", "convmem log --thread garden --json")
@db_option
@user_option
@click.option("--thread", metavar="ID", help="The thread.  [default: the latest]")
def print_log(terminal: Terminal, *, db: str, user: str, thread: str | None) -> int:
    """Print a thread word for word, including edits."""
    from langchain_convmem.cli.rendering import encode_log, format_log

    with open_memory(db) as memory:
        latest = find_latest_thread if thread is None else partial(find_thread, thread_id=thread)
        entries = memory.history(latest(memory, user).key.thread_id, user_id=user).entries
    if terminal.as_json:
        terminal.print_json(encode_log(entries))
    else:
        terminal.print_lines(format_log(entries))
    return 0


@command("search", "convmem search 'long ladder'", "convmem search invoice --user ana -n 50 --json")
@click.argument("words", metavar="WORDS")
@db_option
@user_option
@click.option(
    "-n",
    "limit",
    metavar="N",
    default=20,
    show_default=True,
    type=click.IntRange(min=1),
    help="At most N lines.",
)
def search(terminal: Terminal, *, words: str, db: str, user: str, limit: int) -> int:
    """Find the lines that hold all of these words.

    Letters are compared without case; the latest lines come first. `recall` finds what helps answer
    a question, in other words as well. Exits with 1 if nothing is found.
    """
    from langchain_convmem.cli.rendering import encode_found_lines, format_found_lines

    with open_memory(db) as memory:
        lines = memory.search(words, user_id=user)
        titles = {info.key.thread_id: info.title for info in memory.threads(user_id=user)}
    if terminal.as_json:
        terminal.print_json(encode_found_lines(lines[:limit], titles))
    else:
        terminal.print_lines(format_found_lines(lines[:limit], titles))
        if len(lines) > limit:
            terminal.note(f"and {len(lines) - limit} more; -n shows more")
    return 0 if lines else 1


@command("threads", "convmem threads --user ana", "convmem threads --db memory.db --json")
@db_option
@user_option
@click.option("--anonymous", is_flag=True, help="Those that belong to no user, instead.")
def list_threads(terminal: Terminal, *, db: str, user: str, anonymous: bool) -> int:
    """List a user's threads, latest first."""
    from langchain_convmem.cli.rendering import encode_threads, format_threads

    with open_memory(db) as memory:
        threads = memory.threads(user_id=None if anonymous else user)
    if terminal.as_json:
        terminal.print_json(encode_threads(threads))
    else:
        terminal.print_lines(format_threads(threads))
    return 0


# -- export ---------------------------------------------------------------------------------------

_PRINTED = "-"


@command(
    "export",
    "convmem export --user ana --out ana.jsonl",
    "convmem export --thread garden --out - | wc -l",
)
@db_option
@user_option
@click.option("--thread", metavar="ID", help="This thread only.")
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(),
    required=True,
    help="The file to write; - for standard output.",
)
def export(terminal: Terminal, *, db: str, user: str, thread: str | None, out: str) -> int:
    """Write a user's conversations, or one thread, as JSON lines.

    Each line is one entry with its metadata; `convmem import` reads the file back without loss. The
    file is written whole or not at all, and only you may read it.
    """
    from langchain_convmem.records import Owner
    from langchain_convmem.transfer import export_rows

    with closing(open_existing_log(db)) as log:
        known = {info.key.thread_id for info in log.threads(user)}
        if not known or thread not in (None, *known):
            what = "nothing" if thread is None else f"no thread {thread!r}"
            raise ConfigError(f"there is {what} of user {user!r} in {_name_log(db)}")
        rows = export_rows(log, Owner(user_id=user), thread_id=thread)
        if out == _PRINTED:
            terminal.print_rows(rows)  # lines of JSON, with --json and without
            return 0
        count = write_rows(Path(out), rows)
    if terminal.as_json:
        terminal.print_json({"path": out, "entries": count})
    else:
        terminal.print_line(f"{out}: {_count_entries(count)}")
    return 0


def _name_log(db: str) -> str:
    from langchain_convmem.logs.addresses import log_name

    return log_name(db)


def write_rows(path: Path, rows: Iterable[str]) -> int:
    """Write the file whole or not at all; only its owner may read it.

    Raises:
        ConfigError: If it cannot be written.
    """
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise _describe_failure(path, error) from error
    unfinished = Path(name)
    try:
        count = 0
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            for row in rows:
                file.write(f"{row}\n")
                count += 1
        unfinished.replace(path)
    except OSError as error:
        if isinstance(error, ConvMemError):
            raise
        raise _describe_failure(path, error) from error
    finally:
        unfinished.unlink(missing_ok=True)
    return count


def _describe_failure(path: Path, error: OSError) -> ConfigError:
    return ConfigError(f"{path} cannot be written: {error.strerror or error}")


# -- copy -----------------------------------------------------------------------------------------


@command(
    "copy",
    "convmem copy --from memory.db --to 'postgresql://app@db.example.org/chats?schema=convmem'",
    "convmem copy --from memory.db --to 'dynamodb://chat-log?region=eu-west-1' --user ana",
)
@click.option("--from", "source", type=LOG, metavar="LOG", required=True, help="The log to copy.")
@click.option(
    "--to", "target", type=LOG, metavar="LOG", required=True, help="The log to copy into."
)
@click.option(
    "--user",
    "users",
    metavar="ID",
    multiple=True,
    help="Copy this user only; may be repeated.  [default: all users]",
)
def copy(terminal: Terminal, *, source: str, target: str, users: tuple[str, ...]) -> int:
    """Copy a log into another.

    A LOG is what --db takes in other commands: a file or an address. Entries that are already there
    are skipped, and an interrupted copy continues where it stopped. What is damaged in the source
    is named and left out. Exits with 1 if there is any, or if the target holds less than the source
    in the end.
    """
    from langchain_convmem.logs.addresses import open_log
    from langchain_convmem.transfer import copy_log

    source_name, target_name = _name_log(source), _name_log(target)
    if source_name == target_name:
        raise ConfigError(f"{source_name} cannot be copied into itself")
    with (
        closing(open_existing_log(source)) as source_log,
        closing(open_log(target, signing_key=read_signing_key())) as target_log,
        terminal.show_progress() as add_stage,
    ):
        report = copy_log(
            source_log,
            target_log,
            source_name=source_name,
            owners=_find_owners(source_log, users),
            progress=add_stage("copying"),
        )
    if terminal.as_json:
        terminal.print_json({"source": source_name, "target": target_name, **_encode_copy(report)})
    else:
        _print_copy(terminal, report, target_name)
    return 1 if report.short or report.damaged else 0


def _find_owners(source: MessageLog, users: tuple[str, ...]) -> list[Owner] | None:
    """Return the owners that were named; None for all."""
    from langchain_convmem.records import Owner

    if not users:
        return None
    unknown = [user for user in users if not source.threads(user)]
    if unknown:
        raise ConfigError(f"nothing is known of the user {unknown[0]!r}; check --user")
    return [Owner(user_id=user) for user in dict.fromkeys(users)]


def _print_copy(terminal: Terminal, report: CopyReport, target_name: str) -> None:
    threads, users = format_count(report.threads, "thread"), format_count(report.owners, "user")
    counts = f"{_count_entries(report.entries)}, {threads}, {users}"
    terminal.print_line(f"{counts}: {report.written} new in {target_name}")
    for short in report.short:
        where = f"thread {short.key.thread_id!r} of user {short.key.user_id!r}"
        found = f"{_count_entries(short.expected)}, but {short.found} in {target_name}"
        terminal.print_line(f"{where}: {found}")
    for one in report.damaged:
        where = f"position {one.position} of thread {one.key.thread_id!r}"
        terminal.print_line(f"{where} of user {one.key.user_id!r}: {one.damage}; not copied")


def _encode_copy(report: CopyReport) -> dict[str, Any]:
    short = [
        {
            "user_id": one.key.user_id,
            "thread_id": one.key.thread_id,
            "expected": one.expected,
            "found": one.found,
        }
        for one in report.short
    ]
    return {
        "users": report.owners,
        "threads": report.threads,
        "entries": report.entries,
        "written": report.written,
        "short": short,
        "damaged": [
            {
                "user_id": one.key.user_id,
                "thread_id": one.key.thread_id,
                "position": one.position,
                "entry_id": one.id,
                "what": one.damage,
            }
            for one in report.damaged
        ],
    }


# -- forget ---------------------------------------------------------------------------------------


@command("forget", "convmem forget --thread garden", "convmem forget --everything --before 90d")
@db_option
@user_option
@click.option("--thread", metavar="ID", help="Erase this thread.")
@click.option("--everything", is_flag=True, help="Erase all threads of the user.")
@click.option(
    "--before", metavar="WHEN", help="Erase only what is older: 90d, 12h, or a day, 2026-05-01."
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def forget(
    terminal: Terminal,
    *,
    db: str,
    user: str,
    thread: str | None,
    everything: bool,
    before: str | None,
    yes: bool,
) -> int:
    """Erase a thread, or all of a user's threads, for good.

    Asks for confirmation; without a terminal, --yes is required. Exits with 1 if you decline.
    """
    from langchain_convmem.cli.rendering import encode_receipt, format_receipt

    if (thread is None) != everything:
        refuse_usage("expected either --thread ID or --everything")
    with open_memory(db) as memory:
        scope = _describe_scope(memory, user, thread)
        end = None if before is None else _read_end(before)
        if end is not None:
            scope = f"what is older than {end:%Y-%m-%d %H:%M} UTC of {scope}"
        if not yes and not _confirm(terminal, scope):
            terminal.note("nothing was erased")
            return 1
        receipt = memory.forget(user_id=user, thread_id=thread, before=end)
    if terminal.as_json:
        terminal.print_json({"user_id": user, "thread_id": thread, **encode_receipt(receipt)})
    else:
        terminal.print_line(format_receipt(receipt))
    return 0


def _read_end(text: str) -> datetime:
    """Return the time that a person names: so many days or hours ago, or ISO 8601."""
    from langchain_convmem.logs.as_of import LogBound

    count, unit = text[:-1], {"d": "days", "h": "hours"}.get(text[-1:])
    if unit is not None and count.isdecimal() and len(count) <= _LONGEST_AGE:
        return datetime.now(UTC) - timedelta(**{unit: int(count)})
    return datetime.fromtimestamp(LogBound(text).time_ms / 1000, UTC)


def _describe_scope(memory: ConversationMemory, user: str, thread: str | None) -> str:
    """Return in words what will be erased."""
    if thread is not None:
        info = find_thread(memory, user, thread)
        return f"thread {thread!r} of user {user!r}, {_count_entries(info.entries)}"
    threads = format_count(len(memory.threads(user_id=user)), "thread")
    return f"everything of user {user!r}, {threads}"


def _confirm(terminal: Terminal, scope: str) -> bool:
    if not terminal.is_interactive:
        msg = f"this would erase {scope}, for good; add --yes to do it without being asked"
        raise ConfigError(msg)
    return terminal.ask(f"Erase {scope}, for good?")


# -- db: the log as a whole -----------------------------------------------------------------------


@click.group("db", cls=CommandGroup, no_args_is_help=False)
def db_commands() -> None:
    """Check, copy and restore a database."""


@command("verify", "convmem db verify", "convmem db verify --db memory.db --json")
@db_option
def verify(terminal: Terminal, *, db: str) -> int:
    """Check a log from end to end.

    Every entry is read and compared with its checksum, and those that are missing are counted;
    others may write meanwhile. Each problem is reported by thread and position, never with message
    text. Exits with 1 if there is one. A key comes from CONVMEM_SIGNING_KEY.
    """
    from langchain_convmem.logs.verify import verify_log

    name = _name_log(db) if is_address(db) else db
    with closing(open_existing_log(db)) as log, terminal.show_progress() as add_stage:
        report = verify_log(log, progress=add_stage("checking"))
    if terminal.as_json:
        terminal.print_json({"path": name, **asdict(report), "ok": report.ok})
        return 0 if report.ok else 1
    for problem in report.problems:
        terminal.print_line(problem)
    if report.more:
        terminal.print_line(f"and {format_count(report.more, 'more problem')}")
    counts = (
        _count_entries(report.entries),
        format_count(report.threads, "thread"),
        format_count(report.owners, "owner"),
    )
    problems = format_count(len(report.problems) + report.more, "problem")
    terminal.print_line(f"{name}: {', '.join(counts)}: {'no problems' if report.ok else problems}")
    return 0 if report.ok else 1


@command("backup", "convmem db backup copy.db", "convmem db backup monday.db --db memory.db")
@click.argument("target", metavar="TARGET", type=click.Path())
@click.option("--overwrite", is_flag=True, help="Replace a file of that name.")
@db_option
def backup(terminal: Terminal, *, target: str, overwrite: bool, db: str) -> int:
    """Copy a database file while it is in use.

    The copy holds everything stored when the command began, and appears under its name only when it
    is complete. Takes no server's address.
    """
    with closing(open_existing_file(db)) as log:
        log.backup(target, overwrite=overwrite)
    size = Path(target).stat().st_size
    if terminal.as_json:
        terminal.print_json({"path": target, "bytes": size})
    else:
        terminal.print_line(f"{target}: {size} bytes")
    return 0


@command("restore", "convmem db restore copy.db", "convmem db restore copy.db --fetch")
@click.argument("source", metavar="BACKUP", type=click.Path())
@click.option(
    "--fetch",
    is_flag=True,
    help="Go on with what the file holds, and take from BACKUP only what it has lost.",
)
@db_option
def restore(terminal: Terminal, *, source: str, fetch: bool, db: str) -> int:
    """Put a backup in the place of a database file.

    Close the file everywhere first. What is there now is kept under a name that ends with the time.
    """
    from langchain_convmem.logs.sqlite import restore as restore_file

    if is_address(db):
        raise ConfigError("this is the address of a server; expected the path of a database file")
    done = restore_file(source, db, signing_key=read_signing_key(), fetch=fetch)
    kept = None if done.kept is None else str(done.kept)
    if terminal.as_json:
        counts = {"entries": done.entries, "fetched": done.fetched}
        terminal.print_json({"path": db, **counts, "kept": kept})
        return 0
    terminal.print_line(f"{db}: {_count_entries(done.entries)}")
    if fetch:
        terminal.print_line(f"taken from {source}: {_count_entries(done.fetched)}")
    if kept is not None:
        terminal.print_line(f"what was there before: {kept}")
    return 0


for _command in (verify, backup, restore):
    db_commands.add_command(_command)


def _count_entries(number: int) -> str:
    return format_count(number, "entry", "entries")
