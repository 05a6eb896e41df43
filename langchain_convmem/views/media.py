"""Pictures, sound, video and files in messages: read from every shape in use, written in one.

Reads the content blocks of LangChain (both generations), OpenAI, Anthropic, Bedrock and Gemini.
What is handed out is LangChain's current block, which all integrations translate. Pure: nothing is
fetched.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard, get_args

from langchain_convmem.views.codec import clean_text
from langchain_convmem.views.messages import get_block_type
from langchain_convmem.views.providers import Form, Kind, MediaRule, ProviderProfile, fits

_KINDS: frozenset[str] = frozenset(get_args(Kind))

_ALIASES = {
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "image/x-png": "image/png",
    "audio/mpeg": "audio/mp3",
    "audio/x-mp3": "audio/mp3",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "application/x-pdf": "application/pdf",
    "three_gp": "video/3gpp",
    "mkv": "video/x-matroska",
    "mov": "video/quicktime",
    "flv": "video/x-flv",
    "wmv": "video/x-ms-wmv",
    "txt": "text/plain",
    "md": "text/markdown",
    "csv": "text/csv",
    "html": "text/html",
    "pdf": "application/pdf",
}

_DATA_URI = re.compile(r"data:([^;,\s]*)(?:;[^;,\s]*)*;base64,(.*)", re.DOTALL)
_ADDRESS = re.compile(r"https?://[^\s/?#]+\S*")
_BLANKS = re.compile(r"\s+")
_TEXT_TYPES = frozenset({"application/json", "application/xml", "application/x-yaml"})

_DETAILS = frozenset({"auto", "low", "high"})
_ADDRESS_SHOWN = 200
_HEAD = 32


@dataclass(frozen=True, slots=True)
class MediaBlock:
    """A picture, clip or file in a message.

    Attributes:
        kind: What it is.
        form: How its data comes.
        data: Base64 text, an address or a file id; empty where it cannot be read.
        type: Media type in its usual spelling; empty where neither the block nor its bytes say.
        name: Its file name, if any.
        detail: How closely OpenAI's models look at a picture; empty where the block does not say.
    """

    kind: Kind
    form: Form
    data: str
    type: str = ""
    name: str = ""
    detail: str = ""

    @property
    def size(self) -> int:
        """Number of decoded bytes; 0 where the data is elsewhere."""
        return len(self.data) * 3 // 4 - self.data.count("=", -2) if self.form == "base64" else 0


# -- Reading --------------------------------------------------------------------------------------
_NAMES: dict[str, Kind | None] = {
    "image": "image",
    "audio": "audio",
    "video": "video",
    "file": "file",
    "document": "file",
    "image_url": "image",
    "video_url": "video",
    "input_audio": "audio",
    "media": None,
    "file_data": None,
}
"""What blocks of media call themselves; None where their media type says what they are."""
_BEDROCK = ("image", "video", "audio", "document")


def read_media(block: Mapping[Any, Any]) -> MediaBlock | None:
    """Return the media a content block holds; None for a block of another sort."""
    kind_name, inner = _find_inner(block)
    if kind_name not in _NAMES:
        return None
    source = inner["source"] if isinstance(inner.get("source"), Mapping) else inner
    named = _read_type(source, block)
    kind = _NAMES[kind_name] or (get_family(named) if named else "file")
    form, detail = inner.get("format"), inner.get("detail")
    if isinstance(form, str):
        family = "application" if kind == "file" else kind
        named = _ALIASES.get(form) or _normalize_type(f"{family}/{form}")
    return MediaBlock(
        *_read_data(kind, source, block, named),
        name=_find_name(inner, block, block.get("extras"), block.get("metadata")),
        detail=detail if isinstance(detail, str) and detail in _DETAILS else "",
    )


def _find_inner(block: Mapping[Any, Any]) -> tuple[str, Mapping[Any, Any]]:
    """Return what a block says it is, and the map in it or the block itself, which says more."""
    kind = get_block_type(block)
    if kind in ("image_url", "video_url", "input_audio", "file") and block.get(kind):
        held = block[kind]
        return kind, held if isinstance(held, Mapping) else {"url": held}
    for key in _BEDROCK:
        held = block.get(key)
        if isinstance(held, Mapping) and isinstance(held.get("source"), Mapping):
            return key, held
    return kind, block


def _find_name(*holders: Any) -> str:
    for holder in holders:
        for key in ("filename", "name", "title") if isinstance(holder, Mapping) else ():
            if holder.get(key) and isinstance(holder[key], str):
                return clean_text(_BLANKS.sub(" ", holder[key]).strip())
    return ""


def _read_type(*holders: Mapping[Any, Any]) -> str:
    named = (holder.get(key) for holder in holders for key in ("mime_type", "media_type"))
    return next(filter(None, map(_normalize_type, named)), "")


def _read_data(
    kind: Kind, source: Mapping[Any, Any], block: Mapping[Any, Any], named: str
) -> tuple[Kind, Form, str, str]:
    """Return kind, form, data and media type, which the data may know better."""
    is_text = "text" in (source.get("type"), block.get("source_type"))
    data = None if is_text else _find(source, "base64", "bytes", "data")
    address = _find(source, "url", "file_data", "file_uri")
    own = source.get("id") if block.get("source_type") == "id" else source.get("file_id")
    if data is None and isinstance(address, str) and (uri := _DATA_URI.fullmatch(address)):
        data, named = uri[2], _normalize_type(uri[1]) or named
    if data is not None:
        text, head = _read_base64(data)
        known = detect_media_type(head) or named
        is_told = known and kind in ("file", get_family(named))
        return get_family(known) if is_told else kind, "base64", text, known
    if isinstance(address, str):
        is_own = address == source.get("file_uri") and not _is_elsewhere(address)
        return kind, "id" if is_own else "url", address.strip(), named
    return kind, *(("id", own) if isinstance(own, str) else ("base64", "")), named


def _find(holder: Mapping[Any, Any], *keys: str) -> Any:
    return next((holder[key] for key in keys if holder.get(key) is not None), None)


def _is_elsewhere(address: str) -> bool:
    """Return whether an address is none of Google's own names for a file."""
    return "googleapis.com" not in address and _ADDRESS.fullmatch(address) is not None


