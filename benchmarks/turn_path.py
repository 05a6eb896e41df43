"""How much of the package one turn runs through: what a reader of that turn has to open.

    python -m benchmarks.turn_path [--list] [--json]

Two turns of a wrapped model over an SQLite log are traced, each after turns of the same kind, so
that everything that is set up once per process, log or thread is in place:

    bare    `memory.wrap(model, recall=False)`
    recall  `memory.wrap(model, profile_tokens=150)`, which recalls and adds the user's profile

Counted are the files and the functions of this package (lambdas and generator expressions too) that
run from the call to its return, in all threads, and the deepest stack of the package's own frames.
Comprehensions are no functions, as in Python 3.12, where they run inside the function that holds
them. `--list` prints the files, each with its functions.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from langchain_core.messages import AIMessage

import langchain_convmem
from benchmarks.scripted_model import AnsweringModel
from benchmarks.ui import make_parser, print_report
from langchain_convmem import ConversationMemory

PACKAGE = str(Path(langchain_convmem.__file__).parent)
TURNS: dict[str, dict[str, Any]] = {"bare": {"recall": False}, "recall": {"profile_tokens": 150}}
"""What each traced turn is wrapped with."""
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>")
_WARM = 6
"""Turns of the same thread before the one that is traced."""
_SAID = ("I parked on level 3.", "The dentist is on Tuesday at nine.", "I am a nurse.")


class Tracer:
    """Notes the package's code in this thread, and in threads that start after it was made.

    Attributes:
        codes: The functions that ran while it was noting.
        depth: The frames of the package in the deepest stack.
    """

    def __init__(self) -> None:
        self.codes: set[CodeType] = set()
        self.depth = 0
        self.is_noting = False
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _argument: object) -> None:
        if not self.is_noting or event != "call" or not _is_function(frame):
            return
        self.codes.add(frame.f_code)
        depth, outer = 0, frame
        while outer is not None:
            depth += _is_function(outer)
            outer = outer.f_back  # type: ignore[assignment]  # None is the end
        self.depth = max(self.depth, depth)


def _is_function(frame: FrameType) -> bool:
    code = frame.f_code
    return code.co_filename.startswith(PACKAGE) and code.co_name not in _COMPREHENSIONS


def trace_turn(**options: Any) -> dict[str, Any]:
    """Return what a warm turn of a model runs that is wrapped with these options."""
    tracer = Tracer()
    with (
        tempfile.TemporaryDirectory() as folder,
        ConversationMemory.open(Path(folder) / "turns.db") as memory,
    ):
        chain = memory.wrap(AnsweringModel(reply=lambda _: AIMessage("Noted.")), **options)

        def say(text: str, thread: str) -> None:
            chain.invoke(text, {"configurable": {"user_id": "ana", "thread_id": thread}})

        for number, said in enumerate(_SAID * 2):
            say(said, f"earlier{number % 2}")
        for _ in range(_WARM):
            say("When am I at the dentist's?", "now")
        tracer.is_noting = True
        say("Where did I park?", "now")
        tracer.is_noting = False
    sys.setprofile(None)
    threading.setprofile(None)
    ran: dict[str, list[str]] = {}
    for code in sorted(tracer.codes, key=lambda code: (code.co_filename, code.co_firstlineno)):
        ran.setdefault(code.co_filename[len(PACKAGE) + 1 :], []).append(code.co_qualname)
    counts = {"files": len(ran), "functions": len(tracer.codes), "depth": tracer.depth}
    return {**counts, "ran": ran}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print how many files and functions a turn touches."""
    parser = make_parser("benchmarks.turn_path", __doc__)
    parser.add_argument("--list", action="store_true", help="print the files and functions")
    options = parser.parse_args(arguments)
    report = {name: trace_turn(**wrapped) for name, wrapped in TURNS.items()}
    ran = {name: turn.pop("ran") for name, turn in report.items()}

    def make_table(report: dict[str, Any]) -> list[str]:
        lines: list[str] = []
        for name, counted in report.items():
            lines.append(f"{name:7} " + "  ".join(f"{key} {one}" for key, one in counted.items()))
            for file, functions in ran[name].items() if options.list else ():
                lines.append(f"  {file} ({len(functions)}): {', '.join(functions)}")
        return lines

    return print_report(report, make_table, as_json=options.json)


if __name__ == "__main__":
    raise SystemExit(main())
