"""A Chat Completions service on loopback for tests: real HTTP, scripted answers, strict input.

Speaks `POST /v1/chat/completions` (whole and streamed) and `GET /v1/models`, with nothing but the
standard library, and refuses what the real service refuses (see `chat_completions_rules`).
"""

from __future__ import annotations

import copy
import itertools
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, TypeAlias

from langchain_convmem.errors import ConfigError
from langchain_convmem.testing.chat_completions_rules import RequestFault, error_body, find_fault
from langchain_convmem.testing.chat_completions_wire import (
    Envelope,
    Reply,
    ScriptedError,
    ScriptedReply,
    ScriptedToolCall,
    completion,
    stream_events,
)

__all__ = [
    "ChatCompletionsServer",
    "RecordedRequest",
    "ReplySource",
    "ScriptedError",
    "ScriptedReply",
    "ScriptedToolCall",
]

ReplySource: TypeAlias = Reply | Callable[[dict[str, Any]], Reply]

_IDLE_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """One request to `/v1/chat/completions`, refused ones included.

    Attributes:
        headers: By lower-case name.
        body: The parsed JSON; None if it was none.
    """

    headers: Mapping[str, str]
    body: Any


class _Stage:
    """What all connections share: the script, and the record of what was asked. Thread-safe."""

    def __init__(self, reply: ReplySource, models: tuple[str, ...]) -> None:
        self._reply = reply
        self._models = models
        self._lock = threading.Lock()
        self._recorded: list[RecordedRequest] = []
        self._numbers = itertools.count(1)

    def record(self, request: RecordedRequest) -> None:
        with self._lock:
            self._recorded.append(request)

    def recorded(self) -> list[RecordedRequest]:
        with self._lock:
            return copy.deepcopy(self._recorded)

    def answer_to(self, request: dict[str, Any]) -> ScriptedReply | ScriptedError:
        reply = self._reply(copy.deepcopy(request)) if callable(self._reply) else self._reply
        return ScriptedReply(text=reply) if isinstance(reply, str) else reply

    def envelope(self, model: str) -> Envelope:
        return Envelope(f"chatcmpl-{next(self._numbers)}", int(time.time()), model)

    def model_list(self) -> dict[str, Any]:
        data = [
            {"id": name, "object": "model", "created": 0, "owned_by": "test"}
            for name in self._models
        ]
        return {"object": "list", "data": data}


class ChatCompletionsServer:
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
            reply: What to answer: a text, a `ScriptedReply`, a `ScriptedError`, or a callable that
                gets each valid request's body and returns one of them. It runs in the thread of
                its connection.
            models: What `GET /v1/models` lists; any model name is accepted in requests.
        """
        self._stage = _Stage(reply, models)
        self._listener: _Listener | None = None
        self._thread: threading.Thread | None = None

    # -- life ---------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Start listening on a free port."""
        if self._listener is not None:
            raise ConfigError("the server is already running; create one per `with` block")
        self._listener = _Listener(self._stage)
        self._thread = threading.Thread(
            target=self._listener.serve_forever, args=(0.02,), name="chat-completions-server"
        )
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop, and raise what went wrong inside the server if nothing else did."""
        listener, thread = self._listener, self._thread
        self._listener = self._thread = None
        if listener is None or thread is None:
            return
        listener.shutdown()
        thread.join()
        listener.hang_up()
        listener.server_close()
        if listener.errors and error is None:
            raise listener.errors[0]
        if listener.errors and error is not None:
            error.add_note(f"the server's reply raised first: {listener.errors[0]!r}")

    # -- what tests read ----------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The base URL, `/v1` included."""
        if self._listener is None:
            raise ConfigError("the server is not running; use it inside its `with` block")
        return f"http://127.0.0.1:{self._listener.server_address[1]}/v1"

    @property
    def requests(self) -> list[RecordedRequest]:
        """Copies of the requests so far, in the order of their arrival."""
        return self._stage.recorded()


class _Listener(ThreadingHTTPServer):
    """Accepts connections, knows the open ones, and keeps what its handlers raised."""

    # Joined on close: a thread that outlives its test would trouble the next one.
    daemon_threads = False
    block_on_close = True
    # The default of 5 drops connections when a test opens more of them at once.
    request_queue_size = 128

    def __init__(self, stage: _Stage) -> None:
        self.stage = stage
        self.errors: list[BaseException] = []
        self._open: set[socket.socket] = set()
        self._open_lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Connection)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        with self._open_lock:
            self._open.add(connection)
        return connection, address

    def close_request(self, request: Any) -> None:
        # Under the lock: `hang_up` must not meet a socket whose number already belongs to another.
        with self._open_lock:
            self._open.discard(request)
            super().close_request(request)

    def hang_up(self) -> None:
        """End every open connection, so that idle handlers return."""
        with self._open_lock:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue  # the other side was faster

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - socketserver's hook
        error = sys.exception()
        # A client that leaves in the middle of a stream is no fault of the server.
        if error is not None and not isinstance(error, ConnectionError):
            self.errors.append(error)


