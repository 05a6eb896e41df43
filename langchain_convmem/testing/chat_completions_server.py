"""A Chat Completions service on loopback for tests: real HTTP, scripted answers, strict input.

Speaks `POST /v1/chat/completions` and `POST /v1/completions` (whole and streamed) and
`GET /v1/models`, with nothing but the standard library, and refuses what the real service refuses
(see `chat_completions_rules` and `completions_rules`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from langchain_convmem.testing.chat_completions_rules import RequestFault, error_body, find_fault
from langchain_convmem.testing.chat_completions_wire import (
    Envelope,
    completion,
    stream_end,
    stream_event,
    stream_events,
)
from langchain_convmem.testing.completions_rules import find_completion_fault
from langchain_convmem.testing.completions_wire import text_completion, text_stream_events
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


class _Service(NamedTuple):
    """What stands at one address."""

    id_prefix: str
    find_fault: Callable[[object], RequestFault | None]
    whole: Callable[[Mapping[str, Any], ScriptedReply, Envelope], dict[str, Any]]
    events: Callable[[Mapping[str, Any], ScriptedReply, Envelope], Iterator[dict[str, Any]]]


_SERVICES = {
    "/v1/chat/completions": _Service("chatcmpl", find_fault, completion, stream_events),
    "/v1/completions": _Service("cmpl", find_completion_fault, text_completion, text_stream_events),
}


class ChatCompletionsServer(LoopbackServer):
    """An OpenAI-compatible service on 127.0.0.1, for the time of a `with` block.

    It answers chats, and prompts of plain text at `/v1/completions`.

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
        if f"{self.command} {self.bare_path()}" == "GET /v1/models":
            self._list_models()
        elif self.command == "POST" and self.bare_path() in _SERVICES:
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
        service = _SERVICES[self.bare_path()]
        fault = self._unauthorized(request) or service.find_fault(request.body)
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
        service = _SERVICES[self.bare_path()]
        number = self.server.script.next_number()
        envelope = Envelope(f"{service.id_prefix}-{number}", int(time.time()), request["model"])
        if not request.get("stream"):
            self.send_whole(service.whole(request, reply, envelope), reply)
            return
        events = [stream_event(event) for event in service.events(request, reply, envelope)]
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
