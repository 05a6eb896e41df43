import json
import pickle
import re
from pathlib import Path

import pytest

from langchain_convmem.errors import ConvMemError, PromptSyntaxError
from langchain_convmem.prompts import Diagnostic, PromptFile
from langchain_convmem.prompts.parser import parse_prompt


def test_a_diagnostic_prints_like_a_compilers():
    found = Diagnostic("error", "no such thing", 3, 5, "say {{x}}", "desk.prompt")
    assert str(found) == "desk.prompt:3:5: error: no such thing\n    say {{x}}\n        ^"


@pytest.mark.parametrize(
    ("source", "column", "padding"),
    [
        ("\tab{{x}}", 4, "\t  "),
        ("你好{{x}}", 3, "    "),
        ("\uff21\uff22{{x}}", 3, "    "),
        ("\x1b[0m{{x}}", 5, "    "),
    ],
)
def test_the_caret_stands_under_its_character(source, column, padding):
    caret = str(Diagnostic("error", "m", 1, column, source)).splitlines()[2]
    assert caret == f"    {padding}^"


def test_what_is_printed_holds_no_control_character():
    text = str(Diagnostic("error", "bad \x1b]0;x", 1, 1, "a\x1b[31mb\x07", "f\r.prompt"))
    assert not any(char in text for char in "\x1b\x07\r")


@pytest.mark.parametrize("column", [1, 60, 61, 5000, 9_999, 10_001])
def test_a_long_line_is_cut_around_the_caret(column):
    source = "".join(chr(0x4E00 + i) if i + 1 == column else "x" for i in range(10_000))
    _, shown, caret = str(Diagnostic("error", "m", 1, column, source)).splitlines()
    assert len(shown) < 140
    assert column > len(source) or shown[caret.index("^")] == source[column - 1]


def test_a_syntax_error_is_a_value_error_of_the_package_and_pickles():
    with pytest.raises(PromptSyntaxError) as caught:
        PromptFile.parse("", strict=True)
    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own bytes
    assert isinstance(copy, PromptSyntaxError)
    assert issubclass(PromptSyntaxError, ValueError)
    assert issubclass(PromptSyntaxError, ConvMemError)
    assert (str(copy), copy.line, copy.column) == (str(caught.value), 1, 1)


MISTAKES = json.loads((Path(__file__).parent / "typical_mistakes.json").read_text("utf-8"))


@pytest.mark.parametrize("mistake", MISTAKES, ids=[one["name"] for one in MISTAKES])
def test_a_typical_mistake_is_found_and_explained(mistake):
    prompt = parse_prompt(mistake["text"], name="t", functions={"getDate"})
    found = [(one.level, one.message) for one in prompt.diagnostics]
    assert any(
        level == mistake["level"] and mistake["message"] in message for level, message in found
    ), found


PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "prompt_language.md").read_text("utf-8")
EXAMPLE = re.compile(r"^```prompt\n(.*?)^```\n+```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
MORE = Path(__file__).with_name("more_examples.md").read_text("utf-8")
EXAMPLES = EXAMPLE.findall(PAGE) + EXAMPLE.findall(MORE)
FUNCTIONS = {"getDate": lambda: "21/03/2030", "getTime": lambda: "08:15:00"}


def shown(source):
    """Return what the page shows below a prompt file: all sections, then what was found."""
    prompt = PromptFile.parse(source, name="desk.prompt", functions=FUNCTIONS, strict=False)
    found = "\n".join(map(str, prompt.diagnostics))
    return "\n\n".join(filter(None, [prompt.format(prompt.sections), found])) + "\n"


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_gives_what_is_shown_below_it(number):
    source, result = EXAMPLES[number]
    assert shown(source) == result


def test_every_prompt_file_of_the_page_is_an_example():
    assert len(EXAMPLES) == (PAGE + MORE).count("```prompt\n") >= 14
