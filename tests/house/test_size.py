"""The ceilings of the house: how large each room may be.

Code is counted in lines that hold code: no docstrings, comments and blank lines. What grows pays
with what it removes.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import io
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import langchain_convmem
from langchain_convmem import RecallSettings

PACKAGE = Path(langchain_convmem.__file__).parent
PROJECT = PACKAGE.parent

LONGEST_FILE, LONGEST_CLASS, LONGEST_FUNCTION = 700, 400, 60

CEILINGS = {
    "room: top level": 1_250,
    "room: logs": 2_700,
    "room: views": 3_600,
    "room: turns": 3_500,
    "room: recall": 3_000,
    "room: words": 1_400,
    "room: summarizing": 2_100,
    "room: profile": 1_250,
    "room: prompts": 1_150,
    "room: conversation": 1_800,
    "room: text": 2_550,
    "room: integrations": 1_600,
    "room: transfer": 2_100,
    "room: cli": 2_000,
    "room: web": 1_900,
    "room: offline": 400,
    "room: testing": 1_700,
    "package": 34_000,
    "files of the package": 155,
    "code above 700 lines a file": 0,
    "code above 400 lines a class": 0,
    "code above 60 lines a function": 0,
    "files in import circles": 0,
    "settings of recall": 20,
    "public names of the root": 40,
    "public names": 110,
    "lines of tests": 48_000,
    "lines of benchmarks": 9_500,
    "lines of examples and generators": 3_000,
    "kB of rules as data": 280,
}

TURN_FILES = {"memory", "history", "wrap", "summarizing_memory", "thread_memory", "titles"}
"""Files of the top level that belong to the room of the turn."""

_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def find_code_lines(source: str) -> set[int]:
    """Return the numbers of the lines that hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | _Function) and ast.get_docstring(node):
            lines.difference_update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return lines


@dataclass(frozen=True)
class Source:
    """A file of the package."""

    path: Path
    tree: ast.Module
    code: set[int]

    @property
    def parts(self) -> tuple[str, ...]:
        """Where it stands: its module below the package, part by part."""
        return self.path.relative_to(PACKAGE).with_suffix("").parts

    @property
    def module(self) -> str:
        """Its full dotted name."""
        parts = [part for part in self.parts if part != "__init__"]
        return ".".join([PACKAGE.name, *parts])

    @property
    def room(self) -> str:
        """The room that it belongs to."""
        if len(self.parts) > 1:
            return self.parts[0]
        return "turns" if self.parts[0] in TURN_FILES else "top level"

    def count(self, node: ast.stmt) -> int:
        """Return how many lines of code a class or function has."""
        return len(self.code & set(range(node.lineno, (node.end_lineno or 0) + 1)))


@cache
def read_sources() -> tuple[Source, ...]:
    """Return every file of the package."""
    texts = {path: path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
    return tuple(
        Source(path, ast.parse(text), find_code_lines(text)) for path, text in texts.items()
    )


def sum_excess(counts: Sequence[int], most: int) -> int:
    """Return by how much counts pass a ceiling, in all."""
    return sum(max(count - most, 0) for count in counts)


def count_nodes(kinds: type | tuple[type, ...]) -> list[int]:
    """Return the lines of code of each class, or each function, of the package."""
    return [
        source.count(node)
        for source in read_sources()
        if source.room != "testing"
        for node in ast.walk(source.tree)
        if isinstance(node, kinds)
    ]


def count_lines(*folders: str) -> int:
    """Return the physical lines of all Python files of folders."""
    return sum(
        len(path.read_text("utf-8").splitlines())
        for folder in folders
        for path in (PROJECT / folder).rglob("*.py")
    )


def count_rules() -> int:
    """Return the kilobytes of rules that are kept as data."""
    return (
        sum(
            path.stat().st_size
            for path in PACKAGE.rglob("*")
            if path.suffix in {".json", ".toml", ".txt"}
        )
        // 1000
    )


def list_public_names() -> dict[str, list[str]]:
    """Return what the `__all__` of each package lists; the root is called ""."""
    return {
        "/".join(source.parts[:-1]): getattr(importlib.import_module(source.module), "__all__", [])
        for source in read_sources()
        if source.parts[-1] == "__init__"
    }


def list_imports(source: Source, modules: set[str]) -> Iterator[str]:
    """Yield the modules of the package that a file imports anywhere, for type checkers too."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE.name):
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in modules else str(node.module)


def find_circles(imports: dict[str, set[str]]) -> set[str]:
    """Return what imports itself by way of others."""

    def reach(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [*imports[start]]
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting.extend(imports.get(name, ()))
        return seen

    return {name for name in imports if name in reach(name)}


def find_own_circles() -> set[str]:
    """Return the modules of the package that import each other; packages only pass names on."""
    sources = [source for source in read_sources() if source.parts[-1] != "__init__"]
    modules = {source.module for source in sources}
    return find_circles({one.module: set(list_imports(one, modules)) for one in sources})


def test_a_circle_is_found():
    assert find_circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == {"b", "c"}


@cache
def measure() -> dict[str, int]:
    """Return every figure that has a ceiling."""
    sources = read_sources()
    rooms: Counter[str] = Counter()
    for source in sources:
        rooms[f"room: {source.room}"] += len(source.code)
    own_files = [one for one in sources if one.path.stem not in {"__init__", "__main__"}]
    files = [len(source.code) for source in sources if source.room != "testing"]
    public = list_public_names()
    return {
        **rooms,
        "package": rooms.total(),
        "files of the package": len(own_files),
        "code above 700 lines a file": sum_excess(files, LONGEST_FILE),
        "code above 400 lines a class": sum_excess(count_nodes(ast.ClassDef), LONGEST_CLASS),
        "code above 60 lines a function": sum_excess(
            count_nodes((ast.FunctionDef, ast.AsyncFunctionDef)), LONGEST_FUNCTION
        ),
        "files in import circles": len(find_own_circles()),
        "settings of recall": len(inspect.signature(RecallSettings).parameters),
        "public names of the root": len(public[""]),
        "public names": len(set().union(*public.values())),
        "lines of tests": count_lines("tests"),
        "lines of benchmarks": count_lines("benchmarks"),
        "lines of examples and generators": count_lines("examples", "docs/generate"),
        "kB of rules as data": count_rules(),
    }


def test_every_room_has_a_ceiling():
    assert measure().keys() - CEILINGS.keys() == set()


@pytest.mark.parametrize("name", CEILINGS)
def test_nothing_is_above_its_ceiling(name):
    assert measure().get(name, 0) <= CEILINGS[name]
