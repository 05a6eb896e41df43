"""Parsed prompt files as bytes: JSON that people can read, and the same compressed.

Both hold a format version, and the name and SHA-256 of the source. The binary form is a magic
number and zlib over compact JSON: its checksum finds damage, and reading it runs no code.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import PurePath
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError

from langchain_convmem.errors import PromptSyntaxError
from langchain_convmem.prompts.parser import ParsedPrompt
from langchain_convmem.prompts.variables import Occurrence

CompiledForm: TypeAlias = Literal["json", "binary"]
COMPILED_FORMS: Mapping[str, CompiledForm] = {".json": "json", ".bytes": "binary"}
"""The forms by the ends of their files' names."""

# Its first byte is never the first of UTF-8 text.
_MAGIC = b"\x89convmem"


class PromptSource(NamedTuple):
    """What a prompt was parsed from.

    Attributes:
        name: Name of the file without folders; empty for a text without a file.
        sha256: Hash of its bytes in hexadecimal; empty if it is not known.
    """

    name: str = ""
    sha256: str = ""


def _check_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("not a string")  # noqa: TRY004 - pydantic takes no other
    return value


_Texts = dict[str, Annotated[str, PlainValidator(_check_text)]]


class _Place(BaseModel):
    model_config = ConfigDict(strict=True)

    function_name: str = Field(alias="functionName")
    start: int = Field(alias="indexStart")
    end: int = Field(alias="indexEnd")


class _Content(BaseModel):
    model_config = ConfigDict(strict=True)

    format: Literal["langchain-convmem prompt"]
    version: Literal[1]
    source: _Texts = Field({})
    metadata: _Texts = Field({})
    constants: _Texts = Field({})
    variable_definitions: _Texts = Field({}, alias="variableDefinitions")
    variables: dict[str, list[_Place]] = Field({})
    prompts: _Texts = Field({})


def compile_prompt(prompt: ParsedPrompt, source: PromptSource, form: CompiledForm) -> bytes:
    """Return the bytes of a compiled file."""
    content = {
        "format": "langchain-convmem prompt",
        "version": 1,
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
    if form == "json":
        text = json.dumps(content, ensure_ascii=False, indent=4) + "\n"
        return text.encode("utf-8", "surrogatepass")
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return _MAGIC + zlib.compress(text.encode("utf-8", "surrogatepass"))


def read_compiled(
    data: bytes, path: str, *, max_bytes: int
) -> tuple[ParsedPrompt, PromptSource] | None:
    """Return what a compiled file holds; None if the file is a source.

    Binary content is known by its first bytes or the file's name, JSON by the name.

    Args:
        data: What the file holds.
        path: What errors call it.
        max_bytes: Most bytes that the content may have when it is unpacked.

    Raises:
        PromptSyntaxError: If it is damaged, too large or of another version.
    """
    suffix = PurePath(path).suffix.lower()
    is_binary = data.startswith(_MAGIC) or suffix == ".bytes"
    if not is_binary and suffix != ".json":
        return None
    try:
        text = _unpack(data, max_bytes) if is_binary else data
        return _load(json.loads(text.decode("utf-8", "surrogatepass").removeprefix("\ufeff")))
    except ValidationError as error:
        found = error.errors(include_url=False)[0]
        reason = f"{'.'.join(map(str, found['loc']))}: {found['msg']}"
    except (ValueError, RecursionError) as error:
        reason = str(error)
    msg = f"{path}: this is not a readable compiled prompt; compile its source again: {reason}"
    raise PromptSyntaxError(msg, path=path)


def _unpack(data: bytes, max_bytes: int) -> bytes:
    if not data.startswith(_MAGIC):
        raise ValueError("it was written by another program, or is cut off")
    unpacking = zlib.decompressobj()
    try:
        content = unpacking.decompress(data[len(_MAGIC) :], max_bytes + 1)
    except zlib.error as error:
        raise ValueError(f"its content is damaged ({error})") from error
    if len(content) > max_bytes:
        raise ValueError(f"it unpacks to more than {max_bytes} bytes; pass a larger max_bytes=")
    if not unpacking.eof or unpacking.unused_data:
        raise ValueError("it does not end where it should")
    return content


def _load(value: Any) -> tuple[ParsedPrompt, PromptSource]:
    content = _Content.model_validate(value)
    found = {}
    for title, listed in content.variables.items():
        text, behind = content.prompts.get(title, ""), 0
        for one in listed:
            is_placeholder = text.startswith("{{", one.start) and text.endswith("}}", 0, one.end)
            if not behind <= one.start <= one.end - 4 or not is_placeholder:
                raise ValueError(f"there is no variable at {one.start} to {one.end} of {title!r}")
            behind = one.end
        found[title] = tuple(Occurrence(one.function_name, one.start, one.end) for one in listed)
    prompt = ParsedPrompt(
        metadata=content.metadata,
        constants=content.constants,
        variable_definitions=content.variable_definitions,
        sections=content.prompts,
        occurrences={title: places for title, places in found.items() if places},
        diagnostics=(),
    )
    return prompt, PromptSource(content.source.get("name", ""), content.source.get("sha256", ""))
