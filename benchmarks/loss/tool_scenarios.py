"""What happens to a turn in which the model calls tools, or makes an object."""

from __future__ import annotations

from contextlib import suppress

from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langchain_core.tools import tool

from benchmarks.loss.judging import Happened
from benchmarks.loss.models import Advice, ProviderError, ScriptedModel, calling, stating
from benchmarks.loss.scenarios import THREAD, said
from benchmarks.loss.systems import Chat, Setup, System, UnsupportedError

__all__ = [
    "stream_of_calls_that_breaks",
    "stream_of_calls_without_an_end",
    "structured_output",
    "tool_loop_cut_short",
    "tool_loop_of_the_caller",
    "tool_loop_resumed_after_a_restart",
    "whole_tool_loop",
]


class _ToolError(Exception):
    """What a tool raises."""


@tool
def look() -> str:
    """Look."""
    return "a bicycle"


def whole_tool_loop(system: System) -> Happened:
    """The model calls a tool and answers; nothing is in the way."""
    chat = system.chat(Setup(ScriptedModel(reply=calling), tools=[look]))
    for number in (1, 2):
        chat.ask(THREAD, said(number))
    return Happened(("Q1", "A1", "Q2", "A2"))


def tool_loop_cut_short(system: System) -> Happened:
    """A tool breaks down after the model has called it; the user goes on."""

    @tool("look")
    def fail() -> str:
        """Look."""
        raise _ToolError("the door is locked")

    chat = system.chat(Setup(ScriptedModel(reply=calling), tools=[fail]))
    try:
        chat.ask(THREAD, said(1))
    except _ToolError:
        return Happened(("Q1",), failed=("Q1",))
    return Happened(("Q1", "A1"))  # the model was told, and answered


def tool_loop_resumed_after_a_restart(system: System) -> Happened:
    """A tool waits for somebody's decision, which comes after the process was started anew."""

    @tool("look")
    def ask_first() -> str:
        """Look, if one may."""
        from langgraph.types import interrupt

        return f"allowed: {interrupt('May I look?')}"

    if not system.can_pause:
        raise UnsupportedError("a chain cannot pause")
    system.chat(Setup(ScriptedModel())).ask(THREAD, said(1))
    setup = Setup(ScriptedModel(reply=calling), tools=[ask_first])
    system.chat(setup).ask(THREAD, said(2))
    system.reopen()
    system.chat(setup).resume(THREAD, "yes")
    return Happened(("Q1", "A1", "Q2", "A2"))


# -- the application runs the tools ----------------------------------------------------------


def tool_loop_of_the_caller(system: System) -> Happened:
    """The model calls a tool, the application runs it and sends the result, twice."""
    chat = system.chat(Setup(ScriptedModel(reply=calling), tools=[look], by_caller=True))
    for number in (1, 2):
        _answer(chat, chat.send(THREAD, [said(number)]))
    return Happened(("Q1", "A1", "Q2", "A2"))


def _answer(chat: Chat, called: AIMessage) -> None:
    if not called.tool_calls:
        raise UnsupportedError("it runs its tools itself")
    results = [
        ToolMessage(str(look.invoke(call["args"])), tool_call_id=str(call["id"]))
        for call in called.tool_calls
    ]
    chat.send(THREAD, results)


def stream_of_calls_without_an_end(system: System) -> Happened:
    """A stream of a tool call alone ends without saying why; the application sends the result."""
    model = ScriptedModel(reply=calling, has_end=False)
    chat = system.chat(Setup(model, tools=[look], by_caller=True))
    pieces = [piece for piece in chat.stream(THREAD, said(1)) if isinstance(piece, AIMessageChunk)]
    calls = [call for piece in pieces for call in piece.tool_calls]
    if not any(piece.text for piece in pieces):  # an agent has answered by itself
        _answer(chat, AIMessage("", tool_calls=calls))
    return Happened(("Q1", "A1"))


def stream_of_calls_that_breaks(system: System) -> Happened:
    """The connection breaks behind a tool call and before a word; the user goes on."""
    model = ScriptedModel(reply=calling, breaks_after=1)
    chat = system.chat(Setup(model, tools=[look], by_caller=True))
    with suppress(ProviderError):
        for _ in chat.stream(THREAD, said(1)):
            pass
    system.chat(Setup(ScriptedModel())).ask(THREAD, said(2))
    return Happened(("Q1", "Q2", "A2"), failed=("Q1",))


# -- an object instead of a text -------------------------------------------------------------


def structured_output(system: System) -> Happened:
    """The model makes an object, which the application shows; then the user goes on."""
    chat = system.chat(Setup(ScriptedModel(reply=stating), schema=Advice))
    for number in (1, 2):
        found = chat.send(THREAD, [said(number)])
        if found != Advice(text=f"A{number}, as far as I know."):
            raise RuntimeError(f"the application got {found!r}")
    return Happened(("Q1", "A1", "Q2", "A2"))
