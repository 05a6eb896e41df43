"""One value of a good file is changed to anything: the file is refused, or read and storable."""

import contextlib
import copy
import json

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage, messages_to_dict

from langchain_convmem import to_dynamodb
from langchain_convmem.errors import ImportFormatError
from langchain_convmem.logs import InMemoryLog
from langchain_convmem.records import Control, Cover, Draft, Metadata, ThreadKey
from langchain_convmem.transfer import export_rows, store_thread
from langchain_convmem.views.codec import make_draft
from langchain_convmem.views.live import find_live_entries
from tests.support.transfer import threads_in_file


def _exported_rows():
    """One entry of each kind, by itself."""
    log, key = InMemoryLog(), ThreadKey("ana", "t1")
    known = Metadata(("seen",), {"llmEnd": 5}, ("01",), {"x": (1, b"\x00")})
    message = AIMessage("x", tool_calls=[{"name": "f", "args": {"n": 1}, "id": "c"}])
    control = Control(("01",), "replaced", "02")
    summary = Draft(role="summary", contents=("s",), metadata=known, cover=Cover(((1, 2),)))
    drafts = [make_draft(message, metadata=known), Draft(role="control", control=control), summary]
    log.append(key, drafts)
    return list(map(json.loads, export_rows(log, key.owner)))


def _node(parent, role, **content):
    author, metadata = {"role": role, "name": "x"}, {"model_slug": "m"}
    message = {"id": f"{role}-1", "author": author, "content": content, "metadata": metadata}
    message |= {"create_time": 1.7e9, "recipient": "python" if role == "assistant" else "all"}
    return {"message": message, "parent": parent}


CALLS = [{"id": "c", "function": {"name": "f", "arguments": '{"n": 1}'}}]
ASKS = AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "c"}])
TALK = [HumanMessage("x", name="a"), ASKS, ToolMessage("y", tool_call_id="c")]
STORED = messages_to_dict(TALK)
[TAGGED] = to_dynamodb([{"SessionId": "s", "History": STORED[:1]}])
RESULT = {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "y"}]}
GOOD = [
    {
        "conversation_id": "c",
        "current_node": "b",
        "mapping": {
            "a": _node(None, "user", content_type="multimodal_text", parts=["x", {"text": "y"}]),
            "b": _node("a", "assistant", content_type="code", text="{}"),
            "c": _node("a", "tool", content_type="thoughts", thoughts=[{"summary": "s"}]),
        },
    },
    {
        "uuid": "k",
        "current_leaf_message_uuid": "b",
        "chat_messages": [
            {"uuid": "a", "sender": "human", "text": "x", "attachments": [{"file_name": "f"}]},
            {
                "uuid": "b",
                "sender": "assistant",
                "parent_message_uuid": "a",
                "created_at": "2025-01-01",
                "content": [
                    {"type": "thinking", "thinking": "t"},
                    {"type": "tool_use", "id": "1", "name": "f", "input": {}},
                    RESULT,
                ],
            },
        ],
    },
    [
        {"role": "user", "content": [{"type": "text", "text": "x"}], "name": "a", "id": "1"},
        {"role": "assistant", "content": None, "tool_calls": CALLS, "timestamp": 5},
        {"role": "tool", "content": "y", "tool_call_id": "c", "session": 1},
    ],
    {"SessionId": "s", "History": STORED},
    {"Item": TAGGED},
    *_exported_rows(),
]
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=5)
    | st.sampled_from(
        ["a", "b", "c", "text", "tool", "user", "ai", "undo", "2025-01-01", "{}", "[]"]
    )
    | st.sampled_from([[], {}, [[]], [{}], {"type": "text"}, {"x": None}, [7], ["x"], {"S": 1}])
)


def places(value, path=()):
    """Every place in a document, the root included."""
    yield path
    members = value.items() if isinstance(value, dict) else ()
    for name, item in enumerate(value) if isinstance(value, list) else members:
        yield from places(item, (*path, name))


PLACES = [(number, path) for number, good in enumerate(GOOD) for path in places(good) if path]


def test_the_files_are_good_before_they_are_changed():
    for document in GOOD:
        (first, *_) = threads_in_file(json.dumps(document))
        assert len(first) > 0


@given(st.sampled_from(PLACES), LEAVES, st.booleans())
def test_a_changed_file_is_refused_or_can_be_stored_twice(place, value, remove):
    number, path = place
    document = holder = copy.deepcopy(GOOD[number])
    for name in path[:-1]:
        holder = holder[name]
    if remove:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    threads = []
    with contextlib.suppress(ImportFormatError):
        threads = threads_in_file(json.dumps(document))
    log = InMemoryLog()
    for thread in threads:
        assert store_thread(log, thread, user_id="ana") >= len(thread)
        assert store_thread(log, thread, user_id="ana") == 0
        find_live_entries(log.entries(ThreadKey("ana", thread.thread_id)))
