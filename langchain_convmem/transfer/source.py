"""A file to import: its text or its tables, and the forms that the values in it must have.

Every refusal is an `ImportFormatError` that names the file and the place. Nothing here writes.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, NoReturn, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, model_validator
from pydantic import ValidationError as FormError
from pydantic_core import ErrorDetails

from langchain_convmem.causes import ErrorTrap, describe_name, describe_value
from langchain_convmem.errors import ImportFormatError

MAX_FILE_BYTES = 256 * 1024 * 1024
MAX_LINE_BYTES = 5 * 1024 * 1024
HALF_CHARACTER = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair, which no encoding can write."""
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

    def row_nodes(self) -> Iterator[Node]:
        """Yield the JSON value of each line; raises `ImportFormatError` where a line is none."""
        for number, row in self.rows():
            place = f"line {number}"
            yield Node(parse_json(row, self.path, place), self.path, place)

    def nodes(self) -> Iterator[Node]:
        """Yield the items of the file: its lines, those of the list that it is, or itself."""
        if self.has_rows:
            yield from self.row_nodes()
            return
        root = Node(self.document, self.path, "$")
        yield from root.items() if isinstance(root.value, list) else [root]

    @cached_property
    def document(self) -> Any:
        """The whole file as one JSON value.

        Raises:
            ImportFormatError: If it is not JSON.
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
        with ErrorTrap(ImportFormatError):
            return next(self.row_nodes()).value
        return None


def read_source(path: Path, *, max_bytes: int = MAX_FILE_BYTES) -> Source:
    """Return the file's text.

    Raises:
        ImportFormatError: If it is not a regular file, cannot be opened, is larger than
            `max_bytes` or is not UTF-8.
    """
    name = str(path)
    with open_regular(path) as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        refuse(name, "", f"is larger than {max_bytes:,} bytes, the limit for one file; split it")
    kind = next((kind for magic, kind in _MAGICS if data.startswith(magic)), None)
    if kind is not None:
        refuse(name, "", f"is {kind}; {READS}")
    try:
        return Source(name, data.decode("utf-8").removeprefix("\ufeff"))
    except UnicodeDecodeError as error:
        start = error.start
    line = data.count(b"\n", 0, start) + 1
    found = f"byte 0x{data[start]:02x} at offset {start:,} is not UTF-8"
    return refuse(name, f"line {line}", f"{found}; save the file as UTF-8 text")


READS = (
    "convmem reads exports of ChatGPT and Claude, messages as JSON or JSONL, stores of LangChain "
    "and LangGraph, and exports of its own ('convmem import --formats' shows how they look)"
)
"""What is said of a file of another kind."""
_MAGICS = (
    (b"%PDF", "a PDF"),
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"GIF8", "a picture"),
    (b"\x1f\x8b", "packed with gzip; unpack it first"),
    (b"7z\xbc\xaf", "a 7z archive; unpack it first"),
    (b"Rar!", "a RAR archive; unpack it first"),
    (b"\xd0\xcf\x11\xe0", "a document of an office program"),
    (b"<!", "a web page"),
    (b"<html", "a web page"),
)


@contextmanager
def open_regular(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file for reading; a pipe would keep us waiting, and a device never ends.

    Raises:
        ImportFormatError: If it is something else, or cannot be read.
    """
    if "\0" in str(path):
        refuse(ascii(str(path)), "", "is not the name of a file")
    try:
        _check_regular(path, path.stat())  # opening alone makes some devices do something
        with open(path, "rb", opener=_open_at_once) as file:
            _check_regular(path, os.fstat(file.fileno()))
            yield file
    except OSError as error:
        refuse(str(path), "", f"cannot be read: {error.strerror or error}")


def _check_regular(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        problem = "is a pipe, a socket or a device; save what comes from it in a file"
        refuse(str(path), "", problem)


def _open_at_once(name: str, flags: int) -> int:
    """Open without waiting, should a pipe have come in the file's place."""
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))


