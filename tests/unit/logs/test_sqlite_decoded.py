"""Entries that a SQLite log keeps decoded."""

from __future__ import annotations

import gc
from itertools import count

from langchain_core.messages import BaseMessage, HumanMessage

from langchain_convmem import SQLiteLog
from langchain_convmem.logs.sqlite import DecodedEntries
from langchain_convmem.records import ThreadKey
from langchain_convmem.views.codec import draft_of

KEY, OTHER = ThreadKey("ana", "t"), ThreadKey("bo", "t")


def read(log, key=KEY):
    return log.read_thread(key, "none", lambda _: [(0, None)])[1]


def messages_with(text):
    gc.collect()
    return [one for one in gc.get_objects() if isinstance(one, BaseMessage) and one.content == text]


def test_rows_that_did_not_change_are_decoded_once(tmp_path):
    with SQLiteLog(tmp_path / "log.db") as log:
        log.append(KEY, [draft_of(HumanMessage("one")), draft_of(HumanMessage("two"))])
        first = read(log)
        log.annotate(KEY, first[0].id, attributes=["seen"])
        again = read(log)
    assert again[1] is first[1]
    assert again[0].metadata.attributes == ("seen",)


def test_what_another_process_forgot_leaves_memory_with_the_next_reading(tmp_path):
    secret = "the code of the safe is 1812"
    with SQLiteLog(tmp_path / "log.db") as here, SQLiteLog(tmp_path / "log.db") as there:
        for key, text in ((KEY, secret), (OTHER, "hello")):
            here.append(key, [draft_of(HumanMessage(text))])
            read(here, key)
        assert messages_with(secret)
        there.forget(KEY)
        read(here, OTHER)
    assert not messages_with(secret)


def test_the_oldest_leave_where_there_are_too_many(tmp_path):
    with SQLiteLog(tmp_path / "log.db") as log:
        log._decoded = DecodedEntries(most=8)
        for number in count():
            log.append(KEY, [draft_of(HumanMessage(str(number)))])
            assert [entry.message.content for entry in read(log)] == [
                str(one) for one in range(number + 1)
            ]
            if number == 20:
                break
        assert len(log._decoded._kept) <= 8
