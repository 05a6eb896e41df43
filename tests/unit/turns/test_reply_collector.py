from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    ToolMessage,
    message_chunk_to_message,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, LLMResult
from scripted_chat import ProviderError, ScriptedChatModel

from langchain_convmem.runnables import INTERNAL_TAGS
from langchain_convmem.turns.turn import PartialReplyHandler, ReplyCollector, read_reply

ASKED = HumanMessage("Where?", id="q1")


def _passed(*chunks):
    reply = ReplyCollector()
    for chunk in chunks:
        reply.add(chunk)
    return reply


def _collected(*chunks):
    """Return the messages of chunks as they are stored."""
    return list(map(message_chunk_to_message, read_reply(_passed(*chunks).output, [ASKED])))


def _chunk(content, **fields):
    return AIMessageChunk(content=content, **fields)


@given(st.lists(st.text(max_size=5), min_size=1, max_size=12))
def test_the_chunks_of_one_message_are_one_message(words):
    [message] = _collected(*(_chunk(word, id="m1") for word in words))
    assert (type(message), message.content, message.id) == (AIMessage, "".join(words), "m1")


USAGE = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
BLOCK = {"type": "text", "text": "One", "index": 0}
WHOLE = AIMessage("One two.", id="m1")
FOUND = ToolMessage("found", tool_call_id="c1")


LAST_WORD = _chunk("One", id="m1", chunk_position="last")
LATE_USAGE = _chunk("", id="m1", usage_metadata=USAGE)
CHUNKS = {
    "a provider's id beside the id of the run": (
        [("One ", "msg_1"), ("two", "lc_run--a"), ("", "lc_run--a")],
        [AIMessage("One two", id="msg_1")],
    ),
    "two messages at the same time": (
        [("a", "m1"), ("x", "m2"), ("b", "m1"), ("y", "m2")],
        [AIMessage("ab", id="m1"), AIMessage("xy", id="m2")],
    ),
    "the whole behind its chunks": ([("One ", "m1"), ("two", "m1"), WHOLE], [WHOLE]),
    "blocks": ([("", "m1"), ([BLOCK], "m1"), ("", "m1")], [AIMessage([BLOCK], id="m1")]),
    "late usage": ([LAST_WORD, LATE_USAGE], [AIMessage("One", id="m1", usage_metadata=USAGE)]),
    "a result between": (
        [("One", None), FOUND, ("Two", None)],
        [AIMessage("One"), FOUND, AIMessage("Two")],
    ),
}


@pytest.mark.parametrize("case", CHUNKS)
def test_chunks_become_messages(case):
    chunks, messages = CHUNKS[case]
    passed = [_chunk(one[0], id=one[1]) if isinstance(one, tuple) else one for one in chunks]
    assert _collected(*passed) == messages


@given(
    st.lists(
        st.sampled_from(["", "a", "bc"])
        | st.lists(st.builds(lambda t: {"type": "text", "text": t}, st.sampled_from(["x", "yz"]))),
        min_size=1,
        max_size=8,
    )
)
def test_no_text_of_a_stream_is_lost_whatever_the_form_of_its_content(contents):
    [message] = _collected(*(_chunk(content, id="m1") for content in contents))
    said = "".join(
        part if isinstance(part, str) else part["text"] for content in contents for part in content
    )
    assert message.text == said


def _cut(*chunks):
    return _passed(*chunks).collect_cut([ASKED])


def test_a_message_cut_off_is_its_text():
    [message] = _cut(_chunk([{"type": "text", "text": "One "}], id="m1"), _chunk("two", id="m1"))
    assert (type(message), message.content, message.id) == (AIMessage, "One two", "m1")


def test_reasoning_cut_off_is_nothing():
    assert _cut(_chunk([{"type": "reasoning", "reasoning": "Well"}])) == []


def test_given_messages_that_come_back_are_no_reply():
    earlier = AIMessage("Yes.", id="m1")
    new = AIMessage("No.")
    assert read_reply([earlier, ASKED, new], [earlier, ASKED]) == [new]
    assert read_reply([earlier, new], [earlier, ASKED]) == [new]


def test_half_a_call_is_left_out():
    call = {"name": "look", "args": '{"where": "ga', "id": "c1", "index": 0}
    [message] = _cut(_chunk("Let me look.", id="m1"), _chunk("", id="m1", tool_call_chunks=[call]))
    assert message.text == "Let me look."
    assert (message.tool_calls, message.invalid_tool_calls) == ([], [])


def test_a_whole_message_before_the_unfinished_one_stays_whole():
    calling = AIMessage("", id="a", tool_calls=[{"name": "look", "args": {}, "id": "c1"}])
    assert _cut(calling, _chunk("On level", id="b")) == [calling, AIMessage("On level", id="b")]


def _begin(heard: PartialReplyHandler, **options: object) -> UUID:
    run_id = uuid4()
    heard.on_chat_model_start({}, [], run_id=run_id, **options)
    return run_id


def _say(heard: PartialReplyHandler, run_id: UUID, text: str) -> None:
    chunk = ChatGenerationChunk(message=AIMessageChunk(text, id=str(run_id)))
    heard.on_llm_new_token(text, run_id=run_id, chunk=chunk)


def _end(heard: PartialReplyHandler, run_id: UUID, text: str) -> None:
    said = ChatGeneration(message=AIMessage(text))
    heard.on_llm_end(LLMResult(generations=[[said]]), run_id=run_id)


def _broken(heard: PartialReplyHandler) -> list[str]:
    return [str(message.text) for message in heard.collect_broken()]


@pytest.mark.parametrize("tag", INTERNAL_TAGS)
def test_what_the_memory_asks_and_nobody_is_shown_is_not_heard(tag):
    heard = PartialReplyHandler()
    run_id = _begin(heard, tags=[tag])
    _say(heard, run_id, "Half")
    assert heard.collect_broken() == []
    _end(heard, run_id, "Whole.")
    assert heard.message is None


def test_a_model_that_makes_the_reply_of_another_is_not_heard():
    heard = PartialReplyHandler()
    outer = _begin(heard)
    inner = _begin(heard, parent_run_id=outer)
    _end(heard, inner, "Inner.")
    assert heard.message is None
    _end(heard, outer, "Outer.")
    assert heard.message.text == "Outer."


def test_what_broke_is_forgotten_when_it_was_tried_again():
    heard = PartialReplyHandler()
    first = _begin(heard)
    _say(heard, first, "Half")
    assert _broken(heard) == ["Half"]
    second = _begin(heard)
    _end(heard, second, "Whole.")
    assert heard.collect_broken() == []


def test_models_at_the_same_time_are_heard_each():
    heard = PartialReplyHandler()
    first, second = _begin(heard), _begin(heard)
    _say(heard, second, "Half")
    _end(heard, first, "First.")
    assert _broken(heard) == ["Half"], "the other one goes on"
    _end(heard, second, "Half and half.")
    assert heard.message.text == "Half and half."
    assert heard.collect_broken() == []


def test_the_words_of_a_stream_that_breaks_are_heard():
    heard = PartialReplyHandler()
    model = ScriptedChatModel(replies=["One two three"], breaks_after=2)
    with pytest.raises(ProviderError):
        list(model.stream("Count.", heard.listen(None)))
    assert _broken(heard) == ["One two "]
    assert heard.first_token_ms is not None
    assert heard.message is None
