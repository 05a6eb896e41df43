from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from langchain_convmem.transfer.imports import parse_threads
from langchain_convmem.transfer.source import Source


def threads_in(content, name="chats/garden.json", **options):
    text = content if isinstance(content, str) else json.dumps(content)
    return parse_threads(Source(name, text), **options)


def rows(*messages):
    return "\n".join(json.dumps(message) for message in messages)


DIALOGUE = {
    "conversation_id": "talk-1",
    "speakers": ["Ana", "Ben"],
    "lines": [
        {
            "id": "D1:1",
            "session": 1,
            "time": "1:56 pm on 8 May, 2023",
            "speaker": "Ana",
            "text": "a",
        },
        {
            "id": "D1:2",
            "session": 1,
            "time": "1:56 pm on 8 May, 2023",
            "speaker": "Ben",
            "text": "b",
        },
        {
            "id": "D2:1",
            "session": 2,
            "time": "9:05 am on 9 May, 2023",
            "speaker": "Cy",
            "text": "c",
        },
    ],
    "questions": [{"question": "?", "evidence": ["D1:1"], "category": 4}],
}


def test_a_jsonl_file_is_one_thread_named_after_its_stem():
    text = rows(
        {"role": "system", "content": "Be kind."},
        {"role": "User", "content": "Hi", "name": "Ana", "id": 7, "session": 3, "mood": "good"},
        {"role": "BOT", "content": "Hello", "timestamp": 1_683_554_160_000},
    )
    (thread,) = threads_in(text, "chats/garden.jsonl")
    system, user, reply = thread.messages
    assert thread.thread_id == "garden"
    assert [type(m) for m in thread.messages] == [SystemMessage, HumanMessage, AIMessage]
    assert (user.content, user.name, user.id) == ("Hi", "Ana", "7")
    assert user.additional_kwargs == {"session": "3"}
    assert reply.additional_kwargs == {"timestamp": "2023-05-08T13:56:00.000+00:00"}
    assert (system.name, reply.name) == (None, None)


def test_the_order_and_text_of_jsonl_lines_are_kept_verbatim():
    texts = [" padded ", "a\u2028b\x85c\x0b", "\x00NUL", "é\r\n", '{"role": "user"}']
    (thread,) = threads_in(rows(*({"role": "user", "content": text} for text in texts)))
    assert [message.content for message in thread.messages] == texts


def test_blank_rows_and_windows_line_ends_are_no_lines():
    text = '\r\n{"role": "user", "content": "a"}\r\n\r\n{"role": "ai", "content": "b"}\r\n'
    (thread,) = threads_in(text)
    assert [message.content for message in thread.messages] == ["a", "b"]


def test_a_single_message_is_jsonl_and_a_dialogue_on_one_line_is_not():
    (single,) = threads_in({"role": "user", "content": "a"})
    (dialogue,) = threads_in(json.dumps(DIALOGUE))
    assert [message.content for message in single.messages] == ["a"]
    assert dialogue.thread_id == "talk-1"


@pytest.mark.parametrize("indent", [None, 1])
def test_a_dialogue_becomes_the_thread_of_its_conversation_id(indent):
    (thread,) = threads_in(json.dumps(DIALOGUE, indent=indent))
    assert thread.thread_id == "talk-1"
    assert thread.sessions == 2
    assert [(type(m), m.name, m.content, m.id) for m in thread.messages] == [
        (HumanMessage, "Ana", "a", "D1:1"),
        (AIMessage, "Ben", "b", "D1:2"),
        (HumanMessage, "Cy", "c", "D2:1"),
    ]


def test_lines_of_one_session_get_increasing_times_and_its_label():
    (thread,) = threads_in(DIALOGUE)
    assert [m.additional_kwargs for m in thread.messages] == [
        {"timestamp": "2023-05-08T13:56:00.000+00:00", "session": "1"},
        {"timestamp": "2023-05-08T13:56:00.001+00:00", "session": "1"},
        {"timestamp": "2023-05-09T09:05:00.000+00:00", "session": "2"},
    ]


def test_a_dialogue_without_an_id_is_named_after_its_file():
    (thread,) = threads_in({"lines": [{"speaker": "Ana", "text": "a"}]}, "x/weeks.json")
    assert thread.thread_id == "weeks"
    assert thread.messages[0].additional_kwargs == {}


@pytest.mark.parametrize(
    ("speakers", "roles", "names"),
    [
        (["Ana", "Ben", "Cy"], "uau", ["Ana", "Ben", "Cy"]),
        (["Human", "ASSISTANT"], "ua", [None, None]),
        (["model", "Ana", "Ben"], "auu", [None, "Ana", "Ben"]),
        (["user", "Robo"], "ua", [None, "Robo"]),
        (["Ana", "user", "bot"], "uua", ["Ana", None, None]),
    ],
)
def test_speakers_are_cast_by_role_word_else_by_order(speakers, roles, names):
    lines = [{"speaker": speaker, "text": "x"} for speaker in speakers]
    (thread,) = threads_in({"lines": lines})
    kinds = {HumanMessage: "u", AIMessage: "a"}
    assert "".join(kinds[type(m)] for m in thread.messages) == roles
    assert [m.name for m in thread.messages] == names


def test_the_declared_order_of_speakers_decides_before_that_of_the_lines():
    lines = [{"speaker": "Ben", "text": "I start"}, {"speaker": "Ana", "text": "so be it"}]
    (thread,) = threads_in({"speakers": ["Ana", "Ben"], "lines": lines})
    assert [type(m) for m in thread.messages] == [AIMessage, HumanMessage]


def test_a_given_thread_id_takes_the_place_of_the_files_own():
    for content in (DIALOGUE, rows({"role": "user", "content": "a"})):
        (thread,) = threads_in(content, thread_id="mine")
        assert thread.thread_id == "mine"


def test_sessions_without_labels_are_parted_by_half_an_hour_of_silence():
    stamps = ["2024-01-01T10:00:00Z", "2024-01-01T10:30:00Z", "2024-01-01T11:00:01Z"]
    (thread,) = threads_in(
        rows(*({"role": "user", "content": "x", "timestamp": stamp} for stamp in stamps))
    )
    assert thread.sessions == 2


MESSAGES = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant", "system"]),
        "content": st.text(st.characters(codec="utf-8"), min_size=1).filter(str.strip),
    }
)


@given(st.lists(MESSAGES, min_size=1, max_size=8), st.lists(MESSAGES, max_size=4))
def test_an_appended_file_repeats_the_ids_of_its_old_lines(old, new):
    (before,) = threads_in(rows(*old))
    (after,) = threads_in(rows(*old, *new))
    assert after.messages[: len(old)] == before.messages
    assert len({message.id for message in after.messages}) == len(old) + len(new)


@given(st.lists(MESSAGES, min_size=1, max_size=8))
def test_every_message_survives_a_jsonl_file(messages):
    (thread,) = threads_in("\n".join(json.dumps(m, ensure_ascii=False) for m in messages))
    kinds = {"human": "user", "ai": "assistant", "system": "system"}
    assert [{"role": kinds[m.type], "content": m.content} for m in thread.messages] == messages
