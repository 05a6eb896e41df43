"""Chat templates: messages to a model's text, by what is new in each turn."""

from __future__ import annotations

from langchain_convmem.chat_templates.chat_template import ChatTemplate
from langchain_convmem.chat_templates.environment import TemplateLimits
from langchain_convmem.chat_templates.messages import MessageLike, TemplateMessage
from langchain_convmem.chat_templates.rendering import Increment, RenderState, RenderStats
from langchain_convmem.chat_templates.sources import BUILTINS

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
