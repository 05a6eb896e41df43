from __future__ import annotations

import json
from pathlib import Path

import pytest

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
