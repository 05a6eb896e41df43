from __future__ import annotations

import pytest

from tests.golden.views import SEEDS, find_differences

_AT_ONCE = 20


@pytest.mark.parametrize("first", SEEDS[::_AT_ONCE])
def test_views_of_random_threads_are_what_they_were(first):
    seeds = SEEDS[first : first + _AT_ONCE]
    assert [line for seed in seeds for line in find_differences(seed)] == []


def test_a_change_of_a_view_is_named(monkeypatch):
    monkeypatch.setattr(
        "langchain_convmem.history.ConversationHistory.to_maps", lambda *_, **__: []
    )
    named = [line for seed in SEEDS[:5] for line in find_differences(seed)]
    assert "thread 3: maps" in named
    assert not any("entries" in line for line in named)
