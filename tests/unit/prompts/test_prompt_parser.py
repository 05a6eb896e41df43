import json
import pickle
import re
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from langchain_convmem.errors import ConvMemError, PromptSyntaxError
from langchain_convmem.prompts import Diagnostic, PromptFile
from langchain_convmem.prompts.parser import parse_prompt
from langchain_convmem.prompts.variables import Occurrence

FUNCTIONS = {"dayName": lambda: "Friday", "room_number": lambda: "204", "now": lambda: "{{a}}"}


def parse(text):
    return PromptFile.parse(text, functions=FUNCTIONS, strict=False)


def problems(text):
    return [(found.level, found.line, found.column) for found in parse(text).diagnostics]


CONST, VAR = "__* Const *__\n- {} = {}\n", "__* Var *__\n- d = dayName\n"
E, W = "error", "warning"
CASES = {
    # titles
    "__ Two \t words __\ntext": ({"Two words": "text"}, []),
    "/* x */  __ro__le__\t\ntext": ({"ro__le": "text"}, []),
    "__ 角色 __\n你是助手。\n__ Perché __\nUn aiuto.": (
        {"角色": "你是助手。", "Perché": "Un aiuto."},
        [],
    ),
    "__ A __\nx\n__ Be\nCareful __\ny": ({"A": "x\n__ Be\nCareful __\ny"}, [(W, 3, 1)]),
    "__ A __\n__ B __\n \n\t\n__ C __\nx": ({"C": "x"}, [(W, 1, 1), (W, 2, 1)]),
    "__ A __\nx\n____\nlost\n__ __\nlost too": ({"A": "x"}, [(W, 3, 1), (W, 5, 1)]),
    "// fine\n\n  stray\nmore\n__ A __\nx": ({"A": "x"}, [(W, 3, 3)]),
    "__ A * B __\nx": ({"A * B": "x"}, [(W, 1, 1)]),
    "": ({}, [(E, 1, 1)]),
    "// only a comment": ({}, [(E, 1, 1)]),
    "__* Const *__\n- a = 1": ({}, [(W, 1, 1)]),
    "__ A __\n{{who}}\n__  *   cONST * __\n- who = Pim\n__*META*__\n- v = 1": ({"A": "Pim"}, []),
    # white space and comments
    "__ A __\n\n\n \t two\t\twords  here \n    -   item\n\n \n\t\nend\n\n": (
        {"A": " \t two words here\n    - item\n\nend"},
        [],
    ),
    "__ A __\n\u3000段落 a\u00a0\u00a0b\u2003\u2003c": (
        {"A": "\u3000段落 a\u00a0\u00a0b\u2003\u2003c"},
        [],
    ),
    "__ A __\nx\n/* c */ y": ({"A": "x\n y"}, []),
    "__ A __\none/* a\nb */ two // three\n/* four */\nfive": ({"A": "one two\nfive"}, []),
    "__ A __\na // b /* c\nd /* e // f */ g": ({"A": "a\nd g"}, []),
    "__ A __\nsee https://x.example//a/* b\n//c": ({"A": "see https://x.example//a/* b"}, []),
    "__ A __\na /* b\n/* c": ({"A": "a /* b\n/* c"}, [(E, 2, 3)]),
    "__ A __\na /* b /* c */ d */ e": ({"A": "a d */ e"}, [(E, 2, 8), (W, 2, 18)]),
    # fields
    CONST.format("a", "= b") + "__ A __\n{{a}}": ({"A": "= b"}, [(W, 2, 1)]),
    CONST.format("a /* b", "1") + "__ A __\nx": ({"A": "x"}, [(E, 2, 1), (E, 2, 5)]),
    VAR.replace(" = ", ": ") + "__ A __\n{{d}}": ({"A": "Friday"}, []),
    # placeholders
    "__* Meta *__\n- v = {{k}}\n" + CONST.format("k", "1") + "__ A __\n{{k}}": (
        {"A": "1"},
        [(W, 2, 1)],
    ),
    CONST.format("city", "Oslo") + "__ A __\n/* x */ Hi {{City}} \t{{nobody}}": (
        {"A": " Hi {{City}} {{nobody}}"},
        [(E, 4, 12), (E, 4, 22)],
    ),
    CONST.format("k", "v") + "__ A __\n{{k}}}": ({"A": "v}"}, []),
    CONST.format("d", "noon") + VAR + "__ A __\n{{d}}": ({"A": "noon"}, [(W, 4, 1)]),
    CONST.format("c", "on {{d}}") + VAR + "__ A __\n{{c}}!": ({"A": "on Friday!"}, []),
    CONST.format("o", "{") + VAR + "__ A __\n{{o}}{{o}}d}}": ({"A": "{{d}}"}, []),
    "__* Const *__\n- a = {{d}}\n- d = 1\n" + VAR + "__ A __\n{{a}}": (
        {"A": "{{d}}"},
        [(W, 5, 1)],
    ),
    "__* Var *__\n- d = dayNam\n- r = room_number\n__ A __\n{{d}} {{r}}": (
        {"A": "{{d}} 204"},
        [(E, 2, 1)],
    ),
    "__* Var *__\n- d = day name\n__ A __\n{{d}}": ({"A": "{{d}}"}, [(E, 2, 1)]),
    # quoted text
    '__ A __\n{{"//"}} a comment {{ "/* y */" }} z': ({"A": "// a comment /* y */ z"}, []),
    '__ A __\n{{"__ No title __"}}{{ "b  c" }}': ({"A": "__ No title __b  c"}, []),
    VAR + '__ A __\n{{"{{"}}d}} {{"{{d}}"}} {{d}}': ({"A": "{{d}} {{d}} Friday"}, []),
    CONST.format("c", '{{"{{"}}d}}') + VAR + "__ A __\n{{c}}": ({"A": "{{d}}"}, []),
    '__ A __\n{{" a"}} {{"a}} {{""}}': (
        {"A": '{{" a"}} {{"a}} {{""}}'},
        [(E, 2, 1), (E, 2, 10), (E, 2, 17)],
    ),
    '__ {{"*"}} A __\nk': ({"* A": "k"}, [(W, 1, 1)]),
}


