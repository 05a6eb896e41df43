from dataclasses import replace
from functools import partial

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_convmem.cli.rendering import describe_log, format_log
from langchain_convmem.logs.base import Signer, decode_entry, encode_drafts, plan_append
from langchain_convmem.records import ThreadKey
from langchain_convmem.transfer.formats.convmem import encode_entry
from langchain_convmem.turns.whole_threads import compute_stats
from langchain_convmem.views.codec import make_draft
from langchain_convmem.views.context import build_context
from langchain_convmem.views.live import (
    build_turns,
    describe_damage,
    find_live_entries,
    format_text_table,
)

KEY = ThreadKey("ana", "chat")
SECRET = "pay 1000 euros"


def read_thread(*messages, damaged):
    """Return the entries of a thread, one of which was altered where it is stored."""
    signer, batch = Signer(), encode_drafts([make_draft(message) for message in messages])
    rows = list(plan_append(batch, first_position=1, sign=partial(signer.sign, KEY)).added)
    rows[damaged] = replace(rows[damaged], body=rows[damaged].body.replace("1000", "9000"))
    return [decode_entry(KEY, row, signer) for row in rows]


def make_chat(damaged):
    said = ("hello", "hi, what is it?", SECRET, f"done: {SECRET}", "thanks")
    messages = [(HumanMessage, AIMessage)[n % 2](text) for n, text in enumerate(said)]
    return read_thread(*messages, damaged=damaged)


@pytest.mark.parametrize("damaged", [2, 3])
def test_the_context_goes_on_without_it_and_says_so(damaged):
    entries = make_chat(damaged)
    view = build_context(entries)
    texts = [str(message.content) for message in view.messages]
    assert not any("9000" in text for text in texts)
    assert texts[0] == "hello"
    assert "thanks" in texts[-1]
    [repair] = view.repairs
    assert entries[damaged].id in repair
    assert "does not match its checksum" in repair
    assert entries[damaged].position not in view.positions


def test_a_damaged_tool_result_leaves_a_context_that_a_provider_takes():
    calls = AIMessage("", tool_calls=[{"name": "pay", "args": {"sum": 5}, "id": "c1"}])
    result = ToolMessage(SECRET, tool_call_id="c1")
    entries = read_thread(HumanMessage("pay"), calls, result, AIMessage("paid"), damaged=2)
    view = build_context(entries)
    kinds = [type(message).__name__ for message in view.messages]
    assert kinds == ["HumanMessage", "AIMessage", "ToolMessage", "AIMessage"]
    assert not any("9000" in str(message.content) for message in view.messages)


@pytest.mark.parametrize("damaged", range(5))
def test_every_other_view_goes_on_and_names_it(damaged):
    entries = make_chat(damaged)
    is_altered = damaged in (2, 3)
    assert [bool(one.damage) for one in entries] == [is_altered and n == damaged for n in range(5)]
    live = find_live_entries(entries)
    assert len(live) == 5 - is_altered
    assert len(describe_damage(entries)) == is_altered
    assert compute_stats(entries).damaged == is_altered
    assert ("checksum" in format_text_table(entries)) is is_altered
    assert ("checksum" in "".join(one.text for one in format_log(entries))) is is_altered
    assert [bool(one["damage"]) for one in describe_log(entries)].count(True) == is_altered
    assert sum('"damage"' in encode_entry(one) for one in entries) == is_altered
    assert sum(len(turn.contents) for turn in build_turns(entries)) == 5 - is_altered
