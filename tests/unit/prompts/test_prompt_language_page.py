from __future__ import annotations

import re
from pathlib import Path

import pytest

from langchain_convmem.prompts import PromptFile

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
