"""Pictures and sounds: read and checked as they come in, put in their places as they go out."""

from __future__ import annotations

from langchain_convmem.conversation.media.files import MediaLimits
from langchain_convmem.conversation.media.marks import MEDIA_MARKS, interleaved
from langchain_convmem.conversation.media.parts import has_media, media_of, settle_media

__all__ = [
    "MEDIA_MARKS",
    "MediaLimits",
    "has_media",
    "interleaved",
    "media_of",
    "settle_media",
]