def _is_kind(value: object) -> TypeGuard[Kind]:
    return isinstance(value, str) and value in _KINDS


def _normalize_type(value: object) -> str:
    if not isinstance(value, str):
        return ""
    plain = value.partition(";")[0].strip().lower()
    return _ALIASES.get(plain, plain)


def _read_base64(data: object) -> tuple[str, bytes]:
    """Return data as base64 text and its first bytes; empty where it is neither."""
    if isinstance(data, bytes | bytearray | memoryview):
        raw = bytes(data)
        return base64.b64encode(raw).decode(), raw[:_HEAD]
    if not isinstance(data, str):
        return "", b""
    text = _BLANKS.sub("", data) if not data.isalnum() else data
    text = text.replace("-", "+").replace("_", "/")
    text += "=" * (-len(text) % 4)
    try:
        return text, binascii.a2b_base64(text, strict_mode=True)[:_HEAD]
    except ValueError:
        return "", b""


# -- Deciding and writing -------------------------------------------------------------------------
def is_accepted(rule: MediaRule | None, media: MediaBlock, provider: ProviderProfile) -> bool:
    """Return whether a place whose rule this is takes the media."""
    if rule is None or media.form not in rule.forms or not media.data:
        return False
    if media.form == "url":
        is_known = not media.type or media.type in rule.types
        return is_known and _ADDRESS.fullmatch(media.data) is not None
    if media.form == "id":
        return fits(media.data, provider.file_id)
    return media.type in rule.types and (rule.max_bytes is None or media.size <= rule.max_bytes)


