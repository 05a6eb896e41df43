"""Prompt files with somebody in front of them."""

from __future__ import annotations

import io
import sys

import pytest

from langchain_convmem.cli import main
from langchain_convmem.prompts import PromptFile

GOOD = "__* Var *__\n- mood = deskMood\n__ Role __\nBe {{mood}}.\n"
BROKEN = "__ Role __\nBe kind.\n__ Rules __ none\n"
MOOD = "--function=deskMood=calm"


@pytest.fixture
def dialogue(capsys, tmp_path, monkeypatch):
    """Answer the questions of `check --interactive`; returns code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*answers, words=(), text=GOOD):
        (tmp_path / "a.prompt").write_text(text)
        typed = "".join(f"{answer}\n" for answer in answers).encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed), encoding="utf-8"))
        code = main(["prompts", "check", "--interactive", MOOD, *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def compiled(tmp_path):
    return {path.name for path in tmp_path.rglob("*") if path.suffix in {".json", ".bytes"}}


class TestDialogue:
    def test_a_file_is_shown_compiled_and_compared(self, dialogue, tmp_path):
        code, out, _ = dialogue("y", "y", "y", "YES", words=["a.prompt"])
        assert code == 0
        assert out.splitlines() == [
            "**Role:**",
            "Be calm.",
            "",
            "a.prompt: no problems",
            "compiled",
            "both are the same as the source",
        ]
        assert compiled(tmp_path) == {"a.bytes", "a.json"}

    def test_folder_and_file_are_asked_for_until_they_are_there(self, dialogue, tmp_path):
        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "b.prompt").write_text(GOOD)
        code, out, err = dialogue(
            "y", "nosuch", "in", "", "a.prompt", "b.prompt", "y", "y", "y", "n"
        )
        assert code == 0
        assert err.splitlines() == ["not 'nosuch'; again", "not ''; again", "not 'a.prompt'; again"]
        assert "in/b.prompt: no problems" in out
        assert compiled(tmp_path) == {"b.bytes", "b.json"}

    def test_a_file_with_errors_ends_it_with_code_1(self, dialogue, tmp_path):
        code, out, _ = dialogue("y", "y", "y", words=["a.prompt"], text=BROKEN)
        assert code == 1
        assert "a.prompt:3:1: error" in out
        assert compiled(tmp_path) == set()

    def test_a_person_who_finds_fault_ends_it_with_code_1(self, dialogue, tmp_path):
        assert dialogue("n", words=["a.prompt"])[0] == 1
        assert compiled(tmp_path) == set()

    def test_another_name_can_be_given(self, dialogue, tmp_path):
        assert dialogue("y", "n", "other.x", "y", "n", words=["a.prompt"])[0] == 0
        assert compiled(tmp_path) == {"other.bytes", "other.json"}

    def test_no_other_file_is_written_over_without_a_yes(self, dialogue, tmp_path):
        (tmp_path / "a.json").write_text("mine")
        code, _, err = dialogue("y", "a", "n", "b", "y", "n", words=["a.prompt"])
        assert code == 0
        assert "not 'a'; again" in err
        assert (tmp_path / "a.json").read_text() == "mine"
        assert compiled(tmp_path) == {"a.json", "b.bytes", "b.json"}
        dialogue("y", "a", "y", "y", "n", words=["a.prompt"])
        functions = {"deskMood": lambda: "glad"}
        loaded = PromptFile.load(tmp_path / "a.json", functions=functions)
        assert loaded.render() == {"Role": "Be glad."}

    def test_the_last_no_writes_nothing(self, dialogue, tmp_path):
        code, out, _ = dialogue("y", "y", "n", words=["a.prompt"])
        assert code == 0
        assert out.endswith("nothing was compiled\n")
        assert compiled(tmp_path) == set()

    @pytest.mark.parametrize(
        "answers", [(), ("n",), ("n", "a.prompt"), ("n", "a.prompt", "y", "y")]
    )
    def test_an_end_of_the_input_writes_nothing(self, dialogue, tmp_path, answers):
        code, _, err = dialogue(*answers)
        assert code == 0
        assert err.endswith("the input ended; nothing was compiled\n")
        assert compiled(tmp_path) == set()

    def test_it_takes_one_file(self, dialogue):
        code, _, err = dialogue(words=["a.prompt", "b.prompt"])
        assert code == 1
        assert "one file at a time" in err
