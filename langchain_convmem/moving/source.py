"""A file to import, read whole and checked before anyone looks inside.

Every refusal is an `ImportFormatError` that names the file and the place. May not print or write.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from langchain_convmem.errors import ImportFormatError

__all__ = ["MAX_FILE_BYTES", "MAX_LINE_BYTES", "Source", "parse_json", "read_source", "refuse"]

MAX_FILE_BYTES = 256 * 1024 * 1024
MAX_LINE_BYTES = 5 * 1024 * 1024
_BOM = "\ufeff"
_BLANKS = " \t\r"


def refuse(path: str, location: str, problem: str) -> NoReturn:
    """Raise the error for `problem` (what was found; what was expected) at a place of a file."""
    place = f"{path}, {location}" if location else path
    msg = f"{place}: {problem}"
    raise ImportFormatError(msg, path=path, location=location)


@dataclass(frozen=True)
class Source:
    """The text of one file.

    Attributes:
        path: As the user named it.
        text: Decoded, without a byte order mark; line ends as in the file.
    """

    path: str
    text: str

    def rows(self) -> Iterator[tuple[int, str]]:
        """Yield the lines that are not blank, with their numbers from 1.

        Only a line feed ends a line: JSON text may hold every other separator.
        """
        for number, line in enumerate(self.text.split("\n"), start=1):
            row = line.strip(_BLANKS)
            if row:
                yield number, row

    @cached_property
    def document(self) -> Any:
        """The whole file as one JSON value.

        Raises:
            ImportFormatError: If it is none.
        """
        return parse_json(self.text, self.path)

    @cached_property
    def has_rows(self) -> bool:
        """Whether each line is an object of its own, rather than the whole one document."""
        rows = self.rows()
        _, first = next(rows, (0, ""))
        return first.startswith("{") and first.endswith("}") and next(rows, None) is not None

    @cached_property
    def sample(self) -> Any:
        """The object by which a format is known: that of the first line, or the whole document.

        Of a list it is the first item. None where the first of several lines is not JSON.

        Raises:
            ImportFormatError: If the file is one document and no JSON.
        """
        if not self.has_rows:
            document = self.document
            return document[0] if isinstance(document, list) and document else document
        try:
            return json.loads(next(self.rows())[1], strict=False)
        except (ValueError, RecursionError):
            return None


def read_source(path: Path, *, max_bytes: int = MAX_FILE_BYTES) -> Source:
    """Return the file's text.

    Raises:
        ImportFormatError: If it cannot be opened, is larger than `max_bytes` or is not UTF-8.
    """
    name = str(path)
    try:
        with path.open("rb") as file:
            # Asking for one byte more than allowed bounds pipes too, which have no size to ask.
            data = file.read(max_bytes + 1)
    except OSError as error:
        refuse(name, "", f"cannot be read: {error.strerror or error}")
    if len(data) > max_bytes:
        refuse(name, "", f"is larger than {max_bytes:,} bytes, the limit for one file; split it")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        found = f"byte 0x{data[error.start]:02x} at offset {error.start:,} is not UTF-8"
        refuse(name, f"line {line}", f"{found}; save the file as UTF-8 text")
    return Source(name, text.removeprefix(_BOM))


def parse_json(text: str, path: str, *, first_line: int = 1, place: str | None = None) -> Any:
    """Return the JSON value that `text` is; raw control characters in strings are accepted.

    Args:
        text: JSON.
        path: The file, for the error.
        first_line: Number of the file's line on which `text` starts.
        place: Where `text` stands, in a file that has no lines.

    Raises:
        ImportFormatError: If it is not JSON, or nested too deeply to be a dialogue.
    """
    start = place or f"line {first_line}"
    try:
        return json.loads(text, strict=False)
    except json.JSONDecodeError as error:
        line = place or f"line {first_line + error.lineno - 1}"
        refuse(path, f"{line}, column {error.colno}", f"not valid JSON ({error.msg})")
    except RecursionError:
        refuse(path, start, "JSON nested too deeply; expected flat messages")
    except ValueError as error:  # a number with more digits than Python converts
        refuse(path, start, f"not usable as JSON ({error})")
