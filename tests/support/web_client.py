"""A client of the web chat without a browser, and a model that can be kept waiting."""

import asyncio
import contextlib
import json
import threading

from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from scripted_chat import ProviderError
from starlette.testclient import TestClient

from langchain_convmem.offline import OfflineChatModel
from langchain_convmem.web.server import build_app

ORIGIN = "http://127.0.0.1:8501"


class SlowModel(OfflineChatModel):
    """Says a few words and waits when asked to count; fails when asked to; else quotes."""

    cue: str = "Count."
    words: tuple[str, ...] = ("One, ", "two")

    async def _astream(self, messages, *args, **kwargs):
        text = messages[-1].text
        if text.endswith("Fail."):
            raise ProviderError("no words left")
        if not text.endswith(self.cue):
            async for chunk in super()._astream(messages, *args, **kwargs):
                yield chunk
            return
        for word in self.words:
            yield ChatGenerationChunk(message=AIMessageChunk(word))
        COUNTING.set()
        await asyncio.Event().wait()


COUNTING = threading.Event()
"""Set when a model has counted."""


@contextlib.contextmanager
def open_client(memory, *, access=None, models=None, **headers):
    """Yield a client of a server over a memory, which sends what pages send."""
    COUNTING.clear()
    app = build_app(memory, models or {"slow": SlowModel()}, access=access)
    sent = {"origin": ORIGIN, **headers}
    with TestClient(app, base_url=ORIGIN, headers=sent, follow_redirects=False) as client:
        yield client


def read_events(text):
    """Return server-sent events by name and data."""
    found = []
    for block in filter(None, text.split("\n\n")):
        name, data = block.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def say(client, thread, text, user="ana", **more):
    """Say something and return the reply."""
    fields = {"user": user, "thread": thread, "text": text, **more}
    answer = client.post("/say", data=fields)
    assert answer.status_code == 200, answer.text
    events = read_events(answer.text)
    assert events[-1][0] == "done", events
    return "".join(data["text"] for name, data in events if name == "text")


def show(client, path, thread=None, **more):
    """Return a page about a thread of Ana."""
    named = {"user": "ana", **({"thread": thread} if thread else {}), **more}
    answer = client.get(path, params=named)
    assert answer.status_code == 200, answer.text
    return answer.text