ZIP_MAGICS = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
_SQLITE_MAGIC = b"SQLite format 3\x00"


def find_kind(path: Path) -> Literal["archive", "database", "text"]:
    """Return what there is to read: a folder or a zip, a SQLite database, or something else.

    Raises:
        ImportFormatError: If it is neither a regular file nor a folder, or cannot be read.
    """
    if "\0" not in str(path) and path.is_dir():
        return "archive"
    with open_regular(path) as file:
        magic = file.read(len(_SQLITE_MAGIC))
    if magic.startswith(ZIP_MAGICS):
        return "archive"
    return "database" if magic == _SQLITE_MAGIC else "text"


def parse_json(text: str, path: str, place: str = "") -> Any:
    """Return the JSON value that `text` is; raw control characters in strings are accepted.

    Args:
        text: JSON.
        path: The file, for the error.
        place: Where `text` stands; empty if it is the whole file.

    Raises:
        ImportFormatError: If it is not JSON, or nested too deeply to be a dialogue.
    """
    try:
        return json.loads(text, strict=False, object_pairs_hook=build_object)
    except json.JSONDecodeError as error:
        line = place or f"line {error.lineno}"
        refuse(path, f"{line}, column {error.colno}", f"not valid JSON ({error.msg})")
    except (ValueError, RecursionError) as error:  # too many digits, too many lists in lists
        refuse(path, place, f"not usable as JSON ({error})")


