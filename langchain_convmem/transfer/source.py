"""A file to import: its text or its tables, and checked access to the values in it.

Every refusal is an `ImportFormatError` that names the file and the place. Nothing here writes.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from langchain_convmem.causes import ErrorTrap, describe_name, describe_value
from langchain_convmem.errors import ImportFormatError

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
        try:
            return json.loads(next(self.rows())[1], strict=False)
        except (ValueError, RecursionError):
            return None


def read_source(path: Path, *, max_bytes: int = MAX_FILE_BYTES) -> Source:
    """Return the file's text.

    Raises:
        ImportFormatError: If it is not a regular file, cannot be opened, is larger than
            `max_bytes`, is being written to or is not UTF-8.
    """
    name = str(path)
    with open_regular(path) as file:
        before = os.fstat(file.fileno())
        data = file.read(max_bytes + 1)
        after = os.fstat(file.fileno())
    if len(data) > max_bytes:
        refuse(name, "", f"is larger than {max_bytes:,} bytes, the limit for one file; split it")
    stamps = [(one.st_size, one.st_mtime_ns) for one in (before, after)]
    check_settled(name, is_settled=stamps[0] == stamps[1])
    try:
        return Source(name, data.decode("utf-8").removeprefix(_BOM))
    except UnicodeDecodeError as error:
        start = error.start
    line = data.count(b"\n", 0, start) + 1
    found = f"byte 0x{data[start]:02x} at offset {start:,} is not UTF-8"
    return refuse(name, f"line {line}", f"{found}; save the file as UTF-8 text")


def check_settled(path: str, *, is_settled: bool) -> None:
    """Refuse a file that changed while it was read."""
    if not is_settled:
        refuse(path, "", "changed while it was read; import it when nothing writes to it any more")


_KINDS_OF_FILES: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISDIR, "a directory; name the files in it"),
    (stat.S_ISFIFO, "a pipe; save what comes through it in a file first"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
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
    if stat.S_ISREG(status.st_mode):
        return
    kinds = (kind for is_kind, kind in _KINDS_OF_FILES if is_kind(status.st_mode))
    refuse(str(path), "", f"is {next(kinds, 'no file')}; expected a regular file")


def _open_at_once(name: str, flags: int) -> int:
    """Open without waiting, should a pipe have come in the file's place."""
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))


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
    except ValueError as error:  # it says how many digits are too many
        refuse(path, start, f"not usable as JSON ({error})")


# -- a SQLite file of another program, opened for reading -----------------------------------------


_MAGIC = b"SQLite format 3\x00"


def is_database(path: Path) -> bool:
    """Return whether the file is a SQLite database.

    Raises:
        ImportFormatError: If it is not a regular file, or cannot be read.
    """
    with open_regular(path) as file:
        return file.read(len(_MAGIC)) == _MAGIC


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


# -- values that know where they stand -------------------------------------------------------------


