from __future__ import annotations

import pytest

from langchain_convmem.prompts.diagnostics import Findings
from langchain_convmem.prompts.scanner import Line, find_comments, read_lines


def scanned(text: str) -> list[Line]:
    return list(read_lines(text, find_comments(text, Findings("<text>", text))))


def lines_of(text: str) -> list[str]:
    return [line.text for line in scanned(text)]


def comments_of(text: str) -> list[str]:
    return [text[start:end] for start, end in find_comments(text, Findings("<text>", text))]


def problems_of(text: str) -> list[tuple[str, int, int]]:
    findings = Findings("<text>", text)
    find_comments(text, findings)
    return [(found.level, found.line, found.column) for found in findings.sort()]


def test_comments_are_found_with_their_marks_and_without_their_line_end() -> None:
    assert comments_of("one // two\n/* a\r\nb */three") == ["// two", "/* a\r\nb */"]


@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", "a\rb"])
def test_every_kind_of_line_end_separates_lines(text: str) -> None:
    assert lines_of(text) == ["a", "b"]


@pytest.mark.parametrize("char", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
def test_other_separators_are_text(char: str) -> None:
    assert lines_of(f"a{char}b") == [f"a{char}b"]


def test_a_line_of_comments_alone_leaves_no_line() -> None:
    assert lines_of("a\n  // x\nb\n /* y */ // z\nc\n/* over\nlines */\nd") == ["a", "b", "c", "d"]


def test_a_blank_line_stays_a_line() -> None:
    assert lines_of("a\n\nb") == ["a", "", "b"]


def test_a_block_comment_joins_the_lines_it_stands_between() -> None:
    assert lines_of("to the /* first\nsecond */coast") == ["to the coast"]


def test_a_line_comment_hides_a_block_opener() -> None:
    assert lines_of("a // see /* this\nb") == ["a ", "b"]


def test_a_block_comment_hides_a_double_slash() -> None:
    assert lines_of("a /* see // this */ b") == ["a  b"]


@pytest.mark.parametrize(
    "address",
    [
        "https://docs.example.org/a?b=1",
        "file:///etc/x",
        "https://example.org//twice",
        "https://example.org/*",
        "{{scheme}}://{{host}}//x",
    ],
)
def test_addresses_are_text_up_to_the_next_blank(address: str) -> None:
    text = f"see {address} // gone\nnext"
    assert lines_of(text) == [f"see {address} ", "next"]
    assert problems_of(text) == []


def test_an_unclosed_comment_stays_in_the_text_and_is_an_error_once() -> None:
    text = "a\nb /* open\nc /* again // cut"
    assert lines_of(text) == ["a", "b /* open", "c /* again "]
    assert problems_of(text) == [("error", 2, 3)]


def test_a_nested_opener_is_an_error_where_it_stands() -> None:
    text = "a /* one\n  /* two */ rest */\nb"
    assert lines_of(text) == ["a  rest */", "b"]
    assert problems_of(text) == [("error", 2, 3), ("warning", 2, 18)]


def test_a_slash_star_slash_does_not_close_itself() -> None:
    assert lines_of("a/*/b*/c") == ["ac"]


def test_positions_survive_the_comments_of_a_line() -> None:
    text = "ab/* x\n */cd/* */ef"
    (line,) = scanned(text)
    findings = Findings("<text>", text)
    assert line.text == "abcdef"
    assert [findings.find_place(line.locate(offset)) for offset in range(7)] == [
        (1, 1),
        (1, 2),
        (2, 4),
        (2, 5),
        (2, 11),
        (2, 12),
        (2, 13),
    ]


def test_quoted_text_holds_no_comment() -> None:
    text = 'a {{"//"}} b {{ "/* x" }} c {{"*/"}} // gone'
    assert comments_of(text) == ["// gone"]
    assert problems_of(text) == []


@pytest.mark.parametrize("text", ['{{"// x', '{{""}}//', '{{" //"}}', '{{"//\n"}}', '{"//"}'])
def test_what_is_not_whole_in_its_quotes_is_not_quoted(text: str) -> None:
    assert len(comments_of(text)) == 1
