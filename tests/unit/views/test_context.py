from __future__ import annotations

from dataclasses import replace

import pytest
from histories import KEY, spoken
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    HumanMessageChunk,
    SystemMessage,
    ToolMessage,
)

from langchain_convmem.errors import ConfigError
from langchain_convmem.logs import InMemoryLog
from langchain_convmem.records import Cover, Draft, Entry
from langchain_convmem.turns.view import make_entry
from langchain_convmem.views.codec import make_draft
from langchain_convmem.views.context import LiveReach, build_context
from langchain_convmem.views.live import PLACEHOLDER_TEXT, build_turns
from langchain_convmem.views.messages import NOTED_SOURCE, NOTED_TEXT, SUMMARY_SOURCE
from langchain_convmem.views.summaries import format_summary
from langchain_convmem.views.tool_calls import INTERRUPTED_RESULT
from tests.fuzz.validators import VALIDATORS


def call(own, name="weather"):
    return {"name": name, "args": {"city": "Genoa"}, "id": own, "type": "tool_call"}


def asks(*ids, text=""):
    return AIMessage(text, tool_calls=[call(own) for own in ids])


def result(own, text="22"):
    return ToolMessage(text, tool_call_id=own)


def shown(*messages, **options):
    found = build_context(spoken(*messages), **options)
    assert VALIDATORS["strict"](found.messages) == []
    return found


def shape(found):
    return [(message.type, message.content) for message in found.messages]


