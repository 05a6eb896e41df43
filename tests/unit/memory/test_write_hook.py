import asyncio
import json
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from scripted_chat import WAYS, ProviderError, ScriptedChatModel, at, talk
from watched_embedder import WordEmbeddings

from langchain_convmem import ConversationHistory, ConversationMemory, InMemoryLog
from langchain_convmem.records import Owner
from langchain_convmem.summarizing import aresummarize
from langchain_convmem.transfer import export_rows

SECRET = "sk-4242"
SAID = f"The key of the boat is {SECRET}, hidden below deck."
SHOUTED = f"The key of the boat is {SECRET.upper()}, hidden below deck."
"""Says the secret as the hook below does not know it."""
KEPT = "The key of the boat is [key], hidden below deck."
CALL = {"name": "look", "args": {"key": SECRET}, "id": "c1", "type": "tool_call"}


def _clean(value):
    if isinstance(value, str):
        return value.replace(SECRET, "[key]")
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {name: _clean(item) for name, item in value.items()}
    return value


def redact(message):
    """Take the secret out of every field."""
    for name, value in list(message.__dict__.items()):
        message.__dict__[name] = _clean(value)
    return message


@pytest.fixture
def embeddings():
    return WordEmbeddings()


@pytest.fixture
def memory(tmp_path, embeddings):
    place = tmp_path / "database"
    place.mkdir()
    with ConversationMemory.open(
        place / "memory.db", embeddings=embeddings, before_write=redact, summarizer=lambda _: SAID
    ) as opened:
        yield opened


def _history(memory):
    return memory.history("t", user_id="ana")


def add_messages(memory, _):
    said = [HumanMessage(SAID), AIMessage([{"type": "text", "text": SAID}], tool_calls=[CALL])]
    memory.add_messages([*said, ToolMessage(SAID, tool_call_id="c1")], thread_id="t", user_id="ana")
    asyncio.run(memory.aadd_messages([SystemMessage(SAID)], thread_id="t", user_id="ana"))


def history(memory, _):
    history = _history(memory)
    history.add("user", SAID)
    history.add("assistant", ["Noted.", SAID])
    history.add_messages([HumanMessage(SAID)])
    history.add_message(AIMessage(SAID))
    history.add_user_message(SAID)
    history.add_ai_message(SAID)
    asyncio.run(history.aadd("user", SAID))
    asyncio.run(history.aadd_messages([AIMessage(SAID)]))


def replace(memory, _):
    history = _history(memory)
    history.add_messages([HumanMessage("Hi", id="q1"), AIMessage("Yes?", id="a1")])
    history.replace("a1", SAID)
    asyncio.run(history.areplace("q1", HumanMessage(SAID)))


def cut_reply(memory, _):
    history = _history(memory)
    history.add_messages([HumanMessage("Which?"), AIMessage(f"It is {SECRET}. And more.")])
    asyncio.run(history.acut_reply(f"It is {SECRET}. And"))
    assert history.cut_reply(f"It is {SECRET}.").metadata.attributes == ("interrupted", "kept")


def pin(memory, _):
    history = _history(memory)
    history.add_messages([HumanMessage(SAID, id="q1")])
    history.pin(SAID)
    asyncio.run(history.apin(f"Never tell {SECRET}."))
    history.pin(message_id="q1")


def summaries_by_hand(memory, _):
    history = _history(memory)
    history.add_messages([HumanMessage("Hi"), AIMessage("Yes?")])
    history.add_summary(["They met.", SAID], history.summary_window())
    history.edit_summary(SAID)
    asyncio.run(history.aedit_summary(["They met again.", SAID]))
    history.add_messages([HumanMessage("So?"), AIMessage("Yes.")])
    asyncio.run(history.aadd_summary(SAID, history.summary_window()))


def summarize(memory, _):
    _history(memory).add_messages([HumanMessage(SHOUTED), AIMessage("Yes?")])
    assert memory.summarize("t", user_id="ana", force=True)
    assert asyncio.run(aresummarize(memory, "t", user_id="ana"))


def fork(memory, _):
    add_messages(memory, _)
    memory.fork("t", user_id="ana")
    asyncio.run(memory.afork("t", user_id="ana"))


def import_file(memory, folder):
    chat = [{"role": "user", "content": SAID}, {"role": "assistant", "content": SAID}]
    (folder / "chat.json").write_text(json.dumps(chat))
    memory.import_file(folder / "chat.json", user_id="ana", thread_id="t")


def an_export(memory, folder):
    history = ConversationHistory(InMemoryLog(), "t", user_id="ana")
    history.add_messages([HumanMessage(SAID, id="q1"), AIMessage(f"What is {SECRET}?", id="a1")])
    history.add_summary(SAID, history.summary_window())
    history.replace("a1", f"What {SECRET} is?")
    path = folder / "export.jsonl"
    path.write_text("\n".join(export_rows(history.log, Owner(user_id="ana"))))
    asyncio.run(memory.aimport_file(path, user_id="ana"))


