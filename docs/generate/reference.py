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
from stale import save

import langchain_convmem
from langchain_convmem import errors

DOCS = Path(__file__).parents[1]
_COMMANDS_THAT_SHARE = 5
"""An option of so many commands, with the same help, is described once."""
NOTE = "<!-- Written by docs/generate/reference.py from the code. -->\n"
_PACKAGE = "langchain_convmem"


# -- public names ---


@dataclasses.dataclass(frozen=True, slots=True)
class Topic:
    """A part of the list of public names.

    Attributes:
        title: The heading.
        intro: One sentence in Markdown.
        homes: Modules, with all below them, whose public names belong here.
        also: Paths of what is documented besides, though no `__all__` lists it.
    """

    title: str
    intro: str
    homes: tuple[str, ...]
    also: tuple[str, ...] = ()


TOPICS = (
    Topic(
        "Memory and history",
        "The memory that you open, and what it returns. [How to use it](../../how_to/chains.md).",
        ("memory", "history", "wrap", "turns", "thread_memory", "titles"),
        ("wrap.RememberingRunnable", "turns.memory.TurnOptions", "history.SummaryWindow"),
    ),
    Topic(
        "LangGraph, agents, tools and vector stores",
        "Each needs an extra. [LangGraph](../../how_to/langgraph.md), [agents](../../how_to/agents.md), "
        "[vector stores](../../how_to/vector_stores.md).",
        ("integrations",),
        tuple(
            f"integrations.langgraph.{name}"
            for name in (
                "recall_node",
                "model_node",
                "record_node",
                "summarize_node",
                "model_messages",
            )
        ),
    ),
    Topic(
        "Conversations",
        "A conversation with a model, as one object. [How to use it](../../how_to/conversation.md).",
        ("conversation",),
    ),
    Topic(
        "Recall and embedders",
        "They find earlier lines. [How it works](../../concepts/recall.md).",
        ("recall",),
    ),
    Topic(
        "Summaries",
        "They compact long threads. [How it works](../../concepts/summaries.md).",
        ("summarizing", "summarizing_memory"),
    ),
    Topic(
        "What is known about a user",
        "The values that `memory.profile` returns. [How it works](../../concepts/profile.md).",
        ("profile",),
    ),
    Topic(
        "Values",
        "The types that methods take and return.",
        ("records", "views"),
        ("records.Owner",),
    ),
    Topic(
        "Logs",
        "Logs store entries. [Write your own](../../how_to/own_log.md).",
        ("logs", "message_log"),
        (
            "message_log.MessageLog",
            "logs.sqlite.restore",
            "logs.verify.verify_log",
            "logs.verify.VerifyReport",
            "records.Draft",
            "records.Changes",
            "records.StateDocument",
        ),
    ),
    Topic(
        "Prompt files",
        "Prompts in separate files. [How to write one](../../how_to/prompts.md).",
        ("prompts",),
    ),
    Topic(
        "Chat templates and text models",
        "For models that complete text. [How to use them](../../how_to/text_models.md).",
        ("text",),
        ("text.sessions.TextEngine", "text.sessions.ModelSession", "text.sessions.Media"),
    ),
    Topic(
        "Import, export and copy",
        "Moving chats in and out. [How to do it](../../how_to/transfer.md).",
        ("transfer",),
    ),
    Topic(
        "Offline models and tests",
        "Models without weights, scripted services, and the tests for logs. "
        "[How to use them](../../how_to/testing.md).",
        ("offline", "testing"),
    ),
)
"""The list of public names, in its order."""
FIRST = {"memory.ConversationMemory": ("open", "wrap", "recall", "history", "forget")}
"""Members that a class shows before the others."""
_NO_PAGES = ("cli", "errors")
"""What has no page for each class: the command line, and errors, which are one table."""


