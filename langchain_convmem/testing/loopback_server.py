"""HTTP on loopback for the kit's servers: their life, their connections, streams that break.

Nothing but the standard library; what is said over the connections is for each server to know.
"""

from __future__ import annotations

import copy
import json
import socket
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import NoneType, TracebackType
from typing import Any, ClassVar, Self, TypeAlias

from langchain_core.embeddings import Embeddings

from langchain_convmem.errors import ConfigError
from langchain_convmem.recall.encoders import HashEmbeddings
from langchain_convmem.testing.scripted_replies import (
    RecordedRequest,
    Reply,
    ReplyQueue,
    ReplySource,
    ScriptedError,
    ScriptedReply,
)

EmbeddingReply: TypeAlias = Embeddings | ScriptedError | None
EmbeddingSource: TypeAlias = (
    EmbeddingReply | Sequence[EmbeddingReply] | Callable[[dict[str, Any]], EmbeddingReply]
)
"""One reply for all requests, a list of one each, or a callable that gets the body."""

Check: TypeAlias = Callable[[RecordedRequest], ScriptedError | None]
"""Looks at a request before it is answered, and may refuse it."""

Headers: TypeAlias = Mapping[str, str]


class LoopbackServer(ABC):
    """A service on 127.0.0.1, for the time of a `with` block. Safe to use from several threads.

    Attributes:
        stream_type: Media type of a streamed answer.
    """

    stream_type: ClassVar[str] = "text/event-stream; charset=utf-8"

    def __init__(
        self,
        reply: ReplySource = (),
        *,
        embeddings: EmbeddingSource = None,
        check: Check | None = None,
    ) -> None:
        """Create the server; it listens from `__enter__` on.

        Args:
            reply: What to answer: a text, a `ScriptedReply`, a `ScriptedError`; a list of them,
                one for each request in order, one request too many being an error; or a
                callable that gets each request's body and returns one of them. It runs in
                the thread of its connection.
            embeddings: What embeds: any LangChain `Embeddings`; None, which is `HashEmbeddings`; or
                a `ScriptedError`. A list of them, one for each request for embeddings in order; or
                a callable that gets each such request's body and returns one of them.
            check: Called with each request before it is answered. An error that it returns is sent
                in place of the reply, and takes nothing from the script.
        """
        self._replies: ReplyQueue[Reply | Callable[[dict[str, Any]], Reply]] = ReplyQueue(
            reply, str | ScriptedReply | ScriptedError, "request"
        )
        self._embedders: ReplyQueue[Any] = ReplyQueue(
            embeddings, Embeddings | ScriptedError | NoneType, "request for embeddings"
        )
        self._recorded: list[RecordedRequest] = []
        self._embedded: list[Any] = []
        self._check = check
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

    # -- what came ----------------------------------------------------------------------------

    @property
    def requests(self) -> list[RecordedRequest]:
        """Copies of the requests so far, in the order of their arrival."""
        return copy.deepcopy(self._recorded)

    @property
    def embedded(self) -> list[Any]:
        """What was embedded so far, text by text: what the service would charge for."""
        return list(self._embedded)

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        if self._listener is None:
            raise ConfigError("the server is not running; use it inside its `with` block")
        return f"http://127.0.0.1:{self._listener.server_address[1]}"

    # -- what each service says in its own way ------------------------------------------------

    @abstractmethod
    def find_fault(self, request: RecordedRequest) -> ScriptedError | None:
        """Return the error for an address or credentials that the service does not take."""

    def list_inputs(self, request: RecordedRequest) -> Sequence[Any] | None:
        """Return what a request wants embedded; None where it wants a reply."""
        del request
        return None

    def write_vectors(self, request: RecordedRequest, vectors: list[list[float]]) -> dict[str, Any]:
        """Return the body of an answer with embeddings."""
        raise NotImplementedError

    def asks_for_stream(self, request: RecordedRequest) -> bool:
        """Return whether the answer is to be streamed."""
        return bool(request.body.get("stream"))

    @abstractmethod
    def write(self, request: RecordedRequest, reply: ScriptedReply) -> dict[str, Any]:
        """Return the body of an answer that is not streamed."""

    @abstractmethod
    def stream(self, request: RecordedRequest, reply: ScriptedReply) -> Iterator[bytes]:
        """Yield the events of a streamed answer."""

    @abstractmethod
    def write_error(self, error: ScriptedError) -> tuple[dict[str, Any], Headers]:
        """Return the body of an error, and what is said beside it."""

    @abstractmethod
    def write_last_event(self, error: ScriptedError) -> bytes:
        """Return the event with which a stream fails after it has begun."""

    # -- answering ----------------------------------------------------------------------------

    def answer(self, request: RecordedRequest) -> ScriptedReply | ScriptedError | dict[str, Any]:
        """Record a request; return a reply, an error, or the body of an answer with embeddings.

        Raises:
            ConfigError: If a list of replies has been played to its end.
        """
        self._recorded.append(request)
        if self._check is not None and (fault := self._check(request)) is not None:
            return fault
        inputs = self.list_inputs(request)
        if inputs is None:
            reply = self._replies.take()
            reply = reply(copy.deepcopy(request.body)) if callable(reply) else reply
            return ScriptedReply(text=reply) if isinstance(reply, str) else reply
        embedder = self._embedders.take()
        if callable(embedder) and not isinstance(embedder, Embeddings):
            embedder = embedder(request.body)
        if isinstance(embedder, ScriptedError):
            return embedder
        self._embedded += inputs
        # Of tokens, their numbers are the words.
        texts = [one if isinstance(one, str) else " ".join(map(str, one)) for one in inputs]
        embedder = embedder or HashEmbeddings()
        if request.body.get("input_type") == "search_query":
            vectors = [embedder.embed_query(text) for text in texts]
        else:
            vectors = embedder.embed_documents(texts)
        asked = request.body.get("dimensions") or request.body.get("output_dimension")
        return self.write_vectors(request, [list(map(float, one))[:asked] for one in vectors])


