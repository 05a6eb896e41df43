"""Files that parts of messages name, read within limits."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from langchain_convmem.errors import ConfigError, InvalidMessageError

__all__ = ["DEFAULT_MAX_BYTES", "MediaLimits", "is_file_url", "read_file"]

DEFAULT_MAX_BYTES = 20_000_000
"""About what most providers take in one request."""


@dataclass(frozen=True, slots=True)
class MediaLimits:
    """What media a message may hold.

    Attributes:
        max_bytes: The largest single one, in bytes; None for any size.
        folder: Where files must lie that parts name, links resolved; None for anywhere. Set it
            where messages come from strangers.
    """

    max_bytes: int | None = DEFAULT_MAX_BYTES
    folder: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        """Refuse a limit under which nothing fits."""
        if self.max_bytes is not None and self.max_bytes < 1:
            raise ConfigError(f"max_bytes is {self.max_bytes}; pass a number of bytes, or None")

    def check_size(self, size: int, what: str) -> None:
        """Refuse what is too large.

        Raises:
            InvalidMessageError: If `size`, in bytes, is over the limit.
        """
        if self.max_bytes is not None and size > self.max_bytes:
            raise InvalidMessageError(
                f"{what} is larger than {self.max_bytes:,} bytes; send a smaller one, or raise "
                "the limit with MediaLimits(max_bytes=...)"
            )


def is_file_url(value: object) -> bool:
    """Return whether a value is the URL of a file on this machine."""
    return isinstance(value, str) and value[:5].lower() == "file:"


def read_file(place: Any, limits: MediaLimits, what: str) -> bytes:
    """Return what a file holds.

    Args:
        place: A path, relative to the working directory, or a `file://` URL.
        limits: How large it may be and where it may lie.
        what: Names the part in errors.

    Raises:
        InvalidMessageError: If it is no file that can and may be read, or is too large.
    """
    path = _path(place, what)
    try:
        found = path.resolve(strict=True)
        if limits.folder is not None and not found.is_relative_to(Path(limits.folder).resolve()):
            raise InvalidMessageError(f"{what} is the file {place!r} outside {limits.folder!s}")
        return _read(found, limits, f"{what}, the file {place!r},")
    except (OSError, ValueError) as error:
        if isinstance(error, InvalidMessageError):
            raise
        raise InvalidMessageError(f"{what} is the file {place!r}: {error}") from error


def _path(place: Any, what: str) -> Path:
    if isinstance(place, os.PathLike):
        place = os.fspath(place)
    if not isinstance(place, str) or not place:
        raise InvalidMessageError(f"{what} has the path {place!r}; pass the name of a file")
    if not is_file_url(place):
        return Path(place)
    url = urlsplit(place)
    if url.netloc not in ("", "localhost"):
        raise InvalidMessageError(f"{what} is the file {place!r} of another machine")
    return Path(url2pathname(url.path))


def _read(path: Path, limits: MediaLimits, what: str) -> bytes:
    # Opening a pipe would wait for whoever writes to it, and a device may never end.
    if not stat.S_ISREG(path.stat().st_mode):
        raise InvalidMessageError(f"{what} is no plain file")
    with path.open("rb") as file:
        data = file.read(-1 if limits.max_bytes is None else limits.max_bytes + 1)
    limits.check_size(len(data), what)
    return data
