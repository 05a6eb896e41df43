"""Pictures, sound, video and files in messages: read from every shape in use, written in one.

Reads the content blocks of LangChain (both generations), OpenAI, Anthropic, Bedrock and Gemini.
What is handed out is LangChain's current block, which all integrations translate. Pure; what an
address holds is fetched by functions of the caller alone.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeGuard, get_args

from langchain_core.messages import BaseMessage

from langchain_convmem.background import ask, hop
from langchain_convmem.errors import InvalidMessageError
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


@dataclass(frozen=True, slots=True)
class _RawMedia:
    """What a block's shape says, before any of it is checked."""

    kind: object
    base64: object = None
    url: object = None
    file_id: object = None
    type: object = None
    name: object = None
    detail: object = None


# -- Reading --------------------------------------------------------------------------------------
def read_media(block: Mapping[Any, Any]) -> MediaBlock | None:
    """Return the media a content block holds; None for a block of another sort."""
    for shape in (_read_anthropic, _read_openai, _read_bedrock, _read_gemini, _read_standard):
        found = shape(block)
        if found is not None:
            detail = str(found.detail)  # a list cannot be looked up in a set
            return replace(_check(found), detail=detail if detail in _DETAILS else "")
    return None


def _read_standard(block: Mapping[Any, Any]) -> _RawMedia | None:
    kind = get_block_type(block)
    if kind not in _KINDS:
        return None
    source = block.get("source_type")
    return _RawMedia(
        kind,
        base64=block.get("data") if source == "base64" else block.get("base64"),
        url=block.get("url"),
        file_id=block.get("id") if source == "id" else block.get("file_id"),
        type=block.get("mime_type"),
        name=_find_name(block),
    )


def _find_name(block: Mapping[Any, Any]) -> object:
    for holder in (block, block.get("extras"), block.get("metadata")):
        if isinstance(holder, Mapping):
            for key in ("filename", "name", "title"):
                if holder.get(key):
                    return holder[key]
    return None


def _read_openai(block: Mapping[Any, Any]) -> _RawMedia | None:
    kind = get_block_type(block)
    if kind in ("image_url", "video_url"):
        inner = block.get(kind)
        inner = inner if isinstance(inner, Mapping) else {"url": inner}
        return _RawMedia(
            kind.removesuffix("_url"),
            url=inner.get("url") or "",
            type=block.get("mime_type"),
            detail=inner.get("detail"),
        )
    if kind == "input_audio" and isinstance(inner := block.get("input_audio"), Mapping):
        return _RawMedia("audio", base64=inner.get("data"), type=f"audio/{inner.get('format')}")
    if kind == "file" and isinstance(inner := block.get("file"), Mapping):
        return _RawMedia(
            "file",
            base64=inner.get("bytes"),
            url=inner.get("file_data"),
            file_id=inner.get("file_id"),
            name=inner.get("filename"),
        )
    return None


def _read_anthropic(block: Mapping[Any, Any]) -> _RawMedia | None:
    kind = "file" if get_block_type(block) == "document" else get_block_type(block)
    source = block.get("source")
    if kind not in _KINDS or not isinstance(source, Mapping):
        return None
    return _RawMedia(
        kind,
        base64=source.get("data") if source.get("type") == "base64" else None,
        url=source.get("url"),
        file_id=source.get("file_id"),
        type=source.get("media_type"),
        name=block.get("title"),
    )


def _read_bedrock(block: Mapping[Any, Any]) -> _RawMedia | None:
    for key in ("image", "video", "audio", "document"):
        inner = block.get(key)
        if isinstance(inner, Mapping) and isinstance(source := inner.get("source"), Mapping):
            form = inner.get("format")
            family = "application" if key == "document" else key
            kind = "file" if key == "document" else key
            known = _ALIASES.get(form, f"{family}/{form}") if isinstance(form, str) else None
            return _RawMedia(kind, base64=source.get("bytes"), type=known, name=inner.get("name"))
    return None


