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
    from langchain_convmem.conversation.sessions import CompletionsEngine, LocalEngine
    from langchain_convmem.conversation.template_chat_model import TemplateChatModel
    from langchain_convmem.conversation.turns_back import Checkpoint

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
    "Channel": "replies",
    "Checkpoint": "turns_back",
    "CompletionsEngine": "sessions",
    "Conversation": "conversation",
    "ConversationConfig": "config",
    "ConversationInput": "inputs",
    "Engine": "engine",
    "LocalEngine": "sessions",
    "MediaLimits": "media",
    "MessageCallback": "handles",
    "Preface": "preface",
    "ReplyFormat": "replies",
    "ReplyReader": "replies",
    "SendOptions": "config",
    "TemplateChatModel": "template_chat_model",
    "TurnHandle": "handles",
    "as_messages": "inputs",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
