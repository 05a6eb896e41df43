"""The kit's scripted services, over real loopback sockets."""

import http.client
import json
import socket
import threading
import urllib.parse

import pytest
from langchain_core.embeddings import Embeddings

from langchain_convmem.errors import ConfigError
from langchain_convmem.testing import (
    BedrockConverseServer,
    ChatCompletionsServer,
    ScriptedError,
    ScriptedReply,
    ScriptedToolCall,
)

pytestmark = [pytest.mark.sockets, pytest.mark.usefixtures("socket_enabled")]

HELLO = {"model": "m", "messages": [{"role": "user", "content": "Hello there"}]}
CONVERSE = {"messages": [{"role": "user", "content": [{"text": "Hello there"}]}]}
CHATS, EMBEDDINGS = "/v1/chat/completions", "/v1/embeddings"
MODEL = "/model/m/converse"


def post(server, path, body, key="Bearer test"):
    url = urllib.parse.urlsplit(server.origin)
    connection = http.client.HTTPConnection(str(url.hostname), url.port, timeout=10)
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        connection.request("POST", path, raw, {"Authorization": key})
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


def list_events(raw):
    *lines, last, rest = raw.decode().split("\n\n")
    assert (last, rest) == ("data: [DONE]", "")
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def test_a_chat_is_answered_whole_and_word_by_word():
    call = ScriptedToolCall("look", {"where": "here"})
    with ChatCompletionsServer(ScriptedReply(text="Level 3, grün.", tool_calls=[call])) as server:
        whole = json.loads(post(server, CHATS, HELLO)[2])
        streamed = {**HELLO, "stream": True, "stream_options": {"include_usage": True}}
        *events, ending, last = list_events(post(server, CHATS, streamed)[2])
    message = whole["choices"][0]["message"]
    assert message["content"] == "Level 3, grün."
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {"where": "here"}
    assert whole["choices"][0]["finish_reason"] == "tool_calls"
    deltas = [event["choices"][0]["delta"] for event in events]
    words = [delta["content"] for delta in deltas if delta.get("content")]
    pieces = [one["tool_calls"][0]["function"] for one in deltas if "tool_calls" in one]
    assert words == ["Level", " 3,", " grün."]
    assert "".join(piece["arguments"] for piece in pieces) == '{"where": "here"}'
    assert ending["choices"][0]["finish_reason"] == "tool_calls"
    assert (last["choices"], last["usage"]) == ([], whole["usage"])


def test_texts_are_embedded_by_their_words_or_by_an_embedder():
    class Triangle(Embeddings):
        def embed_documents(self, texts):
            return [[3.0, 4.0, 12.0] for _ in texts]

        def embed_query(self, text):
            return [5.0, 12.0]

    texts = ["Where is the red car?", "The red car is here.", "A boat."]
    with ChatCompletionsServer(embeddings=[None, Triangle()]) as server:
        made = json.loads(post(server, EMBEDDINGS, {"model": "e", "input": texts})[2])
        asked = {"model": "e", "input": [7, 8], "dimensions": 2}
        cut = json.loads(post(server, EMBEDDINGS, asked)[2])
        assert server.embedded == [*texts, [7, 8]]
    one, near, far = (item["embedding"] for item in made["data"])
    product = [sum(a * b for a, b in zip(one, other, strict=True)) for other in (near, far)]
    assert product[0] > product[1] + 0.3
    assert cut["data"][0]["embedding"] == [3.0, 4.0]


def test_an_error_has_its_status_its_body_and_when_to_retry():
    error = ScriptedError(status=429, message="slow down", kind="requests", retry_after_s=1.5)
    with ChatCompletionsServer(error) as server:
        status, headers, raw = post(server, CHATS, HELLO)
    told = {"message": "slow down", "type": "requests", "param": None, "code": None}
    assert (status, headers["Retry-After"], json.loads(raw)) == (429, "1.5", {"error": told})
    with BedrockConverseServer(embeddings=error) as server:
        status, headers, raw = post(server, "/model/m/invoke", {"inputText": "x"})
    assert (status, headers["x-amzn-ErrorType"]) == (429, "ThrottlingException")
    assert json.loads(raw) == {"message": "slow down"}


def test_what_the_reply_raises_is_answered_with_500_and_raised_at_the_end_of_the_block():
    def fail(_):
        raise KeyError("my own mistake")

    statuses = []
    with pytest.raises(KeyError, match="my own mistake"), ChatCompletionsServer(fail) as server:
        statuses.append(post(server, CHATS, HELLO)[0])
    with pytest.raises(ConfigError, match="1 replies, and one more request"):  # noqa: SIM117
        with BedrockConverseServer(["once"]) as server:
            statuses += [post(server, MODEL, CONVERSE)[0] for _ in range(2)]
    assert statuses == [500, 200, 500]


@pytest.mark.parametrize(
    ("kind", "path", "body", "key", "status"),
    [
        (ChatCompletionsServer, CHATS, HELLO, "", 401),
        (ChatCompletionsServer, "/v1/files", HELLO, "Bearer test", 404),
        (ChatCompletionsServer, CHATS, b"{no json", "Bearer test", 400),
        (BedrockConverseServer, MODEL, CONVERSE, "", 403),
        (BedrockConverseServer, "/model/m/other", CONVERSE, "Bearer test", 404),
    ],
)
def test_what_no_service_takes_is_refused_and_takes_nothing(kind, path, body, key, status):
    with kind([]) as server:
        assert post(server, path, body, key)[0] == status
        assert server.requests == []


def test_a_client_that_leaves_in_the_middle_of_a_stream_is_no_error():
    gone = threading.Event()

    def wait_until_gone(number):
        assert number != 1 or gone.wait(10)

    reply = ScriptedReply(text="word " * 20_000, before_chunk=wait_until_gone)
    with ChatCompletionsServer(reply) as server:
        url = urllib.parse.urlsplit(server.url)
        client = socket.create_connection((str(url.hostname), int(url.port or 0)), timeout=10)
        body = json.dumps({**HELLO, "stream": True}).encode()
        head = f"POST {CHATS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer k\r\n"
        client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        client.recv(16)
        client.close()
        gone.set()
