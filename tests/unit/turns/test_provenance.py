"""Where in a run a node stands: which run was over when another one began."""

from __future__ import annotations

import pytest

from langchain_convmem.turns.provenance import Place


def place(step, level="", checkpoint="c1", task="t1"):
    return Place(level, step, ((checkpoint, task),))


@pytest.mark.parametrize(
    ("before", "now", "is_over"),
    [
        (place(1), place(1), False),
        (place(1), place(2), False),
        (place(1), place(3), False),
        (place(1), place(4), True),
        (place(4), place(1), False),
        (place(1, level="graph"), place(4), False),
        (place(1), place(4, level="graph"), False),
        (place(1, checkpoint=""), place(4), False),
    ],
)
def test_a_run_is_over_where_a_later_one_counts_on_from_it(before, now, is_over):
    assert before.is_over(now) is is_over


@pytest.mark.parametrize(
    ("one", "other", "is_parallel"),
    [
        (place(1, task="a"), place(1, task="b"), True),
        (place(1, task="a"), place(1, task="a"), False),
        (place(1, task="a"), place(2, task="b", checkpoint="c2"), False),
    ],
)
def test_branches_of_a_step_begin_at_one_checkpoint(one, other, is_parallel):
    assert one.is_parallel(other) is is_parallel
