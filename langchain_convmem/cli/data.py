"""Commands on what is stored: in and out, found and shown, erased, checked and backed up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from langchain_convmem.cli.options import (
    LOG,
    CommandGroup,
    command,
    db_option,
    find_thread,
    is_address,
    memory_options,
    open_existing_log,
    open_memory,
    read_signing_key,
    refuse_address,
    refuse_usage,
    thread_options,
)
from langchain_convmem.cli.output import Styled, Terminal, format_count, make_data
from langchain_convmem.errors import ConfigError, LogError

if TYPE_CHECKING:
    from langchain_convmem.logs.verify import VerifyReport
    from langchain_convmem.memory import ConversationMemory
    from langchain_convmem.message_log import MessageLog
    from langchain_convmem.profile import TimelineEvent
    from langchain_convmem.records import DialogLine, Owner
    from langchain_convmem.transfer import CopyReport, ImportReport


# -- import ---------------------------------------------------------------------------------------

_SHOWN_UNREAD = 20
_SHOWN_LINES = 20
"""Lines that hold all words, unless `-k` says otherwise."""
_LONGEST_AGE = 5
"""Digits of an age in days or hours at most."""


@command(
    "import",
    "convmem import chatgpt-export.zip --user ana",
    "convmem import conversations.json --user ana",
    "convmem import garden.jsonl --thread garden",
)
@click.argument("files", metavar="FILE...", nargs=-1, type=click.Path())
@memory_options
@click.option("--thread", metavar="ID", help="The thread id for a single conversation.")
@click.option("--formats", is_flag=True, help="Show which files can be read.")
def import_files(
    terminal: Terminal,
    *,
    files: tuple[str, ...],
    db: str,
    user: str,
    thread: str | None,
    formats: bool,
) -> int:
    """Import conversations from exports, stores and other files.

    Reads exports of ChatGPT and Claude (zip, folder or JSON), exports of convmem, messages of
    OpenAI's API, and stores of LangChain and LangGraph; detects the format. All files are checked
    before anything is written, and importing a file again adds only what is new. Conversations of
    a zip or folder that cannot be read are skipped and reported.
    """
    from langchain_convmem.transfer.formats import EXPORTS, READERS
    from langchain_convmem.transfer.imports import read_files, store_file
    from langchain_convmem.turns.memory import get_turn_memory

    if formats:
        forms = {reader.name: reader.form for reader in (*EXPORTS, *READERS)}
        terminal.print_result(forms, (f"{name}: {form}" for name, form in forms.items()))
        return 0
    if not files:
        refuse_usage("name a file, or pass --formats to see which ones can be read")
    if thread is not None and len(files) > 1:
        raise ConfigError(f"--thread names one conversation, but there are {len(files)} files")
    with terminal.show_progress() as add_stage:
        read = read_files(map(Path, files), thread_id=thread, progress=add_stage("reading"))
    with open_memory(db, create=True) as memory:
        drafting = get_turn_memory(memory).drafting
        reports = []
        try:
            for file in read:
                with terminal.show_progress() as add_stage:
                    writing = add_stage("writing")
                    report = store_file(
                        memory.log, file, user_id=user, drafting=drafting, progress=writing
                    )
                reports.append(report)
                if not terminal.as_json:
                    terminal.print_lines(_format_import(memory, user, report))
            with terminal.show_progress() as add_stage:
                problems = memory.refresh(user_id=user, progress=add_stage("embedding"))
        except (KeyboardInterrupt, LogError):
            terminal.note(
                "the import stopped early; what it has written is stored and can be found by its "
                "words. Run the same import again to continue"
            )
            raise
    for problem in problems:
        terminal.note(problem)
    if terminal.as_json:
        encoded = [{**asdict(report), "lines": len(report)} for report in reports]
        terminal.print_json({"files": encoded, "problems": problems})
    return 0


def _format_import(memory: ConversationMemory, user: str, report: ImportReport) -> Iterator[str]:
    threads, unread = report.thread_ids, report.unread
    where = f"{len(threads)} threads"
    if len(threads) == 1:
        where = f"thread {memory.get_title(threads[0], user_id=user) or threads[0]}"
    if report.branches:
        where += f", {report.branches} of them {'a branch' if report.branches == 1 else 'branches'}"
    lines = format_count(len(report), "line")
    failed = f"; {len(unread)} could not be read:" if unread else ""
    yield f"{report.path}: {lines}, {report.added} new, {where}{failed}"
    yield from (f"  not read: {sentence}" for sentence in unread[:_SHOWN_UNREAD])
    if len(unread) > _SHOWN_UNREAD:
        yield f"  and {len(unread) - _SHOWN_UNREAD} more; --json names all"


# -- recall ---------------------------------------------------------------------------------------


as_of_option = click.option(
    "--as-of",
    "as_of",
    metavar="WHEN",
    help="Show the state at an ISO 8601 time, a day (its beginning), or the id of an entry.",
)
"""The option of commands that can look at an earlier time."""


@command(
    "recall",
    "convmem recall 'Where did I park?'",
    "convmem recall 'spare key' --user ana -k 3 --json",
    "convmem recall --words 'long ladder'",
)
@click.argument("question", metavar="QUESTION")
@memory_options
@click.option("--thread", metavar="THREAD", help="Search this thread only, by its id or title.")
@click.option(
    "--words", is_flag=True, help="Find lines that contain all of these words, latest first."
)
@click.option(
    "-k", "count", metavar="N", type=click.IntRange(min=1), help="At most N blocks, or N lines."
)
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
    words: bool,
    count: int | None,
    max_tokens: int | None,
    as_of: str | None,
) -> int:
    """Find lines that help answer a question.

    Prints blocks of lines, best first, with speaker, time, thread and the reasons for each match.
    With --words, case is ignored, and the command exits with 1 if nothing is found.
    """
    from langchain_convmem.cli.rendering import describe_recall, format_recall, list_titles
    from langchain_convmem.logs.as_of import LogBound
    from langchain_convmem.records import Owner
    from langchain_convmem.turns.memory import get_turn_memory

    if max_tokens is not None and (words or count is not None):
        refuse_usage("--max-tokens cannot be combined with -k or --words")
    with open_memory(db) as memory:
        past = memory if as_of is None else memory.as_of(as_of)
        within = None if thread is None else find_thread(past.log, user, thread).key
        if words:
            found_lines = past.search(question, user_id=user)
            lines = [one for one in found_lines if within in (None, one.key)]
            return _print_lines(terminal, past.log, lines, count or _SHOWN_LINES)
        # Not `memory.recall`: a thread named there is the current one, whose lines are left out.
        found = get_turn_memory(past).line_recall.recall(
            Owner(user_id=user),
            question,
            within=within,
            max_tokens=max_tokens,
            k=count,
            now_ms=None if as_of is None else LogBound(as_of).time_ms,
        )
        titles = list_titles(past.log, found)
    for problem in found.problems:
        terminal.note(problem)
    return terminal.print_result(describe_recall(question, found), format_recall(found, titles))


def _print_lines(
    terminal: Terminal, log: MessageLog, lines: Sequence[DialogLine], limit: int
) -> int:
    """Print the first ones of the lines that hold all words."""
    from langchain_convmem.cli.rendering import format_found_lines
    from langchain_convmem.titles import list_titles

    shown = lines[:limit]
    titles = list_titles(log, {one.key for one in shown})
    rows = [{**make_data(one), "title": titles.get(one.key, "")} for one in shown]
    terminal.print_result(rows, format_found_lines(shown, titles))
    if len(lines) > limit:
        terminal.note(f"and {len(lines) - limit} more; -k shows more")
    return 0 if lines else 1


# -- profile ---------------------------------------------------------------------------------------


@command(
    "profile",
    "convmem profile --user ana",
    "convmem profile --user ana --timeline",
    "convmem profile --user ana --as-of 2026-05-01 --json",
    "convmem profile --user ana --retract 01JX2A",
)
@memory_options
@as_of_option
@click.option("--timeline", is_flag=True, help="Order items by the dates they mention.")
@click.option("--day", metavar="WORDS", help="Show items for a day: 'the 14th', 'next week'.")
@click.option("--explain", metavar="ITEM", help="Show where an item comes from.")
@click.option("--pin", metavar="ITEM", help="Put an item first.")
@click.option("--retract", metavar="ITEM", help="Mark an item as not true, or no longer true.")
@click.option("--restore", metavar="ITEM", help="Undo your decisions about an item.")
def show_profile(
    terminal: Terminal,
    *,
    db: str,
    user: str,
    as_of: str | None,
    timeline: bool,
    day: str | None,
    explain: str | None,
    pin: str | None,
    retract: str | None,
    restore: str | None,
) -> int:
    """Show what is known about a user, in their own words.

    An ITEM is the beginning of an item's id, which --json prints. Decisions are stored in the log.
    """
    chosen = [name for name in (day, explain, pin, retract, restore) if name is not None]
    if len(chosen) + timeline > 1:
        refuse_usage(
            "--timeline, --day, --explain, --pin, --retract and --restore cannot be combined"
        )
    with open_memory(db) as memory:
        profile = (memory if as_of is None else memory.as_of(as_of)).profile(user)
        if explain is not None:
            item = profile.find(explain)
            said = profile.explain(item)
            return terminal.print_result({"item": item.id, "explanation": said}, [Styled(said)])
        for decide, name in (("pin", pin), ("retract", retract), ("restore", restore)):
            profile = profile if name is None else getattr(profile, decide)(name)
    if timeline or day is not None:
        events = profile.timeline() if day is None else profile.list_events(day)
        return _print_events(terminal, events)
    text = Styled(profile.to_markdown().rstrip())
    return terminal.print_result({"user": user, "items": profile.to_json()}, [text])


def _print_events(terminal: Terminal, events: Sequence[TimelineEvent]) -> int:
    from langchain_convmem.views.lines import format_day

    lines = [f"{format_day(one.first_ms)}  {one.item.text}" for one in events]
    nothing = "no items; --day takes a day or more, such as 'the 14th' or 'next week'"
    return terminal.print_result({"events": events}, lines or [nothing])


# -- log and threads ------------------------------------------------------------------------------


@command("log", "convmem log", "convmem log garden --json")
@memory_options
@thread_options("The thread, by its id or title.  [default: the latest]")
def print_log(terminal: Terminal, *, db: str, user: str, thread: str | None) -> int:
    """Print a thread word for word, including edits."""
    from langchain_convmem.cli.rendering import describe_log, format_log

    with closing(open_existing_log(db)) as log:
        entries = log.entries(find_thread(log, user, thread).key)
    rows = describe_log(entries) if terminal.as_json else None
    return terminal.print_result(rows, format_log(entries))


@command("threads", "convmem threads --user ana", "convmem threads --db memory.db --json")
@memory_options
@click.option("--anonymous", is_flag=True, help="List threads that belong to no user.")
def list_threads(terminal: Terminal, *, db: str, user: str, anonymous: bool) -> int:
    """List a user's threads, latest first."""
    from langchain_convmem.cli.rendering import format_threads
    from langchain_convmem.titles import list_threads as list_with_titles

    with closing(open_existing_log(db)) as log:
        threads = list_with_titles(log, None if anonymous else user)
    return terminal.print_result(threads, format_threads(threads, terminal.width))


