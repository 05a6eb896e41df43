"""Public names of a package that are imported when they are first asked for (PEP 562)."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from collections.abc import Callable
from typing import Any


def load_lazily(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package.

    Its public names are those that its source imports as themselves, for type checkers alone:

        if TYPE_CHECKING:
            from langchain_convmem.prompts import PromptFile as PromptFile

    Args:
        package: Its `__name__`.
    """
    module = sys.modules[package]
    homes = {
        alias.name: node.module or ""
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(homes[name]), name)
        setattr(module, name, value)
        return value

    return get, lambda: sorted({*vars(module), *homes}), sorted(homes)
