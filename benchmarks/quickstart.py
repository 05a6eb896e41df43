"""The quickstart as a stranger walks it, with times: a fresh clone, a new environment, a chat.

    python -m benchmarks.quickstart [--json]

It clones this checkout, installs it with the extra `openai`, and runs the quickstart's program as
its page shows it, against a chat service on loopback in the place of OpenAI's. Times are seconds of
the clock, downloads from the package index included.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.ui import make_bar, make_parser, print_report
from langchain_convmem.testing import ChatCompletionsServer

ROOT = Path(__file__).parents[1]
_REPLIES = ["Noted.", "You parked on level C, next to the blue pillar."]
LIMIT_S = 300.0


def read_program() -> str:
    """Return the program of the quickstart for OpenAI: the tab, and what follows the tabs."""
    page = (ROOT / "docs" / "get_started" / "quickstart.md").read_text("utf-8")
    tab = page.partition('=== "OpenAI"')[2]
    model = re.search(r"^ {4}```python\n(.*?)^ {4}```", tab, re.MULTILINE | re.DOTALL)
    chat = re.search(r"^```python\n(.*?)^```", tab, re.MULTILINE | re.DOTALL)
    if model is None or chat is None:
        raise SystemExit("the quickstart has no program for OpenAI any more")
    return textwrap.dedent(model[1]) + chat[1]


def walk(directory: Path, url: str) -> dict[str, Any]:
    """Take each step in a directory; return the steps with their seconds and what was printed."""
    python, clone = str(directory / "env" / "bin" / "python"), str(directory / "clone")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none"}
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    steps = {
        "git clone": ["git", "clone", "--quiet", "--depth", "1", f"file://{ROOT}", clone],
        "python -m venv": [sys.executable, "-m", "venv", str(directory / "env")],
        "pip install 'langchain-convmem[openai]'": [*pip, f"{clone}[openai]"],
        "python quickstart.py": [python, "quickstart.py"],
        "python quickstart.py, again": [python, "quickstart.py"],
    }
    (directory / "quickstart.py").write_text(read_program(), "utf-8")
    taken, printed = {}, []
    for name, command in steps.items():
        start = time.monotonic()
        done = subprocess.run(
            command, cwd=directory, env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
        taken[name] = round(time.monotonic() - start, 1)
        printed += done.stdout.splitlines()
    return {"seconds": taken, "in_all": round(sum(taken.values()), 1), "printed": printed}


def main(arguments: Sequence[str] | None = None) -> int:
    """Walk and print; return the exit code, which is 1 where it takes long or goes wrong."""
    options = make_parser("benchmarks.quickstart", __doc__).parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, ChatCompletionsServer(_REPLIES * 2) as server:
        report = walk(Path(folder), server.url)
        asked = ["level C" in json.dumps(one.body) for one in server.requests]
    wrong = int(report["printed"] != _REPLIES[1:] * 2) + asked[1::2].count(False)
    report["bars"] = [
        make_bar("seconds", report["in_all"], LIMIT_S),
        make_bar("replies that are wrong, or asked without the line", wrong, 0),
    ]

    def make_table(report: dict[str, Any]) -> list[str]:
        steps = [f"{seconds:7.1f} s  $ {name}" for name, seconds in report["seconds"].items()]
        return [*steps, f"{report['in_all']:7.1f} s  in all", *report["printed"]]

    return print_report(report, make_table, as_json=options.json)


if __name__ == "__main__":
    raise SystemExit(main())
