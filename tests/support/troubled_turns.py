"""Conversations in which something happens at a chosen point of a turn, and what they hold then."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from scripted_chat import ScriptedChatModel

from langchain_convmem import ChatTemplate, ConversationMemory, InMemoryLog
from langchain_convmem.conversation import Conversation
from langchain_convmem.errors import LogUnavailableError
from langchain_convmem.message_log import MessageLog
from langchain_convmem.testing import ScriptedEngine

BEFORE, ASKED = "Hello there", "Please look twice"
_SPOKEN = re.compile(r"<\|im_start\|>user\n(?!<tool_response>)(.*?)<\|im_end\|>", re.DOTALL)


class BoomError(Exception):
    """What something foreign raises."""


class Halt(BaseException):
    """What not even a tool may swallow."""


@dataclass
class Trouble:
    """Does something when the turn comes to the point numbered `at`, once; counts the points."""

    at: int | None = None
    act: Callable[[str], object] | None = None
    points: list[str] = field(default_factory=list)

    def arm(self, at, act):
        self.points.clear()
        self.at, self.act = at, act

    def point(self, name):
        number = len(self.points)
        self.points.append(name)
        if number == self.at and self.act is not None:
            self.at = None
            self.act(name)


def boom(name):
    """Raise what ends a turn at this point."""
    if name == "tool":
        raise Halt
    if name == "log":
        raise LogUnavailableError("the disk is full")
    raise BoomError(name)


def _next(question, rounds):
    if "look" in question and rounds < 2:
        return f"Look {rounds} for you.", {"place": rounds}
    return f"Answer {rounds} to {question}", None


def written(text):
    """Return what a text model writes: two calls, one after the other, if it is to look."""
    spoken = list(_SPOKEN.finditer(text))[-1]
    words, args = _next(spoken[1], text.count("<tool_response>", spoken.end()))
    if args is None:
        return words
    call = json.dumps({"name": "look", "arguments": args})
    return f"{words}\n<tool_call>\n{call}\n</tool_call>"


def _in_three(text):
    third = len(text) // 3
    return [text[:third], text[third : 2 * third], text[2 * third :]]


def said(messages):
    """Return what a chat model says: the same."""
    last = max(n for n, one in enumerate(messages) if isinstance(one, HumanMessage))
    rounds = sum(isinstance(one, ToolMessage) for one in messages[last:])
    words, args = _next(messages[last].text, rounds)
    calls = [] if args is None else [{"name": "look", "args": args, "id": f"c{rounds}"}]
    return AIMessage(words, tool_calls=calls)


class TroubledChatModel(ScriptedChatModel):
    trouble: Any
    outlined: list[Any]

    def _reply(self, messages):
        self.trouble.point("model")
        self.outlined.append([outline(one) for one in messages])
        return super()._reply(messages)

    def _chunks(self, messages):
        for chunk in super()._chunks(messages):
            self.trouble.point("chunk")
            yield chunk


class TroubledLog(InMemoryLog):
    append_planned = MessageLog.append_planned

    def __init__(self, trouble):
        super().__init__()
        self._trouble = trouble

    def append(self, *args, **kwargs):
        self._trouble.point("log")
        return super().append(*args, **kwargs)


@dataclass
class Talk:
    """A conversation whose turns pass the points of a `Trouble`."""

    conversation: Conversation
    trouble: Trouble
    seen: list[Any]
    """What the model had before it, at each reply."""
    engine: ScriptedEngine | None = None

    @property
    def history(self):
        return [outline(one) for one in self.conversation.history]

    @property
    def held(self):
        """What open sessions hold."""
        return [session.text for session in self.engine.open_sessions] if self.engine else []

    def check_rest(self):
        """No turn runs, and no session was used against its protocol."""
        assert self.conversation.wait(0)
        if self.engine is not None:
            assert self.engine.misuses == []


def outline(message):
    calls = [(call["name"], call["args"]) for call in getattr(message, "tool_calls", [])]
    return (message.type, message.text, calls, getattr(message, "status", None))


def talk(kind, **settings):
    """Return a conversation in which one turn was made.

    Args:
        kind: Words of `text` or `chat`; `rewinds`, `stops`, `single`; `list` or `memory`.
        **settings: Of the conversation.
    """
    words, trouble, seen, engine = kind.split(), Trouble(), [], None
    if "chat" in words:
        model = TroubledChatModel(replies=[said], trouble=trouble, outlined=seen)
    else:

        def reply(text):
            seen.append(text)
            return written(text)

        model = engine = ScriptedEngine(
            reply,
            template=ChatTemplate.from_builtin("qwen"),
            end_text="<|im_end|>",
            chunking=_in_three,
            rewindable="rewinds" in words,
            holds_stop="stops" in words,
            before_prefill=lambda _: trouble.point("prefill"),
            before_chunk=lambda _: trouble.point("chunk"),
        )

    def look(place: int) -> str:
        """Look at a place."""
        trouble.point("tool")
        return f"seen {place}"

    def handler(call):
        trouble.point("handler")
        return True

    given = {
        "preface": {"messages": [("system", "Be brief.")], "tools": [look]},
        "tool_handler": handler,
        **settings,
    }
    if "memory" in words:
        memory = ConversationMemory(TroubledLog(trouble))
        conversation = memory.conversation(model, thread_id="t", user_id="ana", **given)
    else:
        conversation = Conversation(model, **given)
    conversation.send_message(BEFORE)
    seen.clear()
    return Talk(conversation, trouble, seen, engine)


def _streamed(conversation, message):
    with closing(conversation.stream(message)) as chunks:
        for _ in chunks:
            pass


async def _astreamed(conversation, message):
    async for _ in conversation.astream(message):
        pass


WAYS = {
    "invoke": lambda conversation, message: conversation.invoke(message),
    "stream": _streamed,
    "ainvoke": lambda conversation, message: asyncio.run(conversation.ainvoke(message)),
    "astream": lambda conversation, message: asyncio.run(_astreamed(conversation, message)),
    "callback": lambda conversation, message: conversation.send_message_async(
        message, lambda _: None
    ).result(30),
    "within": lambda conversation, message: conversation.invoke(message, timeout=30),
}


def ways(start):
    """Yield ways to send, in turn."""
    names = list(WAYS)
    while True:
        yield names[start % len(names)], WAYS[names[start % len(names)]]
        start += 1
