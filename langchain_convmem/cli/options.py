"""What commands share: how one is declared, the options of several, and the memory at `--db`."""

from __future__ import annotations

import contextlib
import difflib
import functools
import io
import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from langchain_convmem.cli.output import Terminal, write_rows
from langchain_convmem.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from langchain_convmem.memory import ConversationMemory
    from langchain_convmem.message_log import MessageLog
    from langchain_convmem.records import ThreadInfo

_SIGNING_KEY = "CONVMEM_SIGNING_KEY"
"""In the environment alone: what stands on a command line, others can see."""
PROFILE_TOKENS = 150
"""What a model of the chats gets of what is known of the user, at most."""
LOG = click.Path(path_type=str)
"""The type of `--db`, `--from` and `--to`: a path or an address; shells complete it as a path."""


# -- declaring commands ---------------------------------------------------------------------------


class CommandGroup(click.Group):
    """Commands in the order in which they were added; a misspelt name is answered with a guess."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's own
        """Return the names in the order of the help."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first word names.

        Raises:
            click.UsageError: If there is none; says which one was probably meant.
        """
        name = args[0]
        if name not in self.commands and not name.startswith("-") and not ctx.resilient_parsing:
            # click guesses by itself from 8.4 on; earlier releases do not.
            near = difflib.get_close_matches(name, self.commands)
            guess = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            ctx.fail(f"No such command {name!r}.{guess}")
        return super().resolve_command(ctx, args)


def command(
    name: str, *examples: str, prints: bool = True
) -> Callable[[Callable[..., int]], click.Command]:
    """Declare a command: the function gets the terminal, then its options, and returns the code.

    `--json` and the examples are added; the function's docstring is the help. So is `-o`, which
    writes to a file what the command prints, unless it `prints` nothing that is worth keeping.
    """

    def declare(run: Callable[..., int]) -> click.Command:
        @functools.wraps(run)
        def call(*, as_json: bool, into: str | None = None, **options: Any) -> int:
            if into is None:
                return run(Terminal.open(as_json=as_json), **options)
            text = io.StringIO()
            code = run(Terminal.open(as_json=as_json, file=text), **options)
            write_rows(Path(into), text.getvalue().splitlines())
            return code

        shown = "\n".join(f"  {example}" for example in examples)
        made = click.command(name, epilog=f"\b\nExamples:\n{shown}")(call)
        made.params.append(
            click.Option(["--json", "as_json"], is_flag=True, help="Print the result as JSON.")
        )
        if prints:
            out = ["-o", "--out", "into"]
            made.params.append(
                click.Option(out, metavar="FILE", help="Write the result to a file instead.")
            )
        return made

    return declare


db_option = click.option(
    "--db",
    type=LOG,
    metavar="LOG",
    default="memory.db",
    envvar="CONVMEM_DB",
    show_default=True,
    show_envvar=True,
    help="A database file, or an address: postgresql://USER@HOST/DATABASE?schema=NAME, "
    "dynamodb://TABLE?region=NAME&endpoint=URL.",
)
user_option = click.option(
    "--user",
    metavar="ID",
    default="me",
    envvar="CONVMEM_USER",
    show_default=True,
    show_envvar=True,
    help="The user whose memory to use.",
)


def memory_options(run: Callable[..., int]) -> Callable[..., int]:
    """Let a command name a log and a user."""
    return db_option(user_option(run))


def thread_options(help_text: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Let a command name a thread by its id or title: as its argument, or with `--thread`."""

    def choose(context: click.Context, _: click.Parameter, named: str | None) -> str | None:
        given = context.params.pop("named", None)
        if named is not None and given is not None:
            raise click.UsageError("name the thread once: THREAD or --thread", context)
        return named if given is None else str(given)

    def declare(run: Callable[..., int]) -> Callable[..., int]:
        option = click.option("--thread", metavar="THREAD", callback=choose, help=help_text)
        return click.argument("named", metavar="[THREAD]", required=False, is_eager=True)(
            option(run)
        )

    return declare


def refuse_usage(problem: str) -> NoReturn:
    """End the command as one that was called wrongly, with code 2.

    Raises:
        click.UsageError: Always.
    """
    raise click.UsageError(problem, click.get_current_context())


def require_web(what: str) -> None:
    """Refuse a command that needs the extra `web` where that is not installed.

    Raises:
        MissingExtraError: If a package of it is missing.
    """
    for module in ("starlette", "uvicorn", "markdown_it"):
        if find_spec(module) is None:
            raise MissingExtraError.build(what, "web")


# -- the memory that a command works on -----------------------------------------------------------


@contextlib.contextmanager
def open_memory(db: str, *, create: bool = False, **settings: Any) -> Iterator[ConversationMemory]:
    """Open the memory at `--db`, and close it after the block.

    Args:
        db: A path or an address.
        create: Make a file that is not there; to read from an empty new one would mislead.
        settings: See `ConversationMemory.open`; without any, profiles are in no turn.

    Raises:
        ConfigError: If there is no such file, or the address is unusable.
    """
    from langchain_convmem.memory import ConversationMemory

    if not create:
        _require_file(db)
    key = read_signing_key()
    settings = {"profile_tokens": 0, **settings}
    with ConversationMemory.open(db, signing_key=key, **settings) as memory:
        yield memory


def open_existing_log(db: str) -> MessageLog:
    """Open the log at an address or in a file that must be there; the caller closes it.

    Raises:
        ConfigError: If there is no such file, or the address is unusable.
    """
    from langchain_convmem.logs.addresses import open_log

    _require_file(db)
    return open_log(db, signing_key=read_signing_key())


def refuse_address(db: str) -> None:
    """Refuse the address of a server where a file is needed.

    Raises:
        ConfigError: If it is one; not quoted, as it may hold a password.
    """
    if is_address(db):
        raise ConfigError("this is the address of a server; expected the path of a database file")


def read_signing_key() -> str | None:
    """Return the key that the environment names; an empty one is none."""
    return os.environ.get(_SIGNING_KEY) or None


def is_address(db: str) -> bool:
    """Return whether this is the address of a server, not the path of a file."""
    return "://" in db


def _require_file(db: str) -> None:
    if not is_address(db) and not Path(db).exists():
        msg = (
            f"there is no database at {db}; create one with 'convmem import FILE --db {db}' "
            f"or 'convmem chat --db {db}', or name another file"
        )
        raise ConfigError(msg)


def find_thread(log: MessageLog, user_id: str, name: str | None = None) -> ThreadInfo:
    """Return the thread of this id or title; without a name the latest one, archived ones apart.

    Raises:
        ConfigError: If the user has no such thread, or several of that title.
    """
    from langchain_convmem.causes import suggest_name
    from langchain_convmem.titles import list_threads

    infos = list_threads(log, user_id)
    if name is None:
        shown = [info for info in infos if not info.archived]
        if not shown:
            msg = f"user {user_id!r} has no thread yet; start one with 'convmem chat'"
            raise ConfigError(msg)
        return shown[0]
    found = [info for info in infos if info.key.thread_id == name]
    found = found or [info for info in infos if info.title.casefold() == name.casefold()]
    if len(found) > 1:
        ids = ", ".join(info.key.thread_id for info in found)
        msg = (
            f"user {user_id!r} has {len(found)} threads titled {name!r}; name one by its id: {ids}"
        )
        raise ConfigError(msg)
    if not found:
        guess = suggest_name(name, [info.title or info.key.thread_id for info in infos])
        msg = f"user {user_id!r} has no thread {name!r}; 'convmem threads' lists threads{guess}"
        raise ConfigError(msg)
    return found[0]
