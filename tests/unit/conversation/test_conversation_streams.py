import asyncio
import threading
from functools import reduce
from operator import add

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    message_chunk_to_message,
)
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import RunnableLambda
from langgraph.graph import END, START, MessagesState, StateGraph
from scripted_chat import ProviderError, ScriptedChatModel
from talks import QWEN, chat, text_engine, texts
from watched_runs import RunWatcher

from langchain_convmem.conversation import Conversation
from langchain_convmem.errors import ConfigError, TurnCancelledError

CALL = '<tool_call>\n{"name": "look", "arguments": {"place": "a <b> c"}}\n</tool_call>'
REPLIES = [
    "",
    " ",
    "Level 3.",
    "<think>\nHm, <b>?\n</think>\n\nLevel 3.",
    f"<think>\nLet me see.\n</think>\n\nOne moment.\n{CALL}\n{CALL}",
    "<tool_call>\n{broken\n</tool_call>",
    "<think>never closed",
    "a < b </think",
]


def look(place: str) -> str:
    """Look at a place."""
    return f"seen {place}"


def conversation(reply, sizes=()):
    def cut(text):
        pieces, start = [], 0
        for size in sizes:
            pieces.append(text[start : start + size])
            start += size
        return [*pieces, text[start:]] if start < len(text) or not pieces else pieces

    engine = text_engine(reply, QWEN, chunking=cut)
    return Conversation(engine, preface={"tools": [look]}, auto_tools=False)


def outline(message):
    """Return all that does not differ from turn to turn."""
    return (
        type(message),
        message.content,
        message.content_blocks if not message.tool_calls else None,
        [(call["name"], call["args"]) for call in message.tool_calls],
        [(call["name"], call["args"]) for call in message.invalid_tool_calls],
        message.additional_kwargs,
        {key: told for key, told in message.response_metadata.items() if key != "speed"},
    )


def blocking(talk):
    return talk.send_message("Go")


def streaming(talk):
    return summed(list(talk.stream("Go")))


def by_callback(talk):
    events = []
    reply = talk.send_message_async("Go", events.append).result(30)
    assert outline(summed(events)) == outline(reply)
    return reply


def awaited(talk):
    return asyncio.run(talk.asend_message("Go"))


def astreaming(talk):
    async def read():
        return [chunk async for chunk in talk.astream("Go")]

    return summed(asyncio.run(read()))


def summed(chunks):
    """Add up chunks, of which the last alone says so and is empty."""
    assert [chunk.chunk_position for chunk in chunks] == [None] * (len(chunks) - 1) + ["last"]
    assert chunks[-1].content == ""
    assert all(isinstance(chunk, AIMessageChunk) for chunk in chunks)
    return message_chunk_to_message(reduce(add, chunks))


WAYS = [blocking, streaming, by_callback, awaited, astreaming]


@settings(max_examples=60)
@given(
    reply=st.sampled_from(REPLIES),
    sizes=st.lists(st.integers(0, 9), max_size=40),
    way=st.sampled_from(WAYS),
)
def test_a_reply_is_the_same_for_every_chunking_and_every_way_to_read_it(reply, sizes, way):
    whole = blocking(conversation(reply))
    talk = conversation(reply, sizes)
    found = way(talk)
    assert outline(found) == outline(whole)
    assert outline(talk.last_message) == outline(whole)
    assert found.id == talk.last_message.id
    assert found.response_metadata["raw_text"] == reply


