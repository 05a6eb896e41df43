"""The scripted Converse service, over real loopback sockets; its rules have tests of their own."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from wire_models import BEDROCK_MODEL, chat_bedrock
from wire_promises import CALL, look

from langchain_convmem.errors import ConfigError
from langchain_convmem.testing import (
    BedrockConverseServer,
    ScriptedError,
    ScriptedReply,
    ScriptedToolCall,
)
from langchain_convmem.testing.bedrock import sign
from langchain_convmem.views.tokens import count_text_tokens

pytestmark = [pytest.mark.sockets, pytest.mark.usefixtures("socket_enabled")]

HELLO = {"messages": [{"role": "user", "content": [{"text": "Hello there"}]}]}
SIGNED = {"Authorization": "AWS4-HMAC-SHA256 Credential=test"}


@contextmanager
def _response(
    server: BedrockConverseServer,
    body: object = HELLO,
    *,
    path: str = "/model/m/converse",
    headers: dict[str, str] = SIGNED,
    method: str = "POST",
) -> Iterator[http.client.HTTPResponse]:
    url = urllib.parse.urlsplit(server.url)
    connection = http.client.HTTPConnection(str(url.hostname), url.port, timeout=10)
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        connection.request(method, path, raw, headers)
        yield connection.getresponse()
    finally:
        connection.close()


def _streamed(server: BedrockConverseServer) -> bytes:
    with _response(server, path="/model/m/converse-stream") as response:
        assert response.getheader("Content-Type") == "application/vnd.amazon.eventstream"
        return response.read()


def _kinds(raw: bytes) -> list[str]:
    """Return the kinds of the events and exceptions of a stream, read by the client's decoder."""
    eventstream = pytest.importorskip("botocore.eventstream", reason="boto3 is not installed")
    buffer = eventstream.EventStreamBuffer()
    buffer.add_data(raw)
    return [
        message.headers.get(":event-type") or message.headers[":exception-type"]
        for message in buffer
    ]


# -- the wire -------------------------------------------------------------------------------------


def test_a_text_is_answered_with_usage():
    with BedrockConverseServer("Level 3.") as server, _response(server) as response:
        assert response.status == 200
        answer = json.loads(response.read())
    assert answer["output"]["message"] == {"role": "assistant", "content": [{"text": "Level 3."}]}
    assert answer["stopReason"] == "end_turn"
    wrote = count_text_tokens("Level 3.")
    assert answer["usage"] == {"inputTokens": 3, "outputTokens": wrote, "totalTokens": 3 + wrote}


def test_a_stream_is_a_series_of_frames():
    with BedrockConverseServer("Level 3.") as server:
        raw = _streamed(server)
    assert _kinds(raw) == [
        "messageStart",
        "contentBlockDelta",
        "contentBlockDelta",
        "contentBlockStop",
        "messageStop",
        "metadata",
    ]


def test_a_stream_breaks_behind_the_given_number_of_events():
    reply = ScriptedReply(text="a b c d", cut_after_chunks=3)
    with BedrockConverseServer(reply) as server:
        with pytest.raises(http.client.IncompleteRead) as caught:
            _streamed(server)
        assert _kinds(caught.value.partial) == ["messageStart", *["contentBlockDelta"] * 2]


def test_a_stream_may_say_why_it_ends_before_its_end():
    error = ScriptedError(status=429, message="slow down")
    reply = ScriptedReply(text="a b c d", cut_after_chunks=2, cut_with=error)
    with BedrockConverseServer(reply) as server:
        raw = _streamed(server)
    assert _kinds(raw) == ["messageStart", "contentBlockDelta", "throttlingException"]


def test_a_reply_that_is_not_streamed_breaks_in_its_middle_or_is_the_error():
    error = ScriptedError(status=503, message="no room")
    cut = ScriptedReply(text="a b c d", cut_after_chunks=2)
    told = ScriptedReply(text="a b c d", cut_after_chunks=2, cut_with=error)
    with BedrockConverseServer([cut, told]) as server:
        with _response(server) as response, pytest.raises(http.client.IncompleteRead):
            response.read()
        with _response(server) as response:
            assert (response.status, response.read()) == (503, b'{"message": "no room"}')


@pytest.mark.parametrize(
    ("status", "code", "name"),
    [
        (400, None, "ValidationException"),
        (403, None, "AccessDeniedException"),
        (408, None, "ModelTimeoutException"),
        (424, None, "ModelErrorException"),
        (429, None, "ThrottlingException"),
        (429, "ModelNotReadyException", "ModelNotReadyException"),
        (500, None, "InternalServerException"),
        (503, None, "ServiceUnavailableException"),
    ],
)
def test_an_error_has_the_exceptions_name_in_its_header(status, code, name):
    error = ScriptedError(status=status, code=code, message="no", retry_after_s=1.5)
    with BedrockConverseServer(error) as server, _response(server) as response:
        assert (response.status, response.getheader("x-amzn-ErrorType")) == (status, name)
        assert response.getheader("Retry-After") == "1.5"
        assert json.loads(response.read()) == {"message": "no"}