class _Connection(BaseHTTPRequestHandler):
    """Serves the requests of one connection, one after the other."""

    protocol_version = "HTTP/1.1"
    server_version = "ChatCompletionsServer"
    timeout = _IDLE_TIMEOUT_S
    # Else each small event of a stream waits for the acknowledgement of the one before.
    disable_nagle_algorithm = True
    server: _Listener

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Stay silent: the output of tests is theirs."""

    def do_GET(self) -> None:
        """Answer `/v1/models`."""
        if self._path() == "/v1/models":
            self._send(200, self.server.stage.model_list())
        else:
            self._refuse(self._unknown_url())

    def do_POST(self) -> None:
        """Answer `/v1/chat/completions`."""
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self._path() != "/v1/chat/completions":
            self._refuse(self._unknown_url())
            return
        body, fault = self._parse(raw)
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.stage.record(RecordedRequest(headers, body))
        fault = self._unauthorized(headers) or fault or find_fault(body)
        if fault is not None:
            self._refuse(fault)
        else:
            self._answer(body)

    # -- reading ------------------------------------------------------------------------------

    def _path(self) -> str:
        return self.path.partition("?")[0].rstrip("/")

    def _unknown_url(self) -> RequestFault:
        return RequestFault(f"Unknown request URL: {self.command} {self.path}.", status=404)

    @staticmethod
    def _unauthorized(headers: Mapping[str, str]) -> RequestFault | None:
        if headers.get("authorization", "").startswith("Bearer "):
            return None
        message = "You didn't provide an API key in an Authorization header (Bearer)."
        return RequestFault(message, status=401)

    @staticmethod
    def _parse(raw: bytes) -> tuple[Any, RequestFault | None]:
        try:
            return json.loads(raw), None
        except ValueError:
            return None, RequestFault("The body of the request is not valid JSON.")

    # -- answering ----------------------------------------------------------------------------

    def _answer(self, request: dict[str, Any]) -> None:
        stage = self.server.stage
        reply: ScriptedReply | ScriptedError | None = None
        try:
            reply = stage.answer_to(request)
        finally:
            # The client must not wait for a retry; the exception itself goes to `handle_error`.
            if reply is None:
                self._send_error(ScriptedError(status=500, message="the test's reply() raised"))
        if isinstance(reply, ScriptedError):
            self._send_error(reply)
            return
        envelope = stage.envelope(request["model"])
        if request.get("stream"):
            self._stream(request, reply, envelope)
        else:
            body = completion(request, reply, envelope)
            self._send(200, body, cut=reply.cut_after_chunks is not None)

    def _refuse(self, fault: RequestFault) -> None:
        body = error_body(fault.message, kind=fault.kind, param=fault.param, code=fault.code)
        self._send(fault.status, body)

    def _send_error(self, error: ScriptedError) -> None:
        headers = {}
        if error.retry_after_s is not None:
            headers["Retry-After"] = f"{error.retry_after_s:g}"
        body = error_body(error.message, kind=error.kind, code=error.code)
        self._send(error.status, body, headers=headers)

    def _send(
        self,
        status: int,
        body: Mapping[str, Any],
        *,
        headers: Mapping[str, str] | None = None,
        cut: bool = False,
    ) -> None:
        payload = json.dumps(body, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(payload[: len(payload) // 2] if cut else payload)
        self.close_connection = self.close_connection or cut

    def _stream(self, request: dict[str, Any], reply: ScriptedReply, envelope: Envelope) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number, event in enumerate(stream_events(request, reply, envelope)):
            if reply.cut_after_chunks is not None and number >= reply.cut_after_chunks:
                # Without the closing chunk of the transfer encoding the client sees a broken line.
                self.close_connection = True
                return
            if reply.before_chunk is not None:
                reply.before_chunk(number)
            self._send_event(json.dumps(event, ensure_ascii=False))
        self._send_event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def _send_event(self, data: str) -> None:
        payload = f"data: {data}\n\n".encode()
        self.wfile.write(b"%X\r\n%b\r\n" % (len(payload), payload))
