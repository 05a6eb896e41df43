"""Parsed prompt files as bytes: JSON that people can read, and the same compressed.

Both hold a format version, and the name and SHA-256 of the source. The binary form is a magic
number, a version and zlib over compact JSON: its checksum finds damage, and reading it runs no
code. JSON with the three keys `metadata`, `variables` and `prompts` alone, which counts in UTF-16
units, is read too.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from itertools import accumulate
from pathlib import PurePath
from typing import Any, Literal, NamedTuple, TypeAlias

from langchain_convmem.errors import PromptSyntaxError
from langchain_convmem.prompts.diagnostics import Diagnostic
from langchain_convmem.prompts.parser import ParsedPrompt
from langchain_convmem.prompts.variables import Occurrence, clean_name

CompiledForm: TypeAlias = Literal["json", "binary"]
_FORMAT = "langchain-convmem prompt"
_VERSION = 1
_OCCURRENCE_KEYS = ("functionName", "indexStart", "indexEnd")
_FOREIGN_KEYS = {"metadata", "variables", "prompts"}

# Its first byte is never the first of UTF-8 text.
_MAGIC = b"\x89convmem"

_HEADER = struct.Struct("<8sH")
_AGAIN = "compile its source again"


class PromptSource(NamedTuple):
    """What a prompt was parsed from.

    Attributes:
        name: Name of the file without folders; empty for a text without a file.
        sha256: Hash of its bytes in hexadecimal; empty if it is not known.
    """

    name: str = ""
    sha256: str = ""


class CompiledPrompt(NamedTuple):
    """What a compiled file holds."""

    prompt: ParsedPrompt
    source: PromptSource


class _Damage(Exception):  # noqa: N818 - never leaves this file
    """Why the content cannot be read."""


def compile_prompt(compiled: CompiledPrompt, form: CompiledForm) -> bytes:
    """Return the bytes of a compiled file."""
    content = _dump_plain(compiled)
    if form == "json":
        return _encode(json.dumps(content, ensure_ascii=False, indent=4) + "\n")
    compact = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return _HEADER.pack(_MAGIC, _VERSION) + zlib.compress(_encode(compact))


def read_compiled(data: bytes, path: str, *, max_bytes: int) -> CompiledPrompt | None:
    """Return what a compiled file holds; None if the file is a source.

    Binary content is known by its first bytes, JSON by the file's name.

    Args:
        data: What the file holds.
        path: What errors call it.
        max_bytes: Most bytes that the content may have when it is unpacked.

    Raises:
        PromptSyntaxError: If it is damaged, too large or of a newer version.
    """
    is_binary = data.startswith(_MAGIC)
    if not is_binary and PurePath(path).suffix.lower() != ".json":
        return None
    try:
        content = _parse_json(_unpack(data, max_bytes) if is_binary else data)
        return _load_plain(content, path)
    except _Damage as damage:
        msg = f"{path}: this is not a readable compiled prompt: {damage}"
        raise PromptSyntaxError(msg, path=path) from damage


# -- Writing --------------------------------------------------------------------------------------


def _dump_plain(compiled: CompiledPrompt) -> dict[str, Any]:
    prompt, source = compiled
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "source": source._asdict(),
        "metadata": dict(prompt.metadata),
        "constants": dict(prompt.constants),
        "variableDefinitions": dict(prompt.variable_definitions),
        "variables": {
            title: [
                {"functionName": name, "indexStart": start, "indexEnd": end}
                for name, start, end in places
            ]
            for title, places in prompt.occurrences.items()
        },
        "prompts": dict(prompt.sections),
        "diagnostics": [
            # Without the source line: thousands of findings may stand in one long line.
            {"level": one.level, "line": one.line, "column": one.column, "message": one.message}
            for one in prompt.diagnostics
        ],
    }


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


# -- Reading --------------------------------------------------------------------------------------


def _unpack(data: bytes, max_bytes: int) -> bytes:
    if len(data) < _HEADER.size:
        raise _Damage(f"it is cut off; {_AGAIN}")
    _, version = _HEADER.unpack_from(data)
    _check_version(version)
    unpacking = zlib.decompressobj()
    try:
        content = unpacking.decompress(data[_HEADER.size :], max_bytes + 1)
    except zlib.error as error:
        raise _Damage(f"its content is damaged ({error}); {_AGAIN}") from error
    if len(content) > max_bytes:
        raise _Damage(f"it unpacks to more than {max_bytes} bytes; pass max_bytes= to allow more")
    if not unpacking.eof or unpacking.unused_data:
        raise _Damage(f"it does not end where it should; {_AGAIN}")
    return content


def _check_version(version: object) -> None:
    if version != _VERSION:
        reads = f"this release reads version {_VERSION}"
        raise _Damage(f"it has format version {version!r:.20}, and {reads}; {_AGAIN}")


def _parse_json(data: bytes) -> Any:
    try:
        return json.loads(data.decode("utf-8", "surrogatepass").removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise _Damage(f"it is not JSON ({error}); {_AGAIN}") from error


def _load_plain(content: Any, path: str) -> CompiledPrompt:
    if not isinstance(content, dict):
        raise _Damage(f"it is not a JSON object; {_AGAIN}")
    is_foreign = "format" not in content
    if is_foreign and (not content or set(content) - _FOREIGN_KEYS):
        raise _Damage(f"it does not have the keys of one; {_AGAIN}")
    if not is_foreign:
        _check_format(content)
    sections = _read_texts(content, "prompts")
    occurrences = _read_occurrences(content, sections, in_utf16=is_foreign)
    definitions = _read_texts(content, "variableDefinitions")
    source = _read_texts(content, "source")
    place = _name_source(path, source.get("name", ""))
    prompt = ParsedPrompt(
        metadata=_read_texts(content, "metadata"),
        constants=_read_texts(content, "constants"),
        variable_definitions=_derive_definitions(sections, occurrences)
        if is_foreign
        else definitions,
        sections=sections,
        occurrences=occurrences,
        diagnostics=tuple(
            _read_diagnostic(one, place) for one in _read_list(content, "diagnostics")
        ),
    )
    return CompiledPrompt(prompt, PromptSource(source.get("name", ""), source.get("sha256", "")))


def _check_format(content: Mapping[str, Any]) -> None:
    if content["format"] != _FORMAT:
        raise _Damage(f"its format is {content['format']!r}, not {_FORMAT!r}")
    _check_version(content.get("version"))


def _name_source(path: str, source_name: str) -> str:
    """Return what diagnostics call the source: their lines are lines of it."""
    try:
        return str(PurePath(path).with_name(source_name))
    except ValueError:
        return path


def _read_texts(content: Mapping[str, Any], key: str) -> dict[str, str]:
    value = content.get(key, {})
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise _Damage(f"'{key}' is not an object of strings; {_AGAIN}")
    return value


def _read_list(content: Mapping[str, Any], key: str) -> list[Any]:
    value = content.get(key, [])
    if not isinstance(value, list):
        raise _Damage(f"'{key}' is not a list; {_AGAIN}")
    return value


def _read_occurrences(
    content: Mapping[str, Any], sections: Mapping[str, str], *, in_utf16: bool
) -> dict[str, tuple[Occurrence, ...]]:
    variables = content.get("variables", {})
    if not isinstance(variables, dict) or not variables.keys() <= sections.keys():
        raise _Damage(f"'variables' is not an object of the titles of 'prompts'; {_AGAIN}")
    found = {}
    for title in variables:
        text = sections[title]
        units = _count_utf16_units(text) if in_utf16 and not text.isascii() else {}
        places = [_read_occurrence(one, units) for one in _read_list(variables, title)]
        _check_places(title, places, text)
        if places:
            found[title] = tuple(places)
    return found


def _read_occurrence(found: Any, units: Mapping[int, int]) -> Occurrence:
    # No `match`: there may be thousands of them, and it takes five times as long.
    if isinstance(found, dict):
        name, start, end = map(found.get, _OCCURRENCE_KEYS)
        if isinstance(name, str) and type(start) is int and type(end) is int:
            return Occurrence(name, units.get(start, start), units.get(end, end))
    raise _Damage(f"{found!r:.80} is not an occurrence of a variable; {_AGAIN}")


def _count_utf16_units(text: str) -> dict[int, int]:
    """Return code points by UTF-16 units: how many of each stand in front of a character."""
    units = accumulate((1 + (char > "\uffff") for char in text), initial=0)
    return {unit: point for point, unit in enumerate(units)}


def _check_places(title: str, places: list[Occurrence], text: str) -> None:
    behind = 0
    for _, start, end in places:
        is_placeholder = text.startswith("{{", start) and text.endswith("}}", start, end)
        if not (behind <= start <= end - 4 and is_placeholder):
            raise _Damage(f"there is no variable at {start} to {end} of '{title}'; {_AGAIN}")
        behind = end


def _derive_definitions(
    sections: Mapping[str, str], occurrences: Mapping[str, tuple[Occurrence, ...]]
) -> dict[str, str]:
    """Return the definitions of variables, told by where they stand."""
    return {
        clean_name(sections[title][start + 2 : end - 2]): name
        for title, places in occurrences.items()
        for name, start, end in places
    }


def _read_diagnostic(found: Any, path: str) -> Diagnostic:
    match found:
        case {
            "level": "error" | "warning" | "info" as level,
            "line": int(line),
            "column": int(column),
            "message": str(message),
        }:
            return Diagnostic(level, message, line, column, name=path)
    raise _Damage(f"{found!r:.80} is not a diagnostic; {_AGAIN}")
