"""Long texts in views: shown cut within a budget, kept whole in the log."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_convmem import ConversationMemory
from langchain_convmem.errors import BudgetError
from langchain_convmem.views.messages import count_tokens

NOTE = re.compile(
    r"\n\[\.\.\. ([\d,]+) more characters here; read on with "
    r'read_message\("([^"]+)", start=(\d+)\)\]\n'
)
PASTE = "".join(f"Line {n} of the report says that nothing happened.\n" for n in range(2000))


def see(messages, budget):
    with ConversationMemory.open(":memory:") as memory:
        history = memory.history("t", user_id="ana")
        history.add_messages(messages)
        view = history.context(max_tokens=budget)
        assert history.entries[-1].message.content == messages[-1].content
        return view


@pytest.mark.parametrize("budget", [200, 1000, 4000])
def test_a_long_paste_is_shown_by_its_beginning_and_its_end(budget):
    view = see([HumanMessage(PASTE + "What is in it?", id="p1")], budget)
    [shown] = view.messages
    assert view.tokens == count_tokens([shown]) <= budget
    assert view.tokens > 0.8 * budget
    assert shown.content.startswith("Line 0 of the report")
    assert shown.content.endswith("What is in it?")
    assert view.repairs == (f"show p1 cut to stay within {budget} tokens",)


def test_the_note_says_how_much_is_left_out_and_where_to_read_on():
    text = PASTE + "What is in it?"
    [shown] = see([HumanMessage(text, id="p1")], 1000).messages
    [(left, name, start)] = NOTE.findall(shown.content)
    first, last = NOTE.split(shown.content)[0], NOTE.split(shown.content)[-1]
    assert name == "p1"
    assert int(start) == len(first)
    assert first + text[int(start) : int(start) + int(left.replace(",", ""))] + last == text


def test_of_several_results_the_longest_are_cut_and_short_ones_stay_whole():
    calls = [{"name": "look", "args": {}, "id": f"c{n}"} for n in range(3)]
    said = [
        HumanMessage("Look at all three."),
        AIMessage("", tool_calls=calls),
        ToolMessage("Nothing found.", tool_call_id="c0"),
        ToolMessage(PASTE, tool_call_id="c1"),
        ToolMessage(PASTE[:20_000], tool_call_id="c2"),
    ]
    view = see(said, 2000)
    assert view.tokens <= 2000
    human, _, short, long, longer = view.messages
    assert (human.content, short.content) == ("Look at all three.", "Nothing found.")
    assert NOTE.search(long.content)
    assert NOTE.search(longer.content)
    assert abs(count_tokens([long]) - count_tokens([longer])) < 60


def test_system_text_is_never_cut():
    with pytest.raises(BudgetError, match="system messages"):
        see([SystemMessage(PASTE), HumanMessage("Hello")], 1000)


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 4000)), min_size=1, max_size=5),
    st.integers(1000, 3000),
)
def test_whatever_is_pasted_the_view_is_within_the_budget(pasted, budget):
    said = [
        HumanMessage((PASTE if plain else "ทดสอบ漢字 " * 900)[:size] + "?")
        for plain, size in pasted
    ]
    view = see(said, budget)
    assert view.tokens <= budget
    assert view.messages[-1].text.endswith("?")
