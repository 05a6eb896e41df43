"""The runner can fail: each thing that a case expects is compared, and unknown keys are refused."""

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
