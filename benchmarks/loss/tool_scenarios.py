"""What happens to a turn in which the model calls tools."""

from __future__ import annotations

from contextlib import suppress

from langchain_core.tools import tool

from benchmarks.loss.judging import Happened
from benchmarks.loss.models import ScriptedModel, calling
from benchmarks.loss.scenarios import THREAD, said
from benchmarks.loss.systems import Setup, System, UnsupportedError

__all__ = ["tool_loop_cut_short", "tool_loop_resumed_after_a_restart", "whole_tool_loop"]


class _ToolError(Exception):
    """What a tool raises."""


def whole_tool_loop(system: System) -> Happened:
    """The model calls a tool and answers; nothing is in the way."""

    @tool
    def look() -> str:
        """Look."""
        return "a bicycle"

    chat = system.chat(Setup(ScriptedModel(reply=calling), tools=[look]))
    for number in (1, 2):
        chat.ask(THREAD, said(number))
    return Happened(("Q1", "A1", "Q2", "A2"))


def tool_loop_cut_short(system: System) -> Happened:
    """A tool breaks down after the model has called it; the user goes on."""

    @tool
    def look() -> str:
        """Look."""
        raise _ToolError("the door is locked")

    chat = system.chat(Setup(ScriptedModel(reply=calling), tools=[look]))
    with suppress(_ToolError):
        chat.ask(THREAD, said(1))
    return Happened(("Q1",))


def tool_loop_resumed_after_a_restart(system: System) -> Happened:
    """A tool waits for somebody's decision, which comes after the process was started anew."""

    @tool
    def look() -> str:
        """Look, if one may."""
        from langgraph.types import interrupt

        return f"allowed: {interrupt('May I look?')}"

    if not system.can_pause:
        raise UnsupportedError("a chain cannot pause")
    system.chat(Setup(ScriptedModel())).ask(THREAD, said(1))
    setup = Setup(ScriptedModel(reply=calling), tools=[look])
    system.chat(setup).ask(THREAD, said(2))
    system.reopen()
    system.chat(setup).resume(THREAD, "yes")
    return Happened(("Q1", "A1", "Q2", "A2"))
