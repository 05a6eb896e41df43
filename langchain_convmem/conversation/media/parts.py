"""Parts of messages that hold media: every form in use is made into LangChain's own block.

A block holds what the file held, so that a turn can be repeated when the file has gone.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_convmem.conversation.media.files import MediaLimits, is_file_url, read_file
from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.protocols.sessions import Media
from langchain_convmem.views.media_types import family_of, media_type_of
from langchain_convmem.views.profiles.media import read_media

__all__ = ["has_media", "media_of", "settle_media"]

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
