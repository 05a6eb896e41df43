"""How much of the package one turn runs through: what a reader of that turn has to open.

    python -m benchmarks.turn_path [--list] [--json]

Two turns of a wrapped model over an SQLite log are traced, each after turns of the same kind, so
that everything that is set up once per process, log or thread is in place:

    bare    `memory.wrap(model, recall=False)`
    recall  `memory.wrap(model, profile_tokens=150)`, which recalls and adds the user's profile

Counted are the files and the code objects of this package (functions, and the lambdas, generator
expressions and classes inside them) that run from the call to its return, in all threads, and the
deepest stack of the package's own frames. `--list` prints the files, each with its functions.
"""

# ruff: noqa: ARG002 - LangChain names what its models are called with

from __future__ import annotations

import json
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

import langchain_convmem
from benchmarks.scripted_model import InstantModel
from benchmarks.terminal import make_parser
from langchain_convmem import ConversationMemory

PACKAGE = str(Path(langchain_convmem.__file__).parent)
TURNS: dict[str, dict[str, Any]] = {"bare": {"recall": False}, "recall": {"profile_tokens": 150}}
"""What each traced turn is wrapped with."""
_WARM = 6
"""Turns of the same thread before the one that is traced."""
_SAID = ("I parked on level 3.", "The dentist is on Tuesday at nine.", "I am a nurse.")


class TalkingModel(InstantModel):
    """Says the same to everything."""

    def answer(self, messages: Sequence[BaseMessage]) -> AIMessage:
        return AIMessage("Noted.")


@dataclass(slots=True)
class TurnPath:
    """What ran during a turn.

    Attributes:
        codes: The code objects of the package.
        depth: The frames of the package in the deepest stack.
    """

    codes: set[CodeType] = field(default_factory=set)
    depth: int = 0

    def list_functions(self) -> dict[str, list[str]]:
        """Return the qualified names of what ran, by file."""
        found: dict[str, list[str]] = {}
        for code in sorted(self.codes, key=lambda code: (code.co_filename, code.co_firstlineno)):
            found.setdefault(code.co_filename[len(PACKAGE) + 1 :], []).append(code.co_qualname)
        return found


class Tracer:
    """Sees every call of this thread, and of threads that start after it was made."""

    def __init__(self) -> None:
        self._path: TurnPath | None = None
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def record(self, call: Callable[[], object]) -> TurnPath:
        """Make a call; return what of the package ran until it returned."""
        path = self._path = TurnPath()
        try:
            call()
        finally:
            self._path = None
        return path

    def close(self) -> None:
        """See nothing any more."""
        sys.setprofile(None)
        threading.setprofile(None)

    def _note(self, frame: FrameType, event: str, _argument: object) -> None:
        path = self._path
        if path is not None and event == "call" and _is_own(frame.f_code):
            path.codes.add(frame.f_code)
            path.depth = max(path.depth, _count_own_frames(frame))


def _is_own(code: CodeType) -> bool:
    return code.co_filename.startswith(PACKAGE)


def _count_own_frames(frame: FrameType | None) -> int:
    count = 0
    while frame is not None:
        count += _is_own(frame.f_code)
        frame = frame.f_back
    return count


def trace_turn(tracer: Tracer, folder: Path, **options: Any) -> TurnPath:
    """Return the path of a warm turn of a model that is wrapped with these options."""
    with ConversationMemory.open(folder / "turns.db") as memory:
        chain = memory.wrap(TalkingModel(), **options)
        for number, said in enumerate(_SAID * 2):
            chain.invoke(said, _at(f"earlier{number % 2}"))
        for _ in range(_WARM):
            chain.invoke("When am I at the dentist's?", _at("now"))
        return tracer.record(lambda: chain.invoke("Where did I park?", _at("now")))


def trace_turns() -> dict[str, TurnPath]:
    """Return the path of each of `TURNS`."""
    tracer = Tracer()
    paths = {}
    try:
        for name, options in TURNS.items():
            with tempfile.TemporaryDirectory() as folder:
                paths[name] = trace_turn(tracer, Path(folder), **options)
    finally:
        tracer.close()
    return paths


def _at(thread: str) -> Any:
    return {"configurable": {"user_id": "ana", "thread_id": thread}}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print how many files and functions a turn touches."""
    parser = make_parser("benchmarks.turn_path", __doc__)
    parser.add_argument("--list", action="store_true", help="print the files and functions")
    options = parser.parse_args(arguments)
    paths = trace_turns()
    figures = {
        name: {
            "files": len(path.list_functions()),
            "functions": len(path.codes),
            "depth": path.depth,
        }
        for name, path in paths.items()
    }
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    for name, counted in figures.items():
        print(f"{name:7}", "  ".join(f"{key} {count}" for key, count in counted.items()))
        if options.list:
            for file, functions in paths[name].list_functions().items():
                print(f"  {file} ({len(functions)}): {', '.join(functions)}")


if __name__ == "__main__":
    main()
