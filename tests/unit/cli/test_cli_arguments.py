from __future__ import annotations

import pytest

from langchain_convmem.cli.arguments import build_parser


def parsed(*words, **environ):
    return build_parser(environ).parse_args(words)


def test_the_database_and_the_user_have_defaults():
    arguments = parsed("threads")
    assert (arguments.db, arguments.user) == ("memory.db", "me")


def test_the_environment_gives_defaults_and_options_win_over_it():
    environ = {"CONVMEM_DB": "/e.db", "CONVMEM_USER": "eve", "CONVMEM_MODEL": "openai:x"}
    by_environment = parsed("chat", **environ)
    by_option = parsed("chat", "--db", "o.db", "--user", "ola", "--model", "openai:y", **environ)
    assert (
        vars(by_environment).items() >= {"db": "/e.db", "user": "eve", "model": "openai:x"}.items()
    )
    assert vars(by_option).items() >= {"db": "o.db", "user": "ola", "model": "openai:y"}.items()


def test_empty_environment_variables_count_as_unset():
    arguments = parsed("chat", CONVMEM_DB="", CONVMEM_USER="", CONVMEM_MODEL="")
    assert (arguments.db, arguments.user, arguments.model) == ("memory.db", "me", None)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["sing"],
        ["import"],
        ["recall"],
        ["recall", "q", "-k", "0"],
        ["recall", "q", "-k", "many"],
        ["recall", "q", "-k", "3", "--max-tokens", "100"],
        ["log"],
        ["export"],
        ["copy", "--from", "a.db"],
        ["copy", "--to", "a.db"],
        ["forget"],
        ["forget", "--thread", "t", "--everything"],
        ["verify"],
        ["verify", "a.db", "b.db"],
        ["backup", "a.db"],
    ],
)
def test_unusable_arguments_end_with_code_2(words, capsys):
    with pytest.raises(SystemExit) as ended:
        parsed(*words)
    assert ended.value.code == 2
    assert "usage: convmem" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["chat", "import", "recall", "log", "threads", "export", "forget"])
def test_every_command_explains_itself(name, capsys):
    with pytest.raises(SystemExit) as ended:
        parsed(name, "--help")
    assert ended.value.code == 0
    assert "--db PATH" in capsys.readouterr().out


def test_the_version_is_that_of_the_distribution(capsys):
    from importlib.metadata import version

    with pytest.raises(SystemExit) as ended:
        parsed("--version")
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"convmem {version('langchain-convmem')}\n"


def test_a_copy_names_two_logs_and_any_number_of_users():
    arguments = parsed(
        "copy", "--from", "a.db", "--to", "dynamodb://t", "--user", "x", "--user", "y"
    )
    assert (arguments.source, arguments.target) == ("a.db", "dynamodb://t")
    assert arguments.users == ["x", "y"]
    assert parsed("copy", "--from", "a", "--to", "b").users is None


def test_verify_and_backup_name_files():
    assert parsed("verify", "a.db").database == "a.db"
    arguments = parsed("backup", "a.db", "copy.db")
    assert (arguments.database, arguments.target) == ("a.db", "copy.db")
