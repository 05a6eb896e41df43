from __future__ import annotations

from dataclasses import replace

from histories import histories, spoken
from hypothesis import given, settings
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_convmem.ids import get_ulid_ms, is_ulid
from langchain_convmem.records import Cover, Metadata
from langchain_convmem.views.context import build_context
from langchain_convmem.views.live import (
    PLACEHOLDER_TEXT,
    build_model_turns,
    build_turns,
    find_covers,
    find_live_entries,
    find_nodes,
    find_uncovered,
    has_calls,
    is_blank,
)

CALL = {"name": "weather", "args": {}, "id": "c1"}


def shape(entries):
    return [(turn.role, *turn.contents) for turn in build_turns(entries)]


def covering(entries):
    live = find_live_entries(entries)
    summaries = [entry for entry in live if entry.role == "summary"]
    return find_covers(live, [*find_nodes(live), *summaries])


def noted(entry, **fields):
    return replace(entry, metadata=Metadata(**fields))


def test_what_is_said_behind_a_call_is_a_turn_of_its_own():
    said = [HumanMessage("go"), AIMessage("Let me look.", tool_calls=[CALL]), AIMessage("Found.")]
    assert shape(spoken(*said)) == [
        ("user", "go"),
        ("assistant", "Let me look."),
        ("assistant", "Found."),
    ]


def test_the_same_role_in_a_row_is_one_turn():
    entries = spoken("a", "b", AIMessage("c"), AIMessage("d"), "e")
    assert shape(entries) == [("user", "a", "b"), ("assistant", "c", "d"), ("user", "e")]
    first = build_turns(entries)[0]
    assert first.id == entries[0].id
    assert first.entries == tuple(entries[:2])
    assert first.metadata.attributes == ("merged",)


def test_three_parts_are_merged_twice():
    assert build_turns(spoken("a", "b", "c"))[0].metadata.attributes == ("merged", "merged")


def test_metadata_of_the_parts_come_together():
    one, two = spoken("a", "b")
    parts = [
        noted(one, attributes=("x",), timing={"creation": 1, "llmEnd": 5}, aux={"k": 1, "one": 1}),
        noted(two, attributes=("y",), timing={"creation": 2, "playEnd": 6}, aux={"k": 2}),
    ]
    [turn] = build_turns(parts)
    assert turn.metadata.attributes == ("x", "y", "merged")
    assert turn.metadata.timing == {"creation": 1, "llmEnd": 5, "playEnd": 6}
    assert turn.metadata.aux == {"k": 2, "one": 1}


def test_blank_entries_and_blank_pieces_make_no_turn():
    entries = spoken(" ", AIMessage(""), HumanMessage(["a", " ", "b"]), SystemMessage(""))
    assert shape(entries) == [("user", "a", "b")]


def test_an_entry_of_media_alone_is_no_blank():
    [entry] = spoken(HumanMessage([{"type": "image", "url": "x"}]))
    assert not is_blank(entry)
    assert shape([entry]) == [("user",)]


def test_half_a_tool_call_alone_is_blank():
    broken = AIMessage([{"type": "tool_use", "id": "c", "input": {}}])
    assert is_blank(spoken(broken)[0])
    assert not is_blank(spoken(AIMessage("", tool_calls=[CALL]))[0])


def test_a_block_whose_type_is_no_text_breaks_no_view():
    [entry] = spoken(HumanMessage([{"type": ["a", "list"]}]))
    assert not is_blank(entry)
    assert shape([entry]) == [("user",)]


def test_an_assistant_who_speaks_first_answers_a_placeholder():
    entries = spoken(AIMessage("Welcome!"), "Hi")
    placeholder, spoken_turn, _ = build_turns(entries)
    assert shape(entries) == [("user", PLACEHOLDER_TEXT), ("assistant", "Welcome!"), ("user", "Hi")]
    assert placeholder.entries == ()
    assert placeholder.metadata.attributes == ("fake",)
    assert is_ulid(placeholder.id)
    assert get_ulid_ms(placeholder.id) == get_ulid_ms(spoken_turn.id) - 1
    assert placeholder.metadata.timing == {"creation": get_ulid_ms(placeholder.id)}
    assert build_turns(entries) == build_turns(list(entries))


def test_what_the_user_says_next_is_not_merged_into_the_placeholder():
    assert shape(spoken(SystemMessage("s"), AIMessage("a"), "b")) == [
        ("system", "s"),
        ("user", PLACEHOLDER_TEXT),
        ("assistant", "a"),
        ("user", "b"),
    ]


