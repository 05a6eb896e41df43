"""What counts as the question, and what can be quoted."""

from __future__ import annotations

from langchain_core.messages import (
    AIMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

from langchain_convmem.offline.context import ContextLine, read_context

FENCE = "A notice.\n<recalled>\n[2023-05-08]\nUser: I like tea.\n</recalled>\n"


def _spoken(messages):
    return [
        (line.speaker, line.text, line.date, line.source) for line in read_context(messages).lines
    ]


def test_the_question_is_the_latest_user_message_and_no_line():
    given = read_context([HumanMessage("a"), AIMessage("b"), HumanMessage("c")])
    assert given.question == "c"
    assert given.lines == (
        ContextLine("You", "a", None, "dialogue", 0),
        ContextLine("Assistant", "b", None, "dialogue", 0),
    )


def test_recalled_text_is_taken_out_of_the_question_whether_in_one_text_or_in_blocks():
    blocks = [{"type": "text", "text": FENCE}, {"type": "text", "text": "What do I like?"}]
    for content in (FENCE + "What do I like?", blocks):
        given = read_context([HumanMessage(content)])
        assert given.question == "What do I like?"
        assert given.lines == (ContextLine("You", "I like tea.", "2023-05-08", "dialogue", 1),)


def test_recalled_text_in_a_message_of_its_own_does_not_become_the_question():
    for order in (1, -1):
        messages = [HumanMessage("What do I like?"), HumanMessage(FENCE)][::order]
        given = read_context(messages)
        assert given.question == "What do I like?"
        assert [line.text for line in given.lines] == ["I like tea."]


def test_sections_of_a_prompt_file_in_front_of_the_question_are_no_part_of_it():
    blocks = [
        {"type": "text", "text": "<context>\nToday is Monday.\n</context>"},
        {"type": "text", "text": FENCE},
        {"type": "text", "text": "What do I like?"},
    ]
    given = read_context([HumanMessage(blocks)])
    assert given.question == "What do I like?"
    assert [line.text for line in given.lines] == ["I like tea."]


def test_a_question_in_front_of_the_fence_is_found():
    assert read_context([HumanMessage("Which tea?\n" + FENCE.split("\n", 1)[1])]).question == (
        "Which tea?"
    )


def test_names_tell_who_speaks_and_the_asker_is_you():
    messages = [
        HumanMessage("one", name="ana"),
        HumanMessage("two", name="ben"),
        AIMessage("three", name="Robin"),
        HumanMessage("<recalled>\n[2023-05-08]\nana: zero\n</recalled>\nfour", name="ana"),
    ]
    assert [line[0] for line in _spoken(messages)] == ["You", "You", "ben", "Robin"]


def test_timestamps_of_messages_become_dates_and_broken_ones_none():
    stamps = ["2023-05-08T23:30:00+00:00", 1_683_590_400_000, "soon", 10**30, float("nan")]
    messages = [
        HumanMessage(str(number), additional_kwargs={"timestamp": stamp})
        for number, stamp in enumerate(stamps)
    ]
    dates = [line[2] for line in _spoken([*messages, HumanMessage("?")])]
    assert dates == ["2023-05-08", "2023-05-09", None, None, None]


def test_summaries_instructions_and_tool_results_are_told_apart():
    messages = [
        SystemMessage("Be brief."),
        SystemMessage("They met.", additional_kwargs={"source": "convmem_summary"}),
        SystemMessage("Notice <summary>They parted.</summary>"),
        ToolMessage("12 degrees", tool_call_id="1", name="weather"),
        FunctionMessage("14 degrees", name="forecast"),
        HumanMessage("?"),
    ]
    assert _spoken(messages) == [
        ("", "Be brief.", None, "system"),
        ("", "They met.", None, "summary"),
        ("", "They parted.", None, "summary"),
        ("weather", "12 degrees", None, "tool"),
        ("forecast", "14 degrees", None, "tool"),
    ]


def test_media_blocks_are_passed_over_and_their_neighbours_read():
    content = [
        "plain",
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "text", "text": "caption"},
        {"type": "text", "text": None},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
    ]
    assert _spoken([HumanMessage(content), HumanMessage("?")]) == [
        ("You", "plain\ncaption", None, "dialogue")
    ]


def test_messages_of_odd_kinds_are_read_by_their_role_or_passed_over():
    messages = [
        ChatMessage(role="user", content="one"),
        ChatMessage(role="narrator", content="two"),
        RemoveMessage(id="x"),
        AIMessage([]),
        HumanMessage("?"),
    ]
    assert [line[:2] for line in _spoken(messages)] == [("You", "one"), ("narrator", "two")]


def test_nothing_at_all_is_no_question_and_no_lines():
    given = read_context([])
    assert (given.question, given.lines) == ("", ())
