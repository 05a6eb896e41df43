"""Tests use public names: no import of, and no reach into, what the package keeps to itself.

A private name of the package is one that begins with an underscore and that some file of the
package defines.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import langchain_convmem

PACKAGE = Path(langchain_convmem.__file__).parent
TESTS = PACKAGE.parent / "tests"

NOT_OURS = {
    *("_llm_type", "_identifying_params", "_get_ls_params", "_generate"),  # hooks
    *("_replace", "_client", "_async_client"),  # of named tuples and of providers' models
}
"""Names by which LangChain call us, and those that others have as well."""

_OWN = {"self", "cls", "super()"}  # what the test itself is part of
_IN_TEXT = re.compile(r"langchain_convmem[\w.]*\.(_\w+)")


def is_private(name: str) -> bool:
    """Whether a name is private by its form."""
    return name.startswith("_") and not name.endswith("__")


@cache
def list_private_names() -> frozenset[str]:
    """Return the private names that the package defines, at any depth."""
    names: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        if path.stem != "__init__" and is_private(path.stem):
            names.add(path.stem)
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                names.add(node.attr)
    return frozenset(filter(is_private, names)) - NOT_OURS


def find_uses(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each use of a private name of the package."""
    private = list_private_names()
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE.name):
            names = [*str(node.module).split("."), *(alias.name for alias in node.names)]
            names = [name for name in names if is_private(name)]
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) not in _OWN:
            names = [node.attr]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("attr"):
            texts = [one.value for one in node.args if isinstance(one, ast.Constant)]
            names = [text for text in texts if isinstance(text, str)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = _IN_TEXT.findall(node.value)
        yield from ((node.lineno, name) for name in names if name in private)


def list_tests() -> Iterator[tuple[str, str]]:
    """Yield the path and the text of every file of the tests but this one."""
    for path in sorted({*TESTS.rglob("*.py")} - {Path(__file__)}):
        yield path.relative_to(TESTS).as_posix(), path.read_text("utf-8")


def test_each_way_to_use_a_private_name_is_found():
    source = """
from langchain_convmem.logs.sqlite import _connections
log._connections
monkeypatch.setattr(sqlite_file, "_connections", None)
patch("langchain_convmem.logs.sqlite._connections")
self._connections
os._exit(0)
model._generate()
"""
    assert [line for line, _ in find_uses(source)] == [2, 3, 4, 5]


def test_no_test_uses_a_private_name_of_the_package():
    found = {name: [*find_uses(text)] for name, text in list_tests()}
    assert {name: uses for name, uses in found.items() if uses} == {}
