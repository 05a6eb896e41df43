import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_convmem import ConversationHistory, InMemoryLog
from langchain_convmem.errors import ImportFormatError
from langchain_convmem.logs.dynamodb import to_dynamodb
from langchain_convmem.transfer import store_thread
from langchain_convmem.transfer.imports import parse_threads
from langchain_convmem.transfer.source import Source

PICTURE = {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}
NAMED = HumanMessage("Hi", name="Bo", additional_kwargs={"timestamp": "2026-09-03T18:20Z"})
CALL = {"name": "look", "args": {"n": 1}, "id": "c1"}
STEPS = {
    "ask": lambda h, n: h.add("user", f"question {n}"),
    "ask twice": lambda h, n: h.add("user", [f"question {n}", "and more"]),
    "answer": lambda h, n: h.add("assistant", f"answer {n}"),
    "picture": lambda h, _: h.add_messages(
        [HumanMessage([PICTURE, {"type": "text", "text": "?"}])]
    ),
    "loop": lambda h, _: h.add_messages(
        [AIMessage("", tool_calls=[CALL]), ToolMessage("sun", tool_call_id="c1")]
    ),
    "rule": lambda h, n: h.add_messages([SystemMessage(f"rule {n}")]),
    "named": lambda h, _: h.add_messages([NAMED]),
    "undo": lambda h, _: h.undo() if h.turns else None,
    "mark": lambda h, n: h.turns and h.add("user", "marked").add_attribute(f"seen {n}"),
    "time": lambda h, n: h.add("assistant", "timed").add_timing("llmEnd", 1_700_000_000_000 + n),
    "data": lambda h, n: h.add("user", "with data").add_data("mood", {"calm": n}),
    "summary": lambda h, n: (
        None if (w := h.summary_window()).is_empty else h.add_summary([f"summary {n}", "x"], w)
    ),
}


EVERYTHING = ["answer", "ask", "rule", "ask", "loop", "answer", "summary", "time", "data"]
EVERYTHING += ["picture", "named", "answer", "summary", "ask twice", "mark", "answer"]


def normalise(maps):
    """The maps with numbers for ids."""
    names = {one["id"]: number for number, one in enumerate(maps)}
    found = []
    for one in maps:
        metadata = dict(one["metadata"])
        if "summaryIds" in metadata:
            metadata["summaryIds"] = [names.get(name) for name in metadata["summaryIds"]]
        found.append((names[one["id"]], one["message"], metadata))
    return found


def export(history):
    return history.to_maps(incremental=False, exclude_last=False)


def list_more_than_texts(history):
    parts = [part.message for turn in history.turns for part in turn.entries]
    said = [message.model_copy(update={"id": None}) for message in parts]
    return [message for message in said if message.name or PICTURE in [*message.content]]


@settings(max_examples=200)
@given(
    st.lists(st.sampled_from(sorted(STEPS)), max_size=25),
    st.sampled_from(
        [
            json.dumps,
            lambda maps: "\n".join(map(json.dumps, maps)),
            lambda maps: json.dumps(to_dynamodb(maps)),
        ]
    ),
)
@example(EVERYTHING, json.dumps)
def test_maps_come_back_equal_after_any_history(steps, write):
    log = InMemoryLog()
    history = ConversationHistory(log, "t", user_id="ana")
    for number, name in enumerate(steps):
        STEPS[name](history, number)
    given_out = export(history)
    if not any(one["message"]["role"] != "summary" for one in given_out):
        return
    [thread] = parse_threads(Source("garden.json", write(given_out)))
    assert store_thread(log, thread, user_id="bo") == len(thread)
    assert store_thread(log, thread, user_id="bo") == 0
    again = ConversationHistory(log, "garden", user_id="bo")
    assert normalise(export(again)) == normalise(given_out)
    assert list_more_than_texts(again) == list_more_than_texts(history)


def make_map(own_id, role, *contents, **metadata):
    message = {"role": role, "contents": list(contents)}
    return {"id": own_id, "message": message, "metadata": {"timing": {"creation": 5}, **metadata}}


def read(maps):
    return parse_threads(Source("garden.json", json.dumps(maps)))


def test_the_last_form_of_a_turn_counts_and_neither_a_retracted_one_nor_a_placeholder():
    maps = [
        make_map("0", "user", "...", attribute=["fake"]),
        make_map("1", "user", "Old"),
        make_map("2", "assistant", "Gone"),
        make_map("4", "user"),
        make_map("1", "user", "New", "and more"),
        make_map("2", "assistant", "Gone", attribute=["retracted"]),
        make_map("5", "assistant", "Yes"),
    ]
    [thread] = read(maps)
    texts = [{"type": "text", "text": "New"}, {"type": "text", "text": "and more"}]
    assert thread.messages == (HumanMessage(texts, id="1"), AIMessage("Yes", id="5"))
    assert [entry.metadata.timing for entry in thread.entries] == [{"creation": 5}] * 2


def test_what_names_places_in_another_log_is_left_out_by_name(tmp_path, memory):
    record = {"summary": {"cites": [[1, 2]], "days": ["2026-01-01", "2026-01-02"]}}
    said = [make_map("1", "user", "Hi"), make_map("2", "assistant", "Hello")]
    path = tmp_path / "garden.json"
    summary = make_map("3", "summary", "Greetings.", summaryIds=["1", "2"], aux=record)
    path.write_text(json.dumps([*said, summary]))
    report = memory.import_file(path, user_id="bo")
    assert (report.added, report.skipped) == (3, ())
    assert report.unread == ("of the summary '3': which sentences come from which messages",)
    history = memory.history("garden", user_id="bo")
    assert history.last_summary.contents == ("Greetings.",)
    assert [turn.role for turn in history.turns] == ["user", "assistant", "summary"]


@pytest.mark.parametrize(
    ("bad", "place"),
    [
        (make_map("1", "robot", "x"), "role: found 'robot'"),
        ({"id": "1", "message": {"role": "user", "contents": [1]}}, "contents[0]"),
        (make_map("1", "summary", "x"), "holds no message"),
        (make_map("1", "user", "x", timing={"creation": "soon"}), "timing.creation"),
    ],
)
def test_what_is_no_turn_is_refused_with_its_place(bad, place):
    with pytest.raises(ImportFormatError) as caught:
        read([bad])
    assert place in str(caught.value)