def list_public_names() -> dict[str, str]:
    """Return every public name by the path under which it is documented, with its topic's title.

    Raises:
        LookupError: If a public name belongs to no topic.
    """
    found: dict[str, str] = {}
    for module in _public_modules():
        for name in getattr(module, "__all__", ()):
            if name == "__version__":  # what it says is no page's matter
                continue
            thing = getattr(module, name)
            home = getattr(thing, "__module__", None) or module.__name__
            home = home if home.startswith(_PACKAGE) else module.__name__
            if home.removeprefix(f"{_PACKAGE}.") not in _NO_PAGES:
                found[f"{home}.{name}"] = _find_topic(home).title
    for topic in TOPICS:
        found |= {f"{_PACKAGE}.{path}": topic.title for path in topic.also}
    return {path: title for path, title in found.items() if not _is_async_form(path, found)}


def _is_async_form(path: str, among: Iterable[str]) -> bool:
    module, _, name = path.rpartition(".")
    return name.startswith("a") and f"{module}.{name[1:]}" in among


def _public_modules() -> Iterator[Any]:
    yield langchain_convmem
    for info in pkgutil.walk_packages(langchain_convmem.__path__, f"{_PACKAGE}."):
        parts = info.name.split(".")[1:]
        if parts[0] not in _NO_PAGES and not any(part.startswith("_") for part in parts):
            yield importlib.import_module(info.name)


def _find_topic(home: str) -> Topic:
    for topic in TOPICS:
        for prefix in topic.homes:
            if f"{home}.".startswith(f"{_PACKAGE}.{prefix}."):
                return topic
    msg = f"{home} belongs to no topic: add it to TOPICS in {__file__}"
    raise LookupError(msg)


def _write_api() -> Iterator[tuple[str, str]]:
    names = list_public_names()
    files = _name_files(names)
    intro = (
        "Import each name from the module next to it. Start with [ConversationMemory](conversation_memory.md): "
        "most apps need nothing else. Every error is in [one table](errors.md)."
    )
    lines = [NOTE, "# Classes and functions", "", intro, ""]
    for topic in TOPICS:
        own = sorted(path for path, title in names.items() if title == topic.title)
        first = [path for path in own if path.removeprefix(f"{_PACKAGE}.") in FIRST]
        own = [*first, *(path for path in own if path not in first)]
        lines += [
            f"## {topic.title}",
            "",
            topic.intro,
            "",
            "| name | from | |",
            "| --- | --- | --- |",
        ]
        for path in own:
            name, file = path.rpartition(".")[2], files[path]
            lines.append(f"| [`{name}`]({file}) | `{_find_import(path)}` | {_find_summary(path)} |")
            yield f"api/{file}", _write_name(path)
        lines.append("")
    yield "api/index.md", "\n".join(lines)
    yield "api/errors.md", "\n".join(_list_errors())


def _name_files(paths: Iterable[str]) -> dict[str, str]:
    """Return the file of each name; a function that is called like a class says what it is."""
    files: dict[str, str] = {}
    for path in sorted(paths, key=lambda path: path.rpartition(".")[2]):  # classes first
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", path.rpartition(".")[2]).lower()
        files[path] = f"{words}_function.md" if f"{words}.md" in files.values() else f"{words}.md"
    return files


def _find_import(path: str) -> str:
    """Return the shortest public module from which a name is imported."""
    module, _, name = path.rpartition(".")
    thing = getattr(importlib.import_module(module), name)
    homes = [
        one.__name__
        for one in _public_modules()
        if name in getattr(one, "__all__", ()) and getattr(one, name) is thing
    ]
    return min(homes, key=len, default=module)


def _find_summary(path: str) -> str:
    module, _, name = path.rpartition(".")
    doc = inspect.getdoc(getattr(importlib.import_module(module), name)) or ""
    is_own = not doc.startswith(("dict(", "Represent", "str(", "Callable type"))
    return re.sub(r"\s+", " ", doc.partition("\n\n")[0]).replace("|", "\\|") if is_own else ""


