"""The shape of the package: how many files, how long, and what in it breaks the rules of the house.

    python -m benchmarks.shape [--json]

Read from the sources, nothing is imported or run.

    modules, lines, mean       files of the package, and all their lines
    documented                 public functions, methods and classes with a docstring
    public names               what the `__all__` of the packages list, each name once
    names that stand twice     classes of one name in several files
    circles                    files that import each other, imports within functions included
    inherited from own         classes with more than two bases of the package among their ancestors
    small with one importer    modules under 120 lines that one other module alone imports; formats,
                               providers and commands excepted
"""

from __future__ import annotations

import argparse
import ast
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parent.parent / "langchain_convmem"
SMALL = 120
_ONE_A_FILE = ("transfer.formats.", "cli.")
"""Formats and commands stand one a file, however short."""


@dataclass(frozen=True)
class Module:
    """A file of the package."""

    name: str
    path: Path

    @cached_property
    def text(self) -> str:
        """Its source."""
        return self.path.read_text("utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        """Its source, parsed."""
        return ast.parse(self.text)

    @cached_property
    def lines(self) -> int:
        """How many lines it has."""
        return len(self.text.splitlines())

    @property
    def classes(self) -> Iterator[ast.ClassDef]:
        """Its classes, at any depth."""
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef))


class Shape:
    """The package as files, classes and imports."""

    def __init__(self, package: Path = PACKAGE) -> None:
        """Read the sources below `package`."""
        self._root = package.name
        self.modules = {
            module.name: module for module in map(self._module, sorted(package.rglob("*.py")))
        }

    def _module(self, path: Path) -> Module:
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        return Module(".".join(part for part in parts if part != "__init__"), path)

    @property
    def lines(self) -> int:
        """The lines of all modules."""
        return sum(module.lines for module in self.modules.values())

    @property
    def documented(self) -> int:
        """How many public functions, methods and classes have a docstring."""
        return sum(
            ast.get_docstring(node) is not None
            for module in self.modules.values()
            for node in ast.walk(module.tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and not node.name.startswith("_")
        )

    @property
    def public_names(self) -> set[str]:
        """What the `__all__` of the packages list."""
        return {
            str(item.value)
            for module in self.modules.values()
            for node in module.tree.body
            if isinstance(node, ast.Assign)
            and isinstance(node.value, ast.List)
            and any(isinstance(name, ast.Name) and name.id == "__all__" for name in node.targets)
            for item in node.value.elts
            if isinstance(item, ast.Constant)
        }

    @property
    def twice(self) -> Mapping[str, list[str]]:
        """The classes of one name that stand in several modules, with these."""
        found: dict[str, list[str]] = defaultdict(list)
        for module in self.modules.values():
            for node in module.classes:
                found[node.name].append(module.name)
        return {name: where for name, where in found.items() if len(where) > 1}

    @cached_property
    def imports(self) -> Mapping[str, set[str]]:
        """Which modules each module imports as it runs, within functions too."""
        return {name: set(self._imported(module)) - {name} for name, module in self.modules.items()}

    def _imported(self, module: Module) -> Iterator[str]:
        for_types = {
            id(node)
            for branch in ast.walk(module.tree)
            if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING"
            for node in ast.walk(branch)
        }
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom) and id(node) not in for_types and node.module:
                root, _, name = node.module.partition(".")
                if root == self._root:
                    for alias in node.names:
                        full = f"{name}.{alias.name}".lstrip(".")
                        yield full if full in self.modules else name

    @property
    def circles(self) -> list[list[str]]:
        """Modules that import each other, directly or through others."""
        reached = {name: self._reached(name) for name in self.modules}
        groups = {
            tuple(sorted(other for other in reached[name] if name in reached[other]))
            for name in self.modules
            if name in reached[name]
        }
        return [list(group) for group in sorted(groups)]

    def _reached(self, name: str) -> set[str]:
        seen: set[str] = set()
        waiting = list(self.imports[name])
        while waiting:
            other = waiting.pop()
            if other not in seen and other in self.modules:
                seen.add(other)
                waiting.extend(self.imports[other])
        return seen

    @property
    def many_bases(self) -> list[str]:
        """Classes with more than two classes of the package among their ancestors."""
        bases = {
            node.name: {ast.unparse(base).split("[")[0] for base in node.bases}
            for module in self.modules.values()
            if not module.name.startswith(("testing", "protocols"))
            for node in module.classes
            if not _is_error(node.name)
        }

        def ancestors(name: str) -> set[str]:
            own = {base for base in bases.get(name, ()) if base in bases and base != name}
            return own.union(*map(ancestors, own))

        return sorted(name for name in bases if len(ancestors(name)) > 2)

    @property
    def small_with_one_importer(self) -> list[str]:
        """Modules under 120 lines that one other module alone imports."""
        importers: dict[str, set[str]] = defaultdict(set)
        for name, imported in self.imports.items():
            for other in imported:
                importers[other].add(name)
        return [
            name
            for name, module in self.modules.items()
            if module.lines < SMALL
            and len(importers[name]) == 1
            and not name.startswith(_ONE_A_FILE)
            and module.path.name != "__init__.py"
        ]


def _is_error(name: str) -> bool:
    return name.endswith(("Error", "Warning"))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures, and what breaks a rule."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.shape",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)
    shape = Shape()
    figures: dict[str, Any] = {
        "modules": len(shape.modules),
        "lines": shape.lines,
        "mean": round(shape.lines / len(shape.modules)),
        "documented": shape.documented,
        "public names": len(shape.public_names),
        "names that stand twice": shape.twice,
        "circles": shape.circles,
        "inherited from own": shape.many_bases,
        "small with one importer": shape.small_with_one_importer,
    }
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        print(f"{name:24}", value if isinstance(value, int) else f"{len(value)}  {value or ''}")


if __name__ == "__main__":
    main()
