"""Nothing that was said stands in an error, its causes, its traceback, a log or a warning."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import traceback
import warnings
from contextlib import closing
from functools import partial

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore
from scripted_chat import ScriptedChatModel
from summaries import ScriptedSummarizer

from langchain_convmem import ChatTemplate, ConversationMemory, InMemoryLog
from langchain_convmem.background import hop
from langchain_convmem.conversation import Conversation, Preface
from langchain_convmem.integrations.vector_store import VectorStoreRecall
from langchain_convmem.logs import SQLiteLog
from langchain_convmem.offline import OfflineChatModel
from langchain_convmem.records import ThreadKey
from langchain_convmem.summarizing.planning import SummarySettings
from langchain_convmem.summarizing.summarizers import write
from langchain_convmem.testing import ScriptedEngine
from langchain_convmem.transfer import read_threads
from langchain_convmem.turns.memory import TurnOptions
from langchain_convmem.views.codec import make_draft

MARK = "zebrafjord"
SECRET = f"My {MARK} is under the third stone, says Ana"
KEY = ThreadKey("ana", "t")
HERE = {"configurable": {"user_id": "ana", "thread_id": "t"}}


class Sieve:
    """Runs what fails, and collects all that a person or a log collector may get to see."""

    def __init__(self, caplog):
        self.caplog = caplog
        self.failures = []

    def try_call(self, call):
        """Run a call, its coroutine as well, and look at what it raises."""
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                result = call()
                if asyncio.iscoroutine(result):
                    result = asyncio.run(result)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is looked at
                self.failures.append(error)
                self.check(error)
                result = None
        assert MARK not in " ".join(str(one.message) for one in told).casefold()
        self.check_log()
        return result

    def check(self, error):
        """Look at an error, at what led to it, and at both as a traceback shows them."""
        seen, shown = [error], []
        for one in seen:
            shown += [str(one), repr(one), *getattr(one, "__notes__", ())]
            seen += [after for after in (one.__cause__, one.__context__) if after not in seen]
            seen[:] = [item for item in seen if item is not None]
        shown += traceback.format_exception(error)
        assert MARK not in "\n".join(shown).casefold(), shown

    def check_log(self):
        formatter = logging.Formatter()
        shown = [formatter.format(record) for record in self.caplog.records]
        shown += [repr(record.args) for record in self.caplog.records]
        assert MARK not in "\n".join(shown).casefold(), shown


@pytest.fixture
def sieve(caplog):
    caplog.set_level(logging.DEBUG)
    return Sieve(caplog)


@pytest.fixture
def memory():
    with ConversationMemory(InMemoryLog()) as opened:
        yield opened


def fill(log, texts=(SECRET,)):
    return log.append(KEY, [make_draft(HumanMessage(text)) for text in texts])


def quote(value):
    raise RuntimeError(f"400 Bad Request: cannot take {value!r}")


MALFORMED = {
    "an object in a field": HumanMessage("Hi", additional_kwargs={"x": {SECRET: object()}}),
    "a key that is no text": HumanMessage(SECRET, additional_kwargs={"x": {(SECRET,): 1}}),
    "a time that is none": HumanMessage("Hi", additional_kwargs={"timestamp": SECRET}),
    "a long number": HumanMessage(SECRET, additional_kwargs={SECRET: 10**5000}),
    "a document": Document(SECRET),
    "a map without a role": {"content": SECRET, SECRET: 1},
    "a map of an unknown type": {"type": SECRET, "content": SECRET},
    "a stored message that is none": {"type": "tool", "data": {"content": {"a": SECRET}}},
    "a stored time": {"type": "human", "content": SECRET, "id": [SECRET]},
    "a strange role": {"role": SECRET, "content": SECRET},
    "a role that is no text": {"role": [SECRET], "content": SECRET},
    "content that is none": {"role": "user", "content": {SECRET: SECRET}},
    "a part of no type": {"role": "user", "content": [{"type": SECRET, "text": SECRET}]},
    "a part of another type": {"role": "user", "content": [{"type": "text", "text": [SECRET]}]},
    "a picture that is none": {
        "role": "user",
        "content": [{"type": "image", "base64": SECRET, "mime_type": SECRET}],
    },
    "a picture of nothing": {"role": "user", "content": [{"type": "image", "alt": SECRET}]},
    "a picture of a missing file": {
        "role": "user",
        "content": [{"type": "image", "blob": SECRET.encode()}],
    },
    "a result without a call": ToolMessage(SECRET, tool_call_id="c1", name=SECRET),
    "a result without an id": {"role": "tool", "content": SECRET},
    "a call without a name": {"role": "assistant", "tool_calls": [{"args": SECRET}]},
    "a name that is no text": {"role": "user", "content": SECRET, "name": [SECRET]},
    "a reply": AIMessage(SECRET),
    "a pair": (SECRET, SECRET),
    "a number": 17,
    "a blank": "   ",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_refused_message_is_not_quoted(sieve, memory, name):
    message = MALFORMED[name]
    history = memory.history("t", user_id="ana")
    chain = memory.wrap(OfflineChatModel())
    talk = memory.conversation(OfflineChatModel(), thread_id="c", user_id="ana")
    for call in (
        lambda: history.add_messages([message]),
        lambda: history.aadd_messages([message]),
        lambda: chain.invoke(message, HERE),
        lambda: chain.ainvoke([message], HERE),
        lambda: chain.invoke({"input": message, SECRET: SECRET}, HERE),
        lambda: chain.invoke({SECRET: message}, HERE),
        lambda: talk.send_message(message),
        lambda: talk.asend_message(message),
        lambda: Conversation(OfflineChatModel(), preface={"messages": [message]}),
        lambda: memory.log.append(KEY, [make_draft(message)]),
    ):
        sieve.try_call(call)
    assert sieve.failures


@pytest.mark.parametrize(
    "value",
    [HumanMessage(SECRET), [SECRET], {SECRET: SECRET}, SECRET.encode(), "\ud800"],
    ids=lambda value: type(value).__name__,
)
def test_what_stands_in_the_place_of_an_option_is_not_quoted(sieve, memory, value):
    fill(memory.log)
    options = ("recall", "recall_tokens", "recall_k", "history_tokens", "context_tokens")
    calls = [
        lambda: memory.recall(value, user_id="ana"),
        lambda: memory.arecall(value, user_id="ana"),
        lambda: memory.recall("stone", user_id="ana", k=value),
        lambda: memory.recall("stone", user_id="ana", max_tokens=value),
        lambda: memory.recall("stone", user_id="ana", filter=value),
        lambda: memory.recall("stone", user_id="ana", filter={"speaker": value}),
        lambda: memory.recall("stone", user_id="ana", since=value),
        lambda: memory.recall("stone", user_ids=value),
        lambda: memory.history(value),
        lambda: memory.history("t", user_id=value),
        lambda: memory.threads(user_id=value),
        lambda: memory.forget(user_id="ana", thread_id="t", entry_ids=value),
        lambda: memory.history("t", user_id="ana").undo(value),
        lambda: memory.summarize(user_id="ana", thread_id=value),
        lambda: ThreadKey(value, value),
        lambda: memory.wrap(value),
        lambda: memory.conversation(value, thread_id="t"),
        lambda: Conversation(OfflineChatModel(), tools=value),
        lambda: ConversationMemory(InMemoryLog(), before_write=value),
        lambda: ConversationMemory(InMemoryLog(), embeddings=value),
        lambda: memory.wrap(OfflineChatModel()).invoke("Hi", {"configurable": {"memory": value}}),
        *(lambda name=name: TurnOptions(**{name: value}) for name in options),
        *(
            lambda name=name: memory.wrap(OfflineChatModel()).invoke(
                "Hi", {"configurable": {**HERE["configurable"], "memory": {name: value}}}
            )
            for name in options
        ),
    ]
    for call in calls:
        sieve.try_call(call)
    assert sieve.failures


DAMAGE = {
    "a body cut short": "UPDATE entries SET body = substr(body, 1, 60)",
    "a body of another kind": """UPDATE entries SET body = json_array(body)""",
    "a message of another type": "UPDATE entries SET body = replace(body, '\"human\"', body)",
    "a message without its fields": (
        "UPDATE entries SET body = json_object('v', 1, 'm', json_object('type', 'tool', "
        "'content', body, 'status', body))"
    ),
    "a version that is text": "UPDATE entries SET body = json_object('v', body)",
    "metadata of another kind": "UPDATE entries SET metadata = json_object('a', 1, 't', body)",
    "metadata cut short": "UPDATE entries SET metadata = substr(body, 1, 70)",
    "a turn that is none": "UPDATE entries SET turn = CAST(body AS BLOB)",
    "an id that is text": "UPDATE entries SET id = body",
    "a document cut short": "UPDATE documents SET value = substr(value, 1, 40)",
    "a document of a number that is none": (
        """UPDATE documents SET value = json_object('$decimal', value)"""
    ),
    "a document of a time that is none": (
        """UPDATE documents SET value = json_object('$datetime', value)"""
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_row_is_not_quoted(sieve, tmp_path, damage):
    path = tmp_path / "log.db"
    with SQLiteLog(path) as log:
        fill(log)
        log.set_state(KEY, "note", {"said": SECRET}, expected=None)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(DAMAGE[damage])
    with ConversationMemory.open(path) as memory:
        history = memory.history("t", user_id="ana")
        for call in (
            lambda: memory.log.entries(KEY),
            lambda: memory.log.aentries(KEY),
            lambda: memory.log.get_state(KEY, "note"),
            lambda: history.messages,
            history.aget_messages,
            lambda: memory.wrap(OfflineChatModel()).invoke("And now?", HERE),
            lambda: memory.wrap(OfflineChatModel()).ainvoke("And now?", HERE),
            lambda: memory.recall("Where is the stone?", user_id="ana"),
            lambda: memory.arecall("Where is the stone?", user_id="ana"),
            lambda: memory.threads(user_id="ana"),
            lambda: memory.forget(user_id="ana", thread_id="t", entry_ids=["x"]),
            lambda: json.dumps(memory.log.verify().problems),
        ):
            found = sieve.try_call(call)
            assert MARK not in (found if isinstance(found, str) else "").casefold()
        assert memory.log.verify().problems


class QuotingEmbeddings(Embeddings):
    def embed_documents(self, texts):
        return quote(texts)

    def embed_query(self, text):
        return quote(text)


class QuotingStore(InMemoryVectorStore):
    def add_documents(self, documents, **kwargs):
        return quote(documents)

    async def aadd_documents(self, documents, **kwargs):
        return quote(documents)

    def similarity_search_with_score(self, query, **kwargs):
        return quote(query)

    async def asimilarity_search_with_score(self, query, **kwargs):
        return quote(query)


def test_an_embedder_that_quotes_is_not_quoted(sieve):
    with ConversationMemory(InMemoryLog(), embeddings=QuotingEmbeddings()) as memory:
        fill(memory.log)
        for call in (
            lambda: memory.refresh(user_id="ana"),
            lambda: memory.recall(SECRET, user_id="ana"),
            lambda: memory.arecall(SECRET, user_id="ana"),
            lambda: memory.wrap(OfflineChatModel()).invoke(SECRET, HERE),
        ):
            found = sieve.try_call(call)
            assert MARK not in str(getattr(found, "problems", found or "")).partition("=")[0]
            assert not any(MARK in problem for problem in getattr(found, "problems", ()))
    assert "RuntimeError" in sieve.caplog.text


def test_a_rewriter_that_quotes_is_not_quoted(sieve):
    with ConversationMemory(InMemoryLog(), rewriter=quote) as memory:
        fill(memory.log)
        for ask in (memory.recall, memory.arecall):
            found = sieve.try_call(lambda ask=ask: ask(SECRET, user_id="ana"))
            assert [one for one in found.problems if "RuntimeError" in one]
            assert not any(MARK in problem for problem in found.problems)


@pytest.mark.parametrize(
    "reply",
    [
        lambda request: quote(request.transcript),
        f"I'm sorry, but I can't help with that: {SECRET}",
        [SECRET],
    ],
    ids=["quotes", "refuses", "is no text"],
)
def test_a_summariser_that_quotes_is_not_quoted(sieve, reply):
    summarizer = ScriptedSummarizer(reply)
    with ConversationMemory(
        InMemoryLog(), summarizer=summarizer, summarize_when="foreground"
    ) as memory:
        history = memory.history("t", user_id="ana")
        for number in range(30):
            history.add_user_message(f"{SECRET} {number} " * 20)
            history.add_ai_message(f"Noted: {SECRET} " * 20)
        window = history.summary_window()
        for call in (
            lambda: memory.summarize(user_id="ana", thread_id="t"),
            lambda: memory.asummarize(user_id="ana", thread_id="t"),
            lambda: write(summarizer, window, SummarySettings()),
            lambda: hop(partial(write, summarizer, window, SummarySettings())),
        ):
            assert MARK not in str(sieve.try_call(call)).casefold()
    assert {type(error).__name__ for error in sieve.failures} == {"SummaryError"}


def test_a_vector_store_that_quotes_is_not_quoted(sieve):

    log = InMemoryLog()
    fill(log)
    recall = VectorStoreRecall(log, QuotingStore(DeterministicFakeEmbedding(size=2)))
    sieve.try_call(lambda: recall.recall(KEY.owner, SECRET))
    sieve.try_call(lambda: recall.arecall(KEY.owner, SECRET))
    assert {type(error).__name__ for error in sieve.failures} == {"LineStoreError"}


def test_a_tool_that_quotes_is_not_quoted_in_the_log(sieve):
    call = {"name": "look", "args": {"place": SECRET}, "id": "1"}
    replies = [AIMessage("", tool_calls=[call]), AIMessage("Nothing there.")]

    def look(place: str) -> str:
        """Look somewhere."""
        return quote(place)

    talk = Conversation(ScriptedChatModel(replies=replies), preface=Preface(tools=[look]))
    reply = sieve.try_call(lambda: talk.send_message("Look."))
    assert reply.text == "Nothing there."
    assert "RuntimeError" in sieve.caplog.text


def test_a_session_that_quotes_is_not_quoted_in_the_log(sieve, monkeypatch):
    engine = ScriptedEngine("Yes.", template=ChatTemplate.from_builtin("qwen"))
    create_session = engine.create_session

    def create():
        session = create_session()
        for name in ("rewind", "reset", "close"):
            monkeypatch.setattr(session, name, lambda *_: quote(SECRET))
        return session

    monkeypatch.setattr(engine, "create_session", create)
    talk = Conversation(engine)
    talk.send_message(SECRET)
    sieve.try_call(talk.undo)
    sieve.try_call(talk.close)
    assert not sieve.failures
    assert "RuntimeError" in sieve.caplog.text


def test_a_provider_that_fails_leaves_nothing_of_the_turn_in_the_log_records(sieve, memory):
    def fail(_):
        raise ConnectionError("503")

    chain = memory.wrap(RunnableLambda(fail))
    talk = memory.conversation(RunnableLambda(fail), thread_id="c", user_id="ana")
    for call in (
        lambda: chain.invoke(SECRET, HERE),
        lambda: chain.ainvoke(SECRET, HERE),
        lambda: list(chain.stream(SECRET, HERE)),
        lambda: talk.send_message(SECRET),
        lambda: talk.asend_message(SECRET),
    ):
        sieve.try_call(call)
    assert len(sieve.failures) == 5


ROW = {"role": "user", "content": SECRET}
FILES = {
    "prose": SECRET,
    "bytes": SECRET.encode("utf-16"),
    "a cut row": json.dumps(ROW)[:-1],
    "a role": json.dumps({**ROW, "role": SECRET}),
    "a name": json.dumps({**ROW, "name": [SECRET]}),
    "a time": json.dumps({**ROW, "timestamp": SECRET}),
    "a key twice": f'{{"role": "user", "content": "{SECRET}", "content": "x"}}',
    "content": json.dumps({**ROW, "content": {SECRET: SECRET}}),
    "half a character": json.dumps({**ROW, "content": SECRET + "\ud800"}),
    "unknown keys": json.dumps({SECRET: SECRET}),
    "a list": json.dumps([SECRET]),
    "a stored message": json.dumps(
        {"SessionId": "s", "History": [{"type": SECRET, "data": {"content": SECRET}}]}
    ),
    "type tags": json.dumps({"SessionId": {"S": "s"}, "History": {"L": [{SECRET: SECRET}]}}),
    "a tree": json.dumps([{"title": SECRET, "mapping": {"a": SECRET}, "current_node": SECRET}]),
    "an export": json.dumps(
        {
            "format": "convmem",
            "version": 1,
            "id": SECRET,
            "thread_id": "t",
            "position": 1,
            "turn_id": "t",
            "role": "user",
            "message": {"type": "tool", "content": SECRET, "status": SECRET},
            "metadata": {},
        }
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_refused_is_not_quoted(sieve, tmp_path, name):
    content = FILES[name]
    path = tmp_path / "file.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    sieve.try_call(lambda: read_threads(path))
    assert [type(error).__name__ for error in sieve.failures] == ["ImportFormatError"]


def test_a_database_with_text_that_is_not_utf8_is_not_quoted(sieve, tmp_path):
    path = tmp_path / "history.db"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE message_store(id INTEGER, session_id TEXT, message TEXT)")
        raw = SECRET.encode() + b"\xff"
        db.execute("INSERT INTO message_store VALUES (1, 's', CAST(? AS TEXT))", (raw,))
    sieve.try_call(lambda: read_threads(path))
    assert [type(error).__name__ for error in sieve.failures] == ["ImportFormatError"]


def test_the_sieve_finds_what_is_said(sieve):
    def wrap_quote():
        try:
            quote(SECRET)
        except RuntimeError:
            raise ValueError("something failed") from None

    for call in (lambda: quote(SECRET), wrap_quote):
        with pytest.raises(AssertionError):
            sieve.try_call(call)
    logging.getLogger("langchain_convmem").warning("said: %s", SystemMessage(SECRET))
    with pytest.raises(AssertionError):
        sieve.check_log()
