"""Parsed prompt files as bytes: JSON that people can read, and the same compressed.

Both hold a format version, and the name and SHA-256 of the source. The binary form is a magic
number, a version and zlib over compact JSON: its checksum finds damage, and reading it runs no
code.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Literal, NamedTuple, TypeAlias

from langchain_convmem.errors import PromptSyntaxError
from langchain_convmem.prompts.parser import ParsedPrompt
from langchain_convmem.prompts.variables import Occurrence

CompiledForm: TypeAlias = Literal["json", "binary"]
COMPILED_FORMS: Mapping[str, CompiledForm] = {".json": "json", ".bytes": "binary"}
"""The forms by the ends of their files' names."""

_FORMAT = "langchain-convmem prompt"
_VERSION = 1
_OCCURRENCE_KEYS = ("functionName", "indexStart", "indexEnd")

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

    Binary content is known by its first bytes or the file's name, JSON by the name.

    Args:
        data: What the file holds.
        path: What errors call it.
        max_bytes: Most bytes that the content may have when it is unpacked.

    Raises:
        PromptSyntaxError: If it is damaged, too large or of a newer version.
    """
    suffix = PurePath(path).suffix.lower()
    is_binary = data.startswith(_MAGIC) or suffix == ".bytes"
    if not is_binary and suffix != ".json":
        return None
    try:
        content = _parse_json(_unpack(data, max_bytes) if is_binary else data)
        return _load_plain(content)
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
    }


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


# -- Reading --------------------------------------------------------------------------------------


def _unpack(data: bytes, max_bytes: int) -> bytes:
    if not data.startswith(_MAGIC[: len(data)]):
        raise _Damage(f"it was written by another program; {_AGAIN}")
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


def _load_plain(content: Any) -> CompiledPrompt:
    if not isinstance(content, dict):
        raise _Damage(f"it is not a JSON object; {_AGAIN}")
    _check_format(content)
    sections = _read_texts(content, "prompts")
    source = _read_texts(content, "source")
    prompt = ParsedPrompt(
        metadata=_read_texts(content, "metadata"),
        constants=_read_texts(content, "constants"),
        variable_definitions=_read_texts(content, "variableDefinitions"),
        sections=sections,
        occurrences=_read_occurrences(content, sections),
        diagnostics=(),
    )
    return CompiledPrompt(prompt, PromptSource(source.get("name", ""), source.get("sha256", "")))


def _check_format(content: Mapping[str, Any]) -> None:
    if content.get("format") != _FORMAT:
        raise _Damage(f"its format is not {_FORMAT!r}; {_AGAIN}")
    _check_version(content.get("version"))


def _read_texts(content: Mapping[str, Any], key: str) -> dict[str, str]:
    value = content.get(key, {})
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise _Damage(f"'{key}' is not an object of strings; {_AGAIN}")
    return value


def _read_occurrences(
    content: Mapping[str, Any], sections: Mapping[str, str]
) -> dict[str, tuple[Occurrence, ...]]:
    variables = content.get("variables", {})
    if not isinstance(variables, dict) or not variables.keys() <= sections.keys():
        raise _Damage(f"'variables' is not an object of the titles of 'prompts'; {_AGAIN}")
    found = {}
    for title, listed in variables.items():
        if not isinstance(listed, list):
            raise _Damage(f"'variables' of '{title}' is not a list; {_AGAIN}")
        places = [_read_occurrence(one) for one in listed]
        _check_places(title, places, sections[title])
        if places:
            found[title] = tuple(places)
    return found


def _read_occurrence(found: Any) -> Occurrence:
    # No `match`: there may be thousands of them, and it takes five times as long.
    if isinstance(found, dict):
        name, start, end = map(found.get, _OCCURRENCE_KEYS)
        if isinstance(name, str) and type(start) is int and type(end) is int:
            return Occurrence(name, start, end)
    raise _Damage(f"{found!r:.80} is not an occurrence of a variable; {_AGAIN}")


def _check_places(title: str, places: list[Occurrence], text: str) -> None:
    behind = 0
    for _, start, end in places:
        is_placeholder = text.startswith("{{", start) and text.endswith("}}", start, end)
        if not (behind <= start <= end - 4 and is_placeholder):
            raise _Damage(f"there is no variable at {start} to {end} of '{title}'; {_AGAIN}")
        behind = end
