"""The runner of template cases: every key that a case may have is checked."""

from __future__ import annotations

import copy

import pytest
from conformance.cases import Case
from conformance.templates import run_template_case

LOOP = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
TURNS = {
    "id": "everything",
    "template": LOOP,
    "preface": [{"role": "system", "content": "s"}],
    "tools": None,
    "context": {},
    "stop": "</>",
    "preface_text": "<system>s</>",
    "turns": [
        {
            "send": [{"role": "user", "content": "a"}],
            "full_prompt": "<system>s</><user>a</><assistant>",
            "diff_increment": "<system>s</><user>a</><assistant>",
            "diff_increment_if_preface_prefilled": "<user>a</><assistant>",
            "session_before_len": 0,
            "ledger_common": 0,
            "ledger_divergent": False,
            "ledger_append": "<system>s</><user>a</><assistant>",
            "raw_reply": "b",
            "reply_message": {"role": "assistant", "content": "b"},
        },
        {
            "send": [{"role": "user", "content": "c"}],
            "full_prompt": "<system>s</><user>a</><assistant>b</><user>c</><assistant>",
            "diff_increment": "<user>c</><assistant>",
            "session_before_len": 34,
            "ledger_common": 34,
            "ledger_divergent": False,
            "ledger_append": "</><user>c</><assistant>",
            "raw_reply": "d",
            "reply_message": {"role": "assistant", "content": "d"},
        },
    ],
}
STEPS = {
    "id": "parts",
    "protocol": "single_turn",
    "template": "{% if is_appending_to_prefill %}{% if is_first_part %}<{{ message.role }}>"
    "{% endif %}{{ message.content }}{% if is_last_part %}</>{% endif %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}{% endif %}",
    "steps": [
        {
            "send": [{"role": "user", "content": "He"}],
            "pending": True,
            "increment": "<user>He",
            "decode": False,
        },
        {
            "send": [{"role": "user", "content": "y"}],
            "pending": False,
            "increment": "y</><assistant>",
            "decode": True,
        },
    ],
}
REFUSED = {
    "id": "refused",
    "template": LOOP + "{{ raise_exception('no') }}",
    "turns": [
        {
            "send": [{"role": "user", "content": "a"}],
            "error": {"type": "TemplateError", "message": "no"},
        }
    ],
    "preface_error": {"type": "TemplateError", "message": "no"},
}
BROKEN = {
    "id": "broken",
    "template": "{% for",
    "turns": [],
    "compile_error": {"type": "TemplateSyntaxError", "lineno": 1},
}


def run(fields):
    run_template_case(Case("templates.json", fields["id"], "must", fields))


def changed(fields, *place, value):
    twin = copy.deepcopy(fields)
    inner = twin
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return twin


@pytest.mark.parametrize("fields", [TURNS, STEPS, REFUSED, BROKEN], ids=lambda one: one["id"])
def test_a_case_that_holds_passes(fields):
    run(fields)


@pytest.mark.parametrize(
    ("fields", "place", "wrong"),
    [
        (TURNS, ("preface_text",), "x"),
        *((TURNS, ("turns", 1, key), "x") for key in sorted(set(TURNS["turns"][1]) - {
            "send", "raw_reply", "reply_message"
        })),
        (TURNS, ("turns", 0, "diff_increment_if_preface_prefilled"), None),
        (TURNS, ("turns", 0, "raw_reply"), "other words"),
        (TURNS, ("turns", 0, "error"), {"type": "TemplateError"}),
        (STEPS, ("steps", 0, "increment"), "x"),
        (STEPS, ("steps", 1, "decode"), False),
        (STEPS, ("protocol",), "x"),
        (REFUSED, ("turns", 0, "error", "message"), "yes"),
        (REFUSED, ("preface_error", "type"), "SecurityError"),
        (BROKEN, ("compile_error", "lineno"), 2),
        (BROKEN, ("template",), "fine"),
    ],
    ids=range(17),
)  # fmt: skip
def test_a_wrong_expectation_of_a_template_fails(fields, place, wrong):
    with pytest.raises(AssertionError):
        run(changed(fields, *place, value=wrong))


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        (TURNS, ("surprise",)),
        (TURNS, ("turns", 0, "surprise")),
        (STEPS, ("steps", 0, "surprise")),
        (REFUSED, ("turns", 0, "error", "surprise")),
        (BROKEN, ("surprise",)),
    ],
    ids=range(5),
)
def test_a_key_of_a_template_case_that_no_check_knows_fails(fields, place):
    with pytest.raises(AssertionError, match="surprise"):
        run(changed(fields, *place, value=1))