def build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; raises ValueError where it gives one key two values."""
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        msg = f"the key {describe_name(twice)} stands twice in one object"
        raise ValueError(msg)
    return made


# -- a SQLite file of another program, opened for reading -----------------------------------------


@dataclass(frozen=True, slots=True)
class Database:
    """One file.

    Attributes:
        path: As the user named it.
    """

    path: str

    def tables(self) -> dict[str, frozenset[str]]:
        """Return the columns of every table by the table's name."""
        names = [row[0] for row in self.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            name: frozenset(
                row[0] for row in self.rows("SELECT name FROM pragma_table_info(?)", name)
            )
            for name in names
        }

    def rows(self, query: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query.

        Raises:
            ImportFormatError: If the file is damaged, locked or no database.
        """
        address = f"{Path(self.path).resolve().as_uri()}?mode=ro"
        # What SQLite says quotes text that is not UTF-8.
        with ErrorTrap(sqlite3.Error, UnicodeDecodeError) as trap:
            with closing(sqlite3.connect(address, uri=True)) as connection:
                connection.text_factory = bytes.decode
                yield from connection.execute(query, values)
            return
        refuse(self.path, "", f"cannot be read as a SQLite database: {trap.reason}")


# -- values that know where they stand, and their forms --------------------------------------------


def describe_json(value: Any) -> str:
    """Return what was found, short enough for one sentence."""
    if isinstance(value, dict):
        keys = ", ".join(map(describe_name, list(value)[:5]))
        return f"an object with the keys {keys}" if keys else "an empty object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return describe_value(value)


class Form(BaseModel):
    """What an object in a file must hold: null counts as missing, further members do not count."""

    model_config = ConfigDict(strict=True, extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def drop_null(cls, value: Any) -> Any:
        """Leave out members that are null."""
        if not isinstance(value, dict):
            return value
        return {name: item for name, item in value.items() if item is not None}


F = TypeVar("F", bound=Form)


@dataclass(frozen=True, slots=True)
class Node:
    """A JSON value and its place: a line (`line 3`) or a path from the root (`$.lines[2]`)."""

    value: Any
    path: str
    location: str

    def fail(self, expected: str) -> NoReturn:
        """Refuse the file: here stands something else than `expected`."""
        refuse(self.path, self.location, f"found {describe_json(self.value)}, expected {expected}")

    def items(self) -> Iterator[Node]:
        """Yield the list's items in order; raises `ImportFormatError` where it is no list."""
        if not isinstance(self.value, list):
            self.fail("a list")
        for number, item in enumerate(self.value):
            yield self.at(item, number)

    def at(self, value: Any, *steps: str | int) -> Node:
        """Return a value within this one; `steps` lead there."""
        place = self.location
        for step in steps:
            joint = "." if place.startswith("$") or "," in place else ", "
            place += f"[{step}]" if isinstance(step, int) else f"{joint}{step}"
        return Node(value, self.path, place)

    def parse(self, form: type[F]) -> F:
        """Return the object that this is.

        Raises:
            ImportFormatError: If it has another form; it names the place.
        """
        try:
            return form.model_validate(self.value)
        except FormError as error:
            found = error.errors(include_url=False)[0]
        steps = found["loc"][:-1] if found["type"] == "missing" else found["loc"]
        return self.at(found["input"], *steps).fail(_expect(found))


def _expect(found: ErrorDetails) -> str:
    if found["type"] == "missing":
        return f'an object with the key "{found["loc"][-1]}"'
    said = found["msg"].removeprefix("Input should be ").split(" or instance")[0]
    return str(found.get("ctx", {}).get("error") or said)


def _check_words(text: str) -> str:
    if not text.strip():
        raise ValueError("text that is not blank")
    if HALF_CHARACTER.search(text):
        raise ValueError("text without halves of surrogate pairs")
    return text


def _read_label(value: Any) -> Any:
    if isinstance(value, str | int) and not isinstance(value, bool):
        return str(value)
    raise ValueError("text or a whole number")


# -- times ----------------------------------------------------------------------------------------


_TIME_FORMS = 'a time: ISO 8601 text ("2023-05-08T13:56:00Z") or whole milliseconds since the epoch'
_SECONDS_FORM = "a time: seconds since the epoch"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Room on both sides, so that shifting a time by a zone or an increment never leaves the calendar.
_FIRST_YEAR, _LAST_YEAR = 2, 9998
_MAX_SECONDS = 10**12


def parse_time(value: Any) -> datetime:
    """Return the moment `value` names, in UTC.

    Args:
        value: ISO 8601 text, or a whole number of milliseconds since the epoch. Text without a zone
            counts as UTC.

    Raises:
        ValueError: If it is none of these.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return _count_from_epoch(value, _TIME_FORMS)
    with ErrorTrap(ValueError):
        moment = datetime.fromisoformat(value.strip() if isinstance(value, str) else "")
        return _check_calendar(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    raise ValueError(_TIME_FORMS)


def _parse_seconds(value: Any) -> datetime:
    """Return the moment `value` seconds after the epoch, in UTC, to the millisecond."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not abs(value) < _MAX_SECONDS:
        raise ValueError(_SECONDS_FORM)
    return _count_from_epoch(round(value * 1000), _SECONDS_FORM)


def _count_from_epoch(milliseconds: int, form: str) -> datetime:
    with ErrorTrap(OverflowError, ValueError):
        return _check_calendar(_EPOCH + timedelta(milliseconds=milliseconds))
    raise ValueError(form)


def _check_calendar(moment: datetime) -> datetime:
    if not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
        raise ValueError(moment.year)
    return moment.astimezone(UTC)


def format_time(moment: datetime) -> str:
    """Return the moment as ISO 8601 text with milliseconds."""
    return moment.isoformat(timespec="milliseconds")


# -- types of values ------------------------------------------------------------------------------


Words = Annotated[str, AfterValidator(_check_words)]
"""Text that says something."""
Label = Annotated[Words, BeforeValidator(_read_label)]
"""An id or the name of a session: text, or a whole number as text."""
Time = Annotated[datetime, BeforeValidator(parse_time)]
"""A moment, as `parse_time` reads it."""
Seconds = Annotated[datetime, BeforeValidator(_parse_seconds)]
"""A moment as a number of seconds since the epoch, in UTC."""
