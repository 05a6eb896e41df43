"""What bytes say of themselves: the media type, by how a file begins."""

from __future__ import annotations

from typing import Literal

__all__ = ["family_of", "media_type_of"]

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
_FAMILIES: dict[str, Literal["audio", "image", "video"]] = {
    "audio": "audio",
    "image": "image",
    "video": "video",
}
_BMP_RESERVED = slice(6, 10)
_FRAME = b"\xff"
_SYNC = 0xE0
_MPEG_LAYER = 0x06


def media_type_of(data: bytes) -> str:
    """Return the media type that the first bytes tell; empty if they tell none."""
    if data[4:8] == b"ftyp":
        return _BRANDS.get(data[8:12], "video/mp4")
    held = _CONTAINERS.get((data[:4], data[8:12]))
    if held is not None:
        return held
    for start, kind in _STARTS:
        if data.startswith(start) and not (start == b"BM" and any(data[_BMP_RESERVED])):
            return kind
    return _mpeg_audio(data)


def _mpeg_audio(data: bytes) -> str:
    """Return the type of MPEG audio without a header, whose frames begin with eleven ones."""
    if len(data) < len(_FRAME) + 1 or not data.startswith(_FRAME) or data[1] & _SYNC != _SYNC:
        return ""
    return "audio/mp3" if data[1] & _MPEG_LAYER else "audio/aac"


def family_of(media_type: str) -> Literal["audio", "file", "image", "video"]:
    """Return what a media type is of; `file` for all others."""
    return _FAMILIES.get(media_type.partition("/")[0], "file")
