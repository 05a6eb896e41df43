"""Files of prompts: where they may lie, how large they may be, and which are out of date."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from langchain_convmem.errors import ConfigError, PromptSyntaxError
from langchain_convmem.prompts.compiled import CompiledForm, Source, read_compiled
from langchain_convmem.prompts.diagnostics import Diagnostic, Findings, Level
from langchain_convmem.prompts.examples import diagnose_examples
from langchain_convmem.prompts.parser import ParsedPrompt, parse_prompt
from langchain_convmem.prompts.variables import registered_functions

__all__ = [
    "MAX_BYTES",
    "Limits",
    "digest",
    "form_of",
    "load_file",
    "parse_source",
    "write_whole",
]

MAX_BYTES = 1 << 20
"""Largest source that `PromptFile.load` reads unless told otherwise."""

_COMPILED_GROWTH = 32
"""So many times as large may a compiled file be: constants are filled in there."""

_FORMS: dict[str, CompiledForm] = {".json": "json", ".bytes": "binary"}


class Limits(NamedTuple):
    """What may be read: how many bytes, and below which folder (None: anywhere)."""

    max_bytes: int
    base: Path | None


def digest(data: bytes) -> str:
    """Return the hash that tells sources apart."""
    return sha256(data).hexdigest()


def form_of(path: Path) -> CompiledForm:
    """Return the compiled form that goes by the path's suffix.

    Raises:
        ConfigError: If it is another suffix; so a source is never overwritten by mistake.
    """
    form = _FORMS.get(path.suffix.lower())
    if form is None:
        suffixes = " or ".join(f"{suffix} ({form})" for suffix, form in _FORMS.items())
        msg = f"{path}: the name of a compiled prompt ends in {suffixes}"
        raise ConfigError(msg)
    return form


def parse_source(text: str, name: str, own: Collection[str]) -> ParsedPrompt:
    """Parse a source; `own` are the functions of it alone."""
    parsed = parse_prompt(text, name=name, functions={*own, *registered_functions()})
    examples = diagnose_examples(
        text.removeprefix("\ufeff"),
        name=name,
        metadata=parsed.metadata,
        sections=parsed.sections,
    )
    found = sorted((*parsed.diagnostics, *examples), key=lambda one: (one.line, one.column))
    return parsed._replace(diagnostics=tuple(found))


def load_file(
    path: Path, own: Collection[str], limits: Limits, *, strict: bool
) -> tuple[ParsedPrompt, Source]:
    """Read a file, source or compiled; arguments and errors as in `PromptFile.load`."""
    name = str(path)
    place = path if limits.base is None else _confined(path, limits.base)
    data = _limited(place, name, limits.max_bytes)
    compiled = read_compiled(data, name, max_bytes=_COMPILED_GROWTH * limits.max_bytes)
    if compiled is None:
        return parse_source(_decode(data, name), name, own), Source(path.name, digest(data))
    prompt, source = compiled
    stale = _stale(source, place, name, "error" if strict else "warning")
    missing = _missing(prompt, {*own, *registered_functions()}, name)
    return prompt._replace(diagnostics=(*stale, *missing, *prompt.diagnostics)), source


def _missing(prompt: ParsedPrompt, known: Collection[str], name: str) -> list[Diagnostic]:
    """Return an error for each function that a compiled prompt needs and nobody has."""
    places = (place for found in prompt.occurrences.values() for place in found)
    return [
        Diagnostic("error", f"there is no function '{function}' here", 1, 1, name=name)
        for function in sorted({place.function_name for place in places} - set(known))
    ]


def _confined(path: Path, base: Path) -> Path:
    """Return the file's place below `base`, symbolic links followed."""
    if path.is_absolute() or path.drive or ".." in path.parts:
        msg = f"{path}: only relative paths without '..' are loaded from the folder {base}"
        raise ConfigError(msg)
    place = (base / path).resolve()
    if not place.is_relative_to(base.resolve()):
        msg = f"{path}: this leads out of the folder {base} through a symbolic link"
        raise ConfigError(msg)
    return place


def _limited(place: Path, name: str, max_bytes: int) -> bytes:
    is_compiled = place.suffix.lower() in _FORMS
    most = max_bytes * _COMPILED_GROWTH if is_compiled else max_bytes
    with place.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        msg = (
            f"{name}: this file is larger than the {most} bytes a prompt file may have; "
            "pass max_bytes= to read a larger one"
        )
        raise PromptSyntaxError(msg, path=name)
    return data


def _stale(source: Source, place: Path, name: str, level: Level) -> list[Diagnostic]:
    beside = place.parent / source.name
    # The name comes from the file, which may come from anywhere: it must not lead elsewhere.
    if not source.sha256 or beside.name != source.name or beside.parent != place.parent:
        return []
    if beside.is_symlink() or not beside.is_file() or _hash_of(beside) == source.sha256:
        return []
    message = f"'{source.name}' beside it has changed since this was compiled; compile it again"
    return [Diagnostic(level, message, 1, 1, name=name)]


def _hash_of(path: Path) -> str:
    with path.open("rb") as file:
        found = sha256()
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()


def _decode(data: bytes, path: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        findings = Findings(path, data.decode("utf-8", "replace").removeprefix("\ufeff"))
        position = len(data[: error.start].decode("utf-8").removeprefix("\ufeff"))
        findings.error(f"a prompt file is UTF-8 text, and this is not: {error.reason}", position)
        raise findings.in_order()[0].to_error() from error


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that others see all of it or what was there before.

    Raises:
        OSError: If it cannot be written; nothing is left behind.
    """
    # Not by `tempfile`: its files are closed to all others, whatever the umask says.
    beside = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    try:
        with beside.open("xb") as file:
            file.write(data)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
