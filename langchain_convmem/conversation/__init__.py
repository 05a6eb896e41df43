"""A conversation with a model: it remembers, calls tools, streams, and takes turns back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_convmem._lazy import load_lazily

if TYPE_CHECKING:
    from langchain_convmem.conversation.config import ConversationConfig as ConversationConfig
    from langchain_convmem.conversation.config import Preface as Preface
    from langchain_convmem.conversation.config import SendOptions as SendOptions
    from langchain_convmem.conversation.conversation import Checkpoint as Checkpoint
    from langchain_convmem.conversation.conversation import Conversation as Conversation
    from langchain_convmem.conversation.conversation import Engine as Engine
    from langchain_convmem.conversation.conversation import MessageCallback as MessageCallback
    from langchain_convmem.conversation.conversation import TurnHandle as TurnHandle
    from langchain_convmem.conversation.inputs import MediaLimits as MediaLimits
    from langchain_convmem.text.completions import CompletionsEngine as CompletionsEngine
    from langchain_convmem.text.local import LocalEngine as LocalEngine
    from langchain_convmem.text.replies import ReplyReader as ReplyReader
    from langchain_convmem.text.reply_formats import Channel as Channel
    from langchain_convmem.text.reply_formats import ReplyFormat as ReplyFormat
    from langchain_convmem.text.template_chat_model import TemplateChatModel as TemplateChatModel

__getattr__, __dir__, __all__ = load_lazily(__name__)
