import json

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_convmem.errors import ImportFormatError
from tests.support.transfer import threads_in_file


def threads_in(*messages, name="k-1", **rest):
    document = [{"uuid": name, "name": "Bikes", "chat_messages": list(messages), **rest}]
    return threads_in_file(json.dumps(document))


def said(name, sender, *blocks, text="", **rest):
    content = [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]
    known = {"uuid": name, "sender": sender, "text": text, "content": content}
    empty = {"attachments": [], "files": []}
    return {**known, **empty, "created_at": "2025-02-03T10:00:00.123456Z", **rest}


def test_a_conversation_is_a_thread_with_ids_and_times():
    (thread,) = threads_in(said("a", "human", "Hi"), said("b", "assistant", "Hello"))
    assert thread.thread_id == "k-1"
    assert [(type(m), m.id, m.content) for m in thread.messages] == [
        (HumanMessage, "a", "Hi"),
        (AIMessage, "b", "Hello"),
    ]
    assert thread.messages[0].additional_kwargs == {"timestamp": "2025-02-03T10:00:00.123+00:00"}


def test_a_reply_is_parted_at_its_tool_results():
    use = {"type": "tool_use", "id": "t1", "name": "web.search", "input": {"q": "bakery"}}
    two = [{"type": "text", "text": "two found"}, {"type": "knowledge", "title": "Map"}]
    result = {"type": "tool_result", "tool_use_id": "t1", "name": "web.search", "content": two}
    result["is_error"] = False
    nameless_use = {"type": "tool_use", "name": "clock", "input": {}}
    failed = {"type": "tool_result", "content": "no clock", "is_error": True}
    blocks = [{"type": "thinking", "thinking": "A map."}, "Let me look.", use, result]
    blocks += ["Two.", nameless_use, failed, "Sorry."]
    (thread,) = threads_in(said("a", "human", "Where?"), said("b", "assistant", *blocks))
    _, looking, found, between, no_clock, last = thread.messages
    assert [message.id for message in thread.messages[1:]] == ["b", "b~2", "b~3", "b~4", "b~5"]
    thought = {"type": "reasoning", "reasoning": "A map."}
    assert looking.content == [thought, {"type": "text", "text": "Let me look."}]
    assert looking.tool_calls == [
        {"name": "web_search", "args": {"q": "bakery"}, "id": "t1", "type": "tool_call"}
    ]
    assert isinstance(found, ToolMessage)
    assert found.content == [
        {"type": "text", "text": "two found"},
        {"type": "non_standard", "value": {"type": "knowledge", "title": "Map"}},
    ]
    assert (found.tool_call_id, found.status) == ("t1", "success")
    assert (between.content, no_clock.content, no_clock.status) == ("Two.", "no clock", "error")
    assert no_clock.tool_call_id == between.tool_calls[0]["id"] != "t1"
    assert last.content == "Sorry."


def test_attached_texts_are_documents_and_files_are_named():
    attachment = {"file_name": "notes.txt", "file_size": 5, "extracted_content": "Mill Lane"}
    (thread,) = threads_in(
        said("a", "human", "See this", attachments=[attachment], files=[{"file_name": "map.png"}])
    )
    text, document, file = thread.messages[0].content
    assert text == {"type": "text", "text": "See this"}
    assert (document["type"], document["mime_type"]) == ("text-plain", "text/plain")
    assert (document["text"], document["title"]) == ("Mill Lane", "notes.txt")
    assert file == {"type": "non_standard", "value": {"file_name": "map.png"}}


def test_messages_off_the_way_to_the_last_one_make_branches():
    nobody = "00000000-0000-4000-8000-000000000000"
    main, branch = threads_in(
        said("a", "human", "Hi", parent_message_uuid=nobody),
        said("b", "assistant", "Hello", parent_message_uuid="a"),
        said("c", "assistant", "Hey", parent_message_uuid="a"),
        said("d", "human", "Bye", parent_message_uuid="c"),
    )
    assert [message.id for message in main.messages] == ["a", "c", "d"]
    assert (branch.thread_id, [m.id for m in branch.messages]) == ("k-1~branch-1", ["b"])


@pytest.mark.parametrize(
    ("message", "location", "says"),
    [
        (said("a", "robot", "x"), "$[0].chat_messages[0].sender", "'human' or 'assistant'"),
        (said("a", "human", {"text": "x"}), "$[0].chat_messages[0].content[0]", '"type"'),
        (said("a", "human", "x", created_at="soon"), "$[0].chat_messages[0].created_at", "ISO"),
        ({"sender": "human", "text": "x"}, "$[0].chat_messages[0]", '"uuid"'),
        (
            said("b", "assistant", {"type": "tool_use", "input": {}}),
            "$[0].chat_messages[0].content[0]",
            '"name"',
        ),
    ],
)
def test_a_bad_message_is_refused_with_its_place(message, location, says):
    with pytest.raises(ImportFormatError) as caught:
        threads_in(message)
    assert f": {location}: " in str(caught.value)
    assert says in str(caught.value)


def test_an_id_that_stands_twice_is_refused_with_both_places():
    with pytest.raises(ImportFormatError, match=r"chat_messages\[1\].*chat_messages\[0\]"):
        threads_in(said("a", "human", "x"), said("a", "assistant", "y"))