@pytest.mark.parametrize("counting", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_a_reply_tells_its_time_to_the_first_token_and_its_speed(counting, way):
    talk = Conversation(text_engine("One two three.", template=QWEN, counting=counting))
    speed = way(talk).response_metadata["speed"]
    assert set(speed) == {"first_token_s", "tokens_per_s"}
    assert all(figure > 0 for figure in speed.values())
    assert talk.last_message.response_metadata["speed"] == speed


@pytest.mark.parametrize("way", WAYS)
def test_thoughts_are_closed_at_their_budget_and_the_reply_goes_on(way):
    model = text_engine(["<think>\nLevel A, or", "On level C."], template=QWEN)
    reply = way(Conversation(model, thinking_tokens=3, max_output_tokens=50))
    raw = "<think>\nLevel A,</think>On level C."
    assert (reply.text, reply.additional_kwargs["reasoning_content"]) == ("On level C.", "Level A,")
    assert reply.response_metadata["raw_text"] == raw
    assert model.sessions[0].text == QWEN.render(["Go"]) + raw
    decodes = [event.options["max_tokens"] for event in model.events if event.action == "decode"]
    assert decodes == [3, 47]


@pytest.mark.parametrize(
    ("replies", "most"),
    [
        (["<think>\nA.\n</think>\n\nOn level", "C."], None),  # the budget ends in the answer
        (["Five words, and no thoughts", "C."], None),
        (["<think>\nA.\n</think>\n\nC."], None),  # the reply ends before
        (["<think>\nA, or B, or C"], 2),  # the reply may not be longer
    ],
)
def test_a_budget_closes_nothing_but_thoughts(replies, most):
    model = text_engine(replies, template=QWEN)
    reply = blocking(Conversation(model, thinking_tokens=4, max_output_tokens=most))
    assert len(model.prefills) == 1
    assert len([one for one in model.events if one.action == "decode"]) == len(replies)
    assert reply.text.endswith("C.") is (most is None)


@pytest.mark.parametrize("way", WAYS)
def test_chat_models_reply_the_same_in_every_way(way):
    given_reply = AIMessage(
        "One two three.",
        id="r1",
        tool_calls=[{"name": "look", "args": {"place": "x"}, "id": "c1"}],
        usage_metadata={"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
    )
    talk = Conversation(ScriptedChatModel(replies=[given_reply]), auto_tools=False)
    found = way(talk)
    assert (found.text, found.tool_calls) == ("One two three.", given_reply.tool_calls)
    assert found.usage_metadata == given_reply.usage_metadata
    assert found == talk.last_message


@pytest.mark.parametrize("way", [blocking, streaming])
def test_any_runnable_that_answers_with_messages_is_a_model_also_with_one_and_the_same(way):
    shared = AIMessage("Me again")
    talk = Conversation(RunnableLambda(lambda _: shared))
    first, second = way(talk), way(talk)
    assert first.text == second.text == talk.last_message.text == "Me again"
    assert first.id != second.id
    assert shared.id is None
    assert len({one.id for one in talk.history}) == 4


@pytest.mark.parametrize("way", [blocking, streaming])
@pytest.mark.parametrize("is_with_message", [False, True])
def test_an_object_comes_with_the_reply_that_stands_for_it(way, is_with_message):
    usage = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
    call = {"name": "Place", "args": {"level": 3}, "id": "c1", "type": "tool_call"}
    value, raw = {"level": 3}, AIMessage("", tool_calls=[call], usage_metadata=usage)
    answer = {"raw": raw, "parsed": value, "parsing_error": None} if is_with_message else value
    talk = Conversation(RunnableLambda(lambda _: answer))
    reply = way(talk)
    assert (reply.text, reply.additional_kwargs) == ('{"level": 3}', {"parsed": value})
    assert reply.tool_calls == [], "nobody is to answer a call that only carries the object"
    assert reply.usage_metadata == (usage if is_with_message else None)
    assert talk.history[-1].text == '{"level": 3}'


def test_tool_rounds_are_streamed_one_after_the_other_with_one_end():
    engine = text_engine(["Wait.\n" + CALL, "Seen."], QWEN)
    talk = Conversation(engine, preface={"tools": [look]})
    chunks = list(talk.stream("Go"))
    assert [chunk.chunk_position for chunk in chunks].count("last") == 1
    assert chunks[-1].chunk_position == "last"
    first, last = dict.fromkeys(chunk.id for chunk in chunks)
    assert "".join(chunk.text for chunk in chunks if chunk.id == last) == "Seen."
    assert [one.id for one in talk.history if isinstance(one, AIMessage)] == [first, last]


def test_the_end_is_told_when_the_history_holds_the_reply():
    talk, seen = conversation("one two", [4]), []

    def hear(chunk):
        seen.append((chunk.chunk_position, len(talk.history)))

    talk.send_message_async("Go", hear).result(30)
    assert seen == [(None, 0), (None, 0), ("last", 2)]


def test_a_cancelled_turn_ends_with_its_error_and_no_end_chunk():
    talk, events, ready = conversation("one two three", [4, 4]), [], threading.Event()

    def hear(event):
        events.append(event)
        if len(events) == 1:
            assert ready.wait(30)
            handles[0].cancel()

    handles = [talk.send_message_async("Go", hear)]
    ready.set()
    with pytest.raises(TurnCancelledError):
        handles[0].result(30)
    assert [type(event) for event in events] == [AIMessageChunk, TurnCancelledError]
    assert handles[0].done()
    assert not handles[0].cancel()


@pytest.mark.parametrize("callback", ["no function", 3])
def test_a_callback_is_checked_before_anything_is_sent(callback):
    talk = conversation("Level 3.")
    with pytest.raises(ConfigError, match="not a callback"):
        talk.send_message_async("Go", callback)
    assert talk.wait(0)


def test_an_empty_list_at_the_beginning_of_a_stream_swallows_no_text():
    chunks = [AIMessageChunk(content) for content in ([], "Level ", "3.", [])]
    talk = chat(chunks)
    assert reduce(add, talk.stream("Where?")).content == "Level 3."
    assert talk.history[-1].content == "Level 3."


def test_a_call_that_is_streamed_in_standard_blocks_is_kept_as_a_whole_call():
    chunks = []
    for name, args, call_id in (("look", '{"place"', "c1"), (None, ': "here"}', None)):
        call = {"name": name, "args": args, "id": call_id, "index": 0}
        block = {"type": "tool_call_chunk", **call}
        chunks.append(AIMessageChunk([block], tool_call_chunks=[block]))
    chunks[0].response_metadata = {"output_version": "v1"}
    talk = chat(chunks, auto_tools=False)
    assert len(list(talk.stream("Where?"))) == 3
    call = {"type": "tool_call", "name": "look", "args": {"place": "here"}, "id": "c1"}
    assert talk.history[-1].content == [call]


def test_an_input_in_parts_is_added_up():
    talk = chat("One.", "Two.")
    assert "".join(one.text for one in talk.transform(iter(["Hel", "lo"]))) == "One."

    async def parts():
        for part in ("Hel", "lo"):
            yield part

    async def read():
        return "".join([one.text async for one in talk.atransform(parts())])

    assert asyncio.run(read()) == "Two."
    assert texts(talk) == ["Hello", "One.", "Hello", "Two."]
    assert talk.wait(0)


@pytest.mark.parametrize("way", ["batch", "abatch"])
def test_a_batch_ends_with_its_first_error_or_tells_of_all(way):
    def send(talk, **options):
        if way == "batch":
            return talk.batch(["a", "b", "c"], **options)
        return asyncio.run(talk.abatch(["a", "b", "c"], **options))

    talk = chat("A.", ProviderError("down"), "C.")
    with pytest.raises(ProviderError):
        send(talk)
    assert texts(talk) == ["a", "A."]
    talk = chat("A.", ProviderError("down"), "C.")
    found = send(talk, return_exceptions=True)
    assert [type(one) for one in found] == [AIMessage, ProviderError, AIMessage]
    assert texts(talk) == ["a", "A.", "c", "C."]


def test_it_stands_in_a_chain_that_is_invoked_and_streamed():
    said = chat("one two", "three four")
    chain = RunnableLambda(str.upper) | said | StrOutputParser()
    assert chain.invoke("a") == "one two"
    assert [piece for piece in chain.stream("b") if piece] == ["three ", "four"]
    assert texts(said) == ["A", "one two", "B", "three four"]


async def test_a_graph_shows_the_words_of_the_model_within():
    said = chat("one two")

    async def node(state):
        return {"messages": [await said.asend_message(state["messages"][-1])]}

    builder = StateGraph(MessagesState)
    builder.add_node("talk", node)
    builder.add_edge(START, "talk")
    builder.add_edge("talk", END)
    asked = {"messages": [HumanMessage("a")]}
    stream = builder.compile().astream(asked, stream_mode="messages")
    shown = [chunk.text async for chunk, _ in stream]
    assert "".join(shown).replace(" ", "").startswith("onetwo")


class ToolWatcher(RunWatcher):
    """Keeps starts of tools as well."""

    def on_tool_start(self, serialized, input_str, **run):
        self._started("tool", run)


def shelf(kind: str) -> str:
    """Tell a shelf."""
    return "3"


SENDS = {
    "invoke": lambda talk, config: talk.invoke("Where?", config),
    "stream": lambda talk, config: list(talk.stream("Where?", config)),
    "handle": lambda talk, config: talk.send_message_async("Where?", None, config).result(10),
}


@pytest.mark.parametrize("way", SENDS)
def test_models_and_tools_run_within_the_run_of_the_conversation(way):
    called = AIMessage("", tool_calls=[{"name": "shelf", "args": {"kind": "maps"}, "id": "1"}])
    watcher = ToolWatcher()
    config = {"callbacks": [watcher], "tags": ["mine"], "run_name": "library"}
    SENDS[way](chat(called, "On 3.", preface={"tools": [shelf]}), config)
    (top, library), *within = watcher.runs.items()
    assert (library["name"], library["parent_run_id"]) == ("library", None)
    assert [run["kind"] for _, run in within] == ["model", "tool", "model"]
    assert {run["parent_run_id"] for _, run in within} == {top}
    assert all("mine" in run["tags"] for run in watcher.runs.values())
