import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_convmem.errors import ImportFormatError
from tests.support.transfer import threads_in_file


def threads_in(content, **options):
    return threads_in_file(json.dumps(content), **options)


def refusal(content):
    with pytest.raises(ImportFormatError) as caught:
        threads_in(content)
    return str(caught.value)


def said(name, parent, role, *parts, time=None, author=None, **rest):
    """A node of the mapping with a text message."""
    author = {"role": role, "name": author, "metadata": {}}
    content = {"content_type": "text", "parts": list(parts)}
    message = {"id": name, "author": author, "create_time": time, "content": content}
    message |= {"recipient": "all", "metadata": {}, **rest}
    return {name: {"id": name, "message": message, "parent": parent, "children": []}}


def silent(name, parent):
    return {name: {"id": name, "message": None, "parent": parent, "children": []}}


def conversation(*nodes, current, name="c-1"):
    mapping = {key: value for node in nodes for key, value in node.items()}
    known = {"title": "Bikes", "create_time": 1_700_000_000.5, "conversation_id": name, "id": name}
    return {**known, "mapping": mapping, "current_node": current}


PLAIN = conversation(
    silent("root", None),
    said("s", "root", "system", ""),
    said("a", "s", "user", "Where do I lock it?", time=1_700_000_000.25),
    said("b", "a", "assistant", "Behind the bakery.", metadata={"model_slug": "gpt-4o"}),
    current="b",
)


def test_a_conversation_is_the_path_to_its_current_node():
    (thread,) = threads_in([PLAIN])
    question, answer = thread.messages
    assert (thread.thread_id, thread.branch_of) == ("c-1", None)
    assert threads_in(PLAIN) == [thread], "one alone is read like a list of one"
    assert [type(message) for message in thread.messages] == [HumanMessage, AIMessage]
    assert (question.id, question.content) == ("a", "Where do I lock it?")
    assert question.additional_kwargs == {"timestamp": "2023-11-14T22:13:20.250+00:00"}
    assert (answer.id, answer.content) == ("b", "Behind the bakery.")
    assert answer.response_metadata == {"model_name": "gpt-4o"}


def test_what_was_left_for_another_branch_makes_threads_of_its_own():
    edited = conversation(
        silent("root", None),
        said("a", "root", "user", "first try"),
        said("b", "a", "assistant", "first answer"),
        said("c", "b", "user", "and then?"),
        said("b2", "a", "assistant", "second answer"),
        said("a2", "root", "user", "second try"),
        said("d", "a2", "assistant", "third answer"),
        current="d",
    )
    main, first, second = threads_in([edited])
    named = threads_in([edited], thread_id="mine")
    assert [one.thread_id for one in named] == ["mine", "mine~branch-1", "mine~branch-2"]
    assert [m.id for m in main.messages] == ["a2", "d"]
    assert (first.thread_id, first.branch_of) == ("c-1~branch-1", "c-1")
    assert [m.id for m in first.messages] == ["a", "b", "c"]
    assert (second.thread_id, [m.id for m in second.messages]) == ("c-1~branch-2", ["b2"])


def test_what_a_model_sends_to_a_tool_is_a_call_and_the_answer_its_result():
    code = {"content_type": "code", "language": "unknown", "text": "print(6 * 7)"}
    output = {"content_type": "execution_output", "text": "42"}
    search = {"content_type": "code", "text": '{"query": "bakery"}'}
    thread = threads_in(
        conversation(
            said("a", None, "user", "Calculate."),
            said("b", "a", "assistant", recipient="python", content=code),
            said("c", "b", "tool", author="python", content=output),
            said("d", "c", "assistant", recipient="file_search.msearch", content=search),
            said("e", "d", "tool", "two bakeries", author="file_search"),
            said("f", "e", "assistant", "42, and two."),
            current="f",
        )
    )[0]
    _, call, result, search_call, found, _ = thread.messages
    assert call.tool_calls == [
        {"name": "python", "args": {"input": "print(6 * 7)"}, "id": "call-b", "type": "tool_call"}
    ]
    assert isinstance(result, ToolMessage)
    assert (result.tool_call_id, result.content, result.name) == ("call-b", "42", "python")
    assert search_call.tool_calls[0]["name"] == "file_search_msearch"
    assert search_call.tool_calls[0]["args"] == {"query": "bakery"}
    assert search_call.additional_kwargs["recipient"] == "file_search.msearch"
    assert found.tool_call_id == "call-d"


