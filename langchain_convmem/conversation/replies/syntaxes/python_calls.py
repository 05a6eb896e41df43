"""Calls written as Python: `[find(text="a", n=3), sort()]`. Nothing of them is evaluated."""

from __future__ import annotations

import ast
import re
from keyword import kwlist
from typing import Any

from langchain_convmem.conversation.replies.syntaxes.calls import Call, broken, call_of

__all__ = ["python_calls"]

# A text that is not closed goes to the end: nothing is searched twice.
_TEXT_OR_WORD = re.compile(
    rf"""'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?|\b({"|".join(kwlist)})(?=\s*=[^=])""", re.DOTALL
)
_NO_KEYWORD = "_is_an_argument"
_SPECIAL = re.compile(
    r"""(\\(?:[\\'"abfnrtv]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}))|\\|\n|\r"""
)
"""An escape that Python knows, or what it takes in no text as it is."""

_CONSTANTS = {"true": True, "false": False, "null": None}


def python_calls(text: str) -> list[Call]:
    """Read one call or a list of calls; arguments are literals, and named."""
    try:
        tree = ast.parse(_TEXT_OR_WORD.sub(_as_python, text.strip()), mode="eval")
        nodes = tree.body.elts if isinstance(tree.body, ast.List | ast.Tuple) else [tree.body]
        found = [_call(node, text) for node in nodes]
    except (MemoryError, RecursionError, SyntaxError, ValueError):
        return [broken(text)]
    return found or [broken(text)]


def _as_python(found: re.Match[str]) -> str:
    """Return what Python takes: texts without line ends and foreign escapes, names but keywords."""
    return _SPECIAL.sub(_escaped, found[0]) if found[1] is None else found[1] + _NO_KEYWORD


def _escaped(special: re.Match[str]) -> str:
    return special[1] or repr(special[0])[1:-1]


def _call(node: ast.expr, text: str) -> Call:
    if not isinstance(node, ast.Call):
        return broken(text)
    name = ast.unparse(node.func)
    if node.args or not all(part.isidentifier() for part in name.split(".")):
        return broken(text)
    names = [(one.arg or "").removesuffix(_NO_KEYWORD) for one in node.keywords]
    if "" in names or len(set(names)) < len(names):
        return broken(text, name)
    values = [_literal(one.value) for one in node.keywords]
    return call_of(name, dict(zip(names, values, strict=True)), text)


def _literal(node: ast.expr) -> Any:
    for inner in ast.walk(node):
        if isinstance(inner, ast.List | ast.Tuple):
            inner.elts = [_constant(one) for one in inner.elts]
        elif isinstance(inner, ast.Dict):
            inner.values = [_constant(one) for one in inner.values]
    return ast.literal_eval(_constant(node))


def _constant(node: ast.expr) -> ast.expr:
    """Return a constant for the names that JSON has for one."""
    if isinstance(node, ast.Name) and node.id in _CONSTANTS:
        return ast.Constant(_CONSTANTS[node.id])
    return node
