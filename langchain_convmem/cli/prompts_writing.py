"""Where compiled prompts are written, and what may be written over."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from langchain_convmem.errors import ConfigError, PromptSyntaxError
from langchain_convmem.prompts import PromptFile
from langchain_convmem.prompts.compiled import read_compiled

__all__ = ["SUFFIXES", "is_other_file", "write_compiled"]

SUFFIXES = {"binary": ".bytes", "json": ".json"}
"""Endings of compiled prompts, by form."""

_MAX_BYTES = 1 << 26


def is_other_file(path: Path) -> bool:
    """Return whether there is something at `path` that is no compiled prompt."""
    if not path.exists():
        return False
    try:
        data = path.read_bytes()
        return read_compiled(data, str(path), max_bytes=_MAX_BYTES) is None
    except (OSError, PromptSyntaxError):
        return True


def write_compiled(prompt: PromptFile, targets: Sequence[Path]) -> None:
    """Write the compiled forms that the targets' endings name, over those of earlier compiles.

    Raises:
        ConfigError: If one cannot be written.
    """
    for target in targets:
        try:
            prompt.save(target)
        except OSError as error:
            raise ConfigError(f"{target} cannot be written: {error.strerror or error}") from error
