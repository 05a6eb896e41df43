"""From words to an exit code: the commands, and the one place where an error becomes a sentence."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Sequence
from importlib import metadata
from shutil import get_terminal_size

import click
from click.shell_completion import shell_complete

from langchain_convmem.cli import data, models
from langchain_convmem.cli.chat import chat
from langchain_convmem.cli.export import export
from langchain_convmem.cli.options import CommandGroup
from langchain_convmem.cli.output import escape_controls, fold_line
from langchain_convmem.cli.prompts import prompts
from langchain_convmem.cli.servers import serve_mcp, serve_web
from langchain_convmem.errors import ConvMemError

_PROGRAM = "convmem"
_DISTRIBUTION = "langchain-convmem"
_COMPLETION = "_CONVMEM_COMPLETE"
"""Set to `bash_source` and so on by who wants a script of completions, and by these scripts."""
_INTERRUPTED = 130
"""What shells report for a program that Ctrl-C ended."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0, 1 after a sentence on standard error, 2 for words that make no command, 130 on Ctrl-C. An
    error that is not a `ConvMemError` is a bug and keeps its traceback.

    Args:
        argv: The words after the program's name; None takes those of the process.
    """
    _print_any_character()
    asked = os.environ.get(_COMPLETION)
    if asked:
        return shell_complete(convmem, {}, _PROGRAM, _COMPLETION, asked)
    try:
        code = _run(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()  # here, where a full disk can be reported
    except ConvMemError as error:
        said = f"convmem: {escape_controls(str(error))}"
        if sys.stderr.isatty():
            width = get_terminal_size().columns
            said = "\n".join(fold_line(line, width) for line in said.split("\n"))
        print(said, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return _INTERRUPTED
    except OSError as error:
        is_closed = isinstance(error, BrokenPipeError)  # the reader went away, as `head` does
        if not is_closed and (error.errno not in _OUTPUT_ERRORS or error.filename is not None):
            raise
        _drop_output()
        if not is_closed:
            print(f"convmem: the output cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    return code


_OUTPUT_ERRORS = {errno.ENOSPC, errno.EFBIG, errno.EIO, errno.EDQUOT}
"""What writing to a full disk or a broken device fails with."""


def _drop_output() -> None:
    """Let what is still to be printed go nowhere: the interpreter would fail at its last flush."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(words: list[str]) -> int:
    # Not `convmem.main`, which prints a blank line for Ctrl-C.
    try:
        with convmem.make_context(_PROGRAM, words) as context:
            return int(convmem.invoke(context))
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.ClickException as error:
        said = io.StringIO()
        error.show(said)
        sys.stderr.write(escape_controls(said.getvalue()))  # names of files come from anywhere
        return error.exit_code


def _print_any_character() -> None:
    """Let a terminal that lacks a character show its number instead."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


# -- the program ----------------------------------------------------------------------------------


def _print_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"{_PROGRAM} {metadata.version(_DISTRIBUTION)}")
        context.exit()


@click.group(
    _PROGRAM,
    cls=CommandGroup,
    no_args_is_help=False,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 120},
    epilog="\b\nExamples:\n"
    "  convmem import chat.jsonl\n"
    "  convmem recall 'Where did I park?'\n"
    "  convmem COMMAND --help",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version.",
)
def convmem() -> None:
    """Talk with an assistant that remembers every message word for word."""


for _command in (
    chat,
    serve_web,
    data.import_files,
    data.recall,
    data.show_profile,
    data.list_threads,
    data.print_log,
    data.print_stats,
    export,
    data.copy,
    data.forget,
    data.db_commands,
    models.reindex,
    prompts,
    serve_mcp,
):
    convmem.add_command(_command)
