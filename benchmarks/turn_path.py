"""How much of the package one turn runs through: what a reader of that turn has to open.

    python -m benchmarks.turn_path [--list] [--json]

A warm turn is measured, after turns of the same kind: what is set up once per process, log or
thread is set up already. Counted are the files and the functions of this package that run from the
call to its return, in whatever thread; lambdas and comprehensions belong to the function they stand
in.

    wrap          `memory.wrap(model).invoke(...)` with recall, over an SQLite log
    send_message  `Conversation.send_message` with one call of a tool, over a chat model

--list prints the files, each with its functions.
"""

# ruff: noqa: ARG002 - LangChain names what its models are called with

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import tool

import langchain_convmem
from benchmarks.scripted_model import InstantModel
from langchain_convmem import Conversation, ConversationMemory, EmbeddedEmbeddings, Preface

PACKAGE = str(Path(langchain_convmem.__file__).parent)
RECALL = ("recall/", "words/")
_INNER = {"<lambda>", "<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>", "<module>"}
_SAID = ("I parked on level 3.", "The dentist is on Tuesday at nine.", "Miso is our cat.")


class TalkingModel(InstantModel):
    """Says the same to everything."""

    def answer(self, messages: Sequence[BaseMessage]) -> AIMessage:
        return AIMessage("Noted.")


class CallingModel(InstantModel):
    """Calls a tool once for each question, and says what it was told."""

    def answer(self, messages: Sequence[BaseMessage]) -> AIMessage:
        if messages[-1].type == "tool":
            return AIMessage(str(messages[-1].content))
        call = {"name": "read_clock", "args": {}, "id": f"call{len(messages)}"}
        return AIMessage("", tool_calls=[call])


@tool
def read_clock() -> str:
    """Return the time of day."""
    return "It is nine."


@dataclass(frozen=True, slots=True)
class TurnPath:
    """What ran: the functions of the package, as pairs of file and qualified name, in order."""

    functions: tuple[tuple[str, str], ...]

    @property
    def files(self) -> tuple[str, ...]:
        """The files, in order."""
        return tuple(sorted({file for file, _ in self.functions}))

    @property
    def outside_recall(self) -> tuple[str, ...]:
        """The files of other rooms than recall's."""
        return tuple(file for file in self.files if not file.startswith(RECALL))


def trace_path(call: Callable[[], Any]) -> TurnPath:
    """Return what runs while `call` is made, in this thread and in those it starts."""
    codes: set[CodeType] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            codes.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    ran = {
        (code.co_filename[len(PACKAGE) + 1 :], code.co_qualname)
        for code in codes
        if code.co_name not in _INNER
    }
    return TurnPath(tuple(sorted(ran)))


def trace_wrap(folder: Path) -> TurnPath:
    """Return the path of a warm turn of a wrapped model that recalls."""
    with ConversationMemory.open(folder / "turns.db", embeddings=EmbeddedEmbeddings()) as memory:
        chain = memory.wrap(TalkingModel())
        for number, said in enumerate(_SAID * 2):
            chain.invoke(said, _at(f"earlier{number % 2}"))
        chain.invoke("Hello again!", _at("now"))
        chain.invoke("What is the cat called?", _at("now"))
        return trace_path(lambda: chain.invoke("Where did I park?", _at("now")))


def trace_send_message() -> TurnPath:
    """Return the path of a warm `send_message` in which a tool is called."""
    conversation = Conversation(CallingModel(), preface=Preface(tools=(read_clock,)))
    conversation.send_message("What time is it?")
    return trace_path(lambda: conversation.send_message("And now?"))


def _at(thread: str) -> Any:
    return {"configurable": {"user_id": "ana", "thread_id": thread}}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print how many files and functions a turn touches."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.turn_path",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--list", action="store_true", help="print the files and functions")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        paths = {"wrap": trace_wrap(Path(folder)), "send_message": trace_send_message()}
    figures = {
        name: {
            "files": len(path.files),
            "outside_recall": len(path.outside_recall),
            "functions": len(path.functions),
        }
        for name, path in paths.items()
    }
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    for name, counted in figures.items():
        print(f"{name:13}", "  ".join(f"{key} {count}" for key, count in counted.items()))
        if options.list:
            _print_functions(paths[name])


def _print_functions(path: TurnPath) -> None:
    for file in path.files:
        names = [name for place, name in path.functions if place == file]
        print(f"  {file} ({len(names)}): {', '.join(names)}")


if __name__ == "__main__":
    main()