def wrap(memory, _):
    chain = memory.wrap(ScriptedChatModel(replies=[f"Of course: {SECRET}."]))
    for number, run in enumerate(WAYS.values()):
        run(chain, SAID, at(f"{number}"))
        said = HumanMessage([{"type": "text", "text": SAID}], name=SECRET)
        run(chain, said, at(f"other {number}"))


def a_tool_loop(memory, _):
    def loop(_):
        called = AIMessage(f"I look for {SECRET}.", tool_calls=[CALL])
        found = ToolMessage(SAID, tool_call_id="c1", artifact={"found": SECRET})
        return [called, found, AIMessage("There.")]

    memory.wrap(RunnableLambda(loop)).invoke(SAID, at())


def cut_streams(memory, _):
    model = ScriptedChatModel(replies=[f"It is {SECRET} and more words"], breaks_after=4)
    with pytest.raises(ProviderError):
        list(memory.wrap(model).stream(SAID, at()))
    assert _history(memory).entries[-1].metadata.attributes == ("interrupted",)
    with pytest.raises(ProviderError):
        list(memory.conversation(model, thread_id="t", user_id="ana").stream(SAID))


def conversation(memory, _):
    model = ScriptedChatModel(replies=[f"Of course: {SECRET}."])
    memory.conversation(model, thread_id="t", user_id="ana").send_message(SAID)


WAYS_IN = [add_messages, history, replace, cut_reply, pin, summaries_by_hand, summarize, fork]
WAYS_IN += [import_file, an_export, wrap, a_tool_loop, cut_streams, conversation]


@pytest.mark.parametrize("way", WAYS_IN, ids=lambda way: way.__name__)
def test_a_secret_is_taken_out_on_every_way_in(memory, embeddings, tmp_path, way):
    way(memory, tmp_path)
    memory.refresh(user_id="ana")
    found = [memory.recall(ask, user_id="ana", k=1) for ask in ("the boat key", KEPT, SECRET)]
    kept = [memory.log.entries(info.key) for info in memory.threads("ana")]
    assert any(one.matches for one in found)
    assert embeddings.embedded
    assert SECRET not in str([found, kept, embeddings.embedded, embeddings.asked])
    assert "[key]" in str(kept)
    folder = Path(memory.log.path).parent
    memory.close()
    stored = b"".join(file.read_bytes() for file in folder.iterdir())
    assert b"[key]" in stored
    assert SECRET.encode() not in stored


QUESTIONS = {
    "recall": lambda memory: memory.recall(SAID, user_id="ana"),
    "arecall": lambda memory: asyncio.run(memory.arecall(SAID, user_id="ana")),
    "retriever": lambda memory: memory.retriever(user_id="ana").invoke(SAID),
    "async retriever": lambda memory: asyncio.run(memory.retriever(user_id="ana").ainvoke(SAID)),
}


@pytest.mark.parametrize("way", QUESTIONS)
def test_a_question_is_redacted_before_it_is_embedded(memory, embeddings, way):
    memory.add_messages([HumanMessage(SAID)], thread_id="t", user_id="ana")
    assert KEPT in str(QUESTIONS[way](memory))
    assert KEPT in embeddings.asked
    assert SECRET not in str([embeddings.embedded, embeddings.asked])


class HookError(Exception):
    """What a hook of the application raises."""


def _hook(message):
    """Store nothing of what is off the record, and fail at boats."""
    if "boat" in message.text:
        raise HookError("boat")
    return None if "off the record" in message.text else message


@pytest.fixture
def hooked():
    with ConversationMemory(InMemoryLog(), before_write=_hook) as opened:
        yield opened


@pytest.mark.parametrize("way", WAYS)
def test_a_hook_that_fails_on_the_question_stops_the_turn(hooked, way):
    model = ScriptedChatModel(replies=["Aye."])
    with pytest.raises(HookError, match="boat"):
        WAYS[way](hooked.wrap(model), "Which boat?", at())
    assert model.seen == []
    assert hooked.threads("ana") == []
    WAYS[way](hooked.wrap(model, recall=False, queue_timeout_s=5), "Which ship?", at())
    assert len(_history(hooked).entries) == 2


@pytest.mark.parametrize("way", WAYS)
def test_a_reply_that_the_hook_drops_or_fails_at_leaves_the_question(hooked, way):
    WAYS[way](hooked.wrap(ScriptedChatModel(replies=["off the record: red"])), "Which?", at())
    assert talk(hooked) == [("user", "Which?")]
    with pytest.raises(HookError, match="boat"):
        WAYS[way](hooked.wrap(ScriptedChatModel(replies=["The boat."])), "And?", at())
    assert talk(hooked) == [("user", "Which?"), ("user", "And?")]