IMAGE = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
SHAPES = {
    "nothing": ([], []),
    "text and blocks are merged": (
        ["a", HumanMessage([IMAGE, " ", {"type": "text", "text": ""}, "b"])],
        [("human", [{"type": "text", "text": "a"}, IMAGE, {"type": "text", "text": "b"}])],
    ),
    "one assistant who speaks twice": (
        ["q", AIMessage("So.", name="abe"), AIMessage("It is.", name="abe")],
        [("human", "q"), ("ai", "So.\nIt is.")],
    ),
    "chunks, and messages of any role": (
        [
            HumanMessageChunk(content="a"),
            AIMessageChunk(content="b"),
            ChatMessage(content="c", role="narrator", name="Bo"),
            ChatMessage(content="d", role="model"),
            ChatMessage(content="e", role="developer"),
        ],
        [("system", "e"), ("human", "a"), ("ai", "b"), ("human", "c"), ("ai", "d")],
    ),
    "a text before calls": (
        ["q", AIMessage("Let me see."), asks("c1", text="Looking."), result("c1")],
        [("human", "q"), ("ai", "Let me see.\nLooking."), ("tool", "22")],
    ),
    "results in another order than their calls": (
        ["q", asks("c1", "c2"), result("c2", "two"), result("c1", "one"), AIMessage("a")],
        [("human", "q"), ("ai", ""), ("tool", "one"), ("tool", "two"), ("ai", "a")],
    ),
    "loops within each other": (
        ["q", asks("c1"), asks("c2"), result("c2", "two"), "more?", result("c1", "one")],
        [
            *[("human", "q"), ("ai", ""), ("tool", "one"), ("ai", ""), ("tool", "two")],
            ("human", "more?"),
        ],
    ),
    "a result that comes late": (
        ["q", asks("c1"), "Still there?", result("c1", "late")],
        [("human", "q"), ("ai", ""), ("tool", "late"), ("human", "Still there?")],
    ),
    "a result of the latest call of its id": (
        ["q", asks("0"), "go on", asks("0"), result("0", "of the second")],
        [
            *[("human", "q"), ("ai", ""), ("tool", INTERRUPTED_RESULT), ("human", "go on")],
            *[("ai", ""), ("tool", "of the second")],
        ],
    ),
    "a call without an id": (
        ["q", asks(None), FunctionMessage(name="weather", content="22")],
        [("human", "q"), ("ai", ""), ("tool", "22")],
    ),
    "blank messages, and results that no call owns": (
        [result("c1"), "a", AIMessage(" "), HumanMessage(["\n"]), AIMessage("b"), result("c1")],
        [("human", "a"), ("ai", "b")],
    ),
    "calls that share an id": (
        ["q", asks("0"), result("0", "a"), asks("0", "0"), result("0", "b"), result("0", "c")],
        [("human", "q"), *[("ai", ""), ("tool", "a")], ("ai", ""), ("tool", "b"), ("tool", "c")],
    ),
    "empty results": (
        ["q", asks("c1", "c2"), result("c1", " "), ToolMessage([], tool_call_id="c2")],
        [("human", "q"), ("ai", ""), ("tool", "[no output]"), ("tool", "[no output]")],
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_what_is_said_is_shown_in_a_form_that_every_provider_takes(name):
    said, expected = SHAPES[name]
    assert shape(shown(*said)) == expected


def test_a_sound_history_is_shown_as_it_is():
    said = [SystemMessage("s"), HumanMessage("a", id="m1", name="Ana"), asks("c1"), result("c1")]
    found = shown(*said, AIMessage("b", response_metadata={"n": [1]}))
    assert found.repairs == ()
    assert [message.model_copy(update={"id": None}) for message in found.messages[:1]] == said[:1]
    assert found.messages[1] == said[1]
    assert found.messages[-1].response_metadata == {"n": [1]}
    assert len(found.positions) == 5


def test_the_same_role_in_a_row_is_merged_and_nothing_is_summed_up():
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    found = shown("a", "b", *(AIMessage(text, usage_metadata=usage) for text in "cd"))
    assert shape(found) == [("human", "a\nb"), ("ai", "c\nd")]
    assert found.messages[1].usage_metadata == usage
    assert found.repairs == ()


def test_an_assistant_who_speaks_first_answers_a_placeholder():
    entries = spoken(AIMessage("Welcome!"))
    found = build_context(entries)
    assert shape(found) == [("human", PLACEHOLDER_TEXT), ("ai", "Welcome!")]
    assert len(found.positions) == 1
    assert found.messages[0].id == build_turns(entries)[0].id
    assert "assistant spoke first" in found.repairs[0]


def test_an_entry_without_a_message_is_shown_in_its_role():
    with InMemoryLog() as log:
        bare = Draft(role="assistant", contents=("b", "c"))
        log.append(KEY, [make_draft(HumanMessage("a")), bare])
        found = build_context(log.entries(KEY))
    assert VALIDATORS["strict"](found.messages) == []
    assert shape(found) == [("human", "a"), ("ai", "b\nc")]


def test_what_repeats_whole_calls_stays_and_the_rest_goes():
    blocks = [
        {"type": "text", "text": "Looking."},
        {"type": "tool_use", "id": "c1", "name": "weather", "input": {}},
        {"type": "tool_use", "id": "c2", "name": "weather", "input": '{"ci'},
        {"type": "function_call", "call_id": "c1", "id": "fc_1"},
    ]
    raw = [{"id": own, "function": {"name": "weather", "arguments": "{}"}} for own in ("c1", "c2")]
    message = AIMessage(
        blocks,
        id="m1",
        tool_calls=[call("c1")],
        invalid_tool_calls=[{"name": "weather", "args": '{"ci', "id": "c2", "error": None}],
        additional_kwargs={"tool_calls": raw, "function_call": {"name": "w"}, "other": 1},
    )
    entries = spoken("q", message, result("c1"))
    found = build_context(entries)
    asked = found.messages[1]
    assert asked.content == [blocks[0], blocks[1], blocks[3]]
    assert asked.invalid_tool_calls == []
    assert asked.additional_kwargs == {"other": 1}
    assert found.repairs == ("left out the unparsable tool calls of m1",)
    assert len(entries[1].message.content) == 4


def summarised(log):
    said = (HumanMessage("a"), AIMessage("b"), AIMessage("c"))
    entries = log.append(KEY, [make_draft(one) for one in said])
    cover = Cover(((entries[0].position, entries[1].position),))
    [summary] = log.append(KEY, [Draft(role="summary", contents=("S", "T"), cover=cover)])
    return entries, summary


def test_the_live_summary_is_one_marked_message_that_the_user_says_and_an_answer():
    with InMemoryLog() as log:
        entries, summary = summarised(log)
        log.append(KEY, [make_draft(SystemMessage("s"))])
        found = build_context(log.entries(KEY))
        without = build_context(log.entries(KEY), summary="omit")
        of_system = build_context(log.entries(KEY), summary="system")
    told = [("human", format_summary(["S", "T"])), ("ai", NOTED_TEXT)]
    rest = [("human", PLACEHOLDER_TEXT), ("ai", "c")]
    assert shape(found) == [("system", "s"), *told, *rest]
    assert found.messages[1].additional_kwargs == {"source": SUMMARY_SOURCE}
    assert found.messages[1].id == summary.id
    assert {entries[2].position, summary.position} < found.positions
    assert found.messages[2].additional_kwargs == {"source": NOTED_SOURCE}
    assert shape(without) == [("system", "s"), *rest]
    assert summary.position not in without.positions
    assert shape(of_system) == [("system", "s"), ("system", told[0][1]), *rest]


def test_a_plain_dialogue_is_copied_and_counted_when_somebody_asks():
    counted: list[int] = []

    def count(messages):
        counted.append(len(messages))
        return 7 * len(messages)

    said = ["Where is the ladder?", AIMessage("In the shed."), "Thanks."]
    entries = spoken(*said)
    found = build_context(entries, token_counter=count)
    assert (counted, found.repairs, found.is_whole, found.is_cut) == ([], (), True, False)
    assert found.positions == {entry.position for entry in entries}
    assert (found.tokens, found.tokens, counted) == (21, 21, [3])
    found.messages[1].content = "changed"
    again = build_context(entries, max_tokens=21, token_counter=count).messages
    assert [one.text for one in again] == [said[0], "In the shed.", said[2]]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"provider": "lenient"}, "lenient"),
        ({"summary": "tool"}, "tool"),
        ({"max_tokens": 0}, "0"),
        ({"max_tokens": -5}, "-5"),
    ],
)
def test_unknown_options_are_refused_by_name(options, named):
    with pytest.raises(ConfigError, match=named):
        build_context([], **options)


