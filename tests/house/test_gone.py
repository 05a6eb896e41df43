"""What was taken out is named nowhere: in no page, no notebook, no tool and no `--help`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from langchain_convmem.cli.app import convmem

ROOT = Path(__file__).parents[2]

HISTORY = ("docs/project/given_up.md", "docs/project/adr/")
"""Pages that say what was given up, and why."""

GONE = {
    "rules that judge or change summaries": (
        "claims/", "langchain_convmem.claims", "lexicon", "by_rule", "report.changed",
        "report.invented", "report.unjudged", "corrected by rule", "summarizing/topics",
    ),
    "chained entries": (
        "hash chain", "tombstone", "chain of signatures", "sign_anew", "sign_unsigned", "gap row",
        "--heads", "--against", "verify --sign", "sqlite_signing", "sqlite_repair",
    ),
    "repair": ("convmem repair", "repair_file", "log.repair(", "RepairReport"),
    "migrations of the schema": ("older schema", "earlier schema", "schema version 2"),
    "Claude's memory tool": ("claude_memory", "ClaudeMemoryMiddleware", "convmem[anthropic"),
    "telemetry": ("opentelemetry", "MemoryTelemetry", "convmem[otel", "integrations.telemetry"),
    "the ledger of vector stores": ("vector_store_sync", "StoreDialect"),
    "integrations that became examples": (
        "convmem[openai-agents", "convmem[pydantic-ai", "integrations.openai_agents",
        "integrations.pydantic_ai", "integrations.natives", "ConversationSession",
        "PydanticAIHistory",
    ),
    "imports": (
        "base_store", "BaseStoreLog", "--format mem0", "--format zep", "--format langmem",
        "--format locomo", "formats.locomo", "formats.notes",
    ),
    "tools for prompt files": (
        "prompts convert", "prompts test", "prompts serve", ".prompt.yaml", "language server",
        "pygls", "editors/", "TextMate", "convmem[lsp", "to_yaml", "from_yaml",
    ),
    "metering of templates": (
        "text/metered", "text/allowed", "text/meter.py", "text/walking", "template.refusal",
    ),
    "seeded faults": ("seeded fault", "seeded index fault"),
    "benchmarks": tuple(
        f"benchmarks.{name}"
        for name in (
            "claims", "citations", "integrity", "local_cache", "profile_speed", "profile_use",
            "prompts", "shape", "summary_gates", "summary_prefix", "summary_record",
            "templates ", "templates`", "templates_beside", "token_budgets",
        )
    ),
}  # fmt: skip
"""Words that name what went, whatever their case."""


def list_files() -> Iterator[Path]:
    """Yield what people read, but for the pages that are history."""
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "Makefile"))
    yield from (ROOT / name for name in ("pyproject.toml", "mkdocs.yml"))
    for folder, pattern in (("docs", "*.md"), ("docs", "*.py"), ("cookbook", "*.*"), (".ci", "*")):
        for path in sorted((ROOT / folder).rglob(pattern)):
            if path.is_file() and not path.relative_to(ROOT).as_posix().startswith(HISTORY):
                yield path


def list_helps(command: click.Command, words: str) -> Iterator[tuple[str, str]]:
    """Yield the help of a command, and of those below it."""
    yield f"{words} --help", command.get_help(click.Context(command, info_name=words))
    for name, below in getattr(command, "commands", {}).items():
        yield from list_helps(below, f"{words} {name}")


@cache
def read_all() -> dict[str, str]:
    """Return every text that is looked at, by its name."""
    files = {path.relative_to(ROOT).as_posix(): path for path in list_files()}
    texts = {name: path.read_text("utf-8", errors="replace") for name, path in files.items()}
    return texts | dict(list_helps(convmem, "convmem"))


def test_there_is_something_to_look_at():
    texts = read_all()
    assert {"README.md", "docs/index.md", "convmem --help", "convmem chat --help"} <= texts.keys()
    assert len(texts) > 80


@pytest.mark.parametrize("what", GONE)
def test_what_went_is_named_nowhere(what):
    words = re.compile("|".join(map(re.escape, GONE[what])), re.IGNORECASE)
    found = [
        f"{name}:{number}: {line.strip()[:120]}"
        for name, text in read_all().items()
        for number, line in enumerate(text.splitlines(), 1)
        if words.search(line)
    ]
    assert found == []
