"""Pictures and sounds: read and checked as they come in, put in their places as they go out."""

from __future__ import annotations

import base64
import binascii
import os
import re
import stat
from collections import Counter, deque
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from langchain_core.messages import AIMessage, BaseMessage

from langchain_convmem.errors import ConfigError, InvalidMessageError
from langchain_convmem.protocols import Media, Part
from langchain_convmem.views.media import family_of, media_type_of, read_media

_KINDS = frozenset({"audio", "file", "image", "video"})


_WRAPPED = frozenset({"image_url", "input_audio", "video_url"})


_SOURCES = ("path", "blob", "base64", "url", "file_id")


_DATA_URL = re.compile(r"\s*data:[^,]{0,200};base64,", re.IGNORECASE)


_SHOWN = 60


def has_media(message: BaseMessage) -> bool:
    """Return whether a message holds media in any form. Cheap."""
    return any(_is_media(part) for part in _parts(message))


def _parts(message: BaseMessage) -> list[Any]:
    return message.content if isinstance(message.content, list) else []


def _is_media(part: Any) -> bool:
    if not isinstance(part, dict):
        return False
    # To read base64 text takes long, and must not be done on an event loop.
    return part.get("type") in _KINDS | _WRAPPED or read_media(part) is not None


# -- what comes in --------------------------------------------------------------------------------
def settle_media(messages: Iterable[BaseMessage], limits: MediaLimits) -> None:
    """Read and check the media of messages, which are changed in place. Reads files: may block.

    Raises:
        InvalidMessageError: If media are missing, broken, too large or of an unknown type.
    """
    for number, message in enumerate(messages):
        if isinstance(message.content, list):
            message.content = [
                _settled(part, limits, f"part {place} of message {number}")
                if _is_media(part)
                else part
                for place, part in enumerate(message.content)
            ]


def _settled(part: Any, limits: MediaLimits, what: str) -> dict[str, Any]:
    if part.get("type") in _KINDS:
        sources = {key: part[key] for key in _SOURCES if part.get(key) is not None}
        for key in ("path", "url"):
            if key in sources and (key == "path" or is_file_url(sources[key])):
                return _block(part, read_file(sources[key], limits, what), what)
        for key in ("blob", "base64"):
            if key in sources:
                return _block(part, _decoded(sources[key], limits, what), what)
    return _checked(part, limits, what)


def _block(part: Mapping[str, Any], data: bytes, what: str) -> dict[str, Any]:
    """Return LangChain's block for the bytes of a part, with whatever else the part says."""
    kind = part["type"]
    media_type = media_type_of(data) or part.get("mime_type")
    if not isinstance(media_type, str) or "/" not in media_type:
        raise InvalidMessageError(
            f"{what} is no {kind} of a known type: it begins with {data[:8]!r}; "
            "name its type with 'mime_type'"
        )
    if kind not in ("file", family_of(media_type)) and not _may_be(kind, media_type):
        raise InvalidMessageError(
            f"{what} is called {kind}, but holds {media_type}; pass it as {family_of(media_type)!r}"
        )
    rest = {key: value for key, value in part.items() if key not in _SOURCES}
    return {**rest, "base64": base64.b64encode(data).decode(), "mime_type": media_type}


def _may_be(kind: str, media_type: str) -> bool:
    """Return whether a container may hold sound alone, though its beginning does not tell."""
    return kind == "audio" and media_type in ("video/mp4", "video/webm")


