"""Engines and sessions of one's own: what they do not define they inherit."""

import asyncio

import pytest

from langchain_convmem import Conversation
from langchain_convmem.errors import ConfigError
from langchain_convmem.text.sessions import ModelSession, TextEngine


class EchoSession(ModelSession):
    text = ""

    def prefill(self, parts):
        self.text += "".join(parts)

    def decode(self, *, stop=(), max_tokens=None, **options):
        for piece in ("On level", " C."):
            self.text += piece
            yield piece

    def reset(self):
        self.text = ""


class EchoEngine(TextEngine):
    def create_session(self):
        return EchoSession()


def test_a_session_needs_three_methods_and_an_engine_one():
    async def read():
        return [chunk.text async for chunk in talk.astream("And now?")]

    with Conversation(EchoEngine(), template="qwen") as talk:
        assert talk.send_message("Where did I park?").text == "On level C."
        assert asyncio.run(read()) == ["On level", " C.", ""]
        talk.undo()
        assert talk.send_message("Sure?").text == "On level C."


def test_what_an_engine_or_a_session_lacks_is_named():
    class Half(ModelSession):
        def prefill(self, parts):
            pass

    with pytest.raises(TypeError, match="decode"):
        Half()
    with pytest.raises(ConfigError, match=r"derived from text\.sessions\.TextEngine"):
        Conversation(object(), template="qwen")
