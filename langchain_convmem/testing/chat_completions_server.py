"""A Chat Completions service on loopback for tests: real HTTP, scripted answers, strict input.

Speaks `POST /v1/chat/completions` (whole and streamed) and `GET /v1/models`, with nothing but the
standard library, and refuses what the real service refuses (see `chat_completions_rules`).
"""

from __future__ import annotations

import time
from typing import Any

from langchain_convmem.testing.chat_completions_rules import RequestFault, error_body, find_fault
from langchain_convmem.testing.chat_completions_wire import (
    Envelope,
    completion,
    stream_end,
    stream_event,
    stream_events,
)
from langchain_convmem.testing.loopback_server import (
    Listener,
    LoopbackConnection,
    LoopbackServer,
)
from langchain_convmem.testing.scripted_replies import (
    RecordedRequest,
    ReplySource,
    Script,
    ScriptedError,
    ScriptedReply,
    ScriptedToolCall,
)

__all__ = [
    "ChatCompletionsServer",
    "RecordedRequest",
    "ReplySource",
    "ScriptedError",
    "ScriptedReply",
    "ScriptedToolCall",
]


class ChatCompletionsServer(LoopbackServer):
    """An OpenAI-compatible chat service on 127.0.0.1, for the time of a `with` block.

    Leaving the block closes every connection and joins every thread; an exception that `reply`
    raised is raised again there, unless the block itself failed. Safe to use from several threads.

    Example:
        ```python
        with ChatCompletionsServer(reply="Level 3.") as server:
            model = ChatOpenAI(base_url=server.url, api_key="test", model="test-model")
            model.invoke("Where did I park?")
            assert server.requests[0].body["messages"][0]["content"] == "Where did I park?"
        ```
    """

    def __init__(self, reply: ReplySource, *, models: tuple[str, ...] = ("test-model",)) -> None:
        """Create the server; it listens from `__enter__` on.

        Args:
            reply: What to answer: a text, a `ScriptedReply`, a `ScriptedError`; a list of them,
                one for each valid request in order, one request too many being an error; or a
                callable that gets each valid request's body and returns one of them. It runs in
                the thread of its connection.
            models: What `GET /v1/models` lists; any model name is accepted in requests.
        """
        script = Script(reply)
        super().__init__(script, lambda: _Listener(script, models))

    @property
    def url(self) -> str:
        """The base URL, `/v1` included."""
        return f"{self.origin}/v1"


class _Listener(Listener):
    """Knows which models to list."""

    def __init__(self, script: Script, models: tuple[str, ...]) -> None:
        self.models = models
        super().__init__(script, _Connection)


class _Connection(LoopbackConnection):
    server: _Listener

    def heard(self, raw: bytes) -> None:
        address = f"{self.command} {self.bare_path()}"
        if address == "GET /v1/models":
            self._list_models()
        elif address == "POST /v1/chat/completions":
            self._judge(self.recorded(raw))
        else:
            message = f"Unknown request URL: {self.command} {self.path}."
            self._refuse(RequestFault(message, status=404))

    def _list_models(self) -> None:
        data = [
            {"id": name, "object": "model", "created": 0, "owned_by": "test"}
            for name in self.server.models
        ]
        self.send_json(200, {"object": "list", "data": data})

    def _judge(self, request: RecordedRequest) -> None:
        fault = self._unauthorized(request) or find_fault(request.body)
        if fault is not None:
            self._refuse(fault)
        else:
            self.answer(request.body)

    @staticmethod
    def _unauthorized(request: RecordedRequest) -> RequestFault | None:
        if request.headers.get("authorization", "").startswith("Bearer "):
            return None
        message = "You didn't provide an API key in an Authorization header (Bearer)."
        return RequestFault(message, status=401)

    # -- answering ----------------------------------------------------------------------------

    def say(self, request: dict[str, Any], reply: ScriptedReply) -> None:
        number = self.server.script.next_number()
        envelope = Envelope(f"chatcmpl-{number}", int(time.time()), request["model"])
        if not request.get("stream"):
            self.send_whole(completion(request, reply, envelope), reply)
            return
        events = [stream_event(event) for event in stream_events(request, reply, envelope)]
        cut = reply.cut_with
        self.send_stream(
            "text/event-stream; charset=utf-8",
            [*events, stream_end()],
            reply,
            None if cut is None else stream_event(_body_of(cut)),
        )

    def say_error(self, error: ScriptedError) -> None:
        self.send_json(error.status, _body_of(error), headers=self.when_to_retry(error))

    def _refuse(self, fault: RequestFault) -> None:
        body = error_body(fault.message, kind=fault.kind, param=fault.param, code=fault.code)
        self.send_json(fault.status, body)


def _body_of(error: ScriptedError) -> dict[str, Any]:
    return error_body(error.message, kind=error.kind, code=error.code)
