"""A conversation with a model: it remembers, calls tools, streams, and takes turns back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_convmem.lazy_names import lazy_names

if TYPE_CHECKING:
    from langchain_convmem.conversation.config import ConversationConfig, SendOptions
    from langchain_convmem.conversation.conversation import Conversation
    from langchain_convmem.conversation.engine import Engine
    from langchain_convmem.conversation.handles import MessageCallback, TurnHandle
    from langchain_convmem.conversation.inputs import ConversationInput, as_messages
    from langchain_convmem.conversation.media import MediaLimits
    from langchain_convmem.conversation.preface import Preface
    from langchain_convmem.conversation.replies import Channel, ReplyFormat, ReplyReader
    from langchain_convmem.conversation.turns_back import Checkpoint

__all__ = [
    "Channel",
    "Checkpoint",
    "Conversation",
    "ConversationConfig",
    "ConversationInput",
    "Engine",
    "MediaLimits",
    "MessageCallback",
    "Preface",
    "ReplyFormat",
    "ReplyReader",
    "SendOptions",
    "TurnHandle",
    "as_messages",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Channel": "replies",
        "Checkpoint": "turns_back",
        "Conversation": "conversation",
        "ConversationConfig": "config",
        "ConversationInput": "inputs",
        "Engine": "engine",
        "MediaLimits": "media",
        "MessageCallback": "handles",
        "Preface": "preface",
        "ReplyFormat": "replies",
        "ReplyReader": "replies",
        "SendOptions": "config",
        "TurnHandle": "handles",
        "as_messages": "inputs",
    },
)
