import tomllib
from pathlib import Path

import yaml

from langchain_convmem.cli import main

ROOT = Path(__file__).parents[3]
[HOOK] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))


def test_its_entry_is_a_command_that_takes_the_files(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("a.prompt", "b.prompt"):
        Path(name).write_text("__ Role __\nBe kind.\n")
    program, *words = HOOK["entry"].split()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert program in project["scripts"]
    assert main([*words, "--strict", "a.prompt", "b.prompt"]) == 0
    assert capsys.readouterr().out == "2 files: no problems\n"
