import copy
import pickle

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from scripted_chat import ScriptedChatModel, at, entries, texts
from turn_hosts import HOSTS
from watched_embedder import WatchedEmbedder, WordEmbeddings

from langchain_convmem import ConversationMemory, InMemoryLog, SQLiteLog
from langchain_convmem.errors import ConfigError, LogClosedError
from langchain_convmem.testing import HashEmbeddings

TALK = [HumanMessage("My bicycle is behind the library."), AIMessage("Noted.")]


def test_closing_twice_is_closing():
    memory = ConversationMemory.open(":memory:")
    memory.close()
    memory.close()
    with pytest.raises(LogClosedError):
        memory.add_messages(TALK, thread_id="t")
    with pytest.raises(LogClosedError):
        memory.recall("bicycle", thread_id="t")


async def test_a_log_that_was_passed_in_stays_open(tmp_path):
    with SQLiteLog(tmp_path / "m.db") as log:
        with ConversationMemory(log):
            pass
        async with ConversationMemory(log) as memory:
            pass
        memory.add_messages(TALK, thread_id="t", user_id="ana")
        assert len(texts(memory)) == 2


@pytest.mark.parametrize("call", ["recall", "retriever", "forget", "refresh"])
def test_a_call_that_names_nobody_is_refused(memory, call):
    arguments = ["bicycle"] if call == "recall" else []
    with pytest.raises(ConfigError, match=r"user_id, (or|a) thread_id"):
        getattr(memory, call)(*arguments)


def test_nothing_of_what_was_forgotten_is_recalled_by_any_handle(tmp_path):
    path = tmp_path / "m.db"
    with ConversationMemory.open(path) as one, ConversationMemory.open(path) as two:
        one.add_messages(TALK, thread_id="t1", user_id="ana")
        one.add_messages([HumanMessage("My bicycle is red.")], thread_id="t2", user_id="ana")
        for memory in (one, two):
            assert "library" in str(memory.recall("bicycle", user_id="ana").blocks)
        one.refresh(user_id="ana")
        receipt = two.forget(user_id="ana", thread_id="t1")
        assert receipt.segments > 0, "what was derived from the lines goes with them"
        for memory in (one, two):
            found = memory.recall("bicycle library", user_id="ana")
            assert "library" not in str(found)
            assert "is red" in str(found.blocks)


@pytest.mark.parametrize("log", ["chat.db", None, object()])
def test_what_is_no_log_is_refused_with_what_to_write(log):
    with pytest.raises(ConfigError, match=r"MessageLog.*ConversationMemory\.open"):
        ConversationMemory(log)


@pytest.mark.parametrize("door", ["wrap", "conversation"])
async def test_a_stream_that_its_reader_left_is_stored_before_the_log_is_closed(door, tmp_path):
    model = ScriptedChatModel(replies=["One two three"])
    async with ConversationMemory.open(tmp_path / "m.db") as memory:
        app = HOSTS[door].app(memory, model, **({"on_cancel": "keep"} if door != "wrap" else {}))
        async for _ in app.astream("Count.", at()):
            break
    with ConversationMemory.open(tmp_path / "m.db") as memory:
        assert texts(memory) == ["Count.", "One "]


def test_a_turn_of_the_same_thread_is_not_waited_for(tmp_path):
    memory = ConversationMemory.open(tmp_path / "m.db")
    stream = memory.wrap(ScriptedChatModel(replies=["One two"]), recall=False).stream("Go", at())
    next(stream)
    memory.close(None)
    with pytest.raises(LogClosedError):
        stream.close()


@pytest.fixture(params=["read from the log", "read from the index"])
def searched(request):
    with ConversationMemory(InMemoryLog(), embeddings=HashEmbeddings()) as searched:
        for user_id, thread_id, message in (
            ("ana", "house", HumanMessage("The LONG ladder is in the shed.", id="q1")),
            ("ana", "street", HumanMessage("How long is\nthe Straße ladder?", id="q2")),
            ("ben", "house", HumanMessage("A long ladder.")),
        ):
            searched.add_messages([message], user_id=user_id, thread_id=thread_id)
        if request.param == "read from the index":
            searched.refresh(user_id="ana")
        yield searched


def search(searched, words, **options):
    return [line.text for line in searched.search(words, **options or {"user_id": "ana"})]


def test_all_words_are_held_whatever_their_case_and_order_and_the_latest_line_leads(searched):
    first, second = "The LONG ladder is in the shed.", "How long is\nthe Straße ladder?"
    assert search(searched, "ladder Long") == [second, first]
    assert search(searched, "STRASSE") == [second]
    assert search(searched, "lad shed") == [first]
    assert search(searched, "ladder cellar") == []


def test_lines_that_were_taken_back_or_erased_are_not_found(searched):
    searched.history("house", user_id="ana").replace("q1", "The steps are in the shed.")
    assert search(searched, "long ladder") == ["How long is\nthe Straße ladder?"]
    assert search(searched, "shed") == ["The steps are in the shed."]
    searched.forget(user_id="ana", thread_id="street")
    assert search(searched, "ladder") == []


@pytest.mark.parametrize("words", ["", " \n"])
def test_no_words_are_refused(searched, words):
    with pytest.raises(ConfigError, match="words is blank"):
        searched.search(words, user_id="ana")
    with pytest.raises(ConfigError, match="user"):
        searched.search("ladder")


OWNERS = [("ana", "t1"), ("ben", "t1"), (None, "lone")]


async def test_all_users_are_embedded_anew():
    log, new = InMemoryLog(), WordEmbeddings()
    with ConversationMemory(log, embeddings=WatchedEmbedder()) as memory:
        for user_id, thread_id in OWNERS:
            said = [HumanMessage(f"{thread_id} of {user_id}")]
            memory.add_messages(said, user_id=user_id, thread_id=thread_id)
            memory.refresh(user_id=user_id, thread_id=None if user_id else thread_id)
    renewed = ConversationMemory(log, embeddings=new)
    assert await renewed.areindex(all_users=True) == ()
    assert sorted(new.embedded) == ["lone of None", "t1 of ana", "t1 of ben"]
    for user_id, thread_id in OWNERS:
        thread = None if user_id else thread_id
        assert (await renewed.arecall("t1", user_id=user_id, thread_id=thread)).problems == ()


def test_copies_of_a_chain_share_its_memory(memory):
    chain = memory.wrap(FakeListChatModel(responses=["Yes."]), recall=False)
    for again in (copy.copy(chain), copy.deepcopy(chain), chain.model_copy(deep=True)):
        assert again.memory is memory
        again.invoke("Really?", at())
    assert len(entries(memory)) == 6
    with pytest.raises(ConfigError, match="open it in each process"):
        pickle.dumps(chain)
