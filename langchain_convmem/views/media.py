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
from typing import Any, get_args

from langchain_convmem.views.codec import clean_text
from langchain_convmem.views.messages import get_block_type
from langchain_convmem.views.providers import Form, Kind, MediaRule, ProviderProfile, fits

_FAMILIES: Mapping[str, Kind] = {kind: kind for kind in get_args(Kind)}

_ALIASES = {
    "image/jpg": "image/jpeg",
    "audio/mpeg": "audio/mp3",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav",
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
    holders = (source, block)
    types = (one.get(key) for one in holders for key in ("mime_type", "media_type"))
    named = next(filter(None, map(_normalize_type, types)), "")
    kind = _NAMES[kind_name] or (get_family(named) if named else "file")
    form, detail = inner.get("format"), inner.get("detail")
    if isinstance(form, str):
        family = "application" if kind == "file" else kind
        named = _ALIASES.get(form) or _normalize_type(f"{family}/{form}")
    return MediaBlock(
        *_read_data(kind, source, block, named),
        name=_find_name(inner, block, block.get("extras"), block.get("metadata")),
        detail=detail if detail in ("auto", "low", "high") else "",
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
        # Google's own names for a file are no addresses for others.
        is_named = "googleapis.com" in address or not _ADDRESS.fullmatch(address)
        is_own = address == source.get("file_uri") and is_named
        return kind, "id" if is_own else "url", address.strip(), named
    return kind, *(("id", own) if isinstance(own, str) else ("base64", "")), named


def _find(holder: Mapping[Any, Any], *keys: str) -> Any:
    return next((holder[key] for key in keys if holder.get(key) is not None), None)


def _normalize_type(value: object) -> str:
    plain = value.partition(";")[0].strip().lower() if isinstance(value, str) else ""
    return _ALIASES.get(plain, plain)


def _read_base64(data: object) -> tuple[str, bytes]:
    """Return data as base64 text and its first bytes; empty where it is neither."""
    if isinstance(data, bytes | bytearray | memoryview):
        raw = bytes(data)
        return base64.b64encode(raw).decode(), raw[:_HEAD]
    if not isinstance(data, str):
        return "", b""
    text = _BLANKS.sub("", data).replace("-", "+").replace("_", "/")
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
_SIGNS = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF8", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (8, b"avif", "image/avif"),
    (8, b"heic", "image/heic"),
    (0, b"ID3", "audio/mp3"),
    (0, b"\xff\xfb", "audio/mp3"),
    (0, b"\xff\xf3", "audio/mp3"),
    (0, b"\xff\xf1", "audio/aac"),
    (8, b"WAVE", "audio/wav"),
    (8, b"AIFF", "audio/aiff"),
    (8, b"M4A ", "audio/mp4"),
    (0, b"OggS", "audio/ogg"),
    (0, b"fLaC", "audio/flac"),
    (0, b"\x1aE\xdf\xa3", "video/webm"),
    (8, b"AVI ", "video/avi"),
    (8, b"qt  ", "video/quicktime"),
    (4, b"ftyp", "video/mp4"),
    (0, b"%PDF-", "application/pdf"),
)
"""Where a sign of a format stands, and what it is of; the first that fits holds."""


def detect_media_type(data: bytes) -> str:
    """Return the media type that the first bytes show; empty if they show none."""
    return next((kind for at, sign, kind in _SIGNS if data.startswith(sign, at)), "")


def get_family(media_type: str) -> Kind:
    """Return what a media type is of; `file` for all others."""
    return _FAMILIES.get(media_type.partition("/")[0], "file")
