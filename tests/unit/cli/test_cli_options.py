import re
import sys
from importlib.metadata import version

import click
import pytest

from langchain_convmem.cli import main
from langchain_convmem.cli.app import convmem


def parsed(name, *words):
    """Return what the command `name` would be called with."""
    group, _, inner = name.rpartition(" ")
    command = (convmem.commands[group] if group else convmem).commands[inner]
    with command.make_context(name, list(words)) as context:
        return context.params


@pytest.fixture
def environ(monkeypatch):
    def set_all(db, user, model):
        for name, value in (("DB", db), ("USER", user), ("MODEL", model)):
            monkeypatch.setenv(f"CONVMEM_{name}", value)

    return set_all


def test_the_environment_gives_defaults_and_options_win_over_it(environ):
    environ("/e.db", "eve", "openai:x")
    by_environment = parsed("chat")
    by_option = parsed("chat", "--db", "o.db", "--user", "ola", "--model", "openai:y")
    assert by_environment.items() >= {"db": "/e.db", "user": "eve", "model": "openai:x"}.items()
    assert by_option.items() >= {"db": "o.db", "user": "ola", "model": "openai:y"}.items()


UNUSABLE = """\

sing
import
recall
recall q -k 0
recall q -k many
recall q -k 3 --max-tokens 100
recall q --words --max-tokens 100
export
export --redact -o a.jsonl
copy --from a.db
forget
forget --thread t --everything
db
db verify a.db
db backup a.db b.db
db restore
chat --thread t --continue\
"""


@pytest.mark.parametrize("line", UNUSABLE.split("\n"))
def test_unusable_arguments_end_with_code_2(line, capsys):
    assert main(line.split()) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("Usage: convmem")


@pytest.mark.parametrize(
    ("words", "guess"),
    [
        (["recal", "q"], "No such command 'recal'. Did you mean 'recall'?"),
        (["prompts", "chek"], "No such command 'chek'. Did you mean 'check'?"),
        (["recall", "q", "--threed", "t"], "--thread"),
        (["reindex", "--all-user"], "--all-users"),
    ],
)
def test_a_misspelt_word_is_answered_with_a_guess(words, guess, capsys):
    assert main(words) == 2
    err = capsys.readouterr().err
    assert "Did you mean" in err or "Possible options" in err
    assert guess in err


def every_command(group=convmem, path=()):
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from every_command(command, (*path, name))
        else:
            yield (*path, name), command


@pytest.mark.parametrize("path", dict(every_command()), ids=" ".join)
def test_every_command_explains_itself_with_examples_and_prints_json(path, capsys):
    assert main([*path, "--help"]) == 0
    help_text = capsys.readouterr().out
    assert help_text.startswith(f"Usage: convmem {' '.join(path)} ")
    assert f"\n    convmem {' '.join(path)}" in help_text
    assert "--json" in help_text
    first, rest = help_text.split("\n\n")[1:3]
    assert first.strip().endswith(".")
    assert rest


def test_the_summaries_of_commands_are_not_cut_off(capsys):
    for group in ([], ["db"], ["prompts"]):
        assert main([*group, "--help"]) == 0
        listed = capsys.readouterr().out.partition("Commands:\n")[2].partition("\n\n")[0]
        assert listed
        assert all(re.search(r"[^.]\.$", line) for line in listed.splitlines()), listed


def test_the_version_is_that_of_the_distribution(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"convmem {version('langchain-convmem')}\n"


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("convmem prom", "plain,prompts\n"),
        ("convmem prompts c", "plain,check\n"),
        ("convmem recall --thr", "plain,--thread\n"),
        ("convmem nosuch --th", ""),
    ],
)
def test_words_are_completed(typed, offered, monkeypatch, capsys):
    monkeypatch.setenv("_CONVMEM_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(typed.count(" ")))
    assert main([]) == 0
    assert capsys.readouterr().out.strip() == offered.strip()


def test_a_missing_click_is_one_sentence_with_the_command_that_fixes_it(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "click", None)
    assert main(["threads"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("convmem: ")
    assert captured.err.endswith("pip install 'langchain-convmem[cli]'\n")
    assert captured.err.count("\n") == 1
