"""Loops of tools that do not come to their end: limits, cancels, broken and missing parts."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from scripted_chat import ScriptedChatModel

from langchain_convmem import ChatTemplate
from langchain_convmem.conversation import Conversation
from langchain_convmem.errors import (
    TurnCancelledError,
)
from langchain_convmem.testing import ScriptedEngine, SessionFault

QWEN = ChatTemplate.from_builtin("qwen")


def call(name="look", call_id="c1", **args):
    return {"name": name, "args": args, "id": call_id}


def calling(*calls, text=""):
    return AIMessage(text, tool_calls=list(calls))


def look(place: str = "there") -> str:
    """Look at a place."""
    return f"seen {place}"


def chat(*replies, tools=(look,), **settings):
    model = ScriptedChatModel(replies=list(replies))
    return Conversation(model, preface={"tools": list(tools)}, **settings)


# -- cancelled -----------------------------------------------------------------------------------


def test_a_turn_cancelled_in_a_tool_may_keep_what_was_said():
    def stop() -> str:
        """Cancel."""
        talk.cancel()
        return "stopped"

    talk = chat(
        calling(call(), text="First."),
        calling(call("stop", "c2"), text="Then."),
        "Done.",
        tools=[look, stop],
        on_cancel="keep",
    )
    with pytest.raises(Exception, match="cancelled"):
        talk.send_message("Go")
    assert [one.text for one in talk.history] == [
        "Go",
        "First.",
        "seen there",
        "Then.",
        "Error: the call was cancelled",
    ]
    assert talk.send_message("And?").text == "Done."


# -- left to the caller -------------------------------------------------------------------------


@pytest.mark.parametrize("rewindable", [True, False])
def test_a_turn_cancelled_while_results_are_read_may_keep_them(rewindable):
    written = 'First.\n<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>'
    engine = ScriptedEngine(
        [written, "Done."],
        template=QWEN,
        end_text="<|im_end|>",
        rewindable=rewindable,
        faults=[SessionFault(at="prefill", nth=2, after=1, error=TurnCancelledError("now"))],
    )
    talk = Conversation(engine, preface={"tools": [look]}, on_cancel="keep")
    with pytest.raises(TurnCancelledError):
        talk.send_message("Go")
    assert [one.type for one in talk.history] == ["human", "ai", "tool"]
    assert talk.send_message("And?").text == "Done."
    tools = [convert_to_openai_tool(look)]
    assert QWEN.render(talk.history, tools=tools).startswith(engine.sessions[0].text)
    assert engine.misuses == []


def test_some_results_are_not_all():
    talk = chat(calling(call(), call(call_id="c2")), "Done.", auto_tools=False)
    talk.send_message("Go")
    assert talk.send_message(ToolMessage("found", tool_call_id="c1")).text == "Done."
    assert {one.tool_call_id: one.status for one in talk.history[2:4]} == {
        "c1": "success",
        "c2": "error",
    }
