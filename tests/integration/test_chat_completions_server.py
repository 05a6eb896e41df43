"""The scripted chat service, over real loopback sockets."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import urllib.parse
from collections.abc import Iterator
from typing import Any

import pytest

from langchain_convmem.testing import (
    ChatCompletionsServer,
    ScriptedError,
    ScriptedReply,
    ScriptedToolCall,
)
from langchain_convmem.views.tokens import count_text_tokens

pytestmark = [pytest.mark.sockets, pytest.mark.usefixtures("socket_enabled")]

HELLO = [{"role": "user", "content": "Hello there"}]
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
ASKED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
TOLD = {"role": "tool", "tool_call_id": "c1", "content": "found"}


def _exchange(
    server: ChatCompletionsServer,
    body: object,
    *,
    method: str = "POST",
    path: str = "/chat/completions",
    key: str | None = "test",
) -> tuple[int, dict[str, str], bytes]:
    url = urllib.parse.urlsplit(server.url)
    connection = http.client.HTTPConnection(str(url.hostname), url.port, timeout=10)
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    try:
        connection.request(method, url.path + path, raw, headers)
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


def _ask(server: ChatCompletionsServer, messages: object = HELLO, **fields: Any) -> dict[str, Any]:
    status, _, raw = _exchange(server, {"model": "m", "messages": messages, **fields})
    assert status == 200, raw
    return json.loads(raw)


def _events(server: ChatCompletionsServer, **fields: Any) -> list[Any]:
    body = {"model": "m", "messages": HELLO, "stream": True, **fields}
    status, headers, raw = _exchange(server, body)
    assert (status, headers["Content-Type"]) == (200, "text/event-stream; charset=utf-8")
    lines = raw.decode().split("\n\n")
    assert lines.pop() == ""
    assert all(line.startswith("data: ") for line in lines)
    assert lines.pop() == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines]


# -- answers ------------------------------------------------------------------------------------


def test_a_text_is_answered_as_a_chat_completion_with_usage():
    with ChatCompletionsServer("Level 3, grün.") as server:
        answer = _ask(server)
    assert answer["object"] == "chat.completion"
    assert answer["model"] == "m"
    assert answer["choices"][0]["message"]["content"] == "Level 3, grün."
    assert answer["choices"][0]["finish_reason"] == "stop"
    usage = answer["usage"]
    assert usage["prompt_tokens"] == count_text_tokens("Hello there")
    assert usage["completion_tokens"] == count_text_tokens("Level 3, grün.")
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def test_tool_calls_are_answered_with_null_content():
    call = ScriptedToolCall("look", {"where": "here"})
    with ChatCompletionsServer(ScriptedReply(tool_calls=[call])) as server:
        choice = _ask(server)["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    function = choice["message"]["tool_calls"][0]["function"]
    assert (function["name"], json.loads(function["arguments"])) == ("look", {"where": "here"})


def test_a_stream_is_word_by_word_and_ends_with_its_reason():
    with ChatCompletionsServer("one two  three ") as server:
        events = _events(server)
    deltas = [event["choices"][0]["delta"] for event in events]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert [delta["content"] for delta in deltas[1:-1]] == ["one", " two", "  three", " "]
    assert deltas[-1] == {}
    reasons = [event["choices"][0]["finish_reason"] for event in events]
    assert reasons == [None] * (len(events) - 1) + ["stop"]
    assert not any("usage" in event for event in events)


def test_a_stream_reports_usage_in_a_last_event_without_choices_when_asked():
    with ChatCompletionsServer("one two") as server:
        events = _events(server, stream_options={"include_usage": True})
    assert events[-1]["choices"] == []
    assert events[-1]["usage"]["total_tokens"] == 5
    assert all(event["usage"] is None for event in events[:-1])


def test_the_models_are_listed():
    with ChatCompletionsServer("x", models=("a", "b")) as server:
        status, _, raw = _exchange(server, b"", method="GET", path="/models")
    assert status == 200
    assert [model["id"] for model in json.loads(raw)["data"]] == ["a", "b"]


# -- failures on purpose ------------------------------------------------------------------------


def test_a_scripted_error_has_its_status_its_body_and_when_to_retry():
    error = ScriptedError(
        status=429, message="slow down", kind="requests", code="rate_limit", retry_after_s=1.5
    )
    with ChatCompletionsServer(error) as server:
        status, headers, raw = _exchange(server, {"model": "m", "messages": HELLO})
    assert (status, headers["Retry-After"]) == (429, "1.5")
    assert json.loads(raw)["error"] == {
        "message": "slow down",
        "type": "requests",
        "param": None,
        "code": "rate_limit",
    }


def test_a_stream_is_cut_in_the_middle_after_the_given_number_of_events():
    with ChatCompletionsServer(ScriptedReply(text="a b c d", cut_after_chunks=3)) as server:
        with pytest.raises(http.client.IncompleteRead) as caught:
            _exchange(server, {"model": "m", "messages": HELLO, "stream": True})
        assert caught.value.partial.count(b"data: ") == 3
        assert b"[DONE]" not in caught.value.partial


def test_a_cut_stream_may_say_why_and_ends_in_order():
    error = ScriptedError(status=500, message="out of memory", code="oom")
    reply = ScriptedReply(text="a b c d", cut_after_chunks=2, cut_with=error)
    with ChatCompletionsServer(reply) as server:
        status, _, raw = _exchange(server, {"model": "m", "messages": HELLO, "stream": True})
    *_, last, rest = raw.decode().split("\n\n")
    told = json.loads(last.removeprefix("data: "))["error"]
    assert (status, rest, told["message"], told["code"]) == (200, "", "out of memory", "oom")
    assert b"[DONE]" not in raw


def test_an_answer_that_is_not_streamed_is_the_error_it_would_have_been_cut_with():
    error = ScriptedError(status=503, message="no room")
    reply = ScriptedReply(text="a b c d", cut_after_chunks=0, cut_with=error)
    with ChatCompletionsServer(reply) as server:
        status, _, raw = _exchange(server, {"model": "m", "messages": HELLO})
    assert (status, json.loads(raw)["error"]["message"]) == (503, "no room")


def test_reasoning_is_counted_and_never_shown():
    with ChatCompletionsServer(ScriptedReply(text="Yes.", reasoning="Let me think.")) as server:
        answer = _ask(server)
    wrote = count_text_tokens("Let me think.") + count_text_tokens("Yes.")
    assert answer["usage"]["completion_tokens"] == wrote
    assert "think" not in json.dumps(answer)


def test_what_the_reply_raises_is_answered_with_500_and_raised_at_the_end_of_the_block():
    def broken(request: dict[str, Any]) -> str:
        raise KeyError("my own mistake")

    statuses = []
    with pytest.raises(KeyError, match="my own mistake"), ChatCompletionsServer(broken) as server:
        statuses.append(_exchange(server, {"model": "m", "messages": HELLO})[0])
    assert statuses == [500]


def test_a_failure_of_the_block_is_raised_with_a_note_of_what_the_reply_raised():
    def broken(request: dict[str, Any]) -> str:
        raise KeyError("my own mistake")

    def fail(server: ChatCompletionsServer) -> None:
        with server:
            _exchange(server, {"model": "m", "messages": HELLO})
            raise ValueError("of the block")

    with pytest.raises(ValueError, match="of the block") as caught:
        fail(ChatCompletionsServer(broken))
    assert "my own mistake" in caught.value.__notes__[0]


# -- requests that the service refuses ----------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"model": "m"}, "messages"),
        ({"model": "m", "messages": []}, "messages"),
        ({"model": "m", "messages": "hi"}, "messages"),
        ({"messages": HELLO}, "model"),
        ({"model": "m", "messages": ["hi"]}, "messages[0]"),
        ({"model": "m", "messages": [{"content": "hi"}]}, "messages[0].role"),
        ({"model": "m", "messages": [{"role": "robot", "content": "hi"}]}, "messages[0].role"),
        ({"model": "m", "messages": [*HELLO, TOLD]}, "messages[1].role"),
        ({"model": "m", "messages": [*HELLO, ASKED, *HELLO]}, "messages[2].role"),
        ({"model": "m", "messages": [*HELLO, ASKED]}, "messages[1].role"),
        ({"model": "m", "messages": [*HELLO, ASKED, TOLD, TOLD]}, "messages[3].role"),
        (
            {"model": "m", "messages": [*HELLO, ASKED, {**TOLD, "tool_call_id": "other"}]},
            "messages[2].role",
        ),
        ({"model": "m", "messages": [{**HELLO[0], "name": "Ana Lee"}]}, "messages[0].name"),
        ({"model": "m", "messages": [{**HELLO[0], "name": ""}]}, "messages[0].name"),
        ({"model": "m", "messages": [{**HELLO[0], "name": "a" * 65}]}, "messages[0].name"),
        ({"model": "m", "messages": [{**HELLO[0], "name": "ana\n"}]}, "messages[0].name"),
        ({"model": "m", "messages": [{"role": "user"}]}, "messages[0].content"),
        ({"model": "m", "messages": [{"role": "user", "content": None}]}, "messages[0].content"),
        (
            {"model": "m", "messages": [*HELLO, {"role": "assistant", "content": None}]},
            "messages[1].content",
        ),
        ({"model": "m", "messages": [{"role": "user", "content": 7}]}, "messages[0].content"),
        ({"model": "m", "messages": [{"role": "user", "content": []}]}, "messages[0].content"),
        (
            {"model": "m", "messages": [{"role": "user", "content": [{"type": "reasoning"}]}]},
            "messages[0].content[0].type",
        ),
        (
            {"model": "m", "messages": HELLO, "stream_options": {"include_usage": True}},
            "stream_options",
        ),
        (["not an object"], None),
        (b"{not json", None),
    ],
)
def test_a_malformed_request_gets_400_and_names_the_parameter(body, param):
    with ChatCompletionsServer("never said") as server:
        status, _, raw = _exchange(server, body)
        assert len(server.requests) == 1
    error = json.loads(raw)["error"]
    assert (status, error["type"], error["param"]) == (400, "invalid_request_error", param)
    assert error["message"]


@pytest.mark.parametrize(
    "messages",
    [
        [*HELLO, ASKED, TOLD],
        [*HELLO, ASKED, TOLD, {"role": "assistant", "content": "done"}, *HELLO],
        [{"role": "developer", "content": "Be brief."}, {**HELLO[0], "name": "Ana_Lee-2"}],
        [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        [{"role": "system", "content": ""}, *HELLO, *HELLO],
        [
            *HELLO,
            {**ASKED, "tool_calls": [CALL, {**CALL, "id": "c2"}]},
            {**TOLD, "tool_call_id": "c2"},
            TOLD,
        ],
    ],
)
def test_a_sound_request_is_answered(messages):
    with ChatCompletionsServer("fine") as server:
        assert _ask(server, messages)["choices"][0]["message"]["content"] == "fine"


def test_a_request_without_a_key_gets_401():
    with ChatCompletionsServer("x") as server:
        status, _, raw = _exchange(server, {"model": "m", "messages": HELLO}, key=None)
    assert (status, json.loads(raw)["error"]["type"]) == (401, "invalid_request_error")


@pytest.mark.parametrize(("method", "path"), [("POST", "/responses"), ("GET", "/files")])
def test_an_unknown_address_gets_404(method, path):
    with ChatCompletionsServer("x") as server:
        assert _exchange(server, {}, method=method, path=path)[0] == 404
        assert server.requests == []


# -- records and life ---------------------------------------------------------------------------


def test_many_clients_at_once_are_all_answered_and_recorded():
    answers: list[str] = []

    def work(number: int) -> None:
        answer = _ask(server, [{"role": "user", "content": str(number)}])
        answers.append(answer["choices"][0]["message"]["content"])

    with ChatCompletionsServer(lambda request: request["messages"][0]["content"]) as server:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        recorded = [request.body["messages"][0]["content"] for request in server.requests]
    assert sorted(answers) == sorted(recorded) == sorted(map(str, range(40)))


def test_a_test_decides_how_far_a_stream_has_come():
    reached, go_on = threading.Event(), threading.Event()

    def hold(number: int) -> None:
        if number == 2:
            reached.set()
            assert go_on.wait(10)

    with ChatCompletionsServer(ScriptedReply(text="one two three", before_chunk=hold)) as server:
        url = urllib.parse.urlsplit(server.url)
        connection = http.client.HTTPConnection(str(url.hostname), url.port, timeout=10)
        body = json.dumps({"model": "m", "messages": HELLO, "stream": True})
        connection.request("POST", "/v1/chat/completions", body, {"Authorization": "Bearer k"})
        response = connection.getresponse()
        assert reached.wait(10)
        early = b"".join(response.readline() for _ in range(4))
        assert (early.count(b"data: "), b"two" in early) == (2, False)
        go_on.set()
        assert response.read().endswith(b"data: [DONE]\n\n")
        connection.close()


def test_a_client_that_leaves_in_the_middle_of_a_stream_is_no_error():
    gone = threading.Event()

    def wait_until_gone(number: int) -> None:
        if number == 1:
            assert gone.wait(10)

    reply = ScriptedReply(text="word " * 20_000, before_chunk=wait_until_gone)
    with ChatCompletionsServer(reply) as server:
        url = urllib.parse.urlsplit(server.url)
        client = socket.create_connection((str(url.hostname), int(url.port or 0)), timeout=10)
        body = json.dumps({"model": "m", "messages": HELLO, "stream": True}).encode()
        head = (
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer k\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body)
        )
        client.sendall(head + body)
        client.recv(16)
        client.close()
        gone.set()


def test_leaving_the_block_ends_idle_connections_and_every_thread():
    before = set(threading.enumerate())
    with ChatCompletionsServer("x") as server:
        url = urllib.parse.urlsplit(server.url)
        address = (str(url.hostname), int(url.port or 0))
        silent = socket.create_connection(address, timeout=10)
        _ask(server)
    assert silent.recv(1) == b""
    silent.close()
    assert set(threading.enumerate()) <= before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=10)


# -- through LangChain's own client -------------------------------------------------------------


@contextlib.contextmanager
def _chat_model(server: ChatCompletionsServer, **settings: Any) -> Iterator[Any]:
    # With a client of its own: the shared one is never closed and would warn in a later test.
    openai, langchain = pytest.importorskip("openai"), pytest.importorskip("langchain_openai")
    with openai.DefaultHttpxClient() as client:
        yield langchain.ChatOpenAI(
            base_url=server.url,
            api_key="test",
            model="test-model",
            stream_usage=True,
            http_client=client,
            **settings,
        )


def test_chat_openai_invokes_it():
    with ChatCompletionsServer("On level 3.") as server, _chat_model(server) as model:
        said = model.invoke("Where did I park?")
        asked = server.requests[0].body["messages"]
    assert said.text == "On level 3."
    read, wrote = count_text_tokens("Where did I park?"), count_text_tokens("On level 3.")
    assert said.usage_metadata["total_tokens"] == read + wrote
    assert said.response_metadata["model_name"] == "test-model"
    assert asked == [{"role": "user", "content": "Where did I park?"}]


def test_chat_openai_streams_from_it_with_usage():
    with ChatCompletionsServer("On level 3, on the left.") as server, _chat_model(server) as model:
        chunks = list(model.stream("Where did I park?"))
        body = server.requests[0].body
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole = whole + chunk
    assert whole.text == "On level 3, on the left."
    assert len([chunk for chunk in chunks if chunk.text]) == 6
    read, wrote = count_text_tokens("Where did I park?"), count_text_tokens(str(whole.text))
    assert whole.usage_metadata["total_tokens"] == read + wrote
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})


async def test_chat_openai_streams_from_it_without_blocking_the_loop():
    openai = pytest.importorskip("openai")
    async with openai.DefaultAsyncHttpxClient() as client:
        with (
            ChatCompletionsServer("On level 3.") as server,
            _chat_model(server, http_async_client=client) as model,
        ):
            stream = model.astream("Where did I park?")
            assert "".join([chunk.text async for chunk in stream]) == "On level 3."


def test_chat_openai_reads_streamed_tool_calls():
    call = ScriptedToolCall("look", {"where": "garage"}, "c7")
    reply = ScriptedReply(text="Looking.", tool_calls=[call])
    with ChatCompletionsServer(reply) as server, _chat_model(server) as model:
        chunks = list(model.stream("Where did I park?"))
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole = whole + chunk
    assert whole.text == "Looking."
    assert [(c["name"], c["args"], c["id"]) for c in whole.tool_calls] == [
        ("look", {"where": "garage"}, "c7")
    ]


def test_chat_openai_retries_after_the_time_it_is_told():
    replies = iter([ScriptedError(status=429, retry_after_s=0.01), "On level 3."])
    with ChatCompletionsServer(lambda _: next(replies)) as server, _chat_model(server) as model:
        assert model.invoke("Where did I park?").text == "On level 3."
        assert len(server.requests) == 2


def test_chat_openai_raises_what_the_service_refused():
    openai = pytest.importorskip("openai")
    message = {"role": "user", "content": "hi", "name": "Ana Lee"}
    with (
        ChatCompletionsServer("x") as server,
        _chat_model(server) as model,
        pytest.raises(openai.BadRequestError) as caught,
    ):
        model.invoke([message])
    assert caught.value.param == "messages[0].name"


def test_chat_openai_notices_a_stream_that_is_cut():
    openai = pytest.importorskip("openai")
    reply = ScriptedReply(text="one two three four", cut_after_chunks=3)
    with ChatCompletionsServer(reply) as server, _chat_model(server, max_retries=0) as model:
        stream = model.stream("count")
        seen = [next(stream).text for _ in range(3)]
        with pytest.raises(openai.APIConnectionError):
            next(stream)
    assert seen == ["", "one", " two"]


def test_chat_openai_reads_the_last_words_of_a_stream():
    openai = pytest.importorskip("openai")
    error = ScriptedError(status=500, message="out of memory")
    reply = ScriptedReply(text="one two three four", cut_after_chunks=3, cut_with=error)
    with ChatCompletionsServer(reply) as server, _chat_model(server, max_retries=0) as model:
        stream = model.stream("count")
        seen = [next(stream).text for _ in range(3)]
        with pytest.raises(openai.APIError, match="out of memory"):
            next(stream)
    assert seen == ["", "one", " two"]
