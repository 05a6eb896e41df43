"""Servers that speak DynamoDB's protocol on loopback, and clients for them."""

from __future__ import annotations

import http.client
import itertools
import json
import logging
import threading
from collections import Counter
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

import pytest

WRITES = frozenset(
    {
        "BatchExecuteStatement",
        "BatchWriteItem",
        "DeleteItem",
        "ExecuteStatement",
        "ExecuteTransaction",
        "PutItem",
        "TransactWriteItems",
        "UpdateItem",
    }
)
_NUMBERS = itertools.count()


def new_table_name() -> str:
    """Return a name that no table of this run has."""
    return f"log-{next(_NUMBERS)}"


@cache
def _session() -> Any:
    import boto3

    return boto3.session.Session()  # one for all: each would read the service's description anew


def new_client(endpoint: str, **options: Any) -> Any:
    """Return a client without anything from the environment."""
    return _session().client(
        "dynamodb",
        region_name="eu-central-1",
        endpoint_url=endpoint,
        aws_access_key_id="none",
        aws_secret_access_key="none",
        **options,
    )


@cache
def _shared_client(endpoint: str) -> Any:
    return new_client(endpoint)


def open_dynamodb_log(table_name: str, endpoint: str) -> Any:
    """Return a log on a table, with the client that all these logs of a process share."""
    from langchain_convmem.logs.dynamodb import DynamoDBLog

    return DynamoDBLog(table_name, client=_shared_client(endpoint))


def once_only() -> Any:
    """Return the setting of a client that never repeats a call."""
    from botocore.config import Config

    return Config(retries={"mode": "standard", "total_max_attempts": 1})


def counted(client: Any) -> Counter[str]:
    """Return the number of calls by operation, kept up to date; retries count too."""
    calls: Counter[str] = Counter()
    client.meta.events.register(
        "before-send.dynamodb", lambda event_name, **_: calls.update([event_name.split(".")[-1]])
    )
    return calls


def writes(calls: Counter[str]) -> int:
    """Return how many of the counted calls write."""
    return sum(count for name, count in calls.items() if name in WRITES)


@contextmanager
def moto_server():
    """Run moto's server and yield its address; skips where it is not installed."""
    pytest.importorskip("boto3", reason="boto3 is not installed")
    pytest.importorskip("moto.server", reason="the server of moto is not installed")
    from moto.dynamodb.responses import DynamoHandler
    from moto.server import ThreadedMotoServer

    turn = threading.Lock()
    act = DynamoHandler.call_action

    def one_at_a_time(self):
        # The service checks a condition and writes in one step; moto does so in two.
        with turn:
            return act(self)

    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # a line for every call otherwise
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    with patch.object(DynamoHandler, "call_action", one_at_a_time):
        server.start()
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
        server.stop()


# -- a server that fails as it is told ----------------------------------------------------------

THROTTLED = "ProvisionedThroughputExceededException"


class FaultyServer(ThreadingHTTPServer):
    """Passes calls on to another server, but fails those that `faults` names.

    A fault is one of:
        an exception's name: answered instead of the call;
        "lost": the call is carried out and the connection closed without an answer;
        "half": the call is carried out for the first half of its writes, the rest is handed back.
    """

    daemon_threads = True

    def __init__(self, behind: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind = urlsplit(behind)
        self.faults: dict[str, list[str]] = {}
        self.seen: Counter[str] = Counter()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def next_fault(self, operation: str) -> str | None:
        self.seen[operation] += 1
        faults = self.faults.get(operation)
        return faults.pop(0) if faults else None

    def handle_error(self, request, client_address) -> None:
        """Say nothing: clients hang up when the test is over."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body in one packet, or the client waits to acknowledge the first

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        fault = self.server.next_fault(self.headers["X-Amz-Target"].split(".")[1])
        if fault is None:
            self._answer(*self._passed_on(body))
        elif fault == "lost":
            self._passed_on(body)
            self.close_connection = True
        elif fault == "half":
            self._answer(200, self._half(json.loads(body)))
        else:
            fields = {"__type": f"com.amazonaws.dynamodb.v20120810#{fault}", "message": "Not now."}
            status = 500 if fault.startswith("Internal") else 400
            self._answer(status, json.dumps(fields).encode())

    def _passed_on(self, body: bytes) -> tuple[int, bytes]:
        behind = http.client.HTTPConnection(self.server.behind.hostname, self.server.behind.port)
        dropped = ("host", "content-length", "connection")
        headers = {k: v for k, v in self.headers.items() if k.lower() not in dropped}
        behind.request("POST", "/", body, headers)
        answer = behind.getresponse()
        status, content = answer.status, answer.read()
        behind.close()
        return status, content

    def _half(self, request: dict[str, Any]) -> bytes:
        [(table, writes)] = request["RequestItems"].items()
        half = len(writes) // 2
        if half:
            self._passed_on(json.dumps({"RequestItems": {table: writes[:half]}}).encode())
        return json.dumps({"UnprocessedItems": {table: writes[half:]}}).encode()

    def _answer(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()


@contextmanager
def faulty_server(behind: str):
    """Run a server that fails as it is told in front of another one."""
    server = FaultyServer(behind)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


# -- looking into a table -----------------------------------------------------------------------


def items(log):
    """Return everything that a log's table holds, by partition and sort key."""
    pages = log._table._client().get_paginator("scan").paginate(TableName=log.table_name)
    return {(item["pk"]["S"], item["sk"]["S"]): item for page in pages for item in page["Items"]}


def kinds(log):
    """Return the first part of every sort key: E for batches and generation, P, S."""
    return sorted(sort.partition("#")[0] for _, sort in items(log))