class LoopbackListener(ThreadingHTTPServer):
    """Accepts connections, knows the open ones, and keeps what its handlers raised."""

    # Joined on close: a thread that outlives its test would trouble the next one.
    daemon_threads = False
    block_on_close = True
    # The default of 5 drops connections when a test opens more of them at once.
    request_queue_size = 128

    def __init__(self, service: LoopbackServer) -> None:
        """Listen for a service."""
        self.service = service
        self.errors: list[BaseException] = []
        self._open: set[socket.socket] = set()
        self._open_lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), LoopbackConnection)

    def get_request(self) -> tuple[socket.socket, Any]:
        """Remember a connection that opens."""
        connection, address = super().get_request()
        with self._open_lock:
            self._open.add(connection)
        return connection, address

    def close_request(self, request: Any) -> None:
        """Close a connection."""
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
        """Keep what a handler raised."""
        error = sys.exception()
        # A client that leaves in the middle of a stream is not a fault of the server.
        if error is not None and not isinstance(error, ConnectionError):
            self.errors.append(error)


class LoopbackConnection(BaseHTTPRequestHandler):
    """Serves the requests of one connection, one after the other."""

    protocol_version = "HTTP/1.1"
    server_version = "LoopbackServer"
    timeout = 60
    # Else each small event of a stream waits for the acknowledgement of the one before.
    disable_nagle_algorithm = True
    server: LoopbackListener

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Stay silent: the output of tests is theirs."""

    def do_GET(self) -> None:
        """No service of the kit has pages."""
        self._send_error(ScriptedError(status=404, message=f"no {self.command} {self.path}"))

    def do_POST(self) -> None:
        """Answer a request."""
        service = self.server.service
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = RecordedRequest(headers, _parse(raw), self.path)
        fault = service.find_fault(request)
        if fault is None and not isinstance(request.body, dict):
            fault = ScriptedError(status=400, message="the body must be a JSON object")
        if fault is not None:
            self._send_error(fault)
            return
        answer: Any = None
        try:
            answer = service.answer(request)
        finally:
            # The client must not wait for a retry; the exception itself goes to `handle_error`.
            if answer is None:
                self._send_error(ScriptedError(status=500, message="the test's reply() raised"))
        if isinstance(answer, ScriptedError):
            self._send_error(answer)
        elif isinstance(answer, dict):
            self._send_json(200, answer)
        elif service.asks_for_stream(request):
            self._send_stream(service.stream(request, answer), answer)
        elif answer.cut_with is not None:
            self._send_error(answer.cut_with)
        else:
            whole = service.write(request, answer)
            self._send_json(200, whole, is_cut=answer.cut_after_chunks is not None)

    def _send_error(self, error: ScriptedError) -> None:
        body, headers = self.server.service.write_error(error)
        if error.retry_after_s is not None:
            headers = {**headers, "Retry-After": f"{error.retry_after_s:g}"}
        self._send_json(error.status, body, headers)

    def _send_json(
        self,
        status: int,
        body: Mapping[str, Any],
        headers: Headers | None = None,
        *,
        is_cut: bool = False,
    ) -> None:
        """Send a body; one that is cut breaks the connection in its middle."""
        payload = json.dumps(body, ensure_ascii=False).encode()
        length = {"Content-Type": "application/json", "Content-Length": str(len(payload))}
        self._send_head(status, {**length, **(headers or {})})
        self.wfile.write(payload[: len(payload) // 2] if is_cut else payload)
        self.close_connection = self.close_connection or is_cut

    def _send_head(self, status: int, headers: Headers) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _send_stream(self, events: Iterator[bytes], reply: ScriptedReply) -> None:
        """Send events one by one, as far as the reply says."""
        service = self.server.service
        self._send_head(200, {"Content-Type": service.stream_type, "Transfer-Encoding": "chunked"})
        for number, event in enumerate(events):
            if number == reply.cut_after_chunks:
                if reply.cut_with is None:
                    # Without the closing chunk the client sees a broken line.
                    self.close_connection = True
                    return
                self._send_chunk(service.write_last_event(reply.cut_with))
                break
            if reply.before_chunk is not None:
                reply.before_chunk(number)
            self._send_chunk(event)
        self._send_chunk(b"")

    def _send_chunk(self, payload: bytes) -> None:
        self.wfile.write(b"%X\r\n%b\r\n" % (len(payload), payload))


def _parse(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return None
