"""Servers that speak DynamoDB's protocol on loopback, and clients for them."""

import http.client
import itertools
import json
import sys
import threading
from collections import Counter
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
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
NO_MORE = MappingProxyType({})
_NUMBERS = itertools.count()


def new_table_name():
    """Return a name that no table of this run has."""
    return f"log-{next(_NUMBERS)}"


@cache
def _session():
    import boto3

    return boto3.session.Session()  # one for all: each would read the service's description anew


def new_client(endpoint, **options):
    """Return a client without anything from the environment."""
    return _session().client(
        "dynamodb",
        region_name="eu-central-1",
        endpoint_url=endpoint,
        aws_access_key_id="none",
        aws_secret_access_key="none",
        **options,
    )


_shared_client = cache(new_client)


def open_dynamodb_log(table_name, endpoint):
    """Return a log on a table, with the client that all these logs of a process share."""
    from langchain_convmem.logs.dynamodb import DynamoDBLog

    return DynamoDBLog(table_name, client=_shared_client(endpoint))


def delete_item(log, client, key):
    """Delete an item behind the log's back, as the service does with what has ended."""
    client.delete_item(TableName=log.table_name, Key={"pk": {"S": key[0]}, "sk": {"S": key[1]}})


def once_only():
    """Return the setting of a client that never repeats a call."""
    from botocore.config import Config

    return Config(retries={"mode": "standard", "total_max_attempts": 1})


def counted(client):
    """Return the number of calls by operation, kept up to date; retries count too."""
    calls = Counter()
    client.meta.events.register(
        "before-send.dynamodb", lambda event_name, **_: calls.update([event_name.split(".")[-1]])
    )
    return calls


def writes(calls):
    """Return how many of the counted calls write."""
    return sum(count for name, count in calls.items() if name in WRITES)


class _Connection(BaseHTTPRequestHandler):
    """Keeps its connection, as the service does; `answered` is what a server is."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body in one packet, or the client waits to acknowledge the first

    def log_message(self, *_):
        pass

    def do_POST(self):
        self.answered(self.rfile.read(int(self.headers["Content-Length"])))

    def answer(self, status, content, headers=NO_MORE):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, str(value))
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()


class _Server(ThreadingHTTPServer):
    """Answers on loopback for the time of a `with` block."""

    daemon_threads = True
    request_queue_size = 128  # writers at once all come with connections of their own

    def __init__(self, connection):
        super().__init__(("127.0.0.1", 0), connection)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request, client_address):
        """Say nothing of clients that hang up: the test is over."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def __enter__(self):
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


@contextmanager
def moto_server():
    """Run a server with moto's DynamoDB behind it and yield its address; skips without moto.

    Moto's own server takes a connection for each call and looks for its service among all of
    Amazon's, which takes nearly as long as what is called.
    """
    pytest.importorskip("boto3", reason="boto3 is not installed")
    pytest.importorskip("moto.dynamodb.responses", reason="moto is not installed")
    from botocore.awsrequest import AWSPreparedRequest
    from moto.core.request import normalize_request
    from moto.dynamodb.responses import DynamoHandler

    turn = threading.Lock()

    class Moto(_Connection):
        def answered(self, body):
            asked = AWSPreparedRequest("POST", f"{server.url}/", self.headers, body, False)
            request = normalize_request(asked)
            # The service checks a condition and writes in one step; moto does so in two.
            with turn:
                status, headers, text = DynamoHandler.dispatch(request, asked.url, asked.headers)
            self.answer(status, text.encode() if isinstance(text, str) else text, headers)

    with _Server(Moto) as server:
        yield server.url


THROTTLED = "ProvisionedThroughputExceededException"


class FaultyServer(_Server):
    """Passes calls on to another server, but fails those that `faults` names.

    A fault is one of:
        an exception's name: answered instead of the call;
        "lost": the call is carried out and the connection closed without an answer;
        "half": the call is carried out for the first half of its writes, the rest is handed back;
        "cut": the call is carried out and half of the answer arrives;
        "empty": the call is carried out and answered with an empty object.
    """

    def __init__(self, behind):
        super().__init__(_FaultyConnection)
        self.behind = urlsplit(behind)
        self.faults = {}
        self.seen = Counter()

    def next_fault(self, operation):
        self.seen[operation] += 1
        faults = self.faults.get(operation)
        return faults.pop(0) if faults else None


class _FaultyConnection(_Connection):
    def answered(self, body):
        fault = self.server.next_fault(self.headers["X-Amz-Target"].split(".")[1])
        if fault is None:
            self.answer(*self._passed_on(body))
        elif fault == "lost":
            self._passed_on(body)
            self.close_connection = True
        elif fault == "half":
            self.answer(200, self._half(json.loads(body)))
        elif fault in ("cut", "empty"):
            status, content = self._passed_on(body)
            self.answer(status, b"{}" if fault == "empty" else content[: len(content) // 2])
        else:
            fields = {"__type": f"com.amazonaws.dynamodb.v20120810#{fault}", "message": "Not now."}
            status = 500 if fault.startswith("Internal") else 400
            self.answer(status, json.dumps(fields).encode())

    def _passed_on(self, body):
        behind = http.client.HTTPConnection(self.server.behind.hostname, self.server.behind.port)
        dropped = ("host", "content-length", "connection")
        headers = {k: v for k, v in self.headers.items() if k.lower() not in dropped}
        behind.request("POST", "/", body, headers)
        answer = behind.getresponse()
        status, content = answer.status, answer.read()
        behind.close()
        return status, content

    def _half(self, request):
        [(table, writes)] = request["RequestItems"].items()
        half = len(writes) // 2
        if half:
            self._passed_on(json.dumps({"RequestItems": {table: writes[:half]}}).encode())
        return json.dumps({"UnprocessedItems": {table: writes[half:]}}).encode()


def items(log, client):
    """Return everything that a log's table holds, by partition and sort key."""
    pages = client.get_paginator("scan").paginate(TableName=log.table_name)
    return {(item["pk"]["S"], item["sk"]["S"]): item for page in pages for item in page["Items"]}


def kinds(log, client):
    """Return the first part of every sort key: E for batches and generation, P, S."""
    return sorted(sort.partition("#")[0] for _, sort in items(log, client))
