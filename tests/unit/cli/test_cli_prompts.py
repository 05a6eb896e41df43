import io
import json
import sys

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
def check(capsys, tmp_path, monkeypatch):
    """Run `convmem prompts check` in a folder of three files; the answer is code and output."""
    monkeypatch.chdir(tmp_path)
    for name, text in (("good", GOOD), ("warned", WARNED), ("broken", BROKEN)):
        (tmp_path / f"{name}.prompt").write_text(text, encoding="utf-8")

    def run(*words, answers=()):
        typed = "".join(f"{answer}\n" for answer in answers).encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed), encoding="utf-8"))
        code = main(["prompts", "check", *words])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return run


def compiled(folder):
    return {path.name for path in folder.iterdir() if path.suffix in {".json", ".bytes"}}


def test_findings_look_like_those_of_a_compiler_and_errors_fail(check):
    assert check("good.prompt", MOOD) == (0, "good.prompt: no problems\n")
    code, out = check("broken.prompt")
    assert code == 1
    assert out.splitlines() == [
        "broken.prompt:3:1: error: a title stands alone on its line; this one is taken as text",
        "    __ Rules __ none",
        "    ^",
        "broken.prompt: 1 error",
    ]


def test_warnings_fail_in_strict_mode_only(check):
    assert check("warned.prompt")[0] == 0
    code, out = check("warned.prompt", "--strict")
    assert (code, out.splitlines()[-1]) == (1, "warned.prompt: 1 warning")


def test_all_files_are_looked_at_and_counted_together(check, tmp_path):
    (tmp_path / "latin.prompt").write_bytes(b"__ A __\nd\xc3\xa9j\xe0 vu\n")
    (tmp_path / "codes.prompt").write_text("__ A __\n{{\x1b]0;mine}}\n")
    names = ("good", "warned", "latin", "codes", "nosuch")
    code, out = check(*(f"{name}.prompt" for name in names))
    assert code == 1
    assert "good.prompt:4:1: error: there is no function 'deskMood'" in out
    assert "warned.prompt:2:4: warning: '*/' closes no comment" in out
    assert "latin.prompt:2:4: error: a prompt file is UTF-8 text, and this is not" in out
    assert "nosuch.prompt:1:1: error: this file cannot be read" in out
    assert out.endswith("5 files: 4 errors, 1 warning\n")
    assert "\x1b" not in out, "a file commands no terminal"


def test_json_holds_the_same(check):
    code, out = check("warned.prompt", "broken.prompt", "--json")
    first, second = json.loads(out)["findings"]
    assert code == 1
    assert first.pop("message")
    place = {"line": 2, "column": 4, "source_line": "Be */ kind."}
    assert first == {"path": "warned.prompt", "level": "warning", **place}
    assert (second["path"], second["level"]) == ("broken.prompt", "error")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["good.prompt", "--function", "get mood"], 1, "is not a function name"),
        ([], 1, "name a prompt file"),
        (["good.prompt", "--json", "--interactive"], 2, "takes one file"),
        (["good.prompt", "warned.prompt", "--interactive"], 2, "takes one file"),
        (["good.prompt", "--compile", "xml"], 2, "'xml' is not one of"),
    ],
)
def test_unusable_words_are_refused(check, words, code, says):
    found, out = check(*words)
    assert found == code
    assert says in out


@pytest.mark.parametrize(
    ("form", "endings"),
    [("binary", ["bytes"]), ("json", ["json"]), ("both", ["bytes", "json"])],
)
def test_compiled_files_stand_beside_the_source_and_say_the_same(check, tmp_path, form, endings):
    code, out = check("good.prompt", MOOD, "--compile", form)
    assert code == 0
    assert out.splitlines()[1:] == [f"good.{one}: compiled from good.prompt" for one in endings]
    assert compiled(tmp_path) == {f"good.{ending}" for ending in endings}
    for ending in endings:
        loaded = PromptFile.load(tmp_path / f"good.{ending}", functions={"deskMood": lambda: "x"})
        assert loaded.render()["Now"] == "It is a x day, x."
        assert loaded.metadata == {"version": "2"}


def test_a_stale_compiled_file_is_told_and_compiled_again(check, tmp_path):
    check("warned.prompt", "--compile", "binary")
    (tmp_path / "warned.prompt").write_text(WARNED.replace("kind", "brief"))
    code, out = check("warned.bytes", "--strict")
    assert code == 1
    assert "'warned.prompt' beside it has changed" in out
    assert check("warned.prompt", "--compile", "binary")[0] == 0
    assert check("warned.bytes", "--strict")[0] == 0


def test_what_must_not_be_compiled_or_written_over_is_left_alone(check, tmp_path):
    assert check("broken.prompt", "warned.prompt", "--compile", "both")[0] == 1
    assert check("warned.prompt", "--strict", "--compile", "both")[0] == 1
    (tmp_path / "good.json").write_text('{"my": "data"}')
    code, out = check("good.prompt", MOOD, "--compile", "both")
    assert code == 1
    assert "good.json exists and is not a compiled prompt" in out
    assert compiled(tmp_path) == {"good.json"}
    check("warned.prompt", "--compile", "binary")
    assert "name its source" in check("warned.bytes", "--compile", "binary")[1]


def test_a_file_is_asked_for_shown_and_compiled(check, tmp_path):
    code, out = check("--interactive", MOOD, answers=["good.prompt", "y", "YES"])
    assert code == 0
    assert out.splitlines() == [
        *("**Role:**", "Be kind.", "", "**Now:**", "It is a calm day, calm.", ""),
        *("good.prompt: no problems", "compiled"),
    ]
    assert compiled(tmp_path) == {"good.bytes", "good.json"}


def test_nothing_is_compiled_without_a_yes(check, tmp_path):
    for name, answers, code, written in (
        ("broken", ["y", "y"], 1, set()),
        ("good", [], 1, set()),
        ("good", ["n"], 1, set()),
        ("good", ["y"], 0, set()),
        ("good", ["y", "n", ""], 0, set()),
        ("good", ["y", "n", "other"], 0, {"other.bytes", "other.json"}),
    ):
        assert check("--interactive", MOOD, f"{name}.prompt", answers=answers)[0] == code
        assert compiled(tmp_path) == written
