from __future__ import annotations

from dataclasses import replace

from histories import histories, spoken
from hypothesis import given, settings
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

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


def shape(entries):
    return [(turn.role, *turn.contents) for turn in build_turns(entries)]


def covering(entries):
    live = find_live_entries(entries)
    summaries = [entry for entry in live if entry.role == "summary"]
    return find_covers(live, [*find_nodes(live), *summaries])


def noted(entry, **fields):
    return replace(entry, metadata=Metadata(**fields))


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


@given(histories)
@settings(max_examples=200, deadline=None)
def test_a_turn_is_covered_whole_or_not_at_all(entries):
    shown = {entry.id for entry in find_uncovered(find_live_entries(entries))}
    for turn in build_turns(entries):
        if turn.role != "summary" and turn.entries:
            assert len({part.id in shown for part in turn.entries}) == 1


@given(histories)
@settings(max_examples=200, deadline=None)
def test_the_models_turns_hold_what_its_messages_show(entries):
    found = {part.position for turn in build_model_turns(entries) for part in turn.entries}
    shown = build_context(entries, summary="omit")
    named = "\n".join(shown.repairs)
    left_out = {one.position for one in entries if f"left out {one.message_id}:" in named}
    assert shown.positions <= found
    assert found - shown.positions <= left_out