@command("stats", "convmem stats", "convmem stats garden --json")
@memory_options
@thread_options("One thread, by its id or title.  [default: all]")
def print_stats(terminal: Terminal, *, db: str, user: str, thread: str | None) -> int:
    """Count messages and tokens of a user or of one thread.

    Tokens are as reported with replies, including replies that were replaced later.
    """
    from langchain_convmem.cli.rendering import add_stats, format_stats
    from langchain_convmem.titles import list_threads as list_with_titles
    from langchain_convmem.turns.whole_threads import compute_stats

    with closing(open_existing_log(db)) as log:
        infos = [find_thread(log, user, thread)] if thread else list_with_titles(log, user)
        total = add_stats([compute_stats(log.entries(info.key)) for info in infos])
    return terminal.print_result({"user_id": user, **total}, format_stats(total))


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
    are skipped, and an interrupted copy continues where it stopped. Damaged entries in the source
    are reported and left out. Exits with 1 if there are any, or if the target ends up with fewer
    entries than the source.
    """
    from langchain_convmem.logs.addresses import log_name, open_log
    from langchain_convmem.transfer import copy_log

    source_name, target_name = log_name(source), log_name(target)
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
            owners=_find_owners(source_log, users),
            progress=add_stage("copying"),
        )
    code = int(bool(report.short or report.damaged))
    result = {"source": source_name, "target": target_name, "report": report}
    return terminal.print_result(result, _format_copy(report, target_name), code=code)


def _find_owners(source: MessageLog, users: tuple[str, ...]) -> list[Owner] | None:
    """Return the owners that were named; None for all."""
    from langchain_convmem.records import Owner

    if not users:
        return None
    unknown = [user for user in users if not source.threads(user)]
    if unknown:
        raise ConfigError(f"user {unknown[0]!r} has no threads; check --user")
    return [Owner(user_id=user) for user in dict.fromkeys(users)]


def _format_copy(report: CopyReport, target_name: str) -> Iterator[str]:
    threads, users = format_count(report.threads, "thread"), format_count(report.owners, "user")
    counts = f"{_count_entries(report.entries)}, {threads}, {users}"
    yield f"{counts}: {report.written} new in {target_name}"
    for key, expected, found in report.short:
        where = f"thread {key.thread_id!r} of user {key.user_id!r}"
        yield f"{where}: {_count_entries(expected)}, but {found} in {target_name}"
    for one in report.damaged:
        where = f"position {one.position} of thread {one.key.thread_id!r}"
        yield f"{where} of user {one.key.user_id!r}: {one.damage}; not copied"


# -- forget ---------------------------------------------------------------------------------------


@command("forget", "convmem forget garden", "convmem forget --everything --before 90d")
@memory_options
@thread_options("Erase this thread, by its id or title.")
@click.option("--everything", is_flag=True, help="Erase all threads of the user.")
@click.option(
    "--before", metavar="WHEN", help="Erase only what was stored before: 90d, 12h, or a day."
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
    from langchain_convmem.cli.rendering import format_receipt

    if (thread is None) != everything:
        refuse_usage("expected either --thread THREAD or --everything")
    with open_memory(db) as memory:
        info = None if thread is None else find_thread(memory.log, user, thread)
        threads = format_count(len(memory.threads(user_id=user)), "thread")
        scope = f"all threads of user {user!r} ({threads})"
        if info is not None:
            name = info.title or info.key.thread_id
            scope = f"thread {name!r} of user {user!r}, {_count_entries(info.entries)}"
        end = None if before is None else _read_end(before)
        if end is not None:
            scope = f"entries before {end:%Y-%m-%d %H:%M} UTC in {scope}"
        if not yes and not terminal.is_interactive:
            msg = f"this would permanently erase {scope}; add --yes to confirm"
            raise ConfigError(msg)
        if not yes and not terminal.ask(f"Permanently erase {scope}?"):
            terminal.note("nothing was erased")
            return 1
        thread_id = None if info is None else info.key.thread_id
        receipt = memory.forget(user_id=user, thread_id=thread_id, before=end)
    encoded = {"user_id": user, "thread_id": thread_id, **asdict(receipt)}
    del encoded["at_ms"]
    return terminal.print_result(encoded, [format_receipt(receipt)])


def _read_end(text: str) -> datetime:
    """Return the time that a person names: so many days or hours ago, or ISO 8601."""
    from langchain_convmem.logs.as_of import LogBound

    count, unit = text[:-1], {"d": "days", "h": "hours"}.get(text[-1:])
    if unit is not None and count.isdecimal() and len(count) <= _LONGEST_AGE:
        return datetime.now(UTC) - timedelta(**{unit: int(count)})
    try:
        return datetime.fromtimestamp(LogBound(text).time_ms / 1000, UTC)
    except ConfigError:
        refuse_usage(f"--before: expected 90d, 12h, or a day or time in ISO 8601, got {text!r}")


# -- db: the log as a whole -----------------------------------------------------------------------


@click.group("db", cls=CommandGroup, no_args_is_help=False)
def db_commands() -> None:
    """Check, copy and restore a database."""


@command("verify", "convmem db verify", "convmem db verify --db memory.db --json")
@db_option
def verify(terminal: Terminal, *, db: str) -> int:
    """Check a log from end to end.

    Compares every entry with its checksum and counts missing entries; other programs may write
    meanwhile. Problems are reported by thread and position, never with message text. Exits with 1
    if there are any. CONVMEM_SIGNING_KEY sets the key of a signed log.
    """
    from langchain_convmem.logs.addresses import log_name
    from langchain_convmem.logs.verify import verify_log

    name = log_name(db) if is_address(db) else db
    with closing(open_existing_log(db)) as log, terminal.show_progress() as add_stage:
        report = verify_log(log, progress=add_stage("checking"))
    encoded = {"path": name, **asdict(report), "ok": report.ok}
    return terminal.print_result(encoded, _format_checks(report, name), code=0 if report.ok else 1)


def _format_checks(report: VerifyReport, name: str) -> Iterator[str]:
    yield from report.problems
    if report.more:
        yield f"and {format_count(report.more, 'more problem')}"
    threads, owners = format_count(report.threads, "thread"), format_count(report.owners, "owner")
    problems = format_count(len(report.problems) + report.more, "problem")
    counts = f"{_count_entries(report.entries)}, {threads}, {owners}"
    yield f"{name}: {counts}: {'no problems' if report.ok else problems}"


@command("backup", "convmem db backup copy.db", "convmem db backup monday.db --db memory.db")
@click.argument("target", metavar="TARGET", type=click.Path())
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
@db_option
def backup(terminal: Terminal, *, target: str, overwrite: bool, db: str) -> int:
    """Copy a database file while it is in use.

    The copy contains everything that was stored when the command started, and gets its name only
    when it is complete. For files only, not for servers.
    """
    from langchain_convmem.logs.sqlite import SQLiteLog

    refuse_address(db)
    with closing(open_existing_log(db)) as log:
        if isinstance(log, SQLiteLog):
            log.backup(target, overwrite=overwrite)
    size = Path(target).stat().st_size
    return terminal.print_result({"path": target, "bytes": size}, [f"{target}: {size} bytes"])


@command("restore", "convmem db restore copy.db", "convmem db restore copy.db --fetch")
@click.argument("source", metavar="BACKUP", type=click.Path())
@click.option(
    "--fetch",
    is_flag=True,
    help="Keep the file's entries, and take only what it has lost from BACKUP.",
)
@db_option
def restore(terminal: Terminal, *, source: str, fetch: bool, db: str) -> int:
    """Replace a database file with a backup.

    Close the file in all programs first. The old file is kept; the time is added to its name.
    """
    from langchain_convmem.logs.sqlite import restore as restore_file

    refuse_address(db)
    done = restore_file(source, db, signing_key=read_signing_key(), fetch=fetch)
    kept = None if done.kept is None else str(done.kept)
    lines = [f"{db}: {_count_entries(done.entries)}"]
    if fetch:
        lines.append(f"taken from {source}: {_count_entries(done.fetched)}")
    if kept is not None:
        lines.append(f"old file: {kept}")
    counts = {"entries": done.entries, "fetched": done.fetched}
    return terminal.print_result({"path": db, **counts, "kept": kept}, lines)


for _command in (verify, backup, restore):
    db_commands.add_command(_command)


def _count_entries(number: int) -> str:
    return format_count(number, "entry", "entries")
