import pytest

from langchain_convmem.cli.chat import parse_line
from langchain_convmem.errors import ConfigError


@pytest.mark.parametrize(
    ("line", "name", "text"),
    [
        ("Where did I park?", "say", "Where did I park?"),
        ("  padded ", "say", "  padded "),
        ("/quit", "quit", ""),
        (" /QUIT ", "quit", ""),
        ("/help", "help", ""),
        ("/history", "history", ""),
        ("/recall  the car ", "recall", "the car"),
        ("//quit is a word", "say", "/quit is a word"),
        ("/etc/hosts is a file", "say", "/etc/hosts is a file"),
        ("/ alone", "say", "/ alone"),
        ("/2 of it", "say", "/2 of it"),
    ],
)
def test_a_line_is_a_command_or_a_message(line, name, text):
    assert parse_line(line) == (name, text)


@pytest.mark.parametrize("line", ["", "  ", "\t"])
def test_a_blank_line_asks_for_nothing(line):
    assert parse_line(line) is None


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("/hsitory", "is not a command; expected .*/history"),
        ("/half of it", "is not a command"),
        ("/recall", "needs a text"),
        ("/edit  ", "needs a text"),
        ("/quit now", "takes no text"),
    ],
)
def test_a_misspelt_command_is_refused_before_it_is_remembered(line, fault):
    with pytest.raises(ConfigError, match=f"'{line.split()[0]}' {fault}.*/help"):
        parse_line(line)
