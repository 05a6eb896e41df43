"""From arguments to an exit code: the one place where an error becomes a sentence."""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Sequence

from langchain_convmem.cli.arguments import build_parser
from langchain_convmem.cli.plain_text import safe_text
from langchain_convmem.cli.terminal import Terminal
from langchain_convmem.errors import ConvMemError

__all__ = ["main"]

_INTERRUPTED = 130
"""What shells report for a program that Ctrl-C ended."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 1 after a sentence on stderr, 130 on Ctrl-C.

    An error that is not a `ConvMemError` is a bug and keeps its traceback.

    Args:
        argv: The words behind the program's name; None takes those of the process.

    Raises:
        SystemExit: After `--help` and `--version` (0), and for unusable arguments (2).
    """
    _never_fail_to_print()
    arguments = build_parser(os.environ).parse_args(argv)
    try:
        # Loaded by name, so that no command waits for the libraries of another.
        command = importlib.import_module(f"langchain_convmem.cli.{arguments.command}_command")
        return int(command.run(arguments, Terminal.open()))
    except ConvMemError as error:
        print(f"convmem: {safe_text(str(error))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader went away, as `head` does. The interpreter would fail again at its last flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _never_fail_to_print() -> None:
    """Let a terminal that lacks a character show its number instead."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
