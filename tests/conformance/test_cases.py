"""Every case of a folder, through the public API: one item for each, named `file::case`.

The folder is `cases` beside this file, or the one that the environment names in `CONVMEM_CASES`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from conformance.cases import Case, UnknownKeyError, check_keys, load_cases
from conformance.dynamodb import run_dynamodb_case
from conformance.membot import run_recall_case
from conformance.messages import run_manager_case
from conformance.prompts import run_prompt_case
from conformance.templates import run_template_case

# Read while collecting: no test sees the settings of the machine it runs on.
FOLDER = Path(os.environ.get("CONVMEM_CASES") or Path(__file__).with_name("cases"))
CASES = load_cases(FOLDER)

NOT_HELD: dict[str, str] = {}
"""Cases of strength `should` or `may` that do not hold, by id, with the reason."""


KINDS: dict[str, Callable[[Case], None]] = {
    "manager": run_manager_case,
    "dynamodb": run_dynamodb_case,
}
KEYS: dict[str, Callable[[Case], None]] = {
    "template": run_template_case,
    "config": run_recall_case,
    "input": run_prompt_case,
}
"""What runs a case without a kind, by a key that only such cases have."""


def runner_of(case: Case) -> Callable[[Case], None]:
    if "kind" in case.fields:
        check_keys("kinds", [case.fields["kind"]], KINDS)
        return KINDS[case.fields["kind"]]
    for key, runner in KEYS.items():
        if key in case.fields:
            return runner
    raise UnknownKeyError(f"no runner knows a case with the keys {sorted(case.fields)}")


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_case(case: Case) -> None:
    try:
        runner_of(case)(case)
    except UnknownKeyError:
        raise
    except AssertionError as error:
        if case.strength == "may" or (case.strength == "should" and case.id in NOT_HELD):
            pytest.xfail(f"{case.strength}: {NOT_HELD.get(case.id, str(error))}")
        raise
    assert case.id not in NOT_HELD, "the case holds now: take it off the list"


def test_there_are_cases_to_run() -> None:
    assert CASES, f"no cases in {FOLDER}"
    assert {case.strength for case in CASES} <= {"must", "should", "may"}
