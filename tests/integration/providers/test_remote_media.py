"""An address that stops working: later turns go on, with a note."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableLambda

from langchain_convmem import ConversationMemory, InMemoryLog

pytestmark = pytest.mark.sockets

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(24)
HERE = {"configurable": {"user_id": "ana", "thread_id": "t"}}


class Site:
    """A web site on loopback with one picture, until it is taken down."""

    def __init__(self):
        self.is_up = True
        self.requests = 0
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                site.requests += 1
                self.send_response(200 if site.is_up else 404)
                self.send_header("Content-Type", "image/png")
                self.end_headers()
                self.wfile.write(PICTURE if site.is_up else b"gone")

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/a.png"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def site():
    one = Site()
    yield one
    one.close()


@pytest.fixture
def model():
    """What the integration of Gemini makes of messages before it sends anything; it downloads."""
    module = pytest.importorskip("langchain_google_genai.chat_models")
    convert = import_module(module.__name__)._parse_chat_history
    sent = []

    def answer(value):
        _, contents = convert(value["messages"])
        sent.append([part for content in contents for part in content.parts])
        return "I see."

    chain = RunnableLambda(answer)
    chain.sent = sent
    return chain


def ask(address, text="What is this?"):
    picture = {"type": "image", "url": address, "mime_type": "image/png"}
    return HumanMessage([{"type": "text", "text": text}, picture])


def count_pictures(parts):
    return sum(part.inline_data is not None for part in parts)


def say(chain, model, *messages):
    for message in messages:
        chain.invoke(message, HERE)
    return model.sent[-1]


def test_the_picture_of_the_turn_is_sent_and_later_turns_do_without_its_address(site, model):
    with ConversationMemory(InMemoryLog()) as memory:
        chain = memory.wrap(model, provider="gemini")
        assert count_pictures(say(chain, model, ask(site.address))) == 1
        site.is_up = False
        parts = say(chain, model, HumanMessage("And what colour?"))
        assert count_pictures(parts) == 0
        assert f"[image, image/png, {site.address}: not shown]" in [part.text for part in parts]
        assert site.requests == 1
        [first, *_] = memory.history("t", user_id="ana").entries
        assert first.message.content[1]["url"] == site.address


def test_an_address_that_fails_at_once_fails_its_own_turn_alone(site, model):
    site.is_up = False
    with ConversationMemory(InMemoryLog()) as memory:
        chain = memory.wrap(model, provider="gemini")
        with pytest.raises(Exception, match="404"):
            chain.invoke(ask(site.address), HERE)
        parts = say(chain, model, HumanMessage("Never mind. Who are you?"))
        assert count_pictures(parts) == 0
        assert parts[-1].text.endswith("Who are you?")
