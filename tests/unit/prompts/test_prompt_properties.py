from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from langchain_convmem.errors import PromptSyntaxError
from langchain_convmem.prompts import PromptFile
from langchain_convmem.prompts.parser import SpanKind, read_spans

FUNCTIONS = {"now": lambda: "{{a}}"}

PIECES = st.sampled_from(
    [
        "__ A __",
        "__ B __",
        "____",
        "__* Meta *__",
        "__* const *__",
        "__* Var *__",
        "__* No *__",
        "- a = 1",
        "- t = now",
        "- t = nothing",
        "- : =",
        "{{a}}",
        "{{ t }}",
        "{{",
        '{{"',
        '"}}',
        '{{"//"}}',
        '{{"{{"}}',
        "}}",
        "/*",
        "*/",
        "//",
        "://",
        "__",
        "\n",
        "\n\n",
        "\r\n",
        "\r",
        " ",
        "\t",
        "\ufeff",
        "\x00",
        "😀",
        "\ud800",
    ]
)
TEXTS = st.one_of(st.text(), st.lists(st.one_of(PIECES, st.text(max_size=3))).map("".join))


@given(TEXTS)
@example("__ A __\n/* {{t}} \n */{{t}}")
def test_any_text_parses_and_what_is_found_is_in_it(text: str) -> None:
    prompt = PromptFile.parse(text, functions=FUNCTIONS)
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
def test_strict_parsing_raises_exactly_when_there_is_an_error(text: str) -> None:
    errors = [
        found
        for found in PromptFile.parse(text, functions=FUNCTIONS).diagnostics
        if found.level == "error"
    ]
    if not errors:
        PromptFile.parse(text, functions=FUNCTIONS, strict=True)
        return
    with pytest.raises(PromptSyntaxError) as caught:
        PromptFile.parse(text, functions=FUNCTIONS, strict=True)
    assert (caught.value.line, caught.value.column) == (errors[0].line, errors[0].column)
    assert str(caught.value) == str(errors[0])


@given(TEXTS)
@example("stray // c\n____\nlost /* x */\n__* No *__\n- a = 1\n__* Const *__\nno\n- = 1\n__ B __")
@example("\ufeff\ufeff")
def test_every_character_is_in_a_part_and_what_is_dropped_has_a_diagnostic(text: str) -> None:
    prompt = PromptFile.parse(text, functions=FUNCTIONS)
    places = {(found.line, found.column) for found in prompt.diagnostics}
    spans = read_spans(text)
    text = text.removeprefix("\ufeff")
    assert "".join(text[span.start : span.end] for span in spans) == text
    for span, behind in itertools.pairwise([*spans, None]):
        assert behind is None or span.end == behind.start
        assert span.kind is not SpanKind.BLANK or not text[span.start : span.end].strip()
        assert (span.kind is SpanKind.DROPPED) == (span.diagnosed_at is not None)
        assert span.diagnosed_at is None or span.diagnosed_at in places


@given(TEXTS)
def test_line_ends_of_any_kind_mean_the_same(text: str) -> None:
    unix = re.sub("\r\n|\r", "\n", text)
    for end in ("\r\n", "\r"):
        other = PromptFile.parse(unix.replace("\n", end), functions=FUNCTIONS)
        plain = PromptFile.parse(unix, functions=FUNCTIONS)
        assert other == plain
        assert other.diagnostics == plain.diagnostics


def is_plain(line: str) -> bool:
    """Tell whether the line holds nothing of the syntax but placeholders of unknown names."""
    return not re.search(r"__|//|/\*|\*/|[ \t]{2}|\t", line) and bool(line.strip())


LINES = (
    st.text(st.sampled_from("ab.{}$\\%[]<>\"'*_/:=- é你😀\u00a0"), min_size=1, max_size=30)
    .map(str.strip)
    .filter(is_plain)
)


@given(st.lists(LINES, min_size=1, max_size=5), st.booleans())
@example(["{", "}", "{{x}}", "{x!r:>{w}}", "\\N{DASH} %(a)s ${b}"], True)
def test_literal_text_reaches_the_system_message_unchanged(lines: list[str], titled: bool) -> None:
    body = "\n".join(lines)
    prompt = PromptFile.parse(f"__ Only __\n{body}\n")
    template = prompt.to_chat_prompt(include_titles=titled)
    system, _ = template.invoke({"input": [HumanMessage("hi")]}).to_messages()
    assert system.content == ("**Only:**\n" if titled else "") + body
    assert prompt.format(["Only"], include_titles=titled) == system.content


@given(st.text(), st.text())
def test_values_and_summaries_reach_a_formatted_prompt_unchanged(value: str, summary: str) -> None:
    prompt = PromptFile.parse(
        "__* Var *__\n- t = getX\n__ A __\n<{{t}}|{{t}}>", functions={"getX": lambda: value}
    )
    tail = f"\n\n{summary}" if summary.strip() else ""
    text = prompt.format(["A"], include_titles=False, summary=summary)
    assert text == f"<{value}|{value}>{tail}"


@given(TEXTS)
def test_cleaning_a_cleaned_section_changes_nothing(text: str) -> None:
    sections = PromptFile.parse(text).sections
    plain = {title: body for title, body in sections.items() if not re.search(r"__|//|\*", body)}
    again = PromptFile.parse("".join(f"__ {title} __\n{body}\n" for title, body in plain.items()))
    assert {t: b for t, b in again.sections.items() if t in plain} == plain


@given(TEXTS)
@example("__* Const *__\n- s = /\n- b = {\n__ A __\n{{s}}{{s}} {{b}}{{b}}s}} x {{s}}*")
@example("__* Const *__\n- u = __ B __\n- v = __\n__ A __\nx\n{{u}}\n{{v}} C {{v}}")
@example("__* Const *__\n- u = 1\n- c = {{u}}\n__* Var *__\n- u = now\n__ A __\n{{c}}")
@example('__* Const *__\n- c = {{t}}{{"{{"}}t}}\n__* Var *__\n- t = now\n__ A __\n{{c}}')
@example("__* Const *__\n- b = {\n__* Var *__\n- t = now\n__ A __\n{{b}}{{t}}}")
@example('__ A __\nx */\n__ B __\nsee https://x/*\n__ C *__ D __\n__ {{"*"}} */ E __\n/* y')
def test_a_file_that_is_written_back_reads_the_same(text: str) -> None:
    prompt = PromptFile.parse(text, functions=FUNCTIONS)
    again = PromptFile.parse(prompt.to_text(), functions=FUNCTIONS)
    assert again == prompt
    assert list(again.sections.items()) == list(prompt.sections.items())
    assert again.to_text() == prompt.to_text()
