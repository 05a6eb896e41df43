"""The main job, end to end: import weeks of dialogue, then talk about them in a new process.

Everything runs offline with the embedded embedder. The model is the offline one, which quotes what
its context holds and is no language model; with a key, `convmem chat --model ...` takes any other.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
DIALOGUE = HERE / "weeks_with_an_assistant.jsonl"
DATABASE = Path("demo.db")


def convmem(*args: str, text: str | None = None, show: bool = True) -> str:
    """Run the command line in a process of its own and return what it printed."""
    command = [sys.executable, "-m", "langchain_convmem.cli", *args]
    if show:
        print("$ convmem", *args, flush=True)
    done = subprocess.run(  # noqa: S603 - our own command line
        command, input=text, stdout=subprocess.PIPE, text=True, encoding="utf-8", check=False
    )
    if show:
        print(done.stdout, flush=True)
    if done.returncode != 0:
        sys.exit(done.returncode)
    return done.stdout


def main() -> None:
    """Import, chat in a new process, and check that each answer quotes what was said weeks ago."""
    for suffix in ("", "-wal", "-shm"):
        Path(f"{DATABASE}{suffix}").unlink(missing_ok=True)
    questions = json.loads((HERE / "demo_questions.json").read_text("utf-8"))["questions"]
    where = ("--db", str(DATABASE), "--user", "maya")

    convmem("import", os.path.relpath(DIALOGUE), *where)
    print("Now a new process and a new thread, weeks later. Three questions:\n")
    asked = "".join(f"{question['question']}\n" for question in questions)
    convmem("chat", *where, "--thread", "today", "--show-recall", text=asked)

    logged = convmem("log", *where, "--thread", "today", "--json", show=False)
    unanswered = [item["must_quote"] for item in questions if item["must_quote"] not in logged]
    if unanswered:
        sys.exit(f"the chat did not answer with: {unanswered}")
    print(f"All {len(questions)} answers quote what was said in earlier weeks, word for word.")
    print("Go on yourself:", sys.executable, "-m langchain_convmem.cli chat", *where)


if __name__ == "__main__":
    main()
