import json
import logging

import pytest
from langchain_core.messages import HumanMessage

from langchain_convmem.causes import (
    ErrorTrap,
    UnreadableError,
    describe_error,
    describe_name,
    describe_value,
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
        (UnreadableError("words of ours"), "words of ours"),
        (ValueError(SAID), "ValueError"),
        (OSError(28, SAID, SAID), "OSError, errno 28"),
        (UnicodeDecodeError("utf-8", SAID.encode(), 0, 1, "bad"), "UnicodeDecodeError, bad"),
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


def test_an_error_names_what_it_was_raised_from():
    error, cause = RuntimeError(SAID), ConnectionError(SAID)
    error.__cause__, cause.__cause__ = cause, TimeoutError(SAID)
    assert describe_error(cause) == "ConnectionError (TimeoutError)"
    assert describe_error(error) == "RuntimeError (ConnectionError, TimeoutError)"


def test_an_error_names_no_cause_that_tells_nothing_new_and_each_type_once():
    error, other = ValueError(SAID), KeyError(SAID)
    error.__cause__ = ValueError(SAID)
    assert describe_error(error) == "ValueError"
    error.__cause__, other.__cause__ = other, error
    assert describe_error(error) == "ValueError (KeyError)"


@pytest.mark.parametrize(
    ("code", "described"),
    [
        (503, "RuntimeError, code 503"),
        ("08006", "RuntimeError, code 08006"),
        ("SQLITE_BUSY", "RuntimeError, code SQLITE_BUSY"),
        (SAID.upper(), "RuntimeError"),
        (None, "RuntimeError"),
    ],
)
def test_a_code_is_a_number_or_one_word_in_capitals(code, described):
    error = RuntimeError(SAID)
    error.code = code
    assert describe_error(error) == described


def test_what_is_raised_after_a_trap_carries_nothing_of_what_was_caught():
    def translate():
        with ErrorTrap(ValueError) as trap:
            fail(ValueError(SAID))
        raise ConfigError(trap.reason)

    with pytest.raises(ConfigError, match="ValueError") as caught:
        translate()
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_a_trap_lets_other_errors_pass():
    with pytest.raises(KeyError), ErrorTrap(ValueError):
        fail(KeyError("x"))
    with pytest.raises(ConfigError), ErrorTrap(ValueError, passes=ConfigError):
        fail(ConfigError("x"))


def test_a_problem_is_one_line_without_a_traceback(caplog):
    log = logging.getLogger("langchain_convmem")
    problem = report_problem(log, "the embedder failed", ValueError(SAID))
    assert problem == "the embedder failed: ValueError"
    [record] = caplog.records
    assert (record.getMessage(), record.levelname) == (problem, "WARNING")
    assert record.exc_info is None