def test_a_request_out_of_order_gets_400_is_recorded_and_takes_nothing_from_the_script():
    out_of_order = {"messages": [*HELLO["messages"], *HELLO["messages"]]}
    with BedrockConverseServer(["the only one"]) as server:
        with _response(server, out_of_order) as response:
            assert response.status == 400
            assert response.getheader("x-amzn-ErrorType") == "ValidationException"
            assert "alternate" in json.loads(response.read())["message"]
        with _response(server) as response:
            assert response.status == 200
        assert [request.body for request in server.requests] == [out_of_order, HELLO]


def test_a_body_that_is_no_json_gets_400():
    with BedrockConverseServer("x") as server, _response(server, b"{no") as response:
        assert response.status == 400
        assert response.getheader("x-amzn-ErrorType") == "SerializationException"


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Basic dGVzdA=="}])
def test_a_request_that_nobody_signed_gets_403(headers):
    with BedrockConverseServer("x") as server, _response(server, headers=headers) as response:
        assert response.status == 403


def test_a_bearer_token_will_do():
    bearer = {"Authorization": "Bearer test"}
    with BedrockConverseServer("x") as server, _response(server, headers=bearer) as response:
        assert response.status == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/model/m/invoke-with-response-stream"),
        ("POST", "/model//converse"),
        ("POST", "/converse"),
        ("GET", "/model/m/converse"),
    ],
)
def test_an_unknown_address_gets_404(method, path):
    with BedrockConverseServer("x") as server:
        with _response(server, path=path, method=method) as response:
            assert response.status == 404
        assert server.requests == []


# -- life -----------------------------------------------------------------------------------------


def test_a_script_played_to_its_end_is_raised_at_the_end_of_the_block():
    answers = []
    with (
        pytest.raises(ConfigError, match="one more request"),
        BedrockConverseServer([]) as server,
        _response(server) as response,
    ):
        answers.append((response.status, len(response.read()) > 0))
    assert answers == [(500, True)]


def test_leaving_the_block_ends_every_thread():
    before = set(threading.enumerate())
    with BedrockConverseServer("x") as server, _response(server) as response:
        response.read()
    assert set(threading.enumerate()) <= before
    with pytest.raises(ConfigError, match="not running"):
        _ = server.url


# -- through LangChain's own client ---------------------------------------------------------------


def test_chat_bedrock_converse_reaches_it_by_endpoint_url():
    langchain = pytest.importorskip("langchain_aws", reason="langchain-aws is not installed")
    with BedrockConverseServer("Level 3, grün.") as server:
        model = langchain.ChatBedrockConverse(
            model=BEDROCK_MODEL,
            endpoint_url=server.url,
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )
        said = model.invoke([("system", "Be brief."), ("user", "Where did I park?")])
        model.client.close()
        model.bedrock_client.close()
        [request] = server.requests
    assert said.text == "Level 3, grün."
    assert said.usage_metadata["output_tokens"] == count_text_tokens("Level 3, grün.")
    assert request.body["system"] == [{"text": "Be brief."}]
    assert request.body["messages"] == [
        {"role": "user", "content": [{"text": "Where did I park?"}]}
    ]
    assert urllib.parse.unquote(request.path) == f"/model/{BEDROCK_MODEL}/converse"
    assert request.headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=test/")


async def test_chat_bedrock_converse_reads_streamed_reasoning_text_and_calls():
    reply = ScriptedReply(reasoning="I must look.", text="Let me look.", tool_calls=[CALL])
    with BedrockConverseServer(reply) as server:
        async with chat_bedrock(server) as model:
            chunks = [chunk async for chunk in model.bind_tools([look]).astream("Where?")]
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole = whole + chunk
    thought, said, _ = whole.content
    assert thought["reasoning_content"] == {
        "text": "I must look.",
        "signature": sign("I must look."),
    }
    assert said["text"] == "Let me look."
    [call] = whole.tool_calls
    assert (call["name"], call["args"], call["id"]) == ("look", CALL.arguments, "call_7")
    assert whole.response_metadata["stopReason"] == "tool_use"
    assert whole.usage_metadata["output_tokens"] == reply.tokens


async def test_chat_bedrock_converse_may_stream_half_a_call():
    half = ScriptedToolCall("look", '{"place": "on lev')
    with BedrockConverseServer(ScriptedReply(tool_calls=[half])) as server:
        async with chat_bedrock(server) as model:
            chunks = list(model.bind_tools([look]).stream("Where?"))
    pieces = [piece["args"] or "" for chunk in chunks for piece in chunk.tool_call_chunks]
    assert "".join(pieces) == half.arguments


async def test_chat_bedrock_converse_raises_what_the_service_refused():
    exceptions = pytest.importorskip("botocore.exceptions", reason="boto3 is not installed")
    with BedrockConverseServer("x") as server:
        async with chat_bedrock(server) as model:
            with pytest.raises(exceptions.ClientError) as caught:
                model.invoke([("user", "Hi"), ("assistant", "Yes?")])
    assert caught.value.response["Error"]["Code"] == "ValidationException"
    assert "must end with a user message" in caught.value.response["Error"]["Message"]


def test_the_example_of_the_page_on_tests_runs():
    pytest.importorskip("langchain_aws", reason="langchain-aws is not installed")
    page = (Path(__file__).parents[2] / "docs" / "how_to" / "testing.md").read_text("utf-8")
    examples = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    [example] = [one for one in examples if "BedrockConverseServer(" in one]
    # In a process of its own: an example need not close its clients.
    done = subprocess.run(
        [sys.executable, "-c", example], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "Yes, quite sure."), done.stderr
