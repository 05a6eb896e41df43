"""The faults that `benchmarks.mutation` puts into files, and how they get there."""

from __future__ import annotations

import ast
import os
import runpy
import signal

import pytest

from benchmarks.mutation import find_mutants, replace_code, run_in_child

SOURCE = '''
LIMIT = 3

def fits(count, name="x"):
    """Say 1 thing."""
    if count < 3 and not name:
        raise ValueError("no name", 7)
    return count == 2
'''


def _changes(source):
    return [mutant.change for mutant in find_mutants(ast.parse(source))]


def test_every_fault_of_a_function_is_found_and_nothing_else_is_touched():
    assert sorted(_changes(SOURCE)) == [
        "2 -> 3",
        "3 -> 4",
        "And -> Or",
        "Eq -> NotEq",
        "Lt -> LtE",
        "condition negated",
        "left out: raise ValueError('no name', 7)",
        "not left out",
        "return None",
    ]


def test_a_fault_lies_in_the_lines_of_its_statement_or_of_the_head_of_it():
    lines = {mutant.change: mutant.lines for mutant in find_mutants(ast.parse(SOURCE))}
    assert lines["Lt -> LtE"] == range(6, 7)
    assert lines["Eq -> NotEq"] == range(8, 9)


@pytest.mark.parametrize(
    "line", ["_logger.info('sent %s', 1)", "msg = 'bad'", "x = f'{1} of 2'", "x = cast('int', y)"]
)
def test_words_for_people_are_left_as_they_are(line):
    changes = _changes(f"def say(y):\n    {line}\n")
    assert [change for change in changes if not change.startswith("left out")] == []


def _run_with(change, argument, path):
    """Return what the function returns in a child with a fault in it, and what it does here."""
    path.write_text(SOURCE)
    fits = runpy.run_path(str(path))["fits"]
    tree = ast.parse(SOURCE)
    mutant = next(one for one in find_mutants(tree) if one.change == change)

    def run():
        mutant.apply()
        return replace_code(mutant.function, compile(tree, str(path), "exec")), fits(argument)

    return run_in_child(run), fits(argument)


def test_a_fault_is_in_the_function_that_is_there_already_and_only_in_the_child(tmp_path):
    path = tmp_path / "mutated.py"
    assert _run_with("Eq -> NotEq", 2, path) == ((True, False), True)
    assert _run_with("2 -> 3", 3, path) == ((True, True), False)
    assert _run_with("return None", 2, path) == ((True, None), True)


def test_a_child_that_is_stopped_has_no_answer_and_says_nothing(capfd):
    def hang():
        os.write(1, b"said")
        os.kill(os.getpid(), signal.SIGKILL)

    assert run_in_child(hang) is None
    assert capfd.readouterr().out == ""
