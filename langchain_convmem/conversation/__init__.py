"""A conversation with a model: it remembers, calls tools, streams, and takes turns back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_convmem._lazy import lazy_names

if TYPE_CHECKING:
    from langchain_convmem.conversation.config import ConversationConfig, Preface, SendOptions
    from langchain_convmem.conversation.conversation import (
        Checkpoint,
        Conversation,
        MessageCallback,
        TurnHandle,
    )
    from langchain_convmem.conversation.engine import Engine
    from langchain_convmem.conversation.inputs import ConversationInput, as_messages
    from langchain_convmem.conversation.media import MediaLimits
    from langchain_convmem.text.completions import CompletionsEngine
    from langchain_convmem.text.local import LocalEngine
    from langchain_convmem.text.replies import ReplyReader
    from langchain_convmem.text.reply_formats import Channel, ReplyFormat
    from langchain_convmem.text.template_chat_model import TemplateChatModel

__all__ = [
    "Channel",
    "Checkpoint",
    "CompletionsEngine",
    "Conversation",
    "ConversationConfig",
    "ConversationInput",
    "Engine",
    "LocalEngine",
    "MediaLimits",
    "MessageCallback",
    "Preface",
    "ReplyFormat",
    "ReplyReader",
    "SendOptions",
    "TemplateChatModel",
    "TurnHandle",
    "as_messages",
]

_HOMES = {
    "Channel": "text.reply_formats",
    "Checkpoint": "conversation.conversation",
    "CompletionsEngine": "text.completions",
    "Conversation": "conversation.conversation",
    "ConversationConfig": "conversation.config",
    "ConversationInput": "conversation.inputs",
    "Engine": "conversation.engine",
    "LocalEngine": "text.local",
    "MediaLimits": "conversation.media",
    "MessageCallback": "conversation.conversation",
    "Preface": "conversation.config",
    "ReplyFormat": "text.reply_formats",
    "ReplyReader": "text.replies",
    "SendOptions": "conversation.config",
    "TemplateChatModel": "text.template_chat_model",
    "TurnHandle": "conversation.conversation",
    "as_messages": "conversation.inputs",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
