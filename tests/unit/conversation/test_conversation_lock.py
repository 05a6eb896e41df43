from __future__ import annotations

import asyncio
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from scripted_chat import ScriptedChatModel
from talks import Gate, chat, text_engine, texts

from langchain_convmem import Engine
from langchain_convmem.conversation import Conversation
from langchain_convmem.errors import ThreadBusyError, TurnCancelledError

EIGHT = range(8)
CALLS = {
    "send_message": lambda talk: talk.send_message("inner"),
    "undo": lambda talk: talk.undo(),
    "rewind": lambda talk: talk.rewind(talk.checkpoint()),
}


def echo(text):
    """Answer the question, and say how many replies there were before."""
    question = re.findall(r"<\|im_start\|>user\n(.*?)<\|im_end\|>", text, re.DOTALL)[-1]
    return f"{question}! {text.count('<|im_start|>assistant') - 1}"


def echo_chat(messages):
    said = sum(isinstance(one, AIMessage) for one in messages)
    return f"{messages[-1].text}! {said}"


MODELS = {
    "text": lambda: text_engine(echo),
    "chat": lambda: ScriptedChatModel(replies=[echo_chat]),
}


@pytest.mark.parametrize("model", MODELS)
def test_eight_threads_and_eight_tasks_share_a_conversation(model):
    talk = Conversation(MODELS[model]())

    async def ask_all():
        return await asyncio.gather(*(talk.asend_message(f"task {n}") for n in EIGHT))

    with ThreadPoolExecutor(9) as pool:
        tasks = pool.submit(asyncio.run, ask_all())
        threads = [pool.submit(talk.send_message, f"thread {n}") for n in EIGHT]
        replies = {f"thread {n}": one.result(60).text for n, one in enumerate(threads)}
        replies |= {f"task {n}": one.text for n, one in enumerate(tasks.result(60))}
    assert all(reply.split("!")[0] == question for question, reply in replies.items())
    history = texts(talk)
    assert [f"{question}! {n}" for n, question in enumerate(history[::2])] == history[1::2]
    assert sorted(replies.values()) == sorted(history[1::2])


@pytest.mark.parametrize("rewindable", [True, False])
def test_eight_conversations_on_one_engine_never_mix(rewindable):
    model = text_engine(echo, rewindable=rewindable)
    engine = Engine(model)
    talks = [engine.create_conversation() for _ in EIGHT]

    def ask(number):
        return [talks[number].send_message(f"{number}.{turn}").text for turn in range(3)]

    async def ask_all():
        async def chat(number):
            return [(await talks[number].asend_message(f"{number}.{n}")).text for n in range(3)]

        return await asyncio.gather(*map(chat, range(4, 8)))

    with ThreadPoolExecutor(5) as pool:
        tasks = pool.submit(asyncio.run, ask_all())
        found = [*pool.map(ask, range(4)), *tasks.result(60)]
    assert found == [[f"{number}.{n}! {n}" for n in range(3)] for number in EIGHT]
    assert model.misuses == []
    assert len(model.open_sessions) == 8
    assert engine.wait(0)
    engine.close()
    assert model.open_sessions == []


@pytest.fixture
def model():
    return text_engine(echo)


@pytest.fixture
def talk(model):
    return Conversation(model)


def send_in_a_callback(talk):
    talk.send_message_async("outer", lambda _: talk.send_message("inner")).result(30)


def send_in_an_asynchronous_loop(talk):
    async def read():
        async for _ in talk.astream("outer"):
            await talk.asend_message("inner")

    asyncio.run(read())


@pytest.mark.parametrize("send", [send_in_a_callback, send_in_an_asynchronous_loop])
def test_neither_a_callback_nor_an_asynchronous_loop_can_send(talk, send):
    with pytest.raises(ThreadBusyError):
        send(talk)
    assert talk.wait(0), "its stream was forgotten as its loop ended"
    assert talk.history == []
    assert talk.send_message("next").text == "next! 0"


@pytest.mark.parametrize("call", CALLS)
def test_a_stream_loop_cannot_send_nor_go_back(talk, call):
    stream = talk.stream("outer")
    next(stream)
    with pytest.raises(ThreadBusyError):
        CALLS[call](talk)
    assert "".join(chunk.text for chunk in stream)
    assert talk.send_message("next").text == "next! 1"


def test_who_has_left_an_asynchronous_stream_may_send_at_once(talk, model):
    async def leave_and_send():
        async for _ in talk.astream("left"):
            break
        return (await talk.asend_message("next")).text

    assert asyncio.run(leave_and_send()) == "next! 0"
    assert texts(talk) == ["next", "next! 0"]
    assert model.misuses == []


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_tool_cannot_send_and_is_told_so(way):
    def ask() -> str:
        """Ask."""
        return talk.send_message("inner").text

    call = AIMessage("", tool_calls=[{"name": "ask", "args": {}, "id": "c1"}])
    talk = chat(call, "Done.", preface={"tools": [ask]})
    if way == "sync":
        talk.send_message("outer")
    else:
        asyncio.run(talk.asend_message("outer"))
    assert "ThreadBusyError" in talk.history[2].text


def test_a_loop_over_a_chain_waits_no_longer_than_allowed():
    talk = Conversation(text_engine(echo), busy_timeout_s=0)
    stream = (talk | StrOutputParser()).stream("outer")
    next(stream)
    with pytest.raises(ThreadBusyError, match="busy_timeout_s"):
        talk.send_message("inner")
    stream.close()
    # LangChain's chains read on when they are left, for their traces: the turn came to its end.
    assert asyncio.run(talk.asend_message("next")).text == "next! 1"


def test_a_turn_that_waits_can_be_cancelled():
    gate = Gate()
    talk = Conversation(text_engine(echo, before_prefill=gate))
    first = talk.send_message_async("first")
    assert gate.reached.wait(30)
    handle = talk.send_message_async("a")
    assert handle.cancel()
    with pytest.raises(TurnCancelledError):
        handle.result(30)
    gate.opened.set()
    assert first.result(30).text == "first! 0"
    assert talk.send_message("b").text == "b! 1"


def test_a_model_that_comes_back_late_finds_its_turn_undone():
    late = threading.Event()
    model = text_engine(echo, before_prefill=lambda text: late.wait(30) if "slow" in text else None)
    talk = Conversation(model)
    with pytest.raises(TurnCancelledError, match="longer than"):
        talk.send_message("slow", timeout=0.5)
    assert not talk.wait(0)
    late.set()
    assert talk.wait(30)
    assert talk.history == []
    assert talk.send_message("quick").text == "quick! 0"
    assert "slow" not in model.sessions[0].text
    assert model.misuses == []


def test_an_awaited_turn_ends_in_time_and_its_task_goes_on():
    never = asyncio.Event()
    model = text_engine(echo, before_prefill=lambda text: never.wait() if "slow" in text else None)
    talk = Conversation(model)

    async def ask():
        with pytest.raises(TurnCancelledError):
            await talk.asend_message("slow", timeout=0.01)
        assert asyncio.current_task().cancelling() == 0
        return (await talk.asend_message("quick")).text

    assert asyncio.run(ask()) == "quick! 0"
