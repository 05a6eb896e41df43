"""Pictures and sounds: read and checked as they come in, and at their marks in a text prompt."""

from __future__ import annotations

import base64
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from langchain_core.messages import BaseMessage

from langchain_convmem.causes import describe_name
from langchain_convmem.errors import ConfigError, InvalidMessageError
from langchain_convmem.text import RenderState
from langchain_convmem.text.control_tokens import MEDIA_MARKS
from langchain_convmem.text.sessions import Media, Part
from langchain_convmem.views.media import detect_media_type, get_family, read_media
from langchain_convmem.views.messages import get_block_type

DEFAULT_MAX_BYTES = 20_000_000
"""About what most providers take in one request."""

_KINDS: Mapping[str, str] = {mark: kind for kind, marks in MEDIA_MARKS.items() for mark in marks}
_OWN = frozenset({"audio", "file", "image", "video"})
_SOURCES = ("path", "blob", "base64")
_DATA_URL = re.compile(r"\s*data:[^,]{0,200};base64,", re.IGNORECASE)


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


# -- What comes in --------------------------------------------------------------------------------


def is_media(part: Any) -> TypeGuard[dict[str, Any]]:
    """Return whether a part of a message holds media in any form."""
    return isinstance(part, dict) and (get_block_type(part) in _OWN or read_media(part) is not None)


def settle_media(message: BaseMessage, limits: MediaLimits, what: str) -> None:
    """Read and check the media of a message, which is changed in place. Reads files: may block.

    Raises:
        InvalidMessageError: If media are missing, broken, too large or of an unknown type.
    """
    if isinstance(message.content, list):
        message.content = [
            _settle_part(part, limits, f"part {place} of {what}") if is_media(part) else part
            for place, part in enumerate(message.content)
        ]


def _settle_part(part: dict[str, Any], limits: MediaLimits, what: str) -> dict[str, Any]:
    """Return LangChain's block for a part that holds bytes or names a file; others as they are."""
    sources = {key: part[key] for key in _SOURCES if part.get(key) is not None}
    is_own = get_block_type(part) in _OWN and bool(sources)
    if is_own:
        name, data = next(iter(sources.items()))
        if name == "path":
            data = _read_file(data, limits, what)
        elif isinstance(data, str):
            data = _DATA_URL.sub("", data)
        part = {key: value for key, value in part.items() if key not in _SOURCES}
        part["base64"] = data
    found = read_media(part)
    if found is None or (found.kind == "file" and not is_own):
        return part  # documents come in more forms than anybody knows
    if not found.data:
        keys = ", ".join(sorted(f"'{describe_name(key)}'" for key in part))
        raise InvalidMessageError(
            f"{what} holds nothing that can be read (it has {keys}); give it 'path', 'blob' "
            "(base64), 'url' or 'file_id'"
        )
    if found.form != "base64":
        return part
    limits.check_size(found.size, what)
    if not found.type:
        raise InvalidMessageError(f"{what} is of an unknown type; name its type with 'mime_type'")
    if not is_own:
        return part
    kind, family = part["type"], get_family(found.type)
    # A container may hold sound alone, though its beginning does not say so.
    may_be_audio = kind == "audio" and found.type in ("video/mp4", "video/webm")
    if kind not in ("file", family) and not may_be_audio:
        raise InvalidMessageError(
            f"{what} is called {kind}, but holds {found.type}; pass it as {family!r}"
        )
    return {**part, "base64": found.data, "mime_type": found.type}


def _read_file(place: Any, limits: MediaLimits, what: str) -> bytes:
    """Return what a file holds.

    Raises:
        InvalidMessageError: If it is not a file that can and may be read, or is too large.
    """
    if not isinstance(place, str | os.PathLike) or not place:
        raise InvalidMessageError(f"{what} has the path {place!r}; pass the name of a file")
    named = f"{what} is the file {os.fspath(place)!r}"
    try:
        path = Path(place).resolve(strict=True)
        if limits.folder is not None and not path.is_relative_to(Path(limits.folder).resolve()):
            raise InvalidMessageError(f"{named} outside {limits.folder!s}")
        # Opening a pipe would wait for whoever writes to it, and a device may never end.
        if not stat.S_ISREG(path.stat().st_mode):
            raise InvalidMessageError(f"{named}, which is not a regular file")
        with path.open("rb") as file:
            data = file.read(-1 if limits.max_bytes is None else limits.max_bytes + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, InvalidMessageError):
            raise
        raise InvalidMessageError(f"{named}: {error}") from error
    limits.check_size(len(data), named)
    return data


# -- What goes out to a session that reads text ---------------------------------------------------


def list_media(messages: Iterable[BaseMessage]) -> list[Media]:
    """Return the pictures and sounds of messages, in order, for a session that reads text.

    Raises:
        InvalidMessageError: If one is neither picture nor sound, or its bytes lie elsewhere.
    """
    return [
        _read_media(part, f"part {place} of message {number}")
        for number, message in enumerate(messages)
        if isinstance(message.content, list)
        for place, part in enumerate(message.content)
        if is_media(part)
    ]


def _read_media(part: Mapping[str, Any], what: str) -> Media:
    found = read_media(part)
    if found is None or found.form != "base64" or not found.data:
        raise InvalidMessageError(
            f"{what} does not hold its bytes, which a text session needs; fetch it and pass it "
            "by 'path' or 'blob'"
        )
    data = base64.b64decode(found.data)
    # A container may be taken for video by how it begins; what came in was checked.
    kind = part["type"] if part.get("type") in ("image", "audio") else found.kind
    if kind not in ("image", "audio"):
        raise InvalidMessageError(
            f"{what} is {found.type or found.kind}; text sessions take pictures and sounds only"
        )
    return Media(kind, data, detect_media_type(data) or found.type)


def interleave(render: RenderState, media: Sequence[Media], start: int = 0) -> list[Part]:
    """Return rendered text cut at its marks, with the media in their places.

    The first mark of a kind is the first medium of that kind, and so on.

    Args:
        render: What a template wrote. Marks in what was said in messages are none: they are sealed,
            as all control tokens are, and what the model itself wrote is passed over.
        media: All that belong in the text, in order.
        start: Where to begin within the text; media before it are left out.

    Returns:
        Texts and media in turns, no text empty; all of the text from `start` on, but for the marks.

    Raises:
        InvalidMessageError: If the text has not exactly one mark for each medium.
    """
    marks = [(at, mark, _KINDS[mark]) for at, mark in render.find_tokens(_KINDS)]
    found = Counter(kind for *_, kind in marks)
    wanted: Counter[str] = Counter(one.kind for one in media)
    if found != wanted:
        raise InvalidMessageError(
            f"the template writes marks for {_describe_counts(found)}, but the messages hold "
            f"{_describe_counts(wanted)}; does the template take media, and are its marks given?"
        )
    waiting = {kind: iter([one for one in media if one.kind == kind]) for kind in wanted}
    parts: list[Part] = []
    text, done = render.read_text(), start
    for at, mark, kind in marks:
        one = next(waiting[kind])
        if at >= start:
            parts += [text[done:at], one]
            done = at + len(mark)
    return [part for part in [*parts, text[done:]] if part != ""]


def _describe_counts(kinds: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "no media"
