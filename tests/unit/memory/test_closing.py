"""Who closes a memory waits for the turns that are under way."""

from __future__ import annotations

import asyncio
import threading

import pytest
from langchain_core.messages import AIMessage
from scripted_chat import ScriptedChatModel, at

from langchain_convmem import ConversationMemory
from langchain_convmem.errors import LogClosedError
from langchain_convmem.turns.memory import get_turn_memory


def _stored(path):
    """Return what the thread has, and what marks it."""
    with ConversationMemory.open(path) as memory:
        return [
            (entry.role, *entry.contents, *entry.metadata.attributes)
            for entry in memory.history("t", user_id="ana").entries
            if entry.control is None
        ]


def _talk(memory, model, door):
    if door == "wrap":
        return memory.wrap(model, recall=False)
    return memory.conversation(model, thread_id="t", user_id="ana", recall=False, on_cancel="keep")


doors = pytest.mark.parametrize("door", ["wrap", "conversation"])


@doors
async def test_a_stream_that_its_reader_left_is_stored_before_the_log_is_closed(door, tmp_path):
    async with ConversationMemory.open(tmp_path / "m.db") as memory:
        app = _talk(memory, ScriptedChatModel(replies=["One two three"]), door)
        async for _ in app.astream("Count.", at()):
            break
    assert _stored(tmp_path / "m.db") == [
        ("user", "Count."),
        ("assistant", "One ", "interrupted"),
    ]


@doors
async def test_a_task_that_was_cancelled_stores_what_came(door, tmp_path):
    memory = ConversationMemory.open(tmp_path / "m.db")
    model = ScriptedChatModel(replies=["One two three"], turnstile=asyncio.Event())
    app, began = _talk(memory, model, door), asyncio.Event()

    async def read():
        async for _ in app.astream("Count.", at()):
            began.set()

    reading = asyncio.create_task(read())
    await began.wait()
    reading.cancel()
    await memory.aclose()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert _stored(tmp_path / "m.db") == [
        ("user", "Count."),
        ("assistant", "One ", "interrupted"),
    ]


@doors
async def test_a_turn_of_another_task_comes_to_its_end(door, tmp_path):
    memory, asked = ConversationMemory.open(tmp_path / "m.db"), threading.Event()
    go_on = threading.Event()

    def reply(_messages):
        asked.set()
        assert go_on.wait(30)
        return AIMessage("Yes.")

    app = _talk(memory, ScriptedChatModel(replies=[reply]), door)
    asking = asyncio.create_task(asyncio.to_thread(app.invoke, "Hello?", at()))
    await asyncio.to_thread(asked.wait, 30)
    closing = asyncio.create_task(memory.aclose())
    await asyncio.sleep(0)
    assert not closing.done(), "the loop runs on while it waits"
    go_on.set()
    await asyncio.gather(asking, closing)
    assert _stored(tmp_path / "m.db") == [("user", "Hello?"), ("assistant", "Yes.")]


@doors
def test_a_turn_of_another_thread_comes_to_its_end(door, tmp_path):
    memory, asked = ConversationMemory.open(tmp_path / "m.db"), threading.Event()

    def reply(_messages):
        asked.set()
        return AIMessage("Yes.")

    app = _talk(memory, ScriptedChatModel(replies=[reply]), door)
    asking = threading.Thread(target=app.invoke, args=("Hello?", at()))
    asking.start()
    assert asked.wait(30)
    memory.close()
    asking.join()
    assert _stored(tmp_path / "m.db") == [("user", "Hello?"), ("assistant", "Yes.")]


def test_a_turn_of_the_same_thread_is_not_waited_for(tmp_path):
    memory = ConversationMemory.open(tmp_path / "m.db")
    stream = memory.wrap(ScriptedChatModel(replies=["One two"]), recall=False).stream("Go", at())
    next(stream)
    memory.close(None)
    with pytest.raises(LogClosedError):
        stream.close()


def test_after_the_time_given_it_is_closed_whoever_is_under_way(tmp_path):
    memory = ConversationMemory.open(tmp_path / "m.db")
    asked, go_on, errors = threading.Event(), threading.Event(), []

    def reply(_messages):
        asked.set()
        assert go_on.wait(30)
        return AIMessage("Late.")

    app = memory.wrap(ScriptedChatModel(replies=[reply]), recall=False)

    def ask():
        try:
            app.invoke("Hello?", at())
        except LogClosedError as error:
            errors.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    assert asked.wait(30)
    memory.close(0)
    go_on.set()
    asking.join()
    assert len(errors) == 1
    assert _stored(tmp_path / "m.db") == [("user", "Hello?")]


def test_a_turn_that_failed_is_not_waited_for(tmp_path):
    memory = ConversationMemory.open(tmp_path / "m.db")
    failing = ScriptedChatModel(replies=[ValueError("no"), ValueError("no")])
    for door in ("wrap", "conversation"):
        with pytest.raises(ValueError, match="no"):
            _talk(memory, failing, door).invoke("Hello?", at())
    assert get_turn_memory(memory).active_turns.wait(0)
    assert asyncio.run(get_turn_memory(memory).active_turns.await_all(0))
    memory.close()
