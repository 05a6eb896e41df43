"""Conversations of tests: with text engines or chat models, and what was said in them."""

from __future__ import annotations

import threading
from typing import Any

from scripted_chat import ScriptedChatModel

from langchain_convmem import ChatTemplate, Conversation
from langchain_convmem.testing import ScriptedEngine

__all__ = ["CHATML", "QWEN", "Gate", "chat", "text_engine", "text_talk", "texts"]

CHATML, QWEN = ChatTemplate.from_builtin("chatml"), ChatTemplate.from_builtin("qwen")


def text_engine(reply: Any = "Fine.", template: ChatTemplate = CHATML, **options: Any) -> Any:
    """Return an engine whose reply is text, a list of texts, or a function of what it read."""
    return ScriptedEngine(reply, template=template, end_text="<|im_end|>", **options)


def text_talk(*replies: Any, **options: Any) -> tuple[Conversation, Any]:
    """Return a conversation with such an engine, and the engine."""
    engine = text_engine(*replies, **options)
    return Conversation(engine), engine


def chat(*replies: Any, **settings: Any) -> Conversation:
    """Return a conversation with a chat model that gives these replies."""
    return Conversation(ScriptedChatModel(replies=list(replies)), **settings)


def texts(talk: Conversation) -> list[str]:
    """Return what was said in a conversation."""
    return [str(message.text) for message in talk.history]


class Gate:
    """Holds a model back before it reads anything, until it is opened."""

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()

    def __call__(self, _: Any) -> None:
        self.reached.set()
        assert self.opened.wait(30)