def test_pictures_thoughts_voices_and_instructions_are_kept_as_what_they_are():
    picture = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://f1"}
    thoughts = {"content_type": "thoughts", "thoughts": [{"summary": "Look", "content": "closer"}]}
    profile = {"content_type": "user_editable_context", "user_profile": "I cycle."}
    profile["user_instructions"] = "Be short."
    thread = threads_in(
        conversation(
            said("p", None, "user", content=profile),
            said("a", "p", "user", picture, "What is this?"),
            said("t", "a", "assistant", content=thoughts),
            said("v", "t", "user", {"content_type": "audio_transcription", "text": "Tell me"}),
            said("b", "v", "assistant", "A barn."),
            current="b",
        )
    )[0]
    about, question, thought, voice, answer = thread.messages
    assert isinstance(about, SystemMessage)
    assert [block["text"] for block in about.content] == ["I cycle.", "Be short."]
    shown, asked = question.content
    assert shown == {"type": "non_standard", "value": picture}
    assert asked == {"type": "text", "text": "What is this?"}
    assert thought.content == [{"type": "reasoning", "reasoning": "Look\ncloser"}]
    assert (voice.content, answer.content) == ("Tell me", "A barn.")


def test_conversations_without_a_word_make_no_thread():
    empty = conversation(said("s", None, "system", ""), current="s", name="e")
    unused = conversation(current=None, name="u")
    assert [thread.thread_id for thread in threads_in([empty, PLAIN, unused])] == ["c-1"]
    assert "no conversation with a message" in refusal([empty])
    assert "'c-1' is there already" in refusal([PLAIN, PLAIN])


CIRCLES = [said("a", "b", "user", "x"), said("b", "a", "user", "y")]
AT = "$[0].mapping.a.message"


@pytest.mark.parametrize(
    ("nodes", "location", "says"),
    [
        (CIRCLES, "$[0]", "circle"),
        ([said("c", None, "user", "z"), *CIRCLES], "$[0]", "circle"),
        ([said("a", None, "robot", "x")], f"{AT}.author.role", "robot"),
        ([said("a", None, "user", "\ud800")], AT, "surrogate"),
        ([said("a", None, "user", "x", time="soon")], f"{AT}.create_time", "seconds"),
        ([said("a", None, "user", "x", time=1e300)], f"{AT}.create_time", "seconds"),
        ([said("a", None, "user", "x", content=None)], AT, "content"),
        ([{"a": 7}], "$[0].mapping.a", "a valid dictionary"),
    ],
)
def test_a_bad_conversation_is_refused_with_its_place(nodes, location, says):
    error = refusal([conversation(*nodes, current="a")])
    assert f": {location}: " in error
    assert says in error


@st.composite
def trees(draw):
    """Nodes by name with the node each follows, and one that is the current."""
    count = draw(st.integers(1, 25))
    above = [None, *(draw(st.integers(0, n - 1)) for n in range(1, count))]
    return above, draw(st.integers(0, count - 1))


@given(trees())
def test_every_message_of_a_tree_is_in_one_thread_and_follows_what_it_followed(tree):
    above, current = tree
    nodes = [
        said(f"n{number}", None if parent is None else f"n{parent}", "user", f"line {number}")
        for number, parent in enumerate(above)
    ]
    threads = threads_in(conversation(*nodes, current=f"n{current}"))
    there = sorted(message.id for thread in threads for message in thread.messages)
    assert there == sorted(f"n{number}" for number in range(len(above)))
    assert threads[0].messages[-1].id == f"n{current}"
    for thread in threads:
        ids = [message.id for message in thread.messages]
        for before, after in pairwise(ids):
            parent = above[int(after[1:])]
            assert before == (None if parent is None else f"n{parent}")
