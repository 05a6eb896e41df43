from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.errors import ConfigError
from langchain_convmem.integrations.base_store_layout import (
    OwnerRecord,
    ThreadRecord,
    check_root,
    document_place,
    entry_place,
    label,
    owner_of,
    owner_place,
    page_place,
    unlabel,
)
from langchain_convmem.records import Owner, ThreadKey
from langchain_convmem.testing.log_contract import ODD_IDS

IDS = st.text(min_size=1) | st.sampled_from(ODD_IDS)
NAMES = st.text(st.characters(codec=None, exclude_categories=[]), min_size=1) | IDS


@given(NAMES)
def test_a_label_is_read_back_and_every_store_takes_it(text):
    assert unlabel(label(text)) == text
    assert re.fullmatch("[a-z0-9-]+", label(text))


@given(NAMES, NAMES)
def test_no_label_is_the_beginning_of_another(first, second):
    if first != second:
        assert not label(second).startswith(label(first))
        assert not label(second).lower().startswith(label(first).lower())


@given(IDS, NAMES)
def test_langgraph_accepts_every_place(text, name_of_document):
    store = pytest.importorskip("langgraph.store.memory").InMemoryStore()
    for owner in (Owner(user_id=text), Owner(thread_id=text)):
        key = ThreadKey(owner.user_id, text)
        for namespace, name in (
            owner_place(("convmem",), owner),
            entry_place(("convmem",), owner, 7),
            page_place(("convmem",), key, 7),
            document_place(("convmem",), key, name_of_document),
        ):
            store.put(namespace, name, {"x": 1}, index=False)


@given(IDS)
def test_an_owner_is_known_by_the_place_of_its_record(text):
    for owner in (Owner(user_id=text), Owner(thread_id=text)):
        assert owner_of(*owner_place(("convmem",), owner)) == owner


def test_keys_sort_like_positions():
    numbers = [1, 2, 9, 10, 99, 100, 123_456, 9_999_999_999]
    keys = [entry_place(("c",), Owner(user_id="u"), number)[1] for number in numbers]
    assert keys == sorted(keys)


@given(st.lists(st.tuples(IDS, st.integers(0, 300), st.lists(IDS, max_size=2)), max_size=4))
def test_a_record_is_read_back(threads):
    known = {
        name: ThreadRecord(count, list(range(count % 64)), "01A", "01B", names)
        for name, count, names in threads
    }
    record = OwnerRecord(10**15, 7, 3, known)
    assert OwnerRecord.read(record.value()) == record


@pytest.mark.parametrize("root", ["convmem", (), ("",), ("a.b",), ("langgraph", "x"), (7,)])
def test_a_namespace_that_langgraph_refuses_is_refused_at_once(root):
    with pytest.raises(ConfigError, match="namespace"):
        check_root(root)
