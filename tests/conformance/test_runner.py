"""The runner can fail: each thing that a case expects is compared, and unknown keys are refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conformance.cases import Case

from tests.conformance.test_cases import CASES, runner_of

HOLDING = [case for case in CASES if case.strength == "must" and "expect" in case.fields]
KEYS = {
    key
    for case in HOLDING
    if isinstance(case.fields["expect"], dict)
    for key in case.fields["expect"]
}
NOT_ALTERED = {"embed_texts_exclude", "llm_excludes", "llm_roles_only", "same_message"}
"""What allows more than is there, and places, which are pairs."""


def alter(value):
    """Return another value of the same type."""
    if isinstance(value, bool | int):
        return not value if isinstance(value, bool) else value + 7
    if isinstance(value, dict):
        return {key: alter(inner) for key, inner in value.items()}
    return [*value, "surprise"] if isinstance(value, list) else f"{value} surprise"


def fails(case, **fields):
    altered = Case(case.file, case.name, case.strength, {**case.fields, **fields, "accept": ()})
    with pytest.raises(AssertionError):
        runner_of(altered)(altered)


@pytest.mark.parametrize("key", sorted(KEYS - NOT_ALTERED))
def test_what_a_case_expects_is_compared(key):
    case = next(one for one in HOLDING if key in one.fields["expect"])
    runner_of(case)(case)
    fails(case, expect={**case.fields["expect"], key: alter(case.fields["expect"][key])})


TEMPLATES = [case for case in CASES if case.file == "templates.json" and case.fields["turns"]]


@pytest.mark.parametrize(
    "key", sorted({key for case in TEMPLATES for key in case.fields["turns"][0]})
)
def test_what_a_turn_of_a_template_expects_is_compared(key):
    if key not in ("send", "reply_message"):
        case = next(one for one in TEMPLATES if key in one.fields["turns"][0])
        first, *rest = case.fields["turns"]
        fails(case, turns=[{**first, key: alter(first[key])}, *rest])


@pytest.mark.parametrize(
    "case", {case.file: case for case in CASES}.values(), ids=lambda one: one.id
)
def test_a_key_that_no_check_knows_fails(case):
    fails(case, surprise=1)


def test_a_folder_of_ones_own_is_run_one_item_for_each_case(tmp_path):
    plain = {"kind": "manager", "ops": [], "expect": {"llm": []}}
    cases = [
        {"name": "fine", "strength": "must", **plain},
        {"name": "odd key", "strength": "may", **plain, "surprise": 1},
        {"name": "wrong", "strength": "should", **plain, "expect": {"llm": [["user", ["x"]]]}},
        {"name": "open", "strength": "may", **plain, "expect": {"llm": [["user", ["x"]]]}},
        {"name": "stranger", "strength": "must", "what": 1},
    ]
    (tmp_path / "mine.json").write_text(json.dumps({"cases": cases}), "utf-8")
    here = Path(__file__).with_name("test_cases.py")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", str(here)],
        env={**os.environ, "CONVMEM_CASES": str(tmp_path)},
        cwd=here.parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    outcomes = {
        line.split("[mine.json::", 1)[1].split("]", 1)[0]: line.split(" ", 1)[0]
        for line in done.stdout.splitlines()
        if "[mine.json::" in line and line.split(" ", 1)[0].isupper()
    }
    assert outcomes == {
        "fine": "PASSED",
        "odd key": "FAILED",
        "wrong": "FAILED",
        "open": "XFAIL",
        "stranger": "FAILED",
    }, done.stdout + done.stderr
