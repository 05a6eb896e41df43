"""Models that read text: chat templates, what a session holds, replies, and engines of text."""

from __future__ import annotations

from langchain_convmem.text.chat_template import ChatTemplate, Increment, RenderState, RenderStats
from langchain_convmem.text.sandbox import TemplateLimits

__all__ = ["ChatTemplate", "Increment", "RenderState", "RenderStats", "TemplateLimits"]
