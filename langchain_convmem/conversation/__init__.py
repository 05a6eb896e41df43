"""A conversation with a model: it remembers, calls tools, streams, and takes turns back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_convmem._lazy import load_lazily

if TYPE_CHECKING:
    from langchain_convmem.conversation.config import ConversationConfig, Preface
    from langchain_convmem.conversation.conversation import Checkpoint, Conversation, Engine
    from langchain_convmem.conversation.inputs import SendOptions
    from langchain_convmem.conversation.turn import MessageCallback, TurnHandle
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
    "Engine",
    "LocalEngine",
    "MessageCallback",
    "Preface",
    "ReplyFormat",
    "ReplyReader",
    "SendOptions",
    "TemplateChatModel",
    "TurnHandle",
]

_HOMES = {
    "Channel": "text.reply_formats",
    "Checkpoint": "conversation.conversation",
    "CompletionsEngine": "text.completions",
    "Conversation": "conversation.conversation",
    "ConversationConfig": "conversation.config",
    "Engine": "conversation.conversation",
    "LocalEngine": "text.local",
    "MessageCallback": "conversation.turn",
    "Preface": "conversation.config",
    "ReplyFormat": "text.reply_formats",
    "ReplyReader": "text.replies",
    "SendOptions": "conversation.inputs",
    "TemplateChatModel": "text.template_chat_model",
    "TurnHandle": "conversation.turn",
}

__getattr__, __dir__ = load_lazily(__name__, _HOMES)
