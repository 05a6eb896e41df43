"""The quickstart as a stranger walks it, with times: a fresh clone, a new environment, a chat.

    python -m benchmarks.quickstart [--json]

It clones this checkout, installs it with the extra `openai`, and runs the quickstart's program as
its page shows it, against a chat service on loopback in the place of OpenAI's. Times are seconds of
the clock, downloads from the package index included.
"""

from __future__ import annotations

import argparse
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

from langchain_convmem.testing import ChatCompletionsServer

__all__ = ["main"]

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
    python = str(directory / "env" / "bin" / "python")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none"}
    clone = directory / "clone"
    steps = {
        "git clone": ["git", "clone", "--quiet", "--depth", "1", f"file://{ROOT}", str(clone)],
        "python -m venv": [sys.executable, "-m", "venv", str(directory / "env")],
        "pip install 'langchain-convmem[openai]'": [
            python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
            f"{clone}[openai]",
        ],
        "python quickstart.py": [python, "quickstart.py"],
        "python quickstart.py, again": [python, "quickstart.py"],
    }  # fmt: skip
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
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    script = _REPLIES * 2
    with (
        tempfile.TemporaryDirectory() as directory,
        ChatCompletionsServer(script) as server,
    ):
        found = walk(Path(directory), server.url)
        asked = ["level C" in json.dumps(one.body) for one in server.requests]
    found["was_given_the_line"] = all(asked[1::2])
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        for name, seconds in found["seconds"].items():
            print(f"{seconds:7.1f} s  $ {name}")
        print(f"{found['in_all']:7.1f} s  in all, at most {LIMIT_S:.0f}")
        print("\n".join(found["printed"]))
    return int(found["in_all"] > LIMIT_S or found["printed"] != _REPLIES[1:] * 2)


if __name__ == "__main__":
    raise SystemExit(main())