@pytest.mark.parametrize("text", CASES)
def test_a_text_gives_sections_and_findings_at_their_places(text):
    sections, findings = CASES[text]
    assert parse(text).render() == sections
    assert problems(text) == findings
    assert parse("\ufeff" + text.replace("\n", "\r\n")) == parse(text)


def test_indices_count_code_points_after_constants_are_filled():
    text = CONST.format("w", "😀😀") + VAR + "__ A __\né {{w}} {{d}}"
    assert parse(text).occurrences == {"A": (Occurrence("dayName", 5, 10),)}


@pytest.mark.parametrize(
    "line",
    [
        *("call __init__ first", "use a__b__c", "Name: ______", "__________", "___", "x__", "__x"),
        *("see x__ and __ y", "fill __ a, then __init__", "see x __ y"),
    ],
)
def test_underscores_inside_a_line_are_text_and_fine(line):
    prompt = parse(f"__ A __\n{line}\nmore")
    assert prompt.sections == {"A": f"{line}\nmore"}
    assert prompt.diagnostics == ()


@pytest.mark.parametrize(
    ("line", "level", "column"),
    [
        ("__ Rules __ be kind", E, 1),
        ("! __ Rules __", E, 3),
        ("__ One __ Two __", E, 1),
        ("__ Open", W, 1),
        ("___ Rules ___", W, 1),
        ("__init__ and __main__", W, 1),
    ],
)
def test_what_only_looks_like_a_title_is_text_and_reported(line, level, column):
    assert parse(f"__ A __\nx\n{line}\ny").sections == {"A": f"x\n{line}\ny"}
    assert problems(f"__ A __\nx\n{line}\ny") == [(level, 3, column)]


