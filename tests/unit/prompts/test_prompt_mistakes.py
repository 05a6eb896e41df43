"""Typical mistakes of authors, and what they are told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from langchain_convmem.cli import main
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
    assert len(MISTAKES) >= 32
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
