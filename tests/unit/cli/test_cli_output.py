"""TODO."""

from __future__ import annotations

import io
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.cli import main
from langchain_convmem.cli.output import Styled, Terminal, encode_json, escape_controls
from langchain_convmem.cli.rendering import format_millisecond, format_minute
from langchain_convmem.errors import ConfigError


class Keyboard(io.TextIOWrapper):
    """Standard input, from a person or a pipe."""

    def __init__(self, data, *, is_person):
        super().__init__(io.BytesIO(data), encoding="utf-8")
        self.is_person = is_person

    def isatty(self):
        return self.is_person


def typed(monkeypatch, data):
    monkeypatch.setattr(sys, "stdin", Keyboard(data, is_person=False))
    return list(Terminal.open().read_lines("> "))


def person(monkeypatch, *answers):
    """Sit a person at the terminal; an answer that is an exception is raised instead."""
    queue = list(answers)

    def answer(prompt=""):
        sys.stdout.write(prompt)
        reply = queue.pop(0)
        if isinstance(reply, BaseException):
            raise reply
        return reply

    monkeypatch.setattr("builtins.input", answer)
    terminal = Terminal.open()
    terminal.is_interactive = True
    return terminal


def test_a_pipe_gives_its_lines_verbatim_without_a_prompt(monkeypatch, capsys):
    assert typed(monkeypatch, b" a \r\n\nb\xc3\xa9") == [" a ", "", "bé"]
    assert capsys.readouterr().out == ""


def test_a_pipe_that_is_not_utf8_is_refused(monkeypatch):
    with pytest.raises(ConfigError, match="UTF-8"):
        typed(monkeypatch, b"caf\xe9\n")


def test_a_person_sees_the_prompt_and_ends_with_ctrl_d_or_ctrl_c(monkeypatch, capsys):
    for ending in (EOFError(), KeyboardInterrupt()):
        assert list(person(monkeypatch, "hi", ending).read_lines("> ")) == ["hi"]
        assert capsys.readouterr().out == "> > \n"


@pytest.mark.parametrize(
    ("answer", "agreed"),
    [("y", True), (" YES ", True), ("", False), ("no", False), (EOFError(), False)],
)
def test_only_a_yes_is_an_agreement(monkeypatch, capsys, answer, agreed):
    assert person(monkeypatch, answer).ask("Erase it?") is agreed
    assert "Erase it? [y/N]" in capsys.readouterr().out


def test_text_is_printed_without_markup_wrapping_or_codes(capsys):
    long = "[bold]not markup[/bold] :smile: " + "word " * 60 + "end  "
    terminal = Terminal.open()
    terminal.print_line(long)
    terminal.print_lines([Styled("\x1b[31mred", "dim")])
    terminal.write("no line end ")
    assert capsys.readouterr().out == f"{long}\n\\x1b[31mred\nno line end "


def test_json_is_printed_whole(capsys):
    value = {"text": "é" * 300 + "\x9b"}
    Terminal.open().print_json(value)
    out = capsys.readouterr().out
    assert json.loads(out) == value
    assert "\x9b" not in out


def test_notes_and_complaints_are_no_output(capsys):
    terminal = Terminal.open()
    terminal.note("for your eyes")
    terminal.complain(ValueError("bad"))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "for your eyes\nconvmem: bad\n"


def test_bars_are_hidden_where_nobody_watches(capsys):
    with Terminal.open().show_progress() as stage:
        stage("reading")(1, 2)
    assert capsys.readouterr().err == ""


def test_a_missing_rich_is_one_sentence_with_the_command_that_fixes_it(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert main(["threads"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("convmem: ")
    assert err.endswith("pip install 'langchain-convmem[cli]'\n")
    assert err.count("\n") == 1


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain [b]text[/b] é 漢\tx\ny", "plain [b]text[/b] é 漢\tx\ny"),
        ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
        ("a\r\nb", "a\nb"),
        ("hidden\rshown", "hidden\\x0dshown"),
        ("\x9b31m\x7f\x00", "\\x9b31m\\x7f\\x00"),
        ("\ud800", "\\xd800"),
    ],
)
def test_text_cannot_command_the_terminal(text, shown):
    assert escape_controls(text) == shown


@given(st.text(st.characters()))
def test_safe_text_can_always_be_printed(text):
    shown = escape_controls(text)
    assert "\x1b" not in shown
    assert shown.encode().decode() == shown


@given(JSON_VALUES)
def test_json_text_reads_back_exactly_and_holds_no_controls(value):
    text = encode_json(value)
    assert json.loads(text) == value
    assert escape_controls(text) == text


@pytest.mark.parametrize(
    ("at_ms", "minute", "millisecond"),
    [
        (0, "1970-01-01 00:00", "1970-01-01T00:00:00.000+00:00"),
        (1_683_554_160_004, "2023-05-08 13:56", "2023-05-08T13:56:00.004+00:00"),
        (10**18, "1000000000000000000 ms", None),
    ],
)
def test_times_are_shown_in_utc_and_outside_the_calendar_as_numbers(at_ms, minute, millisecond):
    assert format_minute(at_ms) == minute
    assert format_millisecond(at_ms) == millisecond
