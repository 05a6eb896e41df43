"""What can be typed behind `convmem prompts`."""

from __future__ import annotations

import argparse
import math
from typing import Any

__all__ = ["add_prompts"]

_SUMMARY = "Check, show, compile and begin prompt files."


def add_prompts(commands: Any) -> None:
    """Add the command `prompts` and those behind it."""
    prompts = commands.add_parser("prompts", help=_SUMMARY, description=_SUMMARY)
    actions = prompts.add_subparsers(dest="action", required=True, metavar="ACTION")

    def action(name: str, summary: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = actions.add_parser(
            name, help=summary, description=summary
        )
        parser.set_defaults(command=f"prompts_{name}")
        return parser

    _add_check(action("check", "Say what is wrong, as compilers do; exit with 1 on errors."))
    _add_show(action("show", "Print the sections as a model reads them, with token counts."))
    _add_compile(
        action("compile", "Write compiled forms beside the files; nothing where one has errors.")
    )
    _add_new(action("new", "Write a prompt file to begin from."))
    _add_watch(action("watch", "Check whenever a file changes, until Ctrl-C."))


def _add_check(parser: argparse.ArgumentParser) -> None:
    _add_files(parser, "*")
    parser.add_argument("--strict", action="store_true", help="warnings fail the check too")
    _add_functions(parser)
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--json", action="store_true", help="print JSON")
    way.add_argument(
        "--interactive", action="store_true", help="ask for a file, show it, and compile it"
    )


def _add_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a prompt file")
    parser.add_argument(
        "--section", dest="sections", metavar="TITLE", action="append", help="this section only"
    )
    parser.add_argument(
        "--raw", action="store_true", help="leave the variables' placeholders in the text"
    )
    _add_functions(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def _add_compile(parser: argparse.ArgumentParser) -> None:
    _add_files(parser, "+")
    parser.add_argument(
        "--form",
        choices=["binary", "json", "both"],
        default="binary",
        help="binary (NAME.bytes, the default), JSON for people to read (NAME.json), or both",
    )
    parser.add_argument("--strict", action="store_true", help="warnings stop it too")
    _add_functions(parser)


def _add_new(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a file that does not exist yet")


def _add_watch(parser: argparse.ArgumentParser) -> None:
    _add_files(parser, "+")
    _add_functions(parser)
    parser.add_argument(
        "--interval",
        metavar="SECONDS",
        type=_seconds,
        default=0.5,
        help="how often to look (default: 0.5)",
    )


def _add_files(parser: argparse.ArgumentParser, nargs: str) -> None:
    parser.add_argument("files", metavar="FILE", nargs=nargs, help="a prompt file")


def _add_functions(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--function",
        dest="functions",
        metavar="NAME[=VALUE]",
        action="append",
        default=[],
        help="a variable function that your program registers; VALUE stands for its result",
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not (seconds > 0 and math.isfinite(seconds)):
        msg = f"{text!r} is not a number of seconds above 0"
        raise argparse.ArgumentTypeError(msg)
    return seconds
