from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.errors import ImportFormatError
from langchain_convmem.transfer.imports import parse_threads
from langchain_convmem.transfer.source import Source, read_source

KEYS = st.sampled_from(
    [
        "role",
        "content",
        "id",
        "name",
        "timestamp",
        "session",
        "parts",
        "tool_calls",
        "messages",
    ]
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.sampled_from(["user", "ai", "2024-01-01"])
)
DOCUMENTS = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=25,
)


def check(text):
    """A file is refused with its path, or read into threads that can be stored."""
    with contextlib.suppress(ImportFormatError):
        for thread in parse_threads(Source("f", text)):
            assert thread.thread_id
            assert thread.sessions <= len(thread.messages)
            assert len({message.id for message in thread.messages}) == len(thread.messages)
            for message in thread.messages:
                assert message.text.strip()
                assert message.text.encode()


@given(DOCUMENTS)
def test_any_json_is_read_or_refused(document):
    check(json.dumps(document))


@given(st.lists(st.dictionaries(KEYS, LEAVES), min_size=1, max_size=4))
def test_any_rows_are_read_or_refused(rows):
    check("\n".join(map(json.dumps, rows)))


@given(st.text(st.characters()) | st.text('{}[]":,\n\\u0d8 1'))
def test_any_text_is_read_or_refused(text):
    check(text)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("files") / "f"


@given(st.binary())
def test_any_bytes_are_read_or_refused(place, data):
    place.write_bytes(data)
    with contextlib.suppress(ImportFormatError):
        check(read_source(place).text)
