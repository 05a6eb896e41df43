import io
import json
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from langchain_convmem.cli import main
from langchain_convmem.cli.output import Terminal, encode_json, escape_controls, escape_line
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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain [b]text[/b] é 漢\tx\ny", "plain [b]text[/b] é 漢\tx\ny"),
        ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
        ("a\r\nb", "a\nb"),
        ("hidden\rshown", "hidden\\x0dshown"),
        ("\x9b31m\x7f\x00", "\\x9b31m\\x7f\\x00"),
        ("\ud800", "\\ud800"),
        ("pay \u202e0001\u202c euros", "pay \\u202e0001\\u202c euros"),
        ("\u2066a\u2067b\u2068c\u2069", "\\u2066a\\u2067b\\u2068c\\u2069"),
        ("a\u200eb\u200fc\u061cd", "a\\u200eb\\u200fc\\u061cd"),
        ("one\u2028Ana: two\u2029three\x85four", "one\\u2028Ana: two\\u2029three\\x85four"),
        ("👩\u200d👩\u200d👧 e\u0301 שלום مرحبا 漢",) * 2,
    ],
)
def test_text_cannot_command_the_terminal(text, shown):
    assert escape_controls(text) == shown


BIDI_CLASSES = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def is_unsafe(character):
    is_control = unicodedata.category(character) in {"Cc", "Zl", "Zp", "Cs"}
    is_direction = unicodedata.bidirectional(character) in BIDI_CLASSES
    return (is_control and character not in "\n\t") or is_direction


def test_of_all_characters_none_that_commands_a_terminal_is_left():
    every = "".join(map(chr, range(0x110000)))
    assert not any(map(is_unsafe, escape_controls(every)))
    assert not any(map(is_unsafe, encode_json(every)))
    assert json.loads(encode_json([every[:0xD800]])) == [every[:0xD800]]


@given(st.text(st.characters()))
def test_a_name_is_one_line_for_every_reader(text):
    assert len(f"{escape_line(text)}.".splitlines()) == 1


def test_a_line_stays_one_line_and_text_keeps_its_own(capsys):
    terminal = Terminal.open()
    terminal.print_line("a.db\nb.db: no problems")
    terminal.print_text("one\ntwo")
    terminal.note("thread a\nconvmem: fine")
    terminal.note_text("a finding\n    ^")
    captured = capsys.readouterr()
    assert captured.out == "a.db\\nb.db: no problems\none\ntwo\n"
    assert captured.err == "thread a\\nconvmem: fine\na finding\n    ^\n"


def test_rows_of_json_are_exact_in_a_pipe_and_safe_on_a_terminal(capsys):
    row = json.dumps("pay \u202e0001\u2028", ensure_ascii=False)
    for is_terminal in (False, True):
        out = Console(force_terminal=is_terminal)
        assert Terminal(out, out).print_rows([row]) == 1
        shown = capsys.readouterr().out
        assert json.loads(shown) == json.loads(row)
        assert ("\u202e" in shown) is not is_terminal


def test_words_of_a_command_that_is_refused_cannot_command_the_terminal(capsys):
    assert main(["import", "no\u202e\x9b31m\u2028such"]) != 0
    err = capsys.readouterr().err
    assert "such" in err
    assert not any(map(is_unsafe, err))
