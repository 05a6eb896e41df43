from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, message_chunk_to_message
from written_calls import WRITTEN

from langchain_convmem.text.replies import ReplyReader, StopTexts, read_reply
from langchain_convmem.text.reply_formats import REPLY_FORMATS, Channel

FORMATS = sorted(REPLY_FORMATS)
PIECES = ["\n", "\n\n", " ", "a", "{", "}", "[", "]", '"', "'", ";", ",", "f(", "x=1", "\\", ":"]
PIECES += ['"name"', '"arguments"', "{}", '{"name": "f", "arguments": ', "<", "<think", "<|"]


def seen_of(message: AIMessage) -> dict[str, Any]:
    """Return all of a message that counts, its ids of calls, which are made at random, numbered."""
    kinds = ("tool_calls", "invalid_tool_calls")
    calls = {
        kind: [{**call, "id": f"{n}"} for n, call in enumerate(getattr(message, kind))]
        for kind in kinds
    }
    seen = message.model_copy(update=calls)
    return {
        "content": seen.content,
        "content_blocks": seen.content_blocks,
        **calls,
        "additional_kwargs": seen.additional_kwargs,
        "response_metadata": seen.response_metadata,
    }


def cut(text: str, places: Sequence[int]) -> list[str]:
    ends = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in pairwise(ends)]


def agrees(parts: Sequence[str], name: str, **options: Any) -> None:
    text = "".join(parts)
    reader = ReplyReader(name, **options)
    chunks = [chunk for part in parts for chunk in reader.feed(part)] + [*reader.finish()]
    added = message_chunk_to_message(reduce(add, chunks))
    whole = read_reply(text, name, **options)
    assert seen_of(added) == seen_of(whole)
    assert "".join(chunk.content for chunk in chunks) == whole.content
    assert [chunk.chunk_position for chunk in chunks] == [None] * (len(chunks) - 1) + ["last"]
    assert whole.response_metadata["raw_text"] == text


def marks_of(name: str) -> list[str]:
    form = REPLY_FORMATS[name]
    found = [text for channel in form.channels for text in (channel.start, channel.end)]
    found += [text for block in form.call_blocks for text in (block.start, block.end) if text]
    calls = [text for form, text in WRITTEN.values() if form == name]
    return [*found, *form.marks, *calls, *(text[:-3] for text in calls), '{"name": "f"}']


def texts_like(name: str) -> st.SearchStrategy[str]:
    """Texts made of what stands in replies of a format, whole and in part."""
    marks = st.sampled_from(marks_of(name))
    parts = st.tuples(marks, st.integers(1, 20)).map(lambda drawn: drawn[0][: drawn[1]])
    piece = st.one_of(marks, parts, st.sampled_from(PIECES), st.text(max_size=3))
    return st.lists(piece, max_size=12).map("".join)


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=30)
@given(data=st.data())
def test_the_chunks_add_up_to_the_same_message_however_the_text_is_cut(name, data):
    text = data.draw(texts_like(name))
    places = data.draw(st.lists(st.integers(0, 200), max_size=8))
    prompt_end = data.draw(st.sampled_from(["", *marks_of(name)]))
    tools = data.draw(st.booleans())
    agrees(cut(text, places), name, prompt_end=prompt_end, tools=tools)


@pytest.mark.parametrize("family", sorted(WRITTEN))
def test_a_reply_is_read_alike_cut_at_any_place_and_character_by_character(family):
    name, calls = WRITTEN[family]
    thought = [f"{start}\nR\n{end}\n\n" for _, start, end, _ in REPLY_FORMATS[name].channels[:1]]
    text = "".join([*thought, calls])
    agrees(list(text), name)
    for place in range(0, len(text) + 1, 2):
        agrees([text[:place], text[place : place + 1], text[place + 1 :]], name)


@settings(max_examples=150)
@given(
    channels=st.lists(
        st.tuples(st.sampled_from("xyz"), *[st.text("ab<", min_size=1, max_size=4)] * 2),
        max_size=3,
    ),
    text=st.text("ab<\n", max_size=30),
    places=st.lists(st.integers(0, 30), max_size=5),
)
def test_channels_with_marks_that_resemble_each_other_are_told_apart(channels, text, places):
    given = [Channel(*channel, reasoning=channel[0] in "xy") for channel in channels]
    agrees(cut(text, places), "hermes", channels=given)


def test_halves_of_characters_are_replaced_for_no_log_could_hold_them():
    message = read_reply('\ud800<tool_call>{"name": "f", "arguments": {"\\ud800": 1}}', "hermes")
    assert message.content == "\ufffd"
    assert message.tool_calls[0]["args"] == {"\ufffd": 1}


@pytest.mark.parametrize("name", FORMATS)
def test_text_that_is_no_mark_is_held_back_no_longer_than_the_longest_mark(name):
    reader, text, sent = ReplyReader(name), "Once <upon a [time< " * 20, ""
    for place, character in enumerate(text):
        sent += "".join(chunk.content for chunk in reader.feed(character))
        assert place - len(sent) < max(map(len, [*marks_of(name), "x"]))


def _cut(pieces: list[str], texts: list[str]) -> tuple[str, str]:
    stops = StopTexts(texts)
    passed = "".join([*map(stops.feed, pieces), stops.finish()])
    return passed, stops.found


@pytest.mark.parametrize(
    ("text", "texts", "passed", "found"),
    [
        ("one<e>two", ["<e>"], "one", "<e>"),
        ("one<e", ["<e>"], "one<e", ""),
        ("one<end>", ["<e", "<end>"], "one", "<end>"),
        ("one<ends", ["<e", "<end>>"], "one", "<e"),
        ("aab", ["ab"], "a", "ab"),
        ("one", ["", "x"], "one", ""),
        ("one", [], "one", ""),
    ],
)
def test_a_text_is_cut_where_the_first_stop_text_begins(text, texts, passed, found):
    assert _cut([text], texts) == (passed, found)
    assert _cut(list(text), texts) == (passed, found)


@given(st.text("ab<", max_size=12), st.lists(st.text("ab<", max_size=3), max_size=3), st.data())
def test_it_does_not_matter_how_the_text_comes(text, texts, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    passed, found = _cut(pieces, texts)
    assert (passed, found) == _cut([text], texts)
    assert text.startswith(passed + found)
    assert not any(stop in passed for stop in texts if stop)
