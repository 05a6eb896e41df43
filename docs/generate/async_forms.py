"""Shows an async method as one line under its synchronous one, when the reference is built."""

from __future__ import annotations

from typing import Any

import griffe


class AsyncForms(griffe.Extension):
    """Leaves `aname` out where `name` is documented, and says in the text of `name` that it exists."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Fold the async methods of a class."""
        _fold(cls)

    def on_module(self, *, mod: griffe.Module, **_: Any) -> None:
        """Fold the async functions of a module."""
        _fold(mod)


def _fold(owner: griffe.Class | griffe.Module) -> None:
    for name, member in list(owner.members.items()):
        form = owner.members.get(f"a{name}")
        if form is None or member.is_alias or form.is_alias or name.startswith("_"):
            continue
        line = f"Async: `a{name}`, with the same arguments."
        text = member.docstring.value if member.docstring else ""
        member.docstring = griffe.Docstring(
            f"{text}\n\n{line}".strip(),
            lineno=member.docstring.lineno if member.docstring else None,
            parent=member,
            parser=member.docstring.parser if member.docstring else None,
        )
        del owner.members[f"a{name}"]
