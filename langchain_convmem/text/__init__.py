"""Chat templates: messages to a model's text, by what is new in each turn."""

from __future__ import annotations

from langchain_convmem.text.chat_template import BUILTINS, ChatTemplate
from langchain_convmem.text.ledger import Increment, RenderState, RenderStats
from langchain_convmem.text.messages import MessageLike, TemplateMessage
from langchain_convmem.text.sandbox import TemplateLimits

__all__ = [
    "BUILTINS",
    "ChatTemplate",
    "Increment",
    "MessageLike",
    "RenderState",
    "RenderStats",
    "TemplateLimits",
    "TemplateMessage",
]
