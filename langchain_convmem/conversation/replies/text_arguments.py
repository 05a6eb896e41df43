"""Which arguments of tools are texts: some models do not write the types of what they pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["text_arguments"]


def text_arguments(tools: Iterable[Any]) -> dict[str, frozenset[str]]:
    """Return the names of the arguments that can only be texts, by the tool's name.

    Args:
        tools: In the form of OpenAI; what has another form tells nothing.
    """
    found = {}
    for tool in tools:
        function = _map(tool, "function") or tool
        properties = _map(_map(function, "parameters"), "properties")
        if isinstance(function, Mapping) and isinstance(function.get("name"), str):
            texts = (key for key, schema in properties.items() if _types(schema) == {"string"})
            found[function["name"]] = frozenset(texts)
    return found


def _types(schema: Any) -> set[str]:
    """Return the types that a schema names, without that of nothing."""
    if not isinstance(schema, Mapping):
        return set()
    told = schema.get("type", [])
    inner = [kind for one in schema.get("anyOf", []) for kind in _types(one)]
    return {*([told] if isinstance(told, str) else told), *inner} - {"null"}


def _map(holder: Any, key: str) -> Mapping[str, Any]:
    found = holder.get(key) if isinstance(holder, Mapping) else None
    return found if isinstance(found, Mapping) else {}