def write_block(media: MediaBlock, *, name: str = "") -> dict[str, Any]:
    """Return the media as a content block that every integration translates.

    Args:
        media: What to write.
        name: For a file: the name to show it under, if not its own.
    """
    if media.detail and media.kind == "image" and media.form != "id":
        is_url = media.form == "url"
        address = media.data if is_url else f"data:{media.type};base64,{media.data}"
        return {"type": "image_url", "image_url": {"url": address, "detail": media.detail}}
    keys = {"base64": "base64", "url": "url", "id": "file_id"}
    block: dict[str, Any] = {"type": media.kind, keys[media.form]: media.data}
    if media.type:
        block["mime_type"] = media.type
    if media.kind == "file" and media.form == "base64":
        block["filename"] = media.name or f"file.{media.type.rpartition('/')[2]}"
        block["name"] = name or block["filename"]
    return block


def read_text_file(media: MediaBlock) -> str | None:
    """Return a text file as text under its name; None for files of another sort."""
    is_text = media.type.startswith("text/") or media.type in _TEXT_TYPES
    if media.form != "base64" or not is_text:
        return None
    try:
        text = base64.b64decode(media.data).decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return f"[file {media.name}]\n{text}" if media.name else text


def format_media_note(media: MediaBlock) -> str:
    """Return what a model reads in the media's place."""
    return f"[{_list_facts(media, media.type)}: not shown]"


def describe_media(media: MediaBlock) -> str:
    """Return what a person reads in the media's place, such as `[image, png, 86 kB]`."""
    return f"[{_list_facts(media, media.type.rpartition('/')[2])}]"


def _list_facts(media: MediaBlock, media_type: str) -> str:
    about = [f"{media.kind} {media.name}".strip()]
    if media_type:
        about.append(media_type)
    if media.form == "base64" and media.data:
        about.append(_format_size(media.size))
    elif media.form == "url" and _ADDRESS.fullmatch(media.data):
        about.append(clean_text(media.data[:_ADDRESS_SHOWN]))
    return ", ".join(about)


def _format_size(size: int) -> str:
    for unit, name in ((1_000_000, "MB"), (1_000, "kB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}" if size < 100 * unit else f"{size // unit} {name}"
    return f"{size} B"


# -- What bytes say of themselves: the media type, by how a file begins ---------------------------
_STARTS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"ID3", "audio/mp3"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"%PDF-", "application/pdf"),
    (b"\x1aE\xdf\xa3", "video/webm"),
)

_CONTAINERS = {
    (b"RIFF", b"WEBP"): "image/webp",
    (b"RIFF", b"WAVE"): "audio/wav",
    (b"RF64", b"WAVE"): "audio/wav",
    (b"RIFF", b"AVI "): "video/avi",
    (b"FORM", b"AIFF"): "audio/aiff",
    (b"FORM", b"AIFC"): "audio/aiff",
}
"""Formats that say in bytes 8 to 12 what the container holds."""

_BRANDS = {
    b"M4A ": "audio/mp4",
    b"M4B ": "audio/mp4",
    b"avif": "image/avif",
    b"heic": "image/heic",
    b"heix": "image/heic",
    b"mif1": "image/heic",
    b"qt  ": "video/quicktime",
}
"""What the containers of ISO hold, by their brand; the others are taken for video."""

_BMP_RESERVED = slice(6, 10)
_FRAME = b"\xff"
_SYNC = 0xE0
_MPEG_LAYER = 0x06


def detect_media_type(data: bytes) -> str:
    """Return the media type that the first bytes show; empty if they show none."""
    if data[4:8] == b"ftyp":
        return _BRANDS.get(data[8:12], "video/mp4")
    held = _CONTAINERS.get((data[:4], data[8:12]))
    if held is not None:
        return held
    for start, kind in _STARTS:
        if data.startswith(start) and not (start == b"BM" and any(data[_BMP_RESERVED])):
            return kind
    return _detect_mpeg_audio(data)


def _detect_mpeg_audio(data: bytes) -> str:
    """Return the type of MPEG audio without a header, whose frames begin with eleven ones."""
    if len(data) < len(_FRAME) + 1 or not data.startswith(_FRAME) or data[1] & _SYNC != _SYNC:
        return ""
    return "audio/mp3" if data[1] & _MPEG_LAYER else "audio/aac"


def get_family(media_type: str) -> Kind:
    """Return what a media type is of; `file` for all others."""
    family = media_type.partition("/")[0]
    return family if _is_kind(family) else "file"