def test_merging_never_crosses_a_summary_and_the_assistant_behind_it_answers_a_placeholder():
    entries = spoken("a", AIMessage("b"), AIMessage("c"))
    summary = replace(
        entries[0],
        id="0" * 26,
        position=99,
        turn_id="0" * 26,
        role="summary",
        message=None,
        contents=("S",),
        cover=Cover(((entries[0].position, entries[1].position),)),
    )
    assert shape([*entries, summary]) == [
        ("user", "a"),
        ("assistant", "b"),
        ("summary", "S"),
        ("user", PLACEHOLDER_TEXT),
        ("assistant", "c"),
    ]


def test_tool_loops_are_neither_merged_nor_split():
    entries = spoken(
        "q",
        AIMessage("look", tool_calls=[CALL]),
        ToolMessage("1", tool_call_id="c1"),
        ToolMessage("2", tool_call_id="c2"),
        AIMessage("found"),
    )
    assert shape(entries) == [
        ("user", "q"),
        ("assistant", "look"),
        ("tool", "1", "2"),
        ("assistant", "found"),
    ]


@given(histories)
@settings(max_examples=200, deadline=None)
def test_turns_hold_every_spoken_entry_once_in_order(entries):
    shown = build_turns(entries)
    expected = [entry for entry in find_live_entries(entries) if not is_blank(entry)]
    assert [part for turn in shown for part in turn.entries] == expected
    for turn in shown:
        assert {part.role for part in turn.entries} <= {turn.role}
        if turn.entries:
            assert turn.id == turn.entries[0].id
            assert turn.contents == tuple(text for part in turn.entries for text in part.contents)
            assert all(text.strip() for text in turn.contents)
            assert turn.metadata.attributes.count("merged") == len(turn.entries) - 1


@given(histories)
@settings(max_examples=200, deadline=None)
def test_turns_are_as_long_as_can_be_and_open_with_the_user(entries):
    shown = build_turns(entries)
    covers = covering(entries)
    opening = True
    for before, turn in zip([None, *shown], shown, strict=False):
        if before is not None and before.role == turn.role != "summary":
            last, first = before.entries[-1], turn.entries[0]
            assert has_calls(last) or covers.get(last.id) != covers.get(first.id)
        assert not (opening and turn.role == "assistant")
        opening = turn.role == "summary" or (opening and turn.role == "system")
    fakes = [turn for turn in shown if not turn.entries]
    assert len({turn.id for turn in fakes}) == len(fakes)


def test_a_turn_is_split_where_the_live_summary_ends_whatever_an_older_one_covers():
    entries = spoken("a", "b", AIMessage("c"))
    at = [entry.position for entry in entries]
    marks = [(98, ((at[0], at[1]),)), (99, ((at[0], at[0]), (at[2], at[2])))]
    summaries = [
        replace(
            entries[0],
            id=f"{position:026}",
            position=position,
            turn_id=f"{position:026}",
            role="summary",
            message=None,
            contents=(f"S{position}",),
            cover=Cover(ranges),
        )
        for position, ranges in marks
    ]
    assert shape([*entries, *summaries]) == [
        ("user", "a"),
        ("user", "b"),
        ("summary", "S98"),
        ("user", PLACEHOLDER_TEXT),
        ("assistant", "c"),
        ("summary", "S99"),
    ]


@given(histories)
@settings(max_examples=200, deadline=None)
def test_a_turn_is_covered_whole_or_not_at_all(entries):
    shown = {entry.id for entry in find_uncovered(find_live_entries(entries))}
    for turn in build_turns(entries):
        if turn.role != "summary" and turn.entries:
            assert len({part.id in shown for part in turn.entries}) == 1


# -- the model's turns --------------------------------------------------------------------------
def model_shape(entries):
    return [(turn.role, *turn.contents) for turn in build_model_turns(entries)]


def test_the_model_reads_what_no_summary_covers():
    entries = spoken(SystemMessage("s"), "a", AIMessage("b"), AIMessage("c"), "d")
    positions = [entry.position for entry in entries]
    summary = replace(
        entries[0],
        id="0" * 26,
        position=99,
        turn_id="0" * 26,
        role="summary",
        message=None,
        contents=("S",),
        cover=Cover(((positions[1], positions[2]),)),
    )
    assert model_shape(entries) == [
        ("system", "s"),
        ("user", "a"),
        ("assistant", "b", "c"),
        ("user", "d"),
    ]
    assert model_shape([*entries, summary]) == [
        ("system", "s"),
        ("user", PLACEHOLDER_TEXT),
        ("assistant", "c"),
        ("user", "d"),
    ]


@given(histories)
@settings(max_examples=200, deadline=None)
def test_the_models_turns_hold_what_its_messages_show(entries):
    found = {part.position for turn in build_model_turns(entries) for part in turn.entries}
    shown = build_context(entries, summary="omit").positions
    orphans = {entry.position for entry in entries if entry.role == "tool"} - shown
    assert shown <= found
    assert found - shown <= orphans