def _decoded(text: Any, limits: MediaLimits, what: str) -> bytes:
    if isinstance(text, bytes | bytearray | memoryview):
        data = bytes(text)
        limits.check_size(len(data), what)
        return data
    if not isinstance(text, str):
        raise InvalidMessageError(f"{what} has {text!r:.{_SHOWN}} for base64 text")
    plain = "".join((_DATA_URL.sub("", text)).split())
    plain = plain.replace("-", "+").replace("_", "/").rstrip("=")
    limits.check_size(len(plain) * 3 // 4, what)
    try:
        data = binascii.a2b_base64(plain + "=" * (-len(plain) % 4), strict_mode=True)
    except ValueError as error:
        raise InvalidMessageError(
            f"{what} is not base64: {error}; it begins with {text[:20]!r}"
        ) from error
    if not data:
        raise InvalidMessageError(f"{what} is empty; pass the media by 'path' or 'blob'")
    return data


def _checked(part: dict[str, Any], limits: MediaLimits, what: str) -> dict[str, Any]:
    """Return a part of a provider's shape as it is, if what it holds can be read."""
    found = read_media(part)
    if found is None or found.kind == "file":  # documents come in more forms than anybody knows
        return part
    if not found.data:
        raise InvalidMessageError(
            f"{what} is {part!r:.{_SHOWN}} and holds nothing that can be read; give it "
            "'path', 'blob' (base64), 'url' or 'file_id'"
        )
    if found.form == "base64":
        limits.check_size(found.size, what)
        if not found.type:
            raise InvalidMessageError(f"{what} is of an unknown type; name it with 'mime_type'")
    return part


# -- what goes out --------------------------------------------------------------------------------
def media_of(messages: Iterable[BaseMessage]) -> list[Media]:
    """Return the pictures and sounds of messages, in order, for a session that reads text.

    Raises:
        InvalidMessageError: If one is neither picture nor sound, or its bytes lie elsewhere.
    """
    return [
        _media(part, f"part {place} of message {number}")
        for number, message in enumerate(messages)
        for place, part in enumerate(_parts(message))
        if _is_media(part)
    ]


def _media(part: Mapping[str, Any], what: str) -> Media:
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
    return Media(kind, data, media_type_of(data) or found.type)


# -- Files that parts of messages name, read within limits ----------------------------------------


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


# -- The marks that templates write, and what is put in their place -----------------------------


MediaMarks = Mapping[str, Sequence[str]]


"""For `image` and `audio`: the texts that a template writes for one."""


MEDIA_MARKS: MediaMarks = {
    "image": (
        "<|image_pad|>",
        "<|image|>",
        "<|image_1|>",
        "<start_of_image>",
        "<image_soft_token>",
        "<image_placeholder>",
        "<IMG_CONTEXT>",
        "<|media_pad|>",
        "<image>",
        "[IMG]",
        "<__media__>",
    ),
    "audio": (
        "<|audio_pad|>",
        "<|audio|>",
        "<|AUDIO|>",
        "<|audio_1|>",
        "<start_of_audio>",
        "<audio_soft_token>",
        "<audio>",
        "[AUDIO]",
    ),
}


"""Marks of known families. Of several that may stand around a place, the one within."""


def interleaved(
    text: str,
    marks: MediaMarks | None,
    media: Sequence[Media],
    *,
    messages: Iterable[BaseMessage] = (),
    start: int = 0,
) -> list[Part]:
    """Return rendered text cut at its marks, with the media in their places.

    The first mark of a kind is the first medium of that kind, and so on.

    Args:
        text: What a template wrote.
        marks: What it writes for a medium; if None, whatever known family's marks stand in the
            text. Without marks and media the text is left alone.
        media: All that belong in `text`, in order.
        messages: What the text was made from: nothing in their own text is taken for a mark. What
            the model itself said of marks is passed over.
        start: Where to begin within `text`; media before it are left out.

    Returns:
        Texts and media in turns, no text empty; all of `text` from `start` on, but for the marks.

    Raises:
        InvalidMessageError: If the text has not exactly one mark for each medium, or a message
            that is not the model's says one.
    """
    given = list(messages)
    wanted: Counter[str] = Counter(one.kind for one in media)
    kinds = _kinds_by_mark(text, marks, wanted, given)
    quoted = _quoted(text, kinds, given)
    places = [(at, mark) for at, mark in _places(text, kinds) if at not in quoted]
    found = Counter(kinds[mark] for _, mark in places)
    if found != wanted:
        raise InvalidMessageError(
            f"the template writes marks for {_counts(found)}, but the messages hold "
            f"{_counts(wanted)}; does the template take media, and are its marks given?"
        )
    return _cut(text, start, [(at, mark, kinds[mark]) for at, mark in places], media)


def _kinds_by_mark(
    text: str,
    marks: MediaMarks | None,
    wanted: Mapping[str, int],
    messages: Sequence[BaseMessage],
) -> dict[str, str]:
    """Return the marks to look for, each with its kind."""
    if marks is None and not wanted:
        return {}
    chosen = MEDIA_MARKS if marks is None else marks
    kinds = {mark: kind for kind, known in chosen.items() for mark in known if mark in text}
    # A picture that another family's mark stands for may be spoken of.
    clear = {mark: kind for mark, kind in kinds.items() if not _says(messages, mark)}
    if marks is None and set(clear.values()) >= set(wanted):
        return clear
    others = [message for message in messages if not isinstance(message, AIMessage)]
    for mark in kinds:
        if _says(others, mark):
            raise InvalidMessageError(
                f"a message says {mark!r}, which the model reads as a picture or sound; "
                "write it otherwise"
            )
    return kinds


def _says(messages: Iterable[BaseMessage], mark: str) -> bool:
    return any(mark in piece for message in messages for piece in _texts(message))


def _quoted(text: str, marks: Iterable[str], messages: Iterable[BaseMessage]) -> Container[int]:
    """Return the positions within what the model itself said of marks."""
    ranges: list[range] = []
    done = 0
    replies = (message for message in messages if isinstance(message, AIMessage))
    for piece in (piece.strip() for reply in replies for piece in _texts(reply)):
        if any(mark in piece for mark in marks) and (at := text.find(piece, done)) >= 0:
            done = at + len(piece)
            ranges.append(range(at, done))
    return {at for one in ranges for at in one}


def _texts(message: BaseMessage) -> Iterable[str]:
    yield from _strings(message.content)
    yield from _strings(message.name or "")
    yield from _strings(getattr(message, "tool_calls", ""))


def _strings(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)


def _places(text: str, marks: Iterable[str]) -> list[tuple[int, str]]:
    # The longest first: a mark may begin another.
    patterns = [re.escape(mark) for mark in sorted(marks, key=len, reverse=True)]
    if not patterns:
        return []
    return [(match.start(), match[0]) for match in re.finditer("|".join(patterns), text)]


def _cut(
    text: str, start: int, places: Sequence[tuple[int, str, str]], media: Sequence[Media]
) -> list[Part]:
    waiting: dict[str, deque[Media]] = {}
    for one in media:
        waiting.setdefault(one.kind, deque()).append(one)
    parts: list[Part] = []
    done = start
    for at, mark, kind in places:
        one = waiting[kind].popleft()
        if at + len(mark) <= start:
            continue
        if at < start:
            raise InvalidMessageError(f"position {start} of the prompt lies within {mark!r}")
        parts += [text[done:at], one]
        done = at + len(mark)
    parts.append(text[done:])
    return [part for part in parts if part != ""]


def _counts(kinds: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "no media"