@pytest.mark.parametrize("profile", ["strict", "openai", "anthropic", "bedrock_converse"])
def test_of_two_assistants_in_one_message_the_text_says_who_speaks(profile):
    said = [AIMessage("So.", name="abe"), AIMessage("No.", name="bea"), AIMessage("Well.")]
    said.append(AIMessage("Oh.", name="abe"))
    found = shown("q", *said, "r", AIMessage("Yes.", name="bea"), provider=profile)
    both = ("ai", "abe: So.\nbea: No.\nWell.\nabe: Oh.")
    assert shape(found) == [("human", "q"), both, ("human", "r"), ("ai", "Yes.")]
    assert found.messages[1].name is None


def test_of_two_messages_under_one_id_the_later_goes_by_its_entry():
    first, reply, again = spoken("one?", AIMessage("1"), "two?")
    again = replace(again, message=HumanMessage("two?", id=first.message_id))
    found = build_context([first, reply, again]).messages
    assert [message.id for message in found] == [first.id, reply.id, again.id]


@pytest.mark.parametrize(("role", "sent"), [("developer", True), (7, False), ("boss", False)])
def test_a_role_of_openai_is_sent_where_it_is_one(memory, role, sent):
    message = SystemMessage("Be kind.", additional_kwargs={"__openai_role__": role})
    memory.add_messages([message, HumanMessage("Hello.")], thread_id="t", user_id="ana")
    shown = memory.history("t", user_id="ana").context(provider="openai").messages[0]
    assert ("__openai_role__" in shown.additional_kwargs) is sent


@pytest.mark.parametrize("text", ["", " ", "\n\t"])
def test_an_empty_summary_is_shown_as_none_and_its_stretch_stays_in_the_log(text):
    with InMemoryLog() as log:
        said = log.append(KEY, [make_draft(one) for one in (HumanMessage("a"), AIMessage("b"))])
        cover = Cover(((said[0].position, said[1].position),))
        log.append(KEY, [Draft(role="summary", contents=(text,), cover=cover)])
        entries = log.append(KEY, [make_draft(HumanMessage("c"))]) and log.entries(KEY)
    assert shape(build_context(entries)) == [("human", "c")]
    assert [entry.contents for entry in entries[:2]] == [("a",), ("b",)]


ID = "01ARZ3NDEKTSV4RRFFQ69G5FA"
SAID = (AIMessage("In the shed."), HumanMessage("Where is it?"))
CHAT = [make_entry(SAID[n % 2], KEY, n, f"{ID}{n - 1 + n % 2}", f"{ID}{n}") for n in range(1, 7)]


@pytest.mark.parametrize(
    ("ranges", "stretches", "floor"),
    [([(1, 4)], [(3, None)], 4), ([(3, 4), (7, 8)], [(0, 2), (3, 6), (8, None)], 9)],
)
def test_what_a_summary_covers_is_not_read_but_for_its_last_entry(ranges, stretches, floor):
    told = Entry(id=ID, key=KEY, position=9, turn_id="", role="summary", cover=Cover(ranges))
    reach = LiveReach(None, len)
    found = reach.find_stretches([told])
    assert (found, reach.floor, reach.is_enough(CHAT)) == (stretches, floor, False)


@pytest.mark.parametrize(("budget", "floor"), [(6, 4), (8, 2), (14, 0)])
def test_a_read_is_enough_where_a_question_opens_what_weighs_more_than_the_budget(budget, floor):
    reach = LiveReach(budget, lambda messages: 4 * len(messages))
    reach.find_stretches([])
    assert (reach.is_enough(CHAT), reach.floor) == (floor > 0, floor)
    assert reach.select_needed(CHAT) == CHAT[floor:]
