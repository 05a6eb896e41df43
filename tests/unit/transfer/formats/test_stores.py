import json
import sqlite3
from contextlib import closing

import pytest
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    messages_to_dict,
)

from langchain_convmem import to_dynamodb
from langchain_convmem.errors import ImportFormatError, MissingExtraError
from langchain_convmem.transfer import read_threads
from langchain_convmem.transfer.imports import parse_threads
from langchain_convmem.transfer.source import Source

MESSAGES = [
    SystemMessage("Be kind."),
    HumanMessage("Rain?", name="Ana", id="h1", additional_kwargs={"n": 1.5, "timestamp": "later"}),
    AIMessage("", tool_calls=[{"name": "look", "args": {"days": 2}, "id": "c1"}], id="run-1"),
    ToolMessage("no", tool_call_id="c1", status="error"),
    AIMessage("No.", id="run-1"),
]
HISTORY = messages_to_dict(MESSAGES)


def threads_in(document):
    return parse_threads(Source("items.json", json.dumps(document)))


def assert_is_the_history(thread):
    system, question, call, result, answer = thread.messages
    assert [type(message) for message in thread.messages] == [type(m) for m in MESSAGES]
    assert [message.content for message in thread.messages] == [m.content for m in MESSAGES]
    assert (question.id, question.name) == ("h1", "Ana")
    assert question.additional_kwargs == {"n": 1.5, "original_timestamp": "later"}
    assert call.tool_calls == MESSAGES[2].tool_calls
    assert (result.tool_call_id, result.status) == ("c1", "error")
    assert (call.id, answer.id) == ("run-1", "run-1~2"), "an id used twice names one of them"
    assert system.id != result.id


ITEM = {"SessionId": "s1", "History": HISTORY, "expireAt": 1_700_000_000}
[TAGGED] = to_dynamodb([ITEM])


@pytest.mark.parametrize(
    "document",
    [ITEM, [ITEM], {"Items": [ITEM], "Count": 1}, TAGGED, {"Item": TAGGED}, {"Items": [TAGGED]}],
)
def test_an_item_is_a_thread_in_every_form_it_is_written_in(document):
    (thread,) = threads_in(document)
    assert thread.thread_id == "s1"
    assert_is_the_history(thread)


@pytest.mark.parametrize(
    ("history", "location", "says"),
    [
        ([{"type": "human"}], "$.History[0]", '"data"'),
        ([{"type": "human", "data": {}}], "$.History[0]", "stored message"),
        ([{"type": "robot", "data": {"content": "x"}}], "$.History[0]", "ValueError"),
        ([{"type": "tool", "data": {"content": "x"}}], "$.History[0]", "KeyError"),
        ([{"type": "remove", "data": {"content": "", "id": "x"}}], "$.History[0]", "Remove"),
        ({"L": [{"X": 1}]}, "$", "type tags"),
        ({"L": {}, "M": {}}, "$", "type tags"),
        ([], "", "no message"),
    ],
)
def test_a_bad_item_is_refused_with_its_place(history, location, says):
    session = {"S": "s"} if isinstance(history, dict) else "s"
    with pytest.raises(ImportFormatError) as caught:
        threads_in({"SessionId": session, "History": history})
    assert caught.value.location == location
    assert says in str(caught.value)


def sql_file(path, *rows, table="message_store"):
    quoted = table.replace('"', '""')
    columns = "(id INTEGER PRIMARY KEY, session_id TEXT, message TEXT)"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f'CREATE TABLE "{quoted}" {columns}')
        db.executemany(f'INSERT INTO "{quoted}" (session_id, message) VALUES (?, ?)', rows)
    return path


def test_the_sessions_of_a_table_are_threads_in_the_order_of_the_rows(tmp_path):
    rows = [("s1", json.dumps(stored)) for stored in HISTORY]
    rows.insert(2, ("s2", json.dumps(messages_to_dict([HumanMessage("elsewhere")])[0])))
    first, second = read_threads(sql_file(tmp_path / "any #name?.db", *rows))
    assert (first.thread_id, second.thread_id) == ("s1", "s2")
    assert_is_the_history(first)
    assert second.messages[0].id == "row-3"


def test_a_bad_row_and_other_databases_are_refused_by_name(tmp_path):
    for number, (row, says) in enumerate(
        [
            (("s", "{"), "row 1"),
            (("s", None), "JSON text"),
            ((None, json.dumps(HISTORY[0])), "session_id"),
            (("s", '{"type": "human"}'), '"data"'),
        ]
    ):
        with pytest.raises(ImportFormatError, match=says):
            read_threads(sql_file(tmp_path / f"{number}.db", row))
    with closing(sqlite3.connect(tmp_path / "other.db")) as db, db:
        db.execute("CREATE TABLE recipes (id INTEGER)")
    with pytest.raises(ImportFormatError, match="recipes"):
        read_threads(tmp_path / "other.db")
    (tmp_path / "broken.db").write_bytes(b"SQLite format 3\x00" + b"\xff" * 200)
    with pytest.raises(ImportFormatError, match="SQLite"):
        read_threads(tmp_path / "broken.db")