def _read_gemini(block: Mapping[Any, Any]) -> _RawMedia | None:
    if get_block_type(block) not in ("media", "file_data"):
        return None
    named = block.get("mime_type")
    uri = block.get("file_uri")
    is_address = isinstance(uri, str) and _ADDRESS.fullmatch(uri) is not None
    return _RawMedia(
        get_family(named) if isinstance(named, str) else "file",
        base64=block.get("data"),
        url=uri if is_address and "googleapis.com" not in str(uri) else None,
        file_id=uri,
        type=named,
    )


def _is_kind(value: object) -> TypeGuard[Kind]:
    return isinstance(value, str) and value in _KINDS


# -- Checking -------------------------------------------------------------------------------------
def _check(found: _RawMedia) -> MediaBlock:
    named = _normalize_type(found.type)
    kind: Kind = found.kind if _is_kind(found.kind) else "file"
    name = clean_text(_BLANKS.sub(" ", found.name).strip()) if isinstance(found.name, str) else ""
    if found.base64 is not None:
        return _make_with_data(kind, found.base64, named, name)
    if isinstance(found.url, str):
        uri = _DATA_URI.fullmatch(found.url)
        if uri is not None:
            return _make_with_data(kind, uri[2], _normalize_type(uri[1]) or named, name)
        return MediaBlock(kind, "url", found.url.strip(), named, name)
    if isinstance(found.file_id, str):
        return MediaBlock(kind, "id", found.file_id, named, name)
    return MediaBlock(kind, "base64", "", named, name)


def _normalize_type(value: object) -> str:
    if not isinstance(value, str):
        return ""
    plain = value.partition(";")[0].strip().lower()
    return _ALIASES.get(plain, plain)


def _make_with_data(kind: Kind, data: object, named: str, name: str) -> MediaBlock:
    text, head = _read_base64(data)
    media_type = detect_media_type(head) or named
    if media_type and kind in ("file", get_family(named)):
        kind = get_family(media_type)
    return MediaBlock(kind, "base64", text, media_type, name)


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


# -- Fetching -------------------------------------------------------------------------------------
def fetch_media(message: BaseMessage, fetch: Callable[[str], bytes]) -> BaseMessage:
    """Return a message that holds the data of its remote media.

    Call it before the message is said: the log then keeps what the address held, and no later turn
    depends on it.

    Args:
        message: Stays as it is.
        fetch: Returns what lies at an address (`http` or `https`). Which addresses it follows, how
            long it waits and how much it reads are up to it; what it raises is passed on.

    Raises:
        InvalidMessageError: If it fetched nothing, or what is no media of a known type.
    """
    if isinstance(message.content, str):
        return message
    blocks: list[Any] = []
    for block in message.content:
        media = read_media(block) if isinstance(block, Mapping) else None
        if media is None or media.form != "url" or not _ADDRESS.fullmatch(media.data):
            blocks.append(block)
            continue
        blocks.append(_write_fetched(media, fetch(media.data)))
    return message.model_copy(update={"content": blocks})


async def afetch_media(
    message: BaseMessage, fetch: Callable[[str], Awaitable[bytes]]
) -> BaseMessage:
    """Async `fetch_media`, whose `fetch` is awaited."""

    def fetch_from_loop(address: str) -> Any:
        call: Any = partial(fetch, address)
        return ask(call, call)

    return await hop(partial(fetch_media, message, fetch_from_loop))


def _write_fetched(media: MediaBlock, data: bytes) -> dict[str, Any]:
    media_type = detect_media_type(data[:_HEAD]) or media.type
    if not data or not media_type or media.kind not in ("file", get_family(media_type)):
        msg = f"{len(data)} bytes were fetched for a part of the kind {media.kind}, which are none"
        raise InvalidMessageError(msg)
    text = base64.b64encode(data).decode()
    return write_block(replace(media, form="base64", data=text, type=media_type))


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
