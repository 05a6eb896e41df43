"""HTTP on loopback for the kit's servers: their life, their connections, streams that break.

Nothing but the standard library; what is said over the connections is for each server to know.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from langchain_convmem.errors import ConfigError
from langchain_convmem.testing.embeddings import (
    EmbeddedRequest,
    EmbeddingScript,
    EmbeddingSource,
    Input,
    VectorMaker,
)
from langchain_convmem.testing.scripted_replies import (
    RecordedRequest,
    ReplySource,
    Script,
    ScriptedError,
    ScriptedReply,
)

_IDLE_TIMEOUT_S = 60


class LoopbackServer(ABC):
    """A service on 127.0.0.1, for the time of a `with` block. Safe to use from several threads."""

    def __init__(self, reply: ReplySource = (), *, embeddings: EmbeddingSource = None) -> None:
        """Create the server; it listens from `__enter__` on.

        Args:
            reply: What to answer: a text, a `ScriptedReply`, a `ScriptedError`; a list of them,
                one for each valid request in order, one request too many being an error; or a
                callable that gets each valid request's body and returns one of them. It runs in
                the thread of its connection.
            embeddings: What embeds: any LangChain `Embeddings`; None, whose vectors are as similar
                as texts share words; or a `ScriptedError`. A list of them, one for each valid
                request for embeddings in order; or a callable that gets each such request's body
                and returns one of them.
        """
        self.script = Script(reply)
        self.embedding_script = EmbeddingScript(embeddings)
        self._listener: LoopbackListener | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Start listening on a free port."""
        if self._listener is not None:
            raise ConfigError("the server is already running; create one per `with` block")
        self._listener = LoopbackListener(self)
        self._thread = threading.Thread(
            target=self._listener.serve_forever, args=(0.02,), name=type(self).__name__
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
        listener.close_connections()
        listener.server_close()
        if listener.errors and error is None:
            raise listener.errors[0]
        if listener.errors and error is not None:
            error.add_note(f"the server's reply raised first: {listener.errors[0]!r}")

    @property
    @abstractmethod
    def connection(self) -> type[LoopbackConnection]:
        """What serves the requests of one connection."""

    @property
    def requests(self) -> list[RecordedRequest]:
        """Copies of the requests so far, in the order of their arrival."""
        return self.script.list_recorded()

    @property
    def embedded(self) -> list[Input]:
        """What was embedded so far, input by input: what the service would charge for."""
        return self.embedding_script.list_embedded()

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        if self._listener is None:
            raise ConfigError("the server is not running; use it inside its `with` block")
        return f"http://127.0.0.1:{self._listener.server_address[1]}"


class LoopbackListener(ThreadingHTTPServer):
    """Accepts connections, knows the open ones, and keeps what its handlers raised."""

    # Joined on close: a thread that outlives its test would trouble the next one.
    daemon_threads = False
    block_on_close = True
    # The default of 5 drops connections when a test opens more of them at once.
    request_queue_size = 128

    def __init__(self, service: LoopbackServer) -> None:
        self.service = service
        self.errors: list[BaseException] = []
        self._open: set[socket.socket] = set()
        self._open_lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), service.connection)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        with self._open_lock:
            self._open.add(connection)
        return connection, address

    def close_request(self, request: Any) -> None:
        # Under the lock: `close_connections` must not meet a socket whose number is already reused.
        with self._open_lock:
            self._open.discard(request)
            super().close_request(request)

    def close_connections(self) -> None:
        """End every open connection, so that idle handlers return."""
        with self._open_lock:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue  # the other side was faster

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - socketserver's hook
        error = sys.exception()
        # A client that leaves in the middle of a stream is not a fault of the server.
        if error is not None and not isinstance(error, ConnectionError):
            self.errors.append(error)