def _write_name(path: str) -> str:
    module, _, name = path.rpartition(".")
    thing = getattr(importlib.import_module(module), name)
    options = ["show_root_heading: true"]
    if inspect.isclass(thing) and any(_has_our_members(base) for base in thing.__mro__[1:]):
        options.append("inherited_members: true")
    if dataclasses.is_dataclass(thing):  # its signature shows the defaults
        options.append("merge_init_into_class: true")
    first = FIRST.get(path.removeprefix(f"{_PACKAGE}."))
    if first:
        rest = [one for one in _list_members(thing) if one not in first]
        options += [f"members: [{', '.join((*first, *rest))}]", "group_by_category: false"]
    line = f"`from {_find_import(path)} import {name}`"
    shown = "".join(f"\n      {option}" for option in options)
    return f"{NOTE}\n# {name}\n\n{line}\n\n::: {path}\n    options:{shown}"


def _list_members(thing: type) -> list[str]:
    """Return the public members of a class in the order of its source, without async forms."""
    own = [*vars(thing), *(name for name in thing.__annotations__ if name not in vars(thing))]
    names = ["__init__", *(name for name in own if not name.startswith("_"))]
    return [name for name in names if not (name.startswith("a") and name[1:] in names)]


def _has_our_members(base: type) -> bool:
    return base.__module__.startswith(_PACKAGE) and not getattr(base, "_is_protocol", False)


def list_errors() -> list[type[errors.ConvMemError]]:
    """Return every error of the package, the base first."""
    return [
        one
        for one in vars(errors).values()
        if inspect.isclass(one) and issubclass(one, errors.ConvMemError)
    ]


def _list_errors() -> Iterator[str]:
    yield NOTE
    yield "# Errors\n"
    yield (
        "Every error is a `ConvMemError`, imported from `langchain_convmem.errors`. "
        "[How to fix each](../../how_to/troubleshoot.md). If `is_retryable` is true, the same call may "
        "succeed later.\n"
    )
    yield "| error | also a | means | retryable | attributes |"
    yield "| --- | --- | --- | --- | --- |"
    for error in list_errors():
        bases = [
            base.__name__
            for base in error.__bases__
            if base.__module__ != "langchain_core.exceptions"
        ]
        bases = [base for base in bases if base != "ConvMemError"]
        means = re.sub(r"\s+", " ", (inspect.getdoc(error) or "").partition("\n\n")[0])
        facts = [name for name in vars(error).get("__annotations__", {}) if name != "is_retryable"]
        yield (
            f"| `{error.__name__}` | {', '.join(f'`{base}`' for base in bases)} | {means} | "
            f"{'yes' if error.is_retryable else ''} | {', '.join(f'`{fact}`' for fact in facts)} |"
        )


# -- commands ---


def _write_commands() -> Iterator[tuple[str, str]]:
    from langchain_convmem.cli.app import convmem

    lines = [
        NOTE,
        "# Every command and option",
        "",
        (
            "`convmem COMMAND --help` prints them with examples. [Using the command line](command_line.md) "
            "shows example sessions and describes the shared options."
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
        "# Storage",
        "",
        (
            "This page lists the tables and keys of the logs. They may change with the schema version, so read "
            "logs through the package or `convmem export`, and use this page to size, back up and audit."
        ),
        "",
        "## SQLite",
        "",
        "`SQLiteLog` creates a file with this schema:",
        "",
        "```sql",
        *_describe_sqlite(),
        "```",
        "",
        "## PostgreSQL",
        "",
        (
            "The schema, `convmem` by default, has the same tables except `identity`, with the same "
            "columns and indexes. `INTEGER` becomes `bigint`, and `BLOB` becomes `bytea`."
        ),
        "",
        "## DynamoDB",
        "",
        (
            "`make_table_definition` in `langchain_convmem.logs.dynamodb` returns the table as data: the keys "
            "`pk` and `sk`, and `by_thread`, a local index of `pk` and `tp`. A turn writes items such as these:"
        ),
        "",
        "| `pk` | `sk` | `tp` | other attributes |",
        "| --- | --- | --- | --- |",
        *_list_dynamodb_items(),
        "",
        "The keys consist of:",
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
    from langchain_convmem.turns.memory import TurnOptions

    return [
        (
            "A turn",
            (
                "Pass these to `memory.wrap`, graph nodes and agents, or to a single call: "
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
            "One call of a conversation",
            "`conversation.send_message(text, ...)`.",
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


if __name__ == "__main__":
    raise SystemExit(save(write_pages(), sys.argv, "reference"))
