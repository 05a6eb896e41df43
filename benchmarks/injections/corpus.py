"""The attacks and the templates, as data."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from langchain_convmem import ChatTemplate

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Attack:
    """One text, and where it is planted.

    Attributes:
        id: Its name.
        category: What is attacked.
        place: Where the text is planted.
        text: The text.
        must: What must hold, in words.
        family: Of an attack on chat templates, the template.
        trust: The trust class that its recalled line must have; empty where nobody asks.
    """

    id: str
    category: str
    place: str
    text: str
    must: str
    family: str = ""
    trust: str = ""

    @property
    def harmless(self) -> str:
        """A text of the same shape that nothing can be made of."""
        return "narrator" if self.place == "role" else re.sub(r"\S", "x", self.text)


@dataclass(frozen=True)
class Family:
    """A chat template, and the pattern of what structures its prompts."""

    source: str
    variables: Mapping[str, str]
    structure: re.Pattern[str]

    def make_template(self) -> ChatTemplate:
        tokens: dict[str, Any] = {**self.variables}
        return ChatTemplate(self.source, **tokens)


@cache
def load_attacks() -> tuple[Attack, ...]:
    rows = json.loads((_FOLDER / "attacks.json").read_text("utf-8"))
    return tuple(Attack(**row) for row in rows)


@cache
def load_families() -> dict[str, Family]:
    rows = json.loads((_FOLDER / "templates.json").read_text("utf-8"))
    return {name: _load_family(name, **row) for name, row in rows.items()}


def _load_family(name: str, source: str, variables: dict[str, str], structure: str) -> Family:
    text = ChatTemplate.from_builtin(name).source if source == "builtin" else source
    return Family(text, variables, re.compile(structure))
