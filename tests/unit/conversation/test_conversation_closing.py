import asyncio
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from scripted_chat import WAYS, ScriptedChatModel
from talks import Gate, chat, text_engine, text_talk, texts

from langchain_convmem import Engine
from langchain_convmem.conversation import Conversation
from langchain_convmem.errors import (
    ConfigError,
    ConversationError,
    ThreadBusyError,
    TurnCancelledError,
)

FINE = "Fine, thanks."


def test_a_turn_that_is_cancelled_may_keep_what_was_said():
    model = text_engine(FINE)
    talk = Conversation(model, on_cancel="keep")
    stream = talk.stream("How are you?")
    assert next(stream).text == "Fine,"
    talk.cancel()
    with pytest.raises(TurnCancelledError):
        next(stream)
    assert [one.text for one in talk.history] == ["How are you?", "Fine,"]
    assert talk.last_message.response_metadata["finish_reason"] == "cancelled"
    talk.send_message("How are you?")  # no retry: the reply is kept
    assert talk.render_stats[0].diverged_at is None
    assert "Fine,<|im_end|>" in model.open_sessions[0].text


REFUSED_WHEN_CLOSED = {
    "send": lambda talk: talk.send_message("b"),
    "stream": lambda talk: list(talk.stream("b")),
    "batch": lambda talk: talk.batch(["b"]),
    "send in time": lambda talk: talk.send_message("b", timeout=30),
    "callback": lambda talk: talk.send_message_async("b"),
    "asend": lambda talk: asyncio.run(talk.asend_message("b")),
    "clone": lambda talk: talk.clone(),
    "undo": lambda talk: talk.undo(),
    "rewind": lambda talk: talk.rewind(talk.checkpoint()),
}


@pytest.mark.parametrize("name", REFUSED_WHEN_CLOSED)
def test_a_closed_conversation_refuses_what_goes_on(name):
    talk, model = text_talk(FINE)
    talk.send_message("a")
    talk.close()
    talk.close()
    assert model.open_sessions == []
    with pytest.raises(ConversationError, match="conversation is closed"):
        REFUSED_WHEN_CLOSED[name](talk)
    assert len(talk.history) == 2
    assert talk.wait(30)


def test_closing_cancels_the_turn_that_runs_and_those_that_wait():
    stop = Gate()
    talk, model = text_talk(FINE, before_prefill=stop)
    handles = [talk.send_message_async("a") for _ in range(3)]
    assert stop.reached.wait(30)
    closing = threading.Thread(target=talk.close)
    closing.start()
    for handle in handles[1:]:
        with pytest.raises(TurnCancelledError):
            handle.result(30)
    assert closing.is_alive()
    stop.opened.set()
    closing.join(30)
    assert handles[0].done()
    assert model.open_sessions == []
    assert model.misuses == []


def test_a_session_whose_turn_does_not_come_back_is_closed_when_it_does():
    stop = Gate()
    model = text_engine(FINE, before_prefill=stop)
    engine = Engine(model)
    talk = engine.create_conversation()
    handle = talk.send_message_async("a")
    assert stop.reached.wait(30)
    talk.close(timeout_s=0)
    engine.close(timeout_s=0)
    assert len(model.open_sessions) == 1
    assert not model.closed
    stop.opened.set()
    with pytest.raises(TurnCancelledError):
        handle.result(30)
    assert engine.wait(30)
    assert model.open_sessions == []
    assert model.closed
    assert model.misuses == []


@pytest.mark.parametrize("what", ["conversation", "engine"])
@pytest.mark.parametrize("way", ["callback", "loop", "async loop"])
def test_who_reads_a_reply_may_close_at_once(what, way):
    model = text_engine(FINE)
    engine = Engine(model)
    talk = engine.create_conversation()
    closed = talk if what == "conversation" else engine

    async def aread():
        async for _ in talk.astream("a"):
            if what == "engine":
                engine.close(timeout_s=None)
            else:
                await talk.aclose(timeout_s=None)

    def read():
        for _ in talk.stream("a"):
            closed.close(timeout_s=None)

    def hear():
        talk.send_message_async("a", lambda _: closed.close(timeout_s=None)).result(30)

    run = {"callback": hear, "loop": read, "async loop": lambda: asyncio.run(aread())}[way]
    with pytest.raises(TurnCancelledError):
        run()
    assert talk.wait(30)
    assert model.open_sessions == []
    assert model.misuses == []
    assert talk.history == []


def test_a_closed_engine_ends_all_its_conversations():
    model = text_engine(FINE)
    with Engine(model) as engine:
        talk = engine.create_conversation()
        talk.send_message("a")
    assert model.closed
    assert model.open_sessions == []
    with pytest.raises(ConversationError, match="engine is closed"):
        talk.send_message("b")
    with pytest.raises(ConversationError, match="engine is closed"):
        engine.create_conversation()
    engine.close()
    talk.close()


def test_an_engine_is_made_of_a_model_alone():
    with pytest.raises(ConfigError, match="is not a model"):
        Engine("gpt")
    for words, settings in (
        ("'temprature'", {"temprature": 1}),
        (r"; preface=Preface\(tools=\.\.\.\)", {"tools": []}),
        ("config is a dict; pass ConversationConfig", {"config": {"stop": ["x"]}}),
        ("'on_cancel' in ConversationConfig: .*'keep', got 'kep'", {"on_cancel": "kep"}),
    ):
        with pytest.raises(ConfigError, match=words):
            Engine(text_engine(FINE)).create_conversation(**settings)


def test_settings_of_text_engines_are_refused_by_chat_models():
    of_text = {"template": "qwen", "reply_format": "hermes", "channels": (), "stop": ("<end>",)}
    for name, value in {**of_text, "prefill_preface": True, "thinking_tokens": 100}.items():
        with pytest.raises(ConfigError, match=f"{name} is for text engines"):
            Conversation(ScriptedChatModel(replies=["Yes."]), **{name: value})


@pytest.mark.parametrize("error", [StopIteration("x"), StopAsyncIteration("x")])
@pytest.mark.parametrize("way", ["invoke", "stream", "ainvoke", "astream"])
def test_errors_that_end_generators_end_the_turn_and_nothing_else(error, way):
    talk = chat(error, "Fine.")
    with pytest.raises(
        (RuntimeError, StopIteration, StopAsyncIteration, GeneratorExit, ValueError)
    ):
        WAYS[way](talk, "a", None)
    assert talk.history == []
    assert talk.wait(0)
    WAYS[way](talk, "a", None)
    assert talk.last_message.text == "Fine."


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


MODELS = {
    "text": lambda: text_engine(echo),
    "chat": lambda: ScriptedChatModel(
        replies=[lambda said: f"{said[-1].text}! {sum(one.type == 'ai' for one in said)}"]
    ),
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

    async def aask(number):
        return [(await talks[number].asend_message(f"{number}.{n}")).text for n in range(3)]

    with ThreadPoolExecutor(8) as pool:
        tasks = pool.map(lambda number: asyncio.run(aask(number)), range(4, 8))
        found = [*pool.map(ask, range(4)), *tasks]
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
