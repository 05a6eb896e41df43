from __future__ import annotations

import json

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
