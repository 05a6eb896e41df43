"""`ConversationMemory`: opening, threads, bulk writes, recall, erasing."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.messages import AIMessage, HumanMessage

from langchain_convmem import ConversationMemory, InMemoryLog, RecallSettings, SQLiteLog
from langchain_convmem.errors import (
    ConfigError,
    LogClosedError,
    LogError,
)
from langchain_convmem.turns.memory import get_turn_memory

TALK = [HumanMessage("My bicycle is behind the library."), AIMessage("Noted.")]


def _texts(memory, thread_id="t", user_id="ana"):
    return [str(message.text) for message in memory.history(thread_id, user_id=user_id).messages]


def _block_texts(found):
    return [block.text for block in found.blocks]


# -- opening and closing ------------------------------------------------------------------------


def test_two_memories_without_a_file_share_nothing():
    with ConversationMemory.open(":memory:") as one, ConversationMemory.open(":memory:") as two:
        one.add_messages(TALK, thread_id="t", user_id="ana")
        assert _texts(two) == []


def test_two_handles_of_one_file_see_each_other(tmp_path):
    path = tmp_path / "memory.db"
    with ConversationMemory.open(path) as one, ConversationMemory.open(str(path)) as two:
        one.add_messages(TALK[:1], thread_id="t", user_id="ana")
        two.add_messages(TALK[1:], thread_id="t", user_id="ana")
        assert _texts(one) == _texts(two) == ["My bicycle is behind the library.", "Noted."]


def test_what_was_said_is_there_when_the_file_is_opened_again(tmp_path):
    with ConversationMemory.open(tmp_path / "memory.db") as memory:
        memory.add_messages(TALK, thread_id="t", user_id="ana")
    with ConversationMemory.open(tmp_path / "memory.db") as memory:
        assert _texts(memory) == ["My bicycle is behind the library.", "Noted."]
        assert "behind the library" in _block_texts(memory.recall("bicycle", user_id="ana"))[0]


@pytest.mark.parametrize("path", ["", "no/such/directory/memory.db"])
def test_a_path_that_names_no_place_for_a_file_is_refused(path):
    with pytest.raises(ConfigError):
        ConversationMemory.open(path)


def test_a_file_of_another_program_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("dear diary")
    with pytest.raises(LogError, match=r"notes\.txt"):
        ConversationMemory.open(path)
    assert path.read_text() == "dear diary"


@pytest.mark.parametrize(
    ("address", "package", "name"),
    [
        ("postgresql://ana@host/chats?schema=x", "langchain_convmem.logs.postgres", "PostgresLog"),
        ("dynamodb://log?region=eu-west-1", "langchain_convmem.logs.dynamodb", "DynamoDBLog"),
    ],
)
def test_the_address_of_a_server_opens_its_log_which_the_memory_closes(
    monkeypatch, address, package, name
):
    log = InMemoryLog()
    home = pytest.importorskip(package)
    monkeypatch.setattr(home, name, lambda *_args, **_options: log)
    with ConversationMemory.open(address) as memory:
        memory.add_messages(TALK, thread_id="t", user_id="ana")
        assert memory.log is log
    with pytest.raises(LogClosedError):
        log.threads("ana")


def test_an_address_of_no_known_log_is_refused():
    with pytest.raises(ConfigError, match="redis"):
        ConversationMemory.open("redis://host")


def test_closing_twice_is_closing():
    memory = ConversationMemory.open(":memory:")
    memory.close()
    memory.close()
    with pytest.raises(LogClosedError):
        memory.add_messages(TALK, thread_id="t")
    with pytest.raises(LogClosedError):
        memory.recall("bicycle", thread_id="t")


async def test_an_async_context_closes_as_well(tmp_path):
    async with ConversationMemory.open(tmp_path / "m.db") as memory:
        await memory.aadd_messages(TALK, thread_id="t")
    await memory.aclose()
    with pytest.raises(LogClosedError):
        memory.threads()


@pytest.mark.parametrize("leave", ["close", "with", "async with", "aclose"])
def test_a_log_that_was_passed_in_stays_open(tmp_path, leave):
    async def leave_async(memory):
        if leave == "aclose":
            await memory.aclose()
        else:
            async with memory:
                pass

    with SQLiteLog(tmp_path / "m.db") as log:
        memory = ConversationMemory(log)
        if leave == "close":
            memory.close()
        elif leave == "with":
            with memory:
                pass
        else:
            asyncio.run(leave_async(memory))
        memory.add_messages(TALK, thread_id="t", user_id="ana")
        assert len(_texts(memory)) == 2


def test_a_memory_says_where_it_keeps_things(tmp_path):
    with ConversationMemory.open(tmp_path / "m.db") as memory:
        assert "m.db" in repr(memory)


# -- threads ------------------------------------------------------------------------------------


def test_threads_are_listed_by_user_latest_first(memory):
    for thread_id, user_id in [("a", "ana"), ("b", "ana"), ("a", "ben"), ("c", None)]:
        memory.add_messages(TALK, thread_id=thread_id, user_id=user_id)
    memory.add_messages([HumanMessage("more")], thread_id="a", user_id="ana")
    infos = memory.threads("ana")
    assert [(info.key.thread_id, info.entries) for info in infos] == [("a", 3), ("b", 2)]
    assert [info.key.thread_id for info in memory.threads("ben")] == ["a"]
    assert [info.key.thread_id for info in memory.threads()] == ["c"]
    assert memory.threads("nobody") == []
    assert asyncio.run(memory.athreads("ana")) == infos


def test_a_history_is_a_window_on_its_thread(memory):
    history = memory.history("t", user_id="ana")
    assert history.messages == []
    memory.add_messages(TALK, thread_id="t", user_id="ana")
    history.add("user", "And my car?")
    assert _texts(memory)[-1] == "And my car?"
    assert history.messages == memory.history("t", user_id="ana").messages
    assert memory.history("t").messages == []


# -- bulk writes --------------------------------------------------------------------------------


def test_messages_are_stored_verbatim_and_in_order(memory):
    said = [
        HumanMessage("  Hi {there}\x00 ", name="Ana", additional_kwargs={"timestamp": 5}),
        AIMessage([{"type": "text", "text": "a"}, {"type": "reasoning", "reasoning": "b"}]),
    ]
    entries = memory.add_messages(said, thread_id="t", user_id="ana")
    assert [entry.message for entry in entries] == said
    assert [entry.message for entry in memory.history("t", user_id="ana").entries] == said


@pytest.mark.parametrize("ids", [{"thread_id": ""}, {"thread_id": "t", "user_id": ""}])
def test_messages_need_a_thread_with_a_name(memory, ids):
    with pytest.raises(ConfigError, match="not blank"):
        memory.add_messages(TALK, **ids)


# -- recall -------------------------------------------------------------------------------------


def test_recall_searches_all_threads_of_a_user(memory):
    memory.add_messages(TALK, thread_id="t1", user_id="ana")
    memory.add_messages([HumanMessage("My bicycle is red.")], thread_id="t2", user_id="ana")
    memory.add_messages([HumanMessage("My bicycle is stolen.")], thread_id="t1", user_id="ben")
    text = "\n".join(_block_texts(memory.recall("What about my bicycle?", user_id="ana")))
    assert "behind the library" in text
    assert "is red" in text
    assert "stolen" not in text


def test_recall_from_within_a_thread_leaves_out_what_its_model_sees(memory):
    memory.add_messages(TALK, thread_id="now", user_id="ana")
    memory.add_messages([HumanMessage("My bicycle is red.")], thread_id="then", user_id="ana")
    found = memory.recall("What about my bicycle?", user_id="ana", thread_id="now")
    assert "is red" in "\n".join(_block_texts(found))
    assert "library" not in str(found.blocks)


def test_recall_in_a_thread_of_no_user_searches_it_whole(memory):
    memory.add_messages(TALK, thread_id="t")
    memory.add_messages([HumanMessage("My bicycle is red.")], thread_id="other")
    text = "\n".join(_block_texts(memory.recall("bicycle", thread_id="t")))
    assert "behind the library" in text
    assert "red" not in text


def test_recall_returns_so_many_blocks_as_asked(memory):
    for number in range(6):
        said = [HumanMessage(f"Bicycle {number} is blue.")]
        memory.add_messages(said, thread_id=f"t{number}", user_id="ana")
    assert len(memory.recall("bicycle", user_id="ana", k=3).blocks) == 3
    assert len(asyncio.run(memory.arecall("bicycle", user_id="ana", k=2)).blocks) == 2


@pytest.mark.parametrize("call", ["recall", "retriever", "forget", "refresh"])
def test_a_call_that_names_nobody_is_refused(memory, call):
    arguments = ["bicycle"] if call == "recall" else []
    with pytest.raises(ConfigError, match="user_id, or thread_id"):
        getattr(memory, call)(*arguments)


@pytest.mark.parametrize("call", ["recall", "retriever", "forget"])
@pytest.mark.parametrize(
    "ids", [{"user_id": ""}, {"thread_id": ""}, {"user_id": "a", "thread_id": ""}]
)
def test_a_call_with_an_empty_name_is_refused(memory, call, ids):
    arguments = ["bicycle"] if call == "recall" else []
    with pytest.raises(ConfigError, match="not blank"):
        getattr(memory, call)(*arguments, **ids)


@pytest.mark.parametrize("wrong", [{"k": 0}, {"max_tokens": 0}, {"threshold": 2.0}])
def test_limits_that_make_no_sense_are_refused(memory, wrong):
    memory.add_messages(TALK, thread_id="t", user_id="ana")
    with pytest.raises(ValueError, match=next(iter(wrong))):
        memory.recall("bicycle", user_id="ana", **wrong)
    with pytest.raises(ValueError, match=next(iter(wrong))):
        memory.retriever(user_id="ana", **wrong)


@pytest.mark.parametrize("query", ["", " ", None])
def test_a_question_without_words_is_refused(memory, query):
    with pytest.raises(ConfigError, match="query"):
        memory.recall(query, user_id="ana")


def test_a_retriever_returns_documents_of_its_user(memory):
    memory.add_messages(TALK, thread_id="t1", user_id="ana")
    memory.add_messages([HumanMessage("My bicycle is stolen.")], thread_id="t1", user_id="ben")
    [document] = memory.retriever(user_id="ana", k=1).invoke("Where is my bicycle?")
    assert isinstance(document, Document)
    assert "User: My bicycle is behind the library." in document.page_content
    assert (document.metadata["user_id"], document.metadata["thread_id"]) == ("ana", "t1")


def test_a_retriever_can_be_bound_to_one_thread(memory):
    memory.add_messages(TALK, thread_id="t1", user_id="ana")
    memory.add_messages([HumanMessage("My bicycle is red.")], thread_id="t2", user_id="ana")
    found = memory.retriever(user_id="ana", thread_id="t2", k=5).invoke("bicycle")
    assert {document.metadata["thread_id"] for document in found} == {"t2"}


def test_the_embeddings_and_settings_of_a_memory_are_those_of_its_recall():
    embeddings = DeterministicFakeEmbedding(size=8)
    settings = RecallSettings(k=1, max_tokens=None)
    with ConversationMemory.open(":memory:", embeddings=embeddings, settings=settings) as memory:
        assert get_turn_memory(memory).line_recall.embeddings is embeddings
        for number in range(3):
            memory.add_messages(
                [HumanMessage(f"Bicycle {number}")], thread_id=f"t{number}", user_id="a"
            )
        assert len(memory.recall("bicycle", user_id="a").blocks) == 1


def test_indexing_ahead_reports_its_progress(memory):
    memory.add_messages(TALK * 10, thread_id="t", user_id="ana")
    seen = []
    memory.refresh(user_id="ana", progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (20, 20)


class BrokenEmbeddings(Embeddings):
    """An embedder whose server is down."""

    def embed_documents(self, texts):
        raise ConnectionError("no route to the embedder")

    def embed_query(self, text):
        raise ConnectionError("no route to the embedder")


async def test_indexing_ahead_says_what_went_wrong():
    with ConversationMemory(InMemoryLog(), embeddings=BrokenEmbeddings()) as memory:
        memory.add_messages(TALK, thread_id="t", user_id="ana")
        for problems in (memory.refresh(user_id="ana"), await memory.arefresh(user_id="ana")):
            assert "ConnectionError" in "".join(problems)


async def test_indexing_ahead_says_nothing_where_all_went_well(memory):
    memory.add_messages(TALK * 10, thread_id="t", user_id="ana")
    seen = []
    problems = await memory.arefresh(
        user_id="ana", progress=lambda done, total: seen.append((done, total))
    )
    assert problems == memory.refresh(user_id="ana") == ()
    assert seen[-1] == (20, 20)


# -- erasing ------------------------------------------------------------------------------------


def _three_threads(memory):
    for thread_id, user_id in [("t1", "ana"), ("t2", "ana"), ("t1", "ben"), ("t1", None)]:
        memory.add_messages(TALK, thread_id=thread_id, user_id=user_id)


def test_forgetting_a_user_erases_all_their_threads_and_no_other(memory):
    _three_threads(memory)
    receipt = memory.forget(user_id="ana")
    assert (receipt.entries, receipt.threads) == (4, 2)
    assert memory.threads("ana") == []
    assert len(_texts(memory, "t1", "ben")) == len(_texts(memory, "t1", None)) == 2


def test_forgetting_a_thread_leaves_the_users_others(memory):
    _three_threads(memory)
    receipt = memory.forget(user_id="ana", thread_id="t1")
    assert (receipt.entries, receipt.threads) == (2, 1)
    assert [info.key.thread_id for info in memory.threads("ana")] == ["t2"]
    assert len(_texts(memory, "t1", "ben")) == 2


def test_entries_are_forgotten_by_their_own_id_or_their_messages(memory):
    said = [HumanMessage("a", id="q1"), AIMessage("b"), HumanMessage("c")]
    entries = memory.add_messages(said, thread_id="t", user_id="ana")
    receipt = memory.forget(user_id="ana", thread_id="t", entry_ids=("q1", entries[1].id, "none"))
    assert (receipt.entries, receipt.threads) == (2, 0)
    assert _texts(memory) == ["c"]


def test_entries_without_their_thread_cannot_be_forgotten(memory):
    with pytest.raises(ConfigError, match="pass thread_id"):
        memory.forget(user_id="ana", entry_ids=["e"])


def test_one_id_instead_of_a_list_is_refused(memory):
    memory.add_messages([HumanMessage("a", id="q1")], thread_id="t", user_id="ana")
    with pytest.raises(ConfigError, match="list of ids"):
        memory.forget(user_id="ana", thread_id="t", entry_ids="q1")
    assert len(_texts(memory)) == 1


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


def test_the_log_of_a_memory_is_the_one_it_was_given():
    log = InMemoryLog()
    assert ConversationMemory(log).log is log


@pytest.mark.parametrize("log", ["chat.db", None, object()])
def test_what_is_no_log_is_refused_with_what_to_write(log):
    with pytest.raises(ConfigError, match=r"MessageLog.*ConversationMemory\.open"):
        ConversationMemory(log)
