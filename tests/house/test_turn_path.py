"""How much a turn runs through that only remembers: whoever reads that turn has to open it."""

from benchmarks.turn_path import trace_turn


def test_a_turn_that_recalls_nothing_runs_through_few_files_and_functions():
    turn = trace_turn(recall=False)
    assert turn["files"] <= 14, list(turn["ran"])
    assert turn["functions"] <= 170
    assert turn["depth"] <= 14