class LoopbackConnection(BaseHTTPRequestHandler, ABC):
    """Serves the requests of one connection, one after the other."""

    protocol_version = "HTTP/1.1"
    server_version = "LoopbackServer"
    timeout = _IDLE_TIMEOUT_S
    # Else each small event of a stream waits for the acknowledgement of the one before.
    disable_nagle_algorithm = True
    server: LoopbackListener

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Stay silent: the output of tests is theirs."""

    # -- reading ------------------------------------------------------------------------------

    def do_GET(self) -> None:
        """Answer a request without a body."""
        page = self.find_page()
        if page is None:
            self._serve(b"")
        else:
            self.send_json(200, page)

    def do_POST(self) -> None:
        """Answer a request with a body."""
        self._serve(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def _serve(self, raw: bytes) -> None:
        fault = self.find_wrong_address()
        if fault is None:
            request = self._record(raw)
            fault = self.find_fault(request)
        if fault is None:
            self._answer(request.body)
        else:
            self.send_fault(fault)

    def _record(self, raw: bytes) -> RecordedRequest:
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            body = json.loads(raw)
        except ValueError:
            body = None
        request = RecordedRequest(headers, body, self.path)
        self.server.service.script.record(request)
        return request

    @property
    def bare_path(self) -> str:
        """The path alone, without a slash at its end."""
        return self.path.partition("?")[0].rstrip("/")

    # -- what each service says in its own way ------------------------------------------------

    def find_page(self) -> dict[str, Any] | None:
        """Return what a GET of this path shows, or None."""
        return None

    @abstractmethod
    def find_wrong_address(self) -> ScriptedError | None:
        """Return the error for a method and path that the service does not have, or None."""

    @abstractmethod
    def find_fault(self, request: RecordedRequest) -> ScriptedError | None:
        """Return the first reason to refuse a request, or None."""

    @abstractmethod
    def is_for_embeddings(self) -> bool:
        """Return whether the request's address is one that embeds."""

    @abstractmethod
    def send_reply(self, request: dict[str, Any], reply: ScriptedReply) -> None:
        """Send a reply, streamed if the request asks for that."""

    @abstractmethod
    def write_embeddings(self, request: dict[str, Any], maker: VectorMaker) -> EmbeddedRequest:
        """Return the answer to a valid request for embeddings."""

    @abstractmethod
    def send_fault(self, error: ScriptedError) -> None:
        """Send an error."""

    # -- answering ----------------------------------------------------------------------------

    def _answer(self, request: dict[str, Any]) -> None:
        """Send what the script has for a valid request."""
        reply: ScriptedReply | EmbeddedRequest | ScriptedError | None = None
        try:
            reply = self._choose_reply(request)
        finally:
            # The client must not wait for a retry; the exception itself goes to `handle_error`.
            if reply is None:
                self.send_fault(ScriptedError(status=500, message="the test's reply() raised"))
        if isinstance(reply, ScriptedError):
            self.send_fault(reply)
        elif isinstance(reply, EmbeddedRequest):
            self.server.service.embedding_script.note(reply.inputs)
            self.send_json(200, reply.body, headers=reply.headers)
        else:
            self.send_reply(request, reply)

    def _choose_reply(
        self, request: dict[str, Any]
    ) -> ScriptedReply | EmbeddedRequest | ScriptedError:
        service = self.server.service
        if not self.is_for_embeddings():
            return service.script.answer_to(request)
        maker = service.embedding_script.answer_to(request)
        if isinstance(maker, ScriptedError):
            return maker
        return self.write_embeddings(request, maker)

    def send_json(
        self,
        status: int,
        body: Mapping[str, Any],
        *,
        headers: Mapping[str, str] | None = None,
        retry_after_s: float | None = None,
        cut: bool = False,
    ) -> None:
        """Send a body; `cut` breaks the connection in its middle."""
        payload = json.dumps(body, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if retry_after_s is not None:
            self.send_header("Retry-After", f"{retry_after_s:g}")
        self.end_headers()
        self.wfile.write(payload[: len(payload) // 2] if cut else payload)
        self.close_connection = self.close_connection or cut

    def send_whole(self, body: Mapping[str, Any], reply: ScriptedReply) -> None:
        """Send a reply that is not streamed."""
        if reply.cut_with is not None:
            self.send_fault(reply.cut_with)
        else:
            self.send_json(200, body, cut=reply.cut_after_chunks is not None)

    def send_stream(
        self,
        content_type: str,
        events: Iterable[bytes],
        reply: ScriptedReply,
        encode_cut: Callable[[ScriptedError], bytes],
    ) -> None:
        """Send events one by one, as far as the reply says.

        Args:
            content_type: Media type of the stream.
            events: What to send, in order.
            reply: Says where the stream is cut, and is told of each event before it goes.
            encode_cut: Makes an event of the error that a cut reply ends with. A reply that is cut
                without one breaks the connection.
        """
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number, event in enumerate(events):
            if reply.cut_after_chunks is not None and number >= reply.cut_after_chunks:
                if reply.cut_with is None:
                    # Without the closing chunk of the transfer encoding the client sees a broken
                    # line.
                    self.close_connection = True
                    return
                self._send_chunk(encode_cut(reply.cut_with))
                break
            if reply.before_chunk is not None:
                reply.before_chunk(number)
            self._send_chunk(event)
        self.wfile.write(b"0\r\n\r\n")

    def _send_chunk(self, payload: bytes) -> None:
        self.wfile.write(b"%X\r\n%b\r\n" % (len(payload), payload))