@pytest.mark.parametrize("title", ["* Foo *", "*Constants*", "* Meta", "Var *", "*"])
def test_an_unknown_special_section_is_dropped_with_an_error(title):
    text = f"__{title}__\n- a = 1\n__ A __\nx"
    assert (parse(text).sections, parse(text).constants) == ({"A": "x"}, {})
    assert problems(text) == [(E, 1, 1)]


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("- a b = c d", {"a b": "c d"}),
        ("  -a  b=c \t d  // why", {"a b": "c d"}),
        ("- a b:\tc d", {"a b": "c d"}),
        ("- home = https://x.example/a?b=c // site", {"home": "https://x.example/a?b=c"}),
        ("- a__b: http://c__d/?e=f", {"a__b": "http://c__d/?e=f"}),
        ("- ratio 3:4 = wide", {"ratio 3:4": "wide"}),
        ('- q = "quoted" = n', {"q": '"quoted" = n'}),
        ("- money = $5 \\1 %s {0}", {"money": "$5 \\1 %s {0}"}),
        ("- t = __ x __", {"t": "__ x __"}),
    ],
)
def test_keys_and_values_are_taken_literally(line, fields):
    prompt = parse(f"__* Const *__\n{line}\n__ A __\nx")
    assert prompt.constants == fields
    assert prompt.diagnostics == ()


_MARKS = [
    "__ A __",
    "__ B __",
    "____",
    "__* Meta *__",
    "__* const *__",
    "__* Var *__",
    "__* No *__",
]
_MARKS += ["- a = 1", "- t = now", "- t = nothing", "- : =", "{{a}}", "{{ t }}", "{{", "}}", '{{"']
_MARKS += ['"}}', '{{"//"}}', '{{"{{"}}', "/*", "*/", "//", "://", "__", "\n", "\n\n", "\r\n", "\r"]
_MARKS += ["__* No *__", " ", "\t", "\ufeff", "\x00", "😀", "\ud800"]
PIECES = st.sampled_from(_MARKS)
TEXTS = st.one_of(st.text(), st.lists(st.one_of(PIECES, st.text(max_size=3))).map("".join))


@given(TEXTS)
@example("__ A __\n/* {{t}} \n */{{t}}")
def test_any_text_parses_and_what_is_found_is_in_it(text):
    prompt = PromptFile.parse(text, functions=FUNCTIONS, strict=False)
    lines = re.split("\r\n|\n|\r", text.removeprefix("\ufeff"))
    for found in prompt.diagnostics:
        assert found.source_line == lines[found.line - 1]
        assert 1 <= found.column <= len(found.source_line) + 1
        assert str(found).startswith(f"<text>:{found.line}:{found.column}: {found.level}: ")
    for title, occurrences in prompt.occurrences.items():
        for occurrence in occurrences:
            braces = prompt.sections[title][occurrence.start : occurrence.end]
            assert prompt.variable_definitions[braces[2:-2].strip()] == occurrence.function_name
    assert all(body.strip() for body in prompt.sections.values())
    assert set(prompt.render()) == set(prompt.sections)
    errors = [found for found in prompt.diagnostics if found.level == "error"]
    with pytest.raises(PromptSyntaxError) if errors else nullcontext() as caught:
        PromptFile.parse(text, functions=FUNCTIONS)
    assert not errors or str(caught.value) == str(errors[0])


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
FUNCTIONS_OF_THE_PAGE = {"getDate": lambda: "21/03/2030", "getTime": lambda: "08:15:00"}


def shown(source):
    """Return what the page shows below a prompt file: all sections, then what was found."""
    prompt = PromptFile.parse(
        source, name="desk.prompt", functions=FUNCTIONS_OF_THE_PAGE, strict=False
    )
    found = "\n".join(map(str, prompt.diagnostics))
    return "\n\n".join(filter(None, [prompt.format(prompt.sections), found])) + "\n"


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_gives_what_is_shown_below_it(number):
    source, result = EXAMPLES[number]
    assert shown(source) == result


def test_every_prompt_file_of_the_page_is_an_example():
    assert len(EXAMPLES) == (PAGE + MORE).count("```prompt\n") >= 14
