"""Typical mistakes of authors, and what they are told; other formats; cases of prompts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from langchain_convmem import ConfigError, PromptFile
from langchain_convmem.cli import main
from langchain_convmem.prompts.cases import compare_case, read_cases, render_case
from langchain_convmem.prompts.conversion import convert_prompt
from langchain_convmem.prompts.parser import parse_prompt

MISTAKES = json.loads((Path(__file__).parent / "typical_mistakes.json").read_text("utf-8"))


def find_problems(text):
    return parse_prompt(text, name="t", functions={"getDate"}).diagnostics


@pytest.mark.parametrize("mistake", MISTAKES, ids=[one["name"] for one in MISTAKES])
def test_a_typical_mistake_is_found_and_explained(mistake):
    found = [(one.level, one.message) for one in find_problems(mistake["text"])]
    assert any(
        level == mistake["level"] and mistake["message"] in message for level, message in found
    ), found


def test_the_mistakes_are_many_and_a_sound_file_has_none_of_them():
    assert len(MISTAKES) >= 40
    sound = (
        "__ *Const* __\n- assistant = Ada\n__ Role __\nYou are {{assistant}}.\n## Style\n- brief\n"
    )
    assert find_problems(sound) == ()


def test_a_misspelt_constant_fails_the_check(tmp_path, capsys):
    path = tmp_path / "a.prompt"
    path.write_text("__ *Const* __\n- assistant = Ada\n__ Role __\nI am {{assistent}}.\n")
    assert main(["prompts", "check", str(path)]) == 1
    assert "did you mean 'assistant'?" in capsys.readouterr().out


@pytest.mark.parametrize(
    "field", ["- - a = b", "-- a = b", "* a = b", "\u2022 a = b", "\u2013 a = b", "-\u2022 a = b"]
)
def test_dashes_and_bullets_are_no_part_of_a_key(field):
    assert parse_prompt(f"__ *Const* __\n{field}\n", name="t", functions=()).constants == {"a": "b"}


# -- other formats --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# Role\nYou help.\n\n## Style ##\nBrief.\n", {"Role": "You help.", "Style": "Brief."}),
        ("\uff3f\uff3f Role \uff3f\uff3f\nYou help.\n", {"Role": "You help."}),
        ("\u2014\u2014 Role \u2014\u2014\r\nYou help.\r\n", {"Role": "You help."}),
        ("__ Role __\nYou help.\n# Not a title\n", {"Role": "You help.\n# Not a title"}),
        ("# Role\n```\n# a comment\n```\n", {"Role": "```\n# a comment\n```"}),
        ("You help.\n", {"Role": "You help."}),
        (
            '---\nmodel: x */ y\n---\n{{role "system"}}\nYou help.\n{{role "user"}}\nHi\n',
            {"Role": "You help.", "User": "Hi"},
        ),
    ],
)
def test_another_format_becomes_sections(text, expected):
    converted = convert_prompt(text)
    prompt = PromptFile.parse(converted.text)
    assert dict(prompt.sections) == expected
    assert not [one for one in prompt.diagnostics if one.level == "error"]
    assert convert_prompt(converted.text).text == converted.text


def test_what_was_converted_is_said_and_a_prompt_file_stays_as_it_is():
    assert convert_prompt("# Role\nHi").notes == (
        "line 1: a Markdown heading becomes the title 'Role'",
    )
    sound = "__ Role __\nYou help.\n"
    assert convert_prompt(sound) == convert_prompt(convert_prompt(sound).text)
    assert convert_prompt(sound).notes == ()


def test_convert_writes_a_new_file_only(tmp_path, capsys):
    (tmp_path / "a.md").write_text("# Role\nYou help.\n")
    words = ["prompts", "convert", str(tmp_path / "a.md")]
    assert main(words) == 0
    assert capsys.readouterr().out == "__ Role __\nYou help.\n"
    assert main([*words, "--out", str(tmp_path / "a.prompt")]) == 0
    assert (tmp_path / "a.prompt").read_text() == "__ Role __\nYou help.\n"
    assert main([*words, "--out", str(tmp_path / "a.prompt")]) == 1
    assert "is there already" in capsys.readouterr().err


# -- cases ----------------------------------------------------------------------------------------

PROMPT = "__ *Var* __\n- today = getDate\n__ Role __\nToday is {{today}}.\n"
CASES = """\
- name: a greeting
  functions: {getDate: 8 May}
  input: Hello
  messages:
    - role: user
      content: |
        <context>
        **Role:**
        Today is 8 May.
        </context>
        Hello
"""


def test_a_case_that_holds_shows_no_difference_and_another_one_does():
    [case] = read_cases(CASES, "cases")
    prompt = PromptFile.parse(PROMPT, functions={"getDate": lambda: "8 May"})
    made = render_case(prompt, case)
    assert list(compare_case(case, made)) == []
    other = PromptFile.parse(PROMPT, functions={"getDate": lambda: "9 May"})
    difference = list(compare_case(case, render_case(other, case)))
    assert "-Today is 8 May." in difference
    assert "+Today is 9 May." in difference


def test_the_command_runs_the_cases_beside_a_prompt(tmp_path, capsys):
    path = tmp_path / "a.prompt"
    path.write_text(PROMPT)
    assert main(["prompts", "test", str(path)]) == 1
    assert "there are no cases at" in capsys.readouterr().err
    (tmp_path / "a.cases.yaml").write_text(CASES)
    assert main(["prompts", "test", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: 1 case, 0 failed\n"
    (tmp_path / "a.cases.yaml").write_text(CASES.replace("is 8 May", "was 8 May"))
    assert main(["prompts", "test", str(path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["failed"].keys() == {"a greeting"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{a: [", "neither YAML nor JSON"),
        ("a: b", "holds no list"),
        ("- {name: x}", "case 1: expected"),
        ("- {messages: [], mesages: []}", "there is no member 'mesages'"),
        ("- {messages: [{role: user}]}", "expected"),
        ("- {messages: [], functions: [a]}", "names with their texts"),
        ("- !!python/object/apply:os.system [x]", "neither YAML nor JSON"),
    ],
)
def test_bad_cases_are_refused_with_their_place(text, problem):
    with pytest.raises(ConfigError, match="cases") as caught:
        read_cases(text, "cases")
    assert problem in str(caught.value)


def test_a_case_names_the_variables_of_its_prompt():
    [case] = read_cases("- {variables: {mood: calm}, messages: []}", "cases")
    with pytest.raises(ConfigError, match="names no variable: 'mood'"):
        render_case(PromptFile.parse("__ Role __\nHi\n"), case)
