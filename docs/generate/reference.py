"""Writes the reference from the code: public names, commands, storage and settings.

`python docs/generate/reference.py` writes the pages below `docs/reference`; with `--check` it
writes nothing, names the pages that the code has left behind, and exits with 1.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import re
import sqlite3
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
from setting_costs import COSTS

import langchain_convmem

DOCS = Path(__file__).parents[1]
_COMMANDS_THAT_SHARE = 5
"""An option of so many commands, with the same help, is described once."""
NOTE = "<!-- Written by docs/generate/reference.py from the code. -->\n"
_PACKAGE = "langchain_convmem"


# -- public names ---


@dataclasses.dataclass(frozen=True, slots=True)
class ApiPage:
    """A page of the reference: whose names it holds, and what else it shows.

    Attributes:
        name: The file's name without its ending.
        title: The heading.
        intro: One sentence in Markdown.
        homes: Modules, with all below them, whose public names belong here.
        also: Paths of what is documented besides, though no `__all__` lists it.
    """

    name: str
    title: str
    intro: str
    homes: tuple[str, ...]
    also: tuple[str, ...] = ()


PAGES = (
    ApiPage(
        "memory",
        "Memory and history",
        "What an application opens, wraps around its chain and asks. [How to use it](../../how_to/chains.md).",
        ("memory", "history", "wrap", "turns", "thread_memory", "titles"),
        (
            "wrap.RememberingRunnable",
            "turns.options.TurnOptions",
            "history.SummaryWindow",
            "views.messages.WriteHook",
        ),
    ),
    ApiPage(
        "recall",
        "Recall and embedders",
        "What finds dialog lines. [What it does](../../concepts/recall.md).",
        ("recall",),
    ),
    ApiPage(
        "user_profile",
        "What is known of a user",
        "What `memory.profile` returns. [What it does](../../concepts/profile.md).",
        ("profile",),
    ),
    ApiPage(
        "summaries",
        "Summaries",
        "What compacts long threads. [What it does](../../concepts/summaries.md).",
        ("summarizing", "summarizing_memory"),
        ("summarizing.record.RecordedFact",),
    ),
    ApiPage(
        "conversation",
        "Conversations",
        "One object that holds a conversation with a model. [How to use it](../../how_to/conversation.md).",
        ("conversation",),
    ),
    ApiPage(
        "text",
        "Chat templates and text models",
        "Templates, replies and engines that read text. [How to use them](../../how_to/text_models.md).",
        ("text",),
    ),
    ApiPage(
        "prompts",
        "Prompt files",
        "Prompts in files of their own. [How to write one](../../how_to/prompts.md).",
        ("prompts",),
    ),
    ApiPage(
        "integrations",
        "LangGraph, agents, tools and vector stores",
        "Each is imported when it is asked for, and needs its extra. [LangGraph](../../how_to/langgraph.md), "
        "[agents](../../how_to/agents.md), [vector stores](../../how_to/vector_stores.md).",
        ("integrations",),
        tuple(
            f"integrations.langgraph.{name}"
            for name in (
                "create_memory_graph",
                "recall_node",
                "model_node",
                "record_node",
                "summarize_node",
                "model_messages",
                "amodel_messages",
            )
        ),
    ),
    ApiPage(
        "logs",
        "Logs",
        "Where entries are kept. [One of your own](../../how_to/own_log.md).",
        ("logs",),
        ("logs.sqlite.restore", "logs.verify", "logs.base"),
    ),
    ApiPage(
        "values",
        "Values and protocols",
        "What everything else is made of, and what extensions implement.",
        ("records", "views"),
        ("records", "text.sessions"),
    ),
    ApiPage(
        "transfer",
        "Import, export and copy",
        "Chats in and out. [How to move them](../../how_to/transfer.md).",
        ("transfer",),
    ),
    ApiPage(
        "offline", "Offline models", "A chat model and a summariser without weights.", ("offline",)
    ),
    ApiPage(
        "testing",
        "Testing",
        "Contracts, scripted models and chat services on loopback. [How to use them](../../how_to/testing.md).",
        ("testing",),
    ),
    ApiPage(
        "errors",
        "Errors",
        "Every error is a `ConvMemError`. [What to do about each](../../how_to/troubleshoot.md).",
        ("errors",),
        ("errors",),
    ),
)
"""Every page of public names, in the order of the navigation."""
_COMMAND_LINE = "cli"


def list_public_names() -> dict[str, str]:
    """Return every public name by the path under which it is documented: its home.

    Raises:
        LookupError: If a public name has no page.
    """
    found: dict[str, str] = {}
    for module in _public_modules():
        for name in getattr(module, "__all__", ()):
            if name == "__version__":  # what it says is no page's matter
                continue
            thing = getattr(module, name)
            home = getattr(thing, "__module__", None) or module.__name__
            home = home if home.startswith(_PACKAGE) else module.__name__
            found[f"{home}.{name}"] = _find_page(home).name
    return found


def _public_modules() -> Iterator[Any]:
    yield langchain_convmem
    for info in pkgutil.walk_packages(langchain_convmem.__path__, f"{_PACKAGE}."):
        parts = info.name.split(".")[1:]
        if parts[0] != _COMMAND_LINE and not any(part.startswith("_") for part in parts):
            yield importlib.import_module(info.name)


def _find_page(home: str) -> ApiPage:
    for page in PAGES:
        for prefix in page.homes:
            if f"{home}.".startswith(f"{_PACKAGE}.{prefix}."):
                return page
    msg = f"{home} belongs to no page: add it to PAGES in {__file__}"
    raise LookupError(msg)


def _write_api() -> Iterator[tuple[str, str]]:
    names = list_public_names()
    whole = {f"{_PACKAGE}.{also}" for page in PAGES for also in page.also if also in page.homes}
    for page in PAGES:
        own = [path for path, name in names.items() if name == page.name]
        own += [f"{_PACKAGE}.{also}" for also in page.also]
        shown = dict.fromkeys(
            path for path in own if path in whole or path.rpartition(".")[0] not in whole
        )
        lines = [NOTE, f"# {page.title}", "", page.intro, ""]
        lines += [_direct(path) for path in shown]
        yield f"api/{page.name}.md", "\n".join(lines)


def _direct(path: str) -> str:
    module, _, name = path.rpartition(".")
    thing = getattr(importlib.import_module(module), name)
    if inspect.isclass(thing) and any(_has_our_members(base) for base in thing.__mro__[1:]):
        return f"::: {path}\n    options:\n      inherited_members: true"
    return f"::: {path}"


def _has_our_members(base: type) -> bool:
    return base.__module__.startswith(_PACKAGE) and not getattr(base, "_is_protocol", False)


# -- commands ---


def _write_commands() -> Iterator[tuple[str, str]]:
    from langchain_convmem.cli.app import convmem

    lines = [
        NOTE,
        "# Every command and option",
        "",
        (
            "`convmem COMMAND --help` prints them with examples. [The command line](command_line.md) "
            "shows them at work, and describes the options that most of them share."
        ),
        "",
    ]
    for path, one in list_commands(convmem):
        lines += _describe_command(path, one)
    yield "commands.md", "\n".join(lines)


def list_commands(
    group: click.Group, before: str = "convmem"
) -> Iterator[tuple[str, click.Command]]:
    """Yield each command below a group with the words that call it."""
    for name, one in group.commands.items():
        if isinstance(one, click.Group):
            yield from list_commands(one, f"{before} {name}")
        else:
            yield f"{before} {name}", one


def _describe_command(path: str, one: click.Command) -> list[str]:
    context = click.Context(one, info_name=path)
    usage = " ".join(one.collect_usage_pieces(context))
    lines = [f"## {path}", "", *_paragraphs(one.help or ""), ""]
    if usage != "[OPTIONS]":
        lines += [f"Usage: `{path} {usage}`", ""]
    options = [param for param in one.params if isinstance(param, click.Option)]
    shared = [f"`{name}`" for one in options if _is_shared(one) for name in one.opts]
    rows = [_describe_option(option, context) for option in options if not _is_shared(option)]
    if shared:
        lines += [f"Shared: {', '.join(shared)}.", ""]
    if rows:
        lines += [
            "| option | environment | default | meaning |",
            "| --- | --- | --- | --- |",
            *rows,
            "",
        ]
    return lines


def _is_shared(option: click.Option) -> bool:
    """Say whether the page on the command line describes it, as it does for most commands."""
    from langchain_convmem.cli.app import convmem

    found = [param for _, one in list_commands(convmem) for param in one.params]
    same = [one for one in found if isinstance(one, click.Option) and one.opts == option.opts]
    return sum(one.help == option.help for one in same) >= _COMMANDS_THAT_SHARE


def _paragraphs(text: str) -> list[str]:
    return [
        line.replace("<", "&lt;") for line in inspect.cleandoc(text.replace("\b", "")).split("\n")
    ]


def _describe_option(option: click.Option, context: click.Context) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag else f" `{option.make_metavar(context)}`"
    environment = option.envvar if isinstance(option.envvar, str) else ""
    default = option.get_default(context, call=False)
    shown = "" if option.is_flag or not isinstance(default, str | int | float) else f"`{default}`"
    said = "repeated" in (option.help or "")
    several = " May be given several times." if option.multiple and not said else ""
    meaning = f"{option.help or ''}{several}".replace("|", "\\|").replace("\n", " ")
    return (
        f"| {names}{value} | {environment and f'`{environment}`'} | {shown} | {meaning} |".replace(
            "  ", " "
        )
    )


# -- storage ---


def _write_storage() -> Iterator[tuple[str, str]]:
    lines = [
        NOTE,
        "# What is stored where",
        "",
        (
            "The tables and keys of the logs, read off the code. They may change with the schema's version: "
            "read logs through the package or `convmem export`, and use this page to size, back up and audit."
        ),
        "",
        "## SQLite",
        "",
        "A new file, as `SQLiteLog` makes it:",
        "",
        "```sql",
        *_describe_sqlite(),
        "```",
        "",
        "## PostgreSQL",
        "",
        (
            "The schema, `convmem` unless you pass another, has the same tables but `identity`, with the same "
            "columns and indexes: `INTEGER` is `bigint` there, and `BLOB` is `bytea`."
        ),
        "",
        "## DynamoDB",
        "",
        (
            "`make_table_definition` in `langchain_convmem.logs.dynamodb` returns the table as data: the keys "
            "`pk` and `sk`, and `by_thread`, a local index of `pk` and `tp`. A turn leaves such items:"
        ),
        "",
        "| `pk` | `sk` | `tp` | other attributes |",
        "| --- | --- | --- | --- |",
        *_list_dynamodb_items(),
        "",
        "What the keys are made of:",
        "",
        *_describe_dynamodb_keys(),
        "",
    ]
    yield "storage.md", "\n".join(lines)


def _describe_sqlite() -> Iterator[str]:
    from langchain_convmem import SQLiteLog

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "memory.db"
        with SQLiteLog(path):
            pass
        connection = sqlite3.connect(path)
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        rows = connection.execute(
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'"
            " ORDER BY type DESC, name"
        )
        statements = [row[0] for row in rows]
        connection.close()
    yield f"-- user_version {version}"
    for statement in statements:
        yield f"{statement};"


def _list_dynamodb_items() -> Iterator[str]:
    import boto3
    from langchain_core.messages import AIMessage, HumanMessage
    from moto import mock_aws

    from langchain_convmem import ConversationMemory, DynamoDBLog

    with mock_aws():
        keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
        client = boto3.client("dynamodb", region_name="eu-central-1", **keys)
        log = DynamoDBLog("conversations", client=client)
        log.create_table()
        with ConversationMemory(log=log, embeddings=None) as memory:
            for message in (HumanMessage("Hi"), AIMessage("Hello!")):
                memory.add_messages([message], user_id="ana", thread_id="t1")
        items = client.scan(TableName="conversations")["Items"]
        log.close()
    keyed = ("pk", "sk", "tp")
    for item in sorted(items, key=lambda one: (one["pk"]["S"], one["sk"]["S"])):
        cells = [f"`{item[key]['S']}`" if key in item else "" for key in keyed]
        others = ", ".join(f"`{name}`" for name in sorted(set(item) - set(keyed)))
        yield f"| {' | '.join(cells)} | {others} |"


def _describe_dynamodb_keys() -> list[str]:
    from langchain_convmem.logs.dynamodb import items

    described = inspect.cleandoc(items.__doc__ or "").split("::\n\n", 1)[1]
    block, _, prose = described.partition("\n\n")
    fenced = ["```", *(line.removeprefix("    ") for line in block.splitlines()), "```", ""]
    return fenced + prose.splitlines()


# -- settings ---


def _write_settings() -> Iterator[tuple[str, str]]:
    lines = [
        NOTE,
        "# Every setting",
        "",
        (
            "Defaults suit a user who talks to an assistant. Change one at a time and "
            "[measure](../how_to/tune_recall.md)."
        ),
        "",
    ]
    for heading, use, settings in list_settings():
        lines += [f"## {heading}", "", use, ""]
        lines += [
            "| setting | default | meaning | cost |",
            "| --- | --- | --- | --- |",
        ]
        described = _read_attributes(settings)
        for name, default in _read_defaults(settings):
            gives = described[name].replace("|", "\\|")
            costs = COSTS.get(f"{settings.__name__}.{name}", "")
            lines.append(f"| `{name}` | {default} | {gives} | {costs} |")
        lines.append("")
    yield "settings.md", "\n".join(lines)


def list_settings() -> list[tuple[str, str, type]]:
    """Return the classes of settings: a heading, how each is used, and the class."""
    from langchain_convmem import ConversationConfig, RecallSettings, SendOptions, SummarySettings
    from langchain_convmem.text import TemplateLimits
    from langchain_convmem.turns.options import TurnOptions

    return [
        (
            "A turn",
            (
                "Keywords of `memory.wrap`, graph nodes and agents, and of a single call: "
                '`config={"configurable": {"memory": {...}}}`.'
            ),
            TurnOptions,
        ),
        (
            "Recall",
            "`ConversationMemory.open(path, settings=RecallSettings(...))`.",
            RecallSettings,
        ),
        (
            "Summaries",
            "`ConversationMemory.open(path, summarizer=..., summary_settings=SummarySettings(...))`.",
            SummarySettings,
        ),
        ("A conversation", "`Conversation(model, ConversationConfig(...))`.", ConversationConfig),
        (
            "One send of a conversation",
            "Keywords of `conversation.send_message(text, ...)`.",
            SendOptions,
        ),
        ("Chat templates", "`ChatTemplate(source, limits=TemplateLimits(...))`.", TemplateLimits),
    ]


def _read_defaults(settings: type) -> Iterator[tuple[str, str]]:
    for name, parameter in inspect.signature(settings).parameters.items():
        default = parameter.default
        plain = isinstance(default, str | int | float | tuple | None.__class__)
        yield name, f"`{default!r}`" if plain else "empty"


def _read_attributes(settings: type) -> dict[str, str]:
    doc = inspect.getdoc(settings) or ""
    body = doc.partition("Attributes:\n")[2].partition("\n\nRaises:")[0]
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", body, re.MULTILINE)
    return {name: re.sub(r"\s+", " ", text) for name, text in entries}


# -- all of it ---


def write_pages() -> dict[Path, str]:
    """Return the text of every generated page of the reference, by path."""
    parts = (_write_api(), _write_commands(), _write_storage(), _write_settings())
    return {
        DOCS / "reference" / name: text.rstrip() + "\n" for part in parts for name, text in part
    }


def find_stale(pages: dict[Path, str]) -> list[Path]:
    """Return the pages whose file is missing or says something else."""
    return [
        path for path, text in pages.items() if not path.exists() or path.read_text("utf-8") != text
    ]


def main(words: Iterable[str]) -> int:
    """Write the pages, or with `--check` name those that are stale."""
    pages = write_pages()
    stale = find_stale(pages)
    if "--check" in words:
        for path in stale:
            print(f"{path.relative_to(DOCS.parent)} is stale: run make reference")
        return 1 if stale else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(pages[path], "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