def checkpoint_file(path, *rows):
    """A file as langgraph-checkpoint-sqlite lays it out; rows are (thread, ns, id, checkpoint)."""
    serde = pytest.importorskip("langgraph.checkpoint.serde.jsonplus").JsonPlusSerializer()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(
            "CREATE TABLE checkpoints (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL, "
            "checkpoint_id TEXT NOT NULL, parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, "
            "metadata BLOB, PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id))"
        )
        for thread, namespace, checkpoint_id, checkpoint in rows:
            kind, data = serde.dumps_typed(checkpoint)
            row = (thread, namespace, checkpoint_id, kind, data)
            db.execute("INSERT INTO checkpoints VALUES (?, ?, ?, NULL, ?, ?, '{}')", row)
    return path


def state(messages, **values):
    values = {"messages": messages, **values}
    return {"v": 4, "channel_values": values, "channel_versions": {"messages": "1"}}


def test_each_thread_is_read_from_its_latest_checkpoint(tmp_path):
    path = checkpoint_file(
        tmp_path / "checkpoints.sqlite",
        ("t1", "", "1f0-1", state(MESSAGES[:2])),
        ("t1", "", "1f0-3", state(MESSAGES, other={"plan": [1]})),
        ("t1", "child:1", "1f0-9", state([HumanMessage("of a subgraph")])),
        ("t2", "", "1f0-2", state([HumanMessage("elsewhere")])),
        ("t3", "", "1f0-4", {"channel_values": {"count": 1}, "channel_versions": {"count": "1"}}),
    )
    second, first = read_threads(path)
    assert (first.thread_id, second.thread_id) == ("t1", "t2")
    assert_is_the_history(first)
    assert second.messages[0].content == "elsewhere"
    assert second.messages == read_threads(path)[0].messages


def test_a_checkpoint_without_whole_messages_is_refused_with_its_thread(tmp_path):
    class Loud(HumanMessage):
        """A class that no list of safe types knows: it comes back by its fields."""

    checkpoint = {**state([Loud("HEY", id="x")]), "channel_versions": {"messages": "1"}}
    path = checkpoint_file(tmp_path / "c.db", ("t9", "", "1", checkpoint))
    [thread] = read_threads(path)
    assert thread.messages == (HumanMessage("HEY", id="x"),)
    for values in ({}, {"messages": 7}, {"messages": [7]}):
        bad = {**checkpoint, "channel_values": values}
        with pytest.raises(ImportFormatError, match="t9"):
            read_threads(checkpoint_file(tmp_path / f"{len(str(values))}.db", ("t9", "", "1", bad)))
    for kind, data in (("msgpack", b"\xc1\xff"), ("pickle", b"x"), (None, None)):
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("UPDATE checkpoints SET type = ?, checkpoint = ?", (kind, data))
        with pytest.raises(ImportFormatError, match="checkpoint 1 of thread 't9'"):
            read_threads(path)


def test_without_langgraph_the_extra_is_named(tmp_path, monkeypatch):
    path = checkpoint_file(tmp_path / "c.db", ("t", "", "1", state(MESSAGES)))
    monkeypatch.setitem(__import__("sys").modules, "langgraph.checkpoint.serde.jsonplus", None)
    with pytest.raises(MissingExtraError, match=r"langchain-convmem\[langgraph\]"):
        read_threads(path)


def test_what_langgraphs_own_saver_wrote_is_read(tmp_path):
    sqlite_saver = pytest.importorskip("langgraph.checkpoint.sqlite").SqliteSaver
    graph = pytest.importorskip("langgraph.graph")
    builder = graph.StateGraph(graph.MessagesState)
    builder.add_node("reply", lambda _: {"messages": [AIMessage("Hello.")]})
    builder.add_edge(graph.START, "reply")
    path = tmp_path / "checkpoints.sqlite"
    with sqlite_saver.from_conn_string(str(path)) as saver:
        app = builder.compile(checkpointer=saver)
        for text in ("Hi.", "Again."):
            app.invoke({"messages": [HumanMessage(text)]}, {"configurable": {"thread_id": "t"}})
        expected = app.get_state({"configurable": {"thread_id": "t"}}).values["messages"]
    (thread,) = read_threads(path)
    assert list(thread.messages) == expected
