"""Prompt files on the command line: check, show, compile, new."""

from __future__ import annotations

import json

import pytest

from langchain_convmem.cli import main
from langchain_convmem.prompts import PromptFile

GOOD = """\
__* Meta *__
- version = 2
__* Var *__
- mood = deskMood
__ Role __
Be kind.
__ Now __
It is a {{mood}} day, {{mood}}.
"""

WARNED = "__ Role __\nBe */ kind.\n"
BROKEN = "__ Role __\nBe kind.\n__ Rules __ none\n"
MOOD = "--function=deskMood=calm"


@pytest.fixture
def prompts(capsys, tmp_path, monkeypatch):
    """Run `convmem prompts` in an empty folder; the answer is code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        code = main(["prompts", *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def file(tmp_path):
    def write(text, name="a.prompt"):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return name

    return write


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["sing"],
        ["show"],
        ["compile"],
        ["compile", "a", "--form", "xml"],
        ["new"],
        ["watch", "a"],
        ["check", "a", "--json", "--interactive"],
    ],
)
def test_unusable_arguments_end_with_code_2(words, capsys):
    assert main(["prompts", *words]) == 2
    assert "Usage: convmem prompts" in capsys.readouterr().err


class TestCheck:
    def test_a_good_file_passes(self, prompts, file):
        assert prompts("check", file(GOOD), "--function", "deskMood") == (
            0,
            "a.prompt: no problems\n",
            "",
        )

    def test_findings_look_like_those_of_a_compiler_and_errors_fail(self, prompts, file):
        code, out, err = prompts("check", file(BROKEN))
        assert (code, err) == (1, "")
        assert out.splitlines() == [
            "a.prompt:3:1: error: a title stands alone on its line; this one is taken as text",
            "    __ Rules __ none",
            "    ^",
            "a.prompt: 1 error",
        ]

    def test_warnings_fail_in_strict_mode_only(self, prompts, file):
        name = file(WARNED)
        assert prompts("check", name)[0] == 0
        code, out, _ = prompts("check", name, "--strict")
        assert code == 1
        assert out.endswith("a.prompt: 1 warning\n")

    def test_several_files_are_counted_together_and_all_are_looked_at(self, prompts, file):
        names = [file(BROKEN), file(WARNED, "b.prompt"), "nosuch.prompt"]
        code, out, _ = prompts("check", *names)
        assert code == 1
        assert "b.prompt:2:4: warning: '*/' closes no comment" in out
        assert "nosuch.prompt:1:1: error: this file cannot be read" in out
        assert out.endswith("3 files: 2 errors, 1 warning\n")

    def test_what_is_no_text_is_an_error_at_its_place(self, prompts, tmp_path):
        (tmp_path / "a.prompt").write_bytes(b"__ A __\nd\xc3\xa9j\xe0 vu\n")
        code, out, _ = prompts("check", "a.prompt")
        assert code == 1
        assert out.startswith("a.prompt:2:4: error: a prompt file is UTF-8 text, and this is not")

    def test_json_holds_the_same(self, prompts, file):
        code, out, _ = prompts("check", file(WARNED), file(BROKEN, "b.prompt"), "--json")
        assert code == 1
        first, second = json.loads(out)
        assert first["path"] == "a.prompt"
        assert (first["level"], first["line"], first["column"]) == ("warning", 2, 4)
        assert first["source_line"] == "Be */ kind."
        assert (second["path"], second["level"]) == ("b.prompt", "error")
        assert second["message"].startswith("a title stands alone")

    def test_a_good_file_is_an_empty_list(self, prompts, file):
        assert prompts("check", file(GOOD), MOOD, "--json") == (0, "[]\n", "")

    def test_functions_that_nobody_declares_are_errors(self, prompts, file):
        code, out, _ = prompts("check", file(GOOD))
        assert code == 1
        assert "a.prompt:4:1: error: there is no function 'deskMood'" in out

    def test_a_declared_name_must_be_one(self, prompts, file):
        code, out, err = prompts("check", file(GOOD), "--function", "get mood")
        assert (code, out) == (1, "")
        assert "'get mood' is not a name for a variable function" in err

    def test_a_check_of_nothing_is_refused(self, prompts):
        code, _, err = prompts("check")
        assert code == 1
        assert "name a prompt file" in err

    def test_terminal_codes_in_a_file_command_no_terminal(self, prompts, file):
        _, out, _ = prompts("check", file("__ A __\n{{\x1b]0;mine}}\n"))
        assert "\x1b" not in out


class TestShow:
    def test_sections_come_rendered_with_their_size(self, prompts, file):
        assert prompts("show", file(GOOD), MOOD) == (
            0,
            (
                "**Role:**  (3 tokens)\nBe kind.\n\n"
                "**Now:**  (7 tokens, calls deskMood)\nIt is a calm day, calm.\n\n"
                "2 sections, about 10 tokens\n"
            ),
            "",
        )

    def test_one_section_as_it_stands_in_the_file(self, prompts, file):
        _, out, _ = prompts("show", file(GOOD), MOOD, "--section", "Now", "--raw")
        assert "It is a {{mood}} day" in out
        assert out.endswith("1 section, about 14 tokens\n")

    def test_json_holds_the_same(self, prompts, file):
        code, out, _ = prompts("show", file(GOOD), MOOD, "--json")
        assert code == 0
        shown = json.loads(out)
        assert shown["metadata"] == {"version": "2"}
        assert shown["tokens"] == 10
        assert shown["sections"][1] == {
            "title": "Now",
            "text": "It is a calm day, calm.",
            "tokens": 7,
            "functions": ["deskMood"],
        }

    def test_an_unknown_section_is_named(self, prompts, file):
        code, _, err = prompts("show", file(GOOD), "--section", "Rule")
        assert code == 1
        assert "has no section 'Rule'; it has ['Role', 'Now']" in err

    def test_a_file_that_cannot_be_read_is_named(self, prompts):
        code, out, err = prompts("show", "nosuch.prompt")
        assert (code, out) == (1, "")
        assert err.startswith("convmem: nosuch.prompt: this file cannot be read")

    def test_a_compiled_file_whose_function_is_not_declared_shows_the_gap(self, prompts, file):
        name = file(GOOD)
        assert prompts("compile", name, MOOD)[0] == 0
        code, out, err = prompts("show", "a.bytes", "--section", "Now")
        assert code == 1
        assert "It is a  day, ." in out
        assert "a.bytes#Now:1:9: error: the function 'deskMood' failed" in err


class TestCompile:
    @pytest.mark.parametrize(
        ("form", "endings"),
        [("binary", [".bytes"]), ("json", [".json"]), ("both", [".bytes", ".json"])],
    )
    def test_compiled_files_stand_beside_the_source_and_say_the_same(
        self, prompts, file, tmp_path, form, endings
    ):
        code, out, _ = prompts("compile", file(GOOD), MOOD, "--form", form)
        assert code == 0
        assert out.splitlines() == [f"a{ending}: compiled from a.prompt" for ending in endings]
        assert sorted(path.suffix for path in tmp_path.iterdir()) == sorted([".prompt", *endings])
        for ending in endings:
            loaded = PromptFile.load(tmp_path / f"a{ending}", functions={"deskMood": lambda: "x"})
            assert loaded.render()["Now"] == "It is a x day, x."
            assert loaded.metadata == {"version": "2"}

    def test_it_can_be_done_again_and_check_says_when_it_must_be(self, prompts, file):
        prompts("compile", file(GOOD), MOOD)
        file(GOOD.replace("kind", "brief"))
        code, out, _ = prompts("check", "a.bytes", MOOD, "--strict")
        assert code == 1
        assert "'a.prompt' beside it has changed" in out
        assert prompts("compile", "a.prompt", MOOD)[0] == 0
        assert prompts("check", "a.bytes", MOOD, "--strict")[0] == 0

    def test_errors_in_one_file_compile_none(self, prompts, file, tmp_path):
        code, out, err = prompts("compile", file(BROKEN), file(WARNED, "b.prompt"))
        assert (code, err) == (1, "nothing was compiled\n")
        assert "a.prompt:3:1: error" in out
        assert {path.suffix for path in tmp_path.iterdir()} == {".prompt"}

    def test_warnings_stop_it_in_strict_mode_only(self, prompts, file):
        assert prompts("compile", file(WARNED), "--strict")[0] == 1
        assert prompts("compile", "a.prompt")[0] == 0

    def test_what_is_no_compiled_prompt_is_not_written_over(self, prompts, file, tmp_path):
        file('{"my": "data"}', "a.json")
        code, out, err = prompts("compile", file(GOOD), MOOD, "--form", "both")
        assert (code, out) == (1, "")
        assert "a.json exists and is not a compiled prompt" in err
        assert not (tmp_path / "a.bytes").exists()

    def test_a_compiled_file_is_no_source(self, prompts, file):
        prompts("compile", file(WARNED))
        code, _, err = prompts("compile", "a.bytes")
        assert code == 1
        assert "a.bytes is a compiled prompt; name its source" in err


class TestNew:
    def test_the_new_file_has_nothing_wrong_with_it(self, prompts):
        code, out, _ = prompts("new", "fresh.prompt")
        assert code == 0
        assert out.startswith("fresh.prompt: written")
        assert prompts("check", "fresh.prompt", "--strict")[1] == "fresh.prompt: no problems\n"
        assert list(PromptFile.load("fresh.prompt").sections) == ["Role", "Rules", "Now"]

    def test_a_file_that_is_there_stays(self, prompts, file, tmp_path):
        code, _, err = prompts("new", file(GOOD))
        assert code == 1
        assert "a.prompt is there already" in err
        assert (tmp_path / "a.prompt").read_text() == GOOD

    def test_a_folder_that_is_not_there_is_a_sentence(self, prompts):
        code, _, err = prompts("new", "nosuch/a.prompt")
        assert code == 1
        assert "nosuch/a.prompt cannot be written" in err
