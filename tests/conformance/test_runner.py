"""The runner itself: every key that the conventions name is checked, and any other one fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conformance.cases import Case
from conformance.dynamodb import run_dynamodb_case
from conformance.membot import run_recall_case
from conformance.messages import CHECKS, OPERATIONS, run_manager_case
from conformance.prompts import CHECKS as PROMPT_CHECKS
from conformance.prompts import run_prompt_case

MANAGER = {
    "name": "everything",
    "kind": "manager",
    "strength": "must",
    "ops": [
        ["add", "user", ["lost"]],
        ["new_manager"],
        ["add", "assistant", ["hello"]],
        ["add", "user", ["x"], "m"],
        ["add", "user", ["y"]],
        ["set_attribute", "m", "LLM_INTERRUPTED"],
        ["set_timing", "m", "PLAY_START", 7],
        ["set_data", "m", "k", [1]],
        ["add", "summary", ["no"]],
        ["add", "assistant", "a"],
        ["export"],
        ["state"],
        ["print"],
        ["last_summary"],
        ["summary_info", "w"],
        ["add", "user", ["z"]],
        ["add_summary", ["S"], "w"],
        ["format", {"preamble": "P: "}],
        ["last_summary"],
        ["export", {"incremental": False, "exclude_last": False}],
    ],
    "expect": {
        "results": {
            "2": {"role": "assistant", "contents": ["hello"]},
            "5": None,
            "8": None,
            "10": [["user", ["..."]], ["assistant", ["hello"]], ["user", ["x", "y"]]],
            "13": None,
            "14": {
                "messages": [
                    ["assistant", ["hello"]],
                    ["user", ["x", "y"]],
                    ["assistant", ["a"]],
                ],
                "previous": None,
            },
            "16": {
                "role": "summary",
                "contents": ["S"],
                "summary_of": [["hello"], ["x", "y"], ["a"]],
            },
            "17": "P: [Assistant]: hello.\n[User]: x. y.\n[Assistant]: a.",
            "18": ["S"],
        },
        "meta": [
            ["user", ["..."], ["fake"]],
            ["assistant", ["hello"], []],
            ["user", ["x", "y"], ["llmInterrupted", "merged"]],
            ["assistant", ["a"], []],
            ["summary", ["S"], []],
            ["user", ["z"], []],
        ],
        "meta_include": [["assistant", ["a"], []], ["user", ["z"], []]],
        "llm": [["user", ["z"]]],
        "llm_contains": ["z"],
        "llm_excludes": ["a"],
        "llm_roles_only": ["user", "assistant"],
        "same_message": [[3, 4]],
        "export_metadata": {
            "10": [
                {"attribute": ["fake"]},
                {"attribute": None, "aux": None},
                {"aux": {"k": [1]}, "timing_include": {"playStart": 7}},
            ]
        },
        "export_shape": {
            "op": 10,
            "top_keys": ["id", "message", "metadata"],
            "message_keys": ["role", "contents"],
            "metadata_keys": [["attribute", "timing"], ["timing"], ["attribute", "aux", "timing"]],
            "timing_has": "creation",
            "roles": ["user", "assistant", "user"],
        },
        "last_summary": ["S"],
        "ids": {"unique": True, "pattern": "^[0-9A-Z]{26}$", "increasing_by_creation": True},
        "print_contains": ["[summary]", "'hello'"],
    },
}
WRONG = {
    "results": {"18": ["T"]},
    "meta": [],
    "meta_include": [["user", ["z"], []], ["assistant", ["a"], []]],
    "llm": [],
    "llm_contains": ["hello"],
    "llm_excludes": ["z"],
    "llm_roles_only": ["assistant"],
    "same_message": [[2, 3]],
    "export_metadata": {"10": [{"attribute": None}, {}, {}]},
    "export_shape": {"op": 10, "top_keys": ["id"]},
    "last_summary": None,
    "ids": {"pattern": "^x"},
    "print_contains": ["nobody said"],
}
SHAPES = {
    "message_keys": ["role"],
    "metadata_keys": [[], [], []],
    "timing_has": "llmEnd",
    "roles": ["user", "user", "user"],
}
PROMPT = {
    "name": "everything",
    "input": (
        "__* Meta *__\n- v = 1\n__* Const *__\n- c = 2\n__* Var *__\n- t = clockNow\n"
        "__ A __\n{{c}} {{t}}{{t}}\n__ B __\nx"
    ),
    "functions": {"clockNow": ["08", "09"]},
    "expect": {
        "metadata": {"v": "1"},
        "constants": {"c": "2"},
        "variables_definition": {"t": "clockNow"},
        "prompts": {"A": "2 {{t}}{{t}}", "B": "x"},
        "prompts_include": {"B": "x"},
        "prompt_order": ["A", "B"],
        "occurrences": {"A": [["clockNow", 2, 7], ["clockNow", 7, 12]], "B": []},
        "rendered": {"A": "2 0808", "B": "x"},
        "rendered_sequence": [{"A": "2 0808", "B": "x"}, {"A": "2 0909", "B": "x"}],
        "calls_per_apply": 1,
        "formatted": [{"titles": ["B", "C"], "include_title": False, "text": "x"}],
        "json_include": {"prompts": {"A": "2 {{t}}{{t}}", "B": "x"}},
        "round_trip": {"json": True, "binary": True},
        "diagnostics": {"problem": 1},
    },
}
WRONG_PROMPT = {
    "metadata": {},
    "constants": {},
    "variables_definition": {},
    "prompts": {},
    "prompts_include": {"C": "x"},
    "prompt_order": ["B", "A"],
    "occurrences": {},
    "rendered": {},
    "rendered_sequence": [{}],
    "calls_per_apply": {"clockNow": 0},
    "formatted": [{"titles": ["B"], "text": "y"}],
    "json_include": {"prompts": {"B": "x"}},
    "round_trip": {"binary": False},
    "diagnostics": {"error": 1},
}
RECALL = {
    "name": "everything",
    "config": {
        "top_k": 3,
        "threshold": 0.8,
        "before": 1,
        "after": 1,
        "buffer_size": 10,
        "exclude_recent": 2,
    },
    "embeddings": {"boat": [1, 0], "hull": [1, 0]},
    "other_vector": [0, 1],
    "ops": [
        ["add", "ana", "old", "human", "o1"],
        ["add", "ana", "old", "ai", "boat"],
        ["add", "ana", "now", "human", "hull"],
        ["recall", "ana", "now"],
    ],
    "expect": {
        "results": {
            "3": {
                "matches": [["old", 2]],
                "match_count": 1,
                "match_set": [["old", 2]],
                "blocks": [["HUMAN: o1", "AI: boat"]],
                "buffer": [["HUMAN: o1", "AI: boat"]],
                "no_line_repeated": True,
                "lines_covered_include": [["old", 1]],
                "block_text_contains": ["AI: boat"],
            }
        },
        "embed_texts_include": ["boat"],
        "embed_texts_exclude": ["AI: boat"],
    },
}
WRONG_RESULTS = {
    "matches": [],
    "match_count": 2,
    "match_set": [["old", 1]],
    "blocks": [],
    "buffer": [["AI: boat"]],
    "lines_covered_include": [["old", 7]],
    "block_text_contains": ["AI: ship"],
}


def case(fields):
    return Case("here.json", "case", fields.get("strength", "must"), fields)


def changed(fields, **expect):
    return {**fields, "expect": {**fields["expect"], **expect}}


# -- every key is checked -----------------------------------------------------------------------


def test_every_operation_and_every_expectation_is_known():
    assert {op[0] for op in MANAGER["ops"]} == set(OPERATIONS)
    assert set(MANAGER["expect"]) == set(CHECKS) == set(WRONG)
    assert set(PROMPT["expect"]) == set(PROMPT_CHECKS) == set(WRONG_PROMPT)
    run_manager_case(case(MANAGER))
    run_prompt_case(case(PROMPT))
    run_recall_case(case(RECALL))


@pytest.mark.parametrize("key", WRONG)
def test_a_wrong_expectation_of_a_conversation_fails(key):
    with pytest.raises(AssertionError):
        run_manager_case(case(changed(MANAGER, **{key: WRONG[key]})))


@pytest.mark.parametrize("key", SHAPES)
def test_a_wrong_shape_of_an_export_fails(key):
    with pytest.raises(AssertionError):
        run_manager_case(case(changed(MANAGER, export_shape={"op": 10, key: SHAPES[key]})))


@pytest.mark.parametrize("key", WRONG_PROMPT)
def test_a_wrong_expectation_of_a_prompt_fails(key):
    with pytest.raises(AssertionError):
        run_prompt_case(case(changed(PROMPT, **{key: WRONG_PROMPT[key]})))


@pytest.mark.parametrize("key", WRONG_RESULTS)
def test_a_wrong_expectation_of_a_recall_fails(key):
    with pytest.raises(AssertionError):
        run_recall_case(case(changed(RECALL, results={"3": {key: WRONG_RESULTS[key]}})))


@pytest.mark.parametrize("name", ["before", "buffer_size", "exclude_recent"])
def test_a_recall_goes_by_the_settings_of_its_case(name):
    with pytest.raises(AssertionError):
        run_recall_case(case({**RECALL, "config": {**RECALL["config"], name: 0}}))


def test_wrong_expectations_of_what_is_embedded_fail():
    for wrong in ({"embed_texts_include": ["nobody"]}, {"embed_texts_exclude": ["boat"]}):
        with pytest.raises(AssertionError):
            run_recall_case(case(changed(RECALL, **wrong)))


# -- an unknown key fails -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "fields"),
    [(run_manager_case, MANAGER), (run_prompt_case, PROMPT), (run_recall_case, RECALL)],
)
def test_a_key_that_no_check_knows_fails(run, fields):
    for odd in (
        {**fields, "surprise": 1},
        changed(fields, surprise=1),
        {**fields, "accept": [{"surprise": 1}]},
    ):
        with pytest.raises(AssertionError, match="surprise"):
            run(case(odd))


@pytest.mark.parametrize(
    "op",
    [
        ["surprise"],
        ["export", {"surprise": True}],
        ["format", {"surprise": True}],
        ["format", {"options": {"surprise": "-"}}],
    ],
)
def test_an_operation_that_nobody_knows_fails(op):
    with pytest.raises(AssertionError, match="surprise"):
        run_manager_case(case({**MANAGER, "ops": [*MANAGER["ops"], op]}))


def test_unknown_parts_of_a_recall_fail():
    for odd in (
        {**RECALL, "config": {**RECALL["config"], "surprise": 1}},
        {**RECALL, "ops": [["surprise"]]},
        changed(RECALL, results={"3": {"surprise": 1}}),
    ):
        with pytest.raises(AssertionError, match="surprise"):
            run_recall_case(case(odd))


def test_unknown_parts_of_attribute_values_fail():
    plain = {"input": [{"k": 1}], "expect": [{"k": {"N": "1"}}]}
    run_dynamodb_case(case(plain))
    for odd in (
        {**plain, "surprise": 1},
        {**plain, "accept": [{"surprise": 1}]},
        {**plain, "input": [{"k": {"$surprise": 1}}]},
    ):
        with pytest.raises(AssertionError, match="surprise"):
            run_dynamodb_case(case(odd))


def test_the_tags_of_values_are_read():
    fields = {
        "input": [{"b": {"$bytes": "00ff"}, "s": {"$set": ["b", "a"]}, "o": {"$object": "any"}}],
        "expect": [{"b": {"B": {"$bytes": "00ff"}}, "s": {"SS": ["b", "a"]}, "o": {"NULL": True}}],
    }
    run_dynamodb_case(case(fields))
    fields["expect"][0]["b"] = {"B": {"$bytes": "00"}}
    with pytest.raises(AssertionError):
        run_dynamodb_case(case(fields))


# -- alternatives -------------------------------------------------------------------------------


def test_an_alternative_that_holds_is_enough_and_replaces_what_it_names():
    wrong = changed(MANAGER, llm=[], llm_excludes=["z"])
    right = {"llm": [["user", ["z"]]]}
    with pytest.raises(AssertionError):
        run_manager_case(case(wrong))
    run_manager_case(case({**wrong, "accept": [{"last_summary": None}, right]}))
    with pytest.raises(AssertionError):
        run_manager_case(case({**changed(wrong, meta=[]), "accept": [right]}))


# -- the folder ---------------------------------------------------------------------------------


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
