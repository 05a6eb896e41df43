"""`CompletionsEngine` over real HTTP, against a service that refuses what the real one refuses."""

from __future__ import annotations

import asyncio
import threading

import pytest
from completions_server import CompletionsServer
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool

from langchain_convmem.conversation import Conversation
from langchain_convmem.errors import ConversationError
from langchain_convmem.testing import ScriptedReply
from langchain_convmem.text import ChatTemplate
from langchain_convmem.text.completions import CompletionsEngine
from langchain_convmem.text.template_chat_model import TemplateChatModel

openai = pytest.importorskip("openai", reason="openai is not installed")
pytestmark = pytest.mark.sockets


@pytest.fixture
def connect():
    """Return a function that makes engines, without retries and with one client to close."""
    # Without certificates: loading them takes longer than a test, and loopback needs none.
    with openai.DefaultHttpxClient(verify=False) as http_client:

        def make(server, **options):
            client = openai.OpenAI(
                base_url=server.url, api_key="test", max_retries=0, http_client=http_client
            )
            return CompletionsEngine("test-model", client=client, **options)

        yield make


@pytest.fixture
def server():
    with CompletionsServer(reply="Level 3, near the lift.<|im_end|>\nAnd then?") as running:
        yield running


def test_the_whole_text_is_sent_each_time_and_the_reply_streams(server, connect):
    session = connect(server, temperature=0.5).create_session()
    session.prefill(["Where is ", "the car?\n"])
    assert list(session.decode(stop=["<|im_end|>"])) == ["Level", " 3,", " near", " the", " lift."]
    assert (session.finish_reason, session.holds_stop) == ("stop", False)
    session.prefill(["<|im_end|>\nThanks."])
    list(session.decode(max_tokens=3, seed=7))
    assert (session.finish_reason, session.stop_text) == ("length", "")
    first, second = (request.body for request in server.requests)
    assert first == {
        "model": "test-model",
        "prompt": "Where is the car?\n",
        "stop": ["<|im_end|>"],
        "stream": True,
        "max_tokens": 1024,
        "temperature": 0.5,
    }
    assert (second["prompt"], second["max_tokens"], second["seed"]) == (
        "Where is the car?\nLevel 3, near the lift.<|im_end|>\nThanks.",
        3,
        7,
    )
    assert session.text == second["prompt"] + "Level 3, near"


def test_a_session_goes_back_and_branches(server, connect):
    session = connect(server).create_session()
    session.prefill(["a"])
    mark = session.checkpoint()
    session.prefill(["b"])
    later = session.checkpoint()
    clone = session.clone()
    session.rewind(mark)
    session.prefill(["c"])
    clone.prefill(["d"])
    assert (session.text, clone.text) == ("ac", "abd")
    with pytest.raises(ConversationError):
        session.rewind(later)
    clone.rewind(later)
    assert clone.text == "ab"
    session.reset()
    assert session.text == ""
    with pytest.raises(ConversationError):
        session.rewind(mark)


def test_a_decode_that_is_left_ends_its_request_and_holds_what_was_yielded(connect):
    left = threading.Event()

    def wait(number):
        if number == 2:
            assert left.wait(10)

    reply = ScriptedReply(text="one two three", before_chunk=wait)
    with CompletionsServer(reply) as server:
        session = connect(server).create_session()
        writing = session.decode()
        assert next(writing) + next(writing) == "one two"
        writing.close()
        left.set()
        assert (session.text, session.finish_reason) == ("one two", None)


async def test_a_task_is_cancelled_in_the_middle_of_a_reply():
    reached, go = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def wait(number):
        if number == 1:
            loop.call_soon_threadsafe(reached.set)
            assert go.wait(10)

    with CompletionsServer(ScriptedReply(text="one two", before_chunk=wait)) as server:
        engine = CompletionsEngine("test-model", base_url=server.url, api_key="test")
        session = engine.create_session()

        async def read():
            async for _ in session.adecode():
                pass

        task = asyncio.create_task(read())
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go.set()
        await engine.aclose()
    assert "two" not in session.text


def test_each_prompt_of_a_conversation_goes_on_from_the_one_before(connect):
    with CompletionsServer(["From platform 9.<|im_end|>", "At noon.<|im_end|>"]) as server:
        talk = Conversation(connect(server, template="qwen"))
        assert talk.send_message("Which platform?").content == "From platform 9."
        assert talk.send_message("When?").content == "At noon."
        first, second = (request.body["prompt"] for request in server.requests)
    added = "From platform 9.<|im_end|>\n<|im_start|>user\nWhen?<|im_end|>\n<|im_start|>assistant\n"
    assert second == first + added


def test_a_stream_that_ends_without_a_reason_is_no_reply(server, monkeypatch, connect):
    whole = CompletionsServer.stream
    monkeypatch.setattr(
        CompletionsServer,
        "stream",
        lambda *args: (one for one in whole(*args) if b'"finish_reason": "stop"' not in one),
    )
    with pytest.raises(ConversationError, match="finish reason"):
        list(connect(server).create_session().decode())


def test_nothing_is_sent_once_it_is_closed(server, connect):
    engine = connect(server)
    session, other = engine.create_session(), engine.create_session()
    session.close()
    session.close()
    with pytest.raises(ConversationError, match="session"):
        next(session.decode())
    engine.close()
    engine.close()
    with pytest.raises(ConversationError, match="engine"):
        next(other.decode())
    with pytest.raises(ConversationError, match="engine"):
        engine.create_session()
    assert server.requests == []
    assert not engine.client.is_closed()


langchain_openai = pytest.importorskip("langchain_openai", reason="langchain-openai is missing")

REPLY = (
    "<think>\nLevel three.\n</think>\n\n"
    '<tool_call>\n{"name": "look", "arguments": {"level": 3}}\n</tool_call><|im_end|>\nAnd more.'
)


@tool
def look(level: int) -> str:
    """Look there."""
    return str(level)


async def test_a_completion_service_calls_tools_as_a_chat_model():
    with CompletionsServer(REPLY) as server, openai.DefaultHttpxClient(verify=False) as client:
        async with openai.DefaultAsyncHttpxClient(verify=False) as async_client:
            llm = langchain_openai.OpenAI(
                base_url=server.url,
                api_key="test",
                model="test-model",
                max_tokens=99,
                http_client=client,
                http_async_client=async_client,
            )
            model = TemplateChatModel(llm=llm, template="qwen").bind_tools([look])
            chunks = [chunk async for chunk in model.astream("Where?")]
            streamed = sum(chunks[1:], start=chunks[0])
            replies = [model.invoke("Where?"), await model.ainvoke("Where?"), streamed]
        bodies = [request.body for request in server.requests]
    for reply in replies:
        assert reply.tool_calls[0]["args"] == {"level": 3}
        assert reply.additional_kwargs["reasoning_content"] == "Level three."
        assert reply.response_metadata["model_name"] == "test-model"
        assert reply.usage_metadata["input_tokens"] > 0
    prompt = ChatTemplate.from_builtin("qwen").render([HumanMessage("Where?")], tools=[look])
    assert [body["prompt"] for body in bodies] == [prompt, [prompt], [prompt]]
    assert all(body["stop"] == ["<|im_end|>"] for body in bodies)
