"""How much a turn runs through that only remembers: whoever reads that turn has to open it."""

from benchmarks.turn_path import trace_turn


def test_a_turn_that_recalls_nothing_runs_through_few_files_and_functions():
    turn = trace_turn(recall=False)
    most = {"files": 14, "functions": 170, "depth": 14}
    assert {name for name in most if turn[name] > most[name]} == set(), list(turn["ran"])
