"""Replies: how models write what they think, what they say and what they call."""

from __future__ import annotations

from langchain_convmem.conversation.replies.detection import format_of
from langchain_convmem.conversation.replies.families import REPLY_FORMATS, reply_format
from langchain_convmem.conversation.replies.formats import Channel, Fence, ReplyFormat
from langchain_convmem.conversation.replies.reader import ReplyReader, read_reply

__all__ = [
    "REPLY_FORMATS",
    "Channel",
    "Fence",
    "ReplyFormat",
    "ReplyReader",
    "format_of",
    "read_reply",
    "reply_format",
]
