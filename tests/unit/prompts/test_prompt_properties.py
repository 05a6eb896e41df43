from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from langchain_convmem.errors import PromptSyntaxError
from langchain_convmem.prompts import PromptFile

FUNCTIONS = {"now": lambda: "{{a}}"}

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


@given(TEXTS)
def test_strict_parsing_raises_exactly_when_there_is_an_error(text):
    errors = [
        found
        for found in PromptFile.parse(text, functions=FUNCTIONS, strict=False).diagnostics
        if found.level == "error"
    ]
    if not errors:
        PromptFile.parse(text, functions=FUNCTIONS, strict=True)
        return
    with pytest.raises(PromptSyntaxError) as caught:
        PromptFile.parse(text, functions=FUNCTIONS, strict=True)
    assert (caught.value.line, caught.value.column) == (errors[0].line, errors[0].column)
    assert str(caught.value) == str(errors[0])
