"""What may be said of foreign errors and refused values."""

from __future__ import annotations

import json
import logging

import pytest
from langchain_core.messages import HumanMessage

from langchain_convmem.causes import (
    ErrorTrap,
    describe_error,
    describe_name,
    describe_value,
    has_quotation,
    report_problem,
)
from langchain_convmem.errors import ConfigError

SAID = "The key lies under the third stone"


def fail(error):
    raise error


@pytest.mark.parametrize(
    ("value", "described"),
    [
        (None, "None"),
        (True, "True"),
        (-3.5, "-3.5"),
        ("openai", "'openai'"),
        ("", "''"),
        (SAID, "text of 34 characters"),
        ("x" * 33, "text of 33 characters"),
        (b"abc", "a bytes"),
        ([], "[]"),
        ([SAID], "a list"),
        (HumanMessage(SAID), "a HumanMessage"),
    ],
)
def test_values_are_described_without_their_text(value, described):
    assert describe_value(value) == described


def test_names_of_fields_are_shown_and_nothing_else():
    assert describe_name("tool_call_id") == "tool_call_id"
    assert describe_name(SAID) == "text of 34 characters"


@pytest.mark.parametrize(
    ("error", "described"),
    [
        (ConfigError("words of ours"), "words of ours"),
        (ValueError(SAID), "ValueError"),
        (OSError(28, "No space left on device", SAID), "OSError, No space left on device"),
        (
            UnicodeDecodeError("utf-8", SAID.encode(), 0, 1, "invalid"),
            "UnicodeDecodeError, invalid",
        ),
    ],
)
def test_errors_are_described_by_what_holds_no_text(error, described):
    assert describe_error(error) == described


def test_places_are_said_where_parsers_know_them():
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads(f'{{"said": {SAID}')
    assert describe_error(caught.value) == "JSONDecodeError, line 1, column 10"
    with pytest.raises(ValueError, match="content") as refused:
        HumanMessage({"said": SAID})
    assert SAID not in describe_error(refused.value)
    assert "content" in describe_error(refused.value)


@pytest.mark.parametrize(
    "quoted",
    [
        SAID,
        SAID.upper(),
        repr(SAID),
        "... the third  stone",
        f"bytes {SAID.encode()!r}",
        "under the",
    ],
)
def test_a_piece_of_a_text_is_a_quotation(quoted):
    assert has_quotation(ValueError(f"cannot take {quoted}"), [SAID])


def test_a_quotation_in_what_led_to_an_error_counts():
    def wrap_failure():
        try:
            fail(ValueError(SAID))
        except ValueError:
            raise RuntimeError("failed") from None

    with pytest.raises(RuntimeError) as caught:
        wrap_failure()
    assert has_quotation(caught.value, [SAID])
    assert has_quotation(ExceptionGroup("several", [ValueError(SAID)]), [SAID])


@pytest.mark.parametrize(
    "text", ["Où est la clé?", "鍵は三番目の石の下にあります", "ключ под камнем"]
)
def test_escaped_forms_of_a_text_are_quotations(text):
    for form in (text, ascii(text), repr(text.encode()), json.dumps(text)):
        assert has_quotation(ValueError(f"cannot take {form}"), [text])


def test_other_words_are_no_quotation():
    error = ConnectionError("503 from the service")
    assert not has_quotation(error, [SAID, "", "a"])
    assert describe_error(error, [SAID]) == "ConnectionError: 503 from the service"


@pytest.mark.parametrize("error", [ValueError("out of luck"), ValueError(SAID)])
def test_what_is_raised_after_a_trap_carries_no_quotation(error):
    def translate():
        with ErrorTrap(ValueError, texts=[SAID]) as trap:
            fail(error)
        raise ConfigError(trap.reason) from trap.cause

    with pytest.raises(ConfigError) as caught:
        translate()
    is_quotation = SAID in str(error)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is (None if is_quotation else error)
    assert (SAID in str(caught.value)) is False


def test_a_trap_lets_other_errors_pass():
    with pytest.raises(KeyError), ErrorTrap(ValueError):
        fail(KeyError("x"))
    with pytest.raises(ConfigError), ErrorTrap(ValueError, passes=ConfigError):
        fail(ConfigError("x"))


@pytest.mark.parametrize("error", [ValueError("out of luck"), ValueError(SAID)])
def test_a_traceback_is_logged_only_if_it_quotes_nothing(caplog, error):
    log = logging.getLogger("langchain_convmem")
    problem = report_problem(log, "the embedder failed", error, [SAID])
    assert problem.startswith("the embedder failed: ValueError")
    assert SAID not in caplog.text
    assert ("Traceback" in caplog.text or "out of luck" in caplog.text) is (SAID not in str(error))