_KINDS = {
    dict: "an object",
    list: "a list",
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def _describe(value: Any) -> str:
    """Return what was found, short enough for one sentence."""
    if isinstance(value, dict):
        keys = ", ".join(map(describe_name, list(value)[:5]))
        return f"an object with the keys {keys}" if keys else "an empty object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return describe_value(value)


@dataclass(frozen=True, slots=True)
class Node:
    """A JSON value and its place: a line (`line 3`) or a path from the root (`$.lines[2]`).

    Every method that hands out a value raises `ImportFormatError` where it is another kind.
    """

    value: Any
    path: str
    location: str

    def fail(self, expected: str) -> NoReturn:
        """Refuse the file: here stands something else than `expected`."""
        refuse(self.path, self.location, f"found {_describe(self.value)}, expected {expected}")

    def has(self, name: str) -> bool:
        """Return whether this is an object with a member `name` that is not null."""
        return isinstance(self.value, dict) and self.value.get(name) is not None

    def names(self) -> list[str]:
        """Return the names of the object's members, in the order of the file."""
        self._expect(dict)
        return list(self.value)

    def is_blank(self) -> bool:
        """Return whether this is text that says nothing."""
        return isinstance(self.value, str) and not self.value.strip()

    def member(self, name: str) -> Node:
        """Return the object's member; it must be there and not be null."""
        self._expect(dict)
        if name not in self.value:
            self.fail(f'an object with the key "{name}"')
        node = self._get_child(name)
        if node.value is None:
            node.fail("a value")
        return node

    def optional(self, name: str) -> Node | None:
        """Return the object's member, or None where it is missing or null."""
        self._expect(dict)
        return self._get_child(name) if self.has(name) else None

    def items(self) -> Iterator[Node]:
        """Yield the list's items in order."""
        self._expect(list)
        for number, item in enumerate(self.value):
            yield Node(item, self.path, f"{self.location}[{number}]")

    def text(self) -> str:
        """Return the text, verbatim; it must say something, fit the limit and be encodable."""
        self._expect(str)
        if self.is_blank():
            self.fail("text that is not blank")
        return self.text_or_blank()

    def text_or_blank(self) -> str:
        """Return the text, verbatim, which may be empty; it must fit the limit and be encodable."""
        self._expect(str)
        text: str = self.value
        size = _measure(text)
        if size is None:
            self.fail("text without halves of surrogate pairs")
        if size > MAX_LINE_BYTES:
            limit = f"the limit for one line is {MAX_LINE_BYTES:,}"
            refuse(self.path, self.location, f"found {size:,} bytes of text; {limit}")
        return text

    def label(self) -> str:
        """Return an id or a session label: text, or a whole number as text."""
        if isinstance(self.value, int) and not isinstance(self.value, bool):
            return str(self.value)
        if not isinstance(self.value, str):
            self.fail("text or a whole number")
        return self.text()

    def time(self) -> datetime:
        """Return the moment, in UTC."""
        with ErrorTrap(ValueError):
            return parse_time(self.value)
        return self.fail(TIME_FORMS)

    def seconds(self) -> datetime:
        """Return the moment that a number of seconds since the epoch names, in UTC."""
        with ErrorTrap(ValueError):
            return parse_seconds(self.value)
        return self.fail("a time: seconds since the epoch")

    def is_a(self, kind: type) -> bool:
        """Return whether the value is of a JSON kind: `dict`, `list`, `str`."""
        return isinstance(self.value, kind)

    def _get_child(self, name: str) -> Node:
        joint = "." if self.location.startswith("$") or "," in self.location else ", "
        return Node(self.value[name], self.path, f"{self.location}{joint}{name}")

    def _expect(self, kind: type) -> None:
        if not isinstance(self.value, kind):
            self.fail(_KINDS[kind])


def _measure(text: str) -> int | None:
    """Return the size in bytes; None for text that cannot be encoded."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return None


# -- times as dialogue files write them ------------------------------------------------------------


TIME_FORMS = (
    'a time: ISO 8601 text ("2023-05-08T13:56:00Z"), whole milliseconds since the epoch, '
    'or "1:56 pm on 8 May, 2023"'
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
_SPOKEN = re.compile(
    r"\s*(\d{1,2}):(\d{2})\s*([ap])\.?m\.?\s+on\s+(\d{1,2})\s+([a-z]{3,9}),?\s+(\d{4})\s*",
    re.IGNORECASE,
)
_HOURS_HALF_DAY = 12


# Room on both sides, so that shifting a time by a zone or an increment never leaves the calendar.
_FIRST_YEAR, _LAST_YEAR = 2, 9998


def parse_time(value: Any) -> datetime:
    """Return the moment `value` names, in UTC.

    Args:
        value: ISO 8601 text, text such as `1:56 pm on 8 May, 2023` (English month, no zone), or a
            whole number of milliseconds since the epoch. Text without a zone counts as UTC.

    Raises:
        ValueError: If it is none of these.
    """
    return _check_calendar(value, _parse_moment)


def parse_seconds(value: Any) -> datetime:
    """Return the moment `value` seconds after the epoch, in UTC, to the millisecond.

    Raises:
        ValueError: If it is not a finite number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        msg = f"{describe_value(value)} is not a number of seconds"
        raise ValueError(msg)  # noqa: TRY004 - one kind of failure for the caller to translate
    return _check_calendar(
        value, lambda seconds: _EPOCH + timedelta(milliseconds=round(seconds * 1000))
    )


def _check_calendar(value: Any, read: Callable[[Any], datetime]) -> datetime:
    try:
        moment = read(value)
    except OverflowError as error:
        msg = f"{describe_value(value)} is outside the calendar"
        raise ValueError(msg) from error
    if not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
        msg = f"{describe_value(value)} is outside the years {_FIRST_YEAR} to {_LAST_YEAR}"
        raise ValueError(msg)
    return moment


def _parse_moment(value: Any) -> datetime:
    if isinstance(value, int) and not isinstance(value, bool):
        return _EPOCH + timedelta(milliseconds=value)
    if not isinstance(value, str):
        msg = f"{describe_value(value)} is not a time"
        raise ValueError(msg)  # noqa: TRY004 - one kind of failure for the caller to translate
    spoken = _SPOKEN.fullmatch(value)
    moment = datetime.fromisoformat(value.strip()) if spoken is None else _build_moment(spoken)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _build_moment(match: re.Match[str]) -> datetime:
    hour, minute, half, day, month, year = match.groups()
    if not 1 <= int(hour) <= _HOURS_HALF_DAY:
        msg = f"{hour} is not an hour of a twelve-hour clock"
        raise ValueError(msg)
    hours = int(hour) % _HOURS_HALF_DAY + (_HOURS_HALF_DAY if half.lower() == "p" else 0)
    return datetime(int(year), _find_month(month), int(day), hours, int(minute), tzinfo=UTC)


def _find_month(name: str) -> int:
    # By hand, since strptime reads month names in the language of the process.
    for number, month in enumerate(_MONTHS, start=1):
        if name.lower() in (month, month[:3]):
            return number
    msg = "found no month"
    raise ValueError(msg)


def format_time(moment: datetime) -> str:
    """Return the moment as ISO 8601 text with milliseconds."""
    return moment.isoformat(timespec="milliseconds")
