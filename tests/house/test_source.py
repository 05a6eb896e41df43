"""Rules of the house that no linter knows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import langchain_convmem

PACKAGE = Path(langchain_convmem.__file__).parent
PROJECT = PACKAGE.parent
SOURCES = sorted(PACKAGE.rglob("*.py"))

FOREIGN_CODE_BORDERS = {
    "cli/models.py": 2,  # a provider's constructor, and its calls
    "conversation/text_backend.py": 2,  # sessions that are to go back, or to close
    "conversation/tools.py": 1,  # tools, called and awaited
    "integrations/vector_store.py": 1,  # a vector store, with an embedder inside
    "prompts/variables.py": 1,  # functions that prompts name
    "recall/embedding.py": 2,  # lines and questions
    "recall/recall.py": 1,  # a rewriter of questions
    "runnables.py": 1,  # models that summarise, judge or profile
    "summarizing/summarizers.py": 1,  # whoever hands threads over
}
"""Where code that is not ours may raise anything; how many such handlers each file holds."""

LAST_HANDLERS = {
    "cli/app.py",  # Ctrl-C becomes an exit code
    "cli/servers.py",  # Ctrl-C is how the server is ended
    "conversation/turn.py",  # every exception is handed to the turn, which decides
    "background.py",  # what a thread raises is handed to whoever waits for it
}
"""Where what stops a process may be caught without being raised again."""


def _name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


_LOOKED_AT = ast.ExceptHandler | ast.Import | ast.ImportFrom | ast.withitem


@cache
def _nodes(path: Path) -> tuple[_LOOKED_AT, ...]:
    walked = ast.walk(ast.parse(path.read_text()))
    return tuple(node for node in walked if isinstance(node, _LOOKED_AT))


def _handlers(path: Path) -> Iterator[tuple[ast.ExceptHandler, str]]:
    for node in _nodes(path):
        if isinstance(node, ast.ExceptHandler):
            caught = "" if node.type is None else ast.unparse(node.type)
            yield node, caught


def _count_borders(path: Path) -> int:
    """Return how many handlers and traps of a file catch any exception."""
    traps = [
        ast.unparse(node.context_expr) for node in _nodes(path) if isinstance(node, ast.withitem)
    ]
    caught = [name for _, name in _handlers(path)]
    caught += [call for call in traps if call.startswith("ErrorTrap(")]
    return sum(1 for name in caught if re.search(r"\bException\b", name))


def test_there_are_sources_to_look_at():
    assert {"wrap.py", "memory.py", "logs/sqlite.py", "recall/ranking.py"} <= set(
        map(_name, SOURCES)
    )


def test_everything_is_caught_at_the_borders_to_foreign_code_and_nowhere_else():
    found = {_name(path): _count_borders(path) for path in SOURCES}
    assert {name: count for name, count in found.items() if count} == FOREIGN_CODE_BORDERS


def test_what_stops_the_process_is_passed_on():
    swallowing = [
        f"{_name(path)}:{handler.lineno}"
        for path in SOURCES
        if _name(path) not in LAST_HANDLERS
        for handler, caught in _handlers(path)
        if re.search(r"BaseException|KeyboardInterrupt|SystemExit|GeneratorExit", caught)
        and not any(isinstance(node, ast.Raise) for node in ast.walk(handler))
    ]
    assert swallowing == []


HOMES = {
    "click": "cli",
    "jinja2": ("text", "web"),
    "langchain_core.chat_history": "history.py",
    "langchain_core.retrievers": ("recall/retriever.py", "turns/chains.py"),
    "rich": ("cli/output.py", "cli/rendering.py"),
    "sqlite3": ("logs/sqlite", "transfer/source.py"),
    "markdown_it": "web/display.py",
    "starlette": "web",
    "uvicorn": "cli/servers.py",
    "pickle": "(nowhere)",
}
"""How the names of the files begin that may import a thing."""


@pytest.mark.parametrize("module", HOMES)
def test_what_is_foreign_stands_in_its_own_files(module):
    users = [_name(path) for path in SOURCES if _imports(path, module)]
    assert [name for name in users if not name.startswith(HOMES[module])] == []


def _imports(path: Path, module: str) -> bool:
    return any(f"{name}.".startswith(f"{module}.") for name in _imported_modules(path))


def _imported_modules(path: Path) -> set[str]:
    found: set[str] = set()
    for node in _nodes(path):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


_MACHINE = re.compile("/" + "(tmp|work|root|home)" + "/")
_WRITTEN = {".cfg", ".ipynb", ".json", ".jsonl", ".md", ".prompt", ".py", ".toml", ".yaml", ".yml"}
_LEFT_OUT = {".git", ".venv", "__pycache__", "build", "dist", "node_modules"}


def _project_files() -> Iterator[Path]:
    for path in PROJECT.rglob("*"):
        parts = path.relative_to(PROJECT).parts
        hidden = [part for part in parts[:-1] if part.startswith(".") and part != ".ci"]
        if hidden or _LEFT_OUT & set(parts) or not path.is_file():
            continue
        if path.suffix in _WRITTEN or path.name in {"Makefile", "LICENSE", "NOTICE", "run"}:
            yield path


def test_nothing_names_a_directory_of_the_machine_it_was_written_on():
    traces = [
        f"{path.relative_to(PROJECT).as_posix()}:{number}: {line.strip()[:80]}"
        for path in _project_files()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if _MACHINE.search(line)
    ]
    assert traces == []
