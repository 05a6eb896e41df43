from __future__ import annotations

import pytest

from tests.golden.views import SEEDS, find_differences

_AT_ONCE = 20


@pytest.mark.parametrize("first", SEEDS[::_AT_ONCE])
def test_views_of_random_threads_are_what_they_were(first):
    seeds = SEEDS[first : first + _AT_ONCE]
    assert [line for seed in seeds for line in find_differences(seed)] == []
