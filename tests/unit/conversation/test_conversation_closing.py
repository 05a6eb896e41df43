from __future__ import annotations

import asyncio
import threading

import pytest
from scripted_chat import WAYS, ScriptedChatModel
from talks import Gate, chat, text_engine

from langchain_convmem import Engine
from langchain_convmem.conversation import Conversation
from langchain_convmem.errors import ConfigError, ConversationError, TurnCancelledError

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
    talk.send_message("And?")
    assert talk.render_stats[0].diverged_at is None
    assert "Fine,<|im_end|>" in model.open_sessions[0].text


def test_a_closed_conversation_refuses_everything_that_goes_on():
    model = text_engine(FINE)
    talk = Conversation(model)
    talk.send_message("a")
    mark = talk.checkpoint()
    talk.close()
    talk.close()
    assert model.open_sessions == []
    calls = [
        lambda: talk.send_message("b"),
        lambda: list(talk.stream("b")),
        lambda: talk.batch(["b"]),
        lambda: talk.send_message("b", timeout=30),
        lambda: talk.send_message_async("b"),
        lambda: asyncio.run(talk.asend_message("b")),
        talk.clone,
        talk.undo,
        lambda: talk.rewind(mark),
    ]
    for call in calls:
        with pytest.raises(ConversationError, match="conversation is closed"):
            call()
    assert len(talk.history) == 2
    assert talk.wait(30)


def test_closing_cancels_the_turn_that_runs_and_those_that_wait():
    stop = Gate()
    model = text_engine(FINE, before_prefill=stop)
    talk = Conversation(model)
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
    with pytest.raises(ConfigError, match="'temprature'"):
        Engine(text_engine(FINE)).create_conversation(temprature=1)


def test_settings_of_the_other_kind_of_model_are_refused():
    of_text = {"template": "qwen", "reply_format": "hermes", "channels": (), "stop": ("<end>",)}
    for name, value in {**of_text, "prefill_preface": True}.items():
        with pytest.raises(ConfigError, match=f"{name} is for text engines"):
            Conversation(ScriptedChatModel(replies=["Yes."]), **{name: value})
    with pytest.raises(ConfigError, match="context_kwargs is for chat models"):
        Conversation(text_engine(FINE), context_kwargs=dict)


def test_who_cancels_a_task_is_heard_even_if_the_turn_was_cancelled_too():
    model = ScriptedChatModel(replies=["Fine, thanks."])

    async def ask():
        model.turnstile = asyncio.Event()
        talk = Conversation(model)
        stream = talk.astream("a")
        await anext(stream)

        async def read():
            return [chunk async for chunk in stream]

        task = asyncio.create_task(read())
        await asyncio.sleep(0)
        talk.cancel()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()
        assert talk.wait(0)
        return talk.history

    assert asyncio.run(ask()) == []


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
