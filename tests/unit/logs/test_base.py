from __future__ import annotations

import asyncio

import pytest
from histories import KEY
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from langchain_convmem.logs import InMemoryLog, SQLiteLog, base, sqlite, sqlite_rows
from langchain_convmem.logs.base import hash_message_id, make_version, read_message_id
from langchain_convmem.records import Draft
from langchain_convmem.testing.log_contract import list_live_texts, list_texts, say, say_all
from langchain_convmem.views.codec import encode_body, make_draft


@given(st.text(st.characters(codec=None, exclude_categories=[])))
def test_a_hash_fits_into_four_bytes_of_any_database(message_id):
    assert 0 <= hash_message_id(message_id) < 2**31
    assert hash_message_id(message_id) == hash_message_id(str(message_id))


def test_messages_whose_ids_share_a_hash_are_told_apart(tmp_path, monkeypatch):
    for module in (base, sqlite, sqlite_rows):
        monkeypatch.setattr(module, "hash_message_id", lambda _: 7)
    with SQLiteLog(tmp_path / "log.db") as log:
        said = [HumanMessage(f"text {number}", id=f"m{number}") for number in range(5)]
        entries = say_all(log, KEY, [*said, "without an id"])
        assert say_all(log, KEY, said) == entries[:5]
        say(log, KEY, HumanMessage("text two", id="m2"))
        assert list_live_texts(log, KEY)[:4] == ["text 0", "text 1", "text two", "text 3"]
        assert log.forget(KEY, ["m2", entries[5].id]).entries == 3
        assert list_texts(log.entries(KEY)) == ["text 0", "text 1", "text 3", "text 4"]


@pytest.mark.parametrize(
    ("body", "message_id"),
    [
        (encode_body(make_draft(HumanMessage("x", id="m1"))), "m1"),
        (encode_body(make_draft(HumanMessage("x", id=""))), "entry"),
        (encode_body(make_draft(HumanMessage("x"))), "entry"),
        (encode_body(Draft(role="summary", contents=("S",))), "entry"),
        ("damaged", "entry"),
        ("[]", "entry"),
        ('{"m":7}', "entry"),
    ],
)
def test_every_row_has_a_message_id(body, message_id):
    assert read_message_id("entry", body) == message_id


def test_versions_rise_whatever_the_clock_says(monkeypatch):
    monkeypatch.setattr("time.time_ns", lambda: 5_000)
    assert make_version(None) == 5
    assert make_version(5) == 6
    assert make_version(100) == 101


def test_an_empty_summary_without_a_message_can_be_forgotten(tmp_path):
    with SQLiteLog(tmp_path / "log.db") as log:
        [entry] = log.append(KEY, [Draft(role="summary", contents=("S",))])
        assert log.forget(KEY, [entry.id]).entries == 1


@pytest.mark.parametrize("kind", [InMemoryLog, SQLiteLog])
def test_a_cancelled_append_is_whole_or_not_there(kind, tmp_path):
    log = kind(tmp_path / "log.db") if kind is SQLiteLog else kind()

    async def scenario(ticks):
        batch = [make_draft(HumanMessage(f"{ticks}-{number}")) for number in range(30)]
        task = asyncio.create_task(log.aappend(KEY, batch))
        for _ in range(ticks):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return len(await log.aentries(KEY))

    with log:
        counts = [asyncio.run(scenario(ticks)) for ticks in range(5)]
    assert all(count % 30 == 0 for count in counts)
    assert counts[0] == 0
