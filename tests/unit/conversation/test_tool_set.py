from __future__ import annotations

from functools import partial
from typing import Annotated, TypedDict

import pytest
from langchain_core.tools import InjectedToolCallId, tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel, Field

from langchain_convmem.conversation.tools import ToolSet
from langchain_convmem.errors import ConfigError


def park(level: int, lot: Annotated[str, "Its letter."] = "A") -> str:  # noqa: D417
    """Park the car.

    Args:
        level: How deep.
    """
    return f"{level}{lot}"


async def leave(call_id: Annotated[str, InjectedToolCallId]) -> str:
    """Drive away."""
    return call_id


@tool
def pay(euros: float) -> str:
    """Pay for the parking."""
    return f"paid {euros}"


class Ticket(BaseModel):
    """A parking ticket."""

    number: int = Field(description="As printed.")


class Receipt(TypedDict):
    """A receipt."""

    euros: float


CAMERA = {"name": "camera", "description": "Look.", "parameters": {"type": "object"}}
SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}
GOOGLE = {"google_search": {}}


def test_tools_of_every_form_are_described_as_openai_does():
    tools = ToolSet([park, leave, pay, Ticket, CAMERA])
    assert tools.names == ("park", "leave", "pay", "Ticket", "camera")
    assert tools.schemas[0] == {
        "type": "function",
        "function": {
            "name": "park",
            "description": "Park the car.",
            "parameters": {
                "type": "object",
                "properties": {
                    "level": {"type": "integer", "description": "How deep."},
                    "lot": {"type": "string", "description": "Its letter.", "default": "A"},
                },
                "required": ["level"],
            },
        },
    }
    assert tools.schemas[1]["function"]["parameters"] == {"type": "object", "properties": {}}
    assert tools.schemas[2:] == [convert_to_openai_tool(one) for one in (pay, Ticket, CAMERA)]
    assert ToolSet([Receipt]).schemas == [convert_to_openai_tool(Receipt)]


def test_what_is_only_described_cannot_be_run():
    tools = ToolSet([park, leave, pay, Ticket, Receipt, CAMERA, SEARCH])
    assert [name for name in tools.names if tools.can_run(name)] == ["park", "leave", "pay"]
    assert tools.can_run("unknown"), "the model is told that there is no such tool"


def test_tools_that_run_at_the_provider_keep_their_own_form():
    tools = ToolSet([SEARCH, GOOGLE])
    assert tools.names == ("web_search", "google_search")
    assert tools.bindable == [SEARCH, GOOGLE]


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(ConfigError, match="more than one tool is called 'park'"):
        ToolSet([park, {"name": "park"}])


def undescribed(x: int) -> int:
    return x


def misdescribed(x: int) -> int:  # noqa: D417
    """Double.

    Args:
        y: What to double.
    """
    return 2 * x


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (5, "5 is not a tool"),
        ("park", "'park' is not a tool"),
        (str, "is not a tool"),
        (partial(park, 1), "a function with a name"),
        (undescribed, "'undescribed'.*docstring"),
        (misdescribed, "'misdescribed'"),
        ({}, "does not describe a tool"),
    ],
)
def test_what_is_no_tool_is_refused_with_a_way_out(given, named):
    with pytest.raises(ConfigError, match=named):
        ToolSet([given])


@pytest.mark.parametrize("given", [park, CAMERA, "park"])
def test_a_single_tool_is_no_list(given):
    with pytest.raises(ConfigError, match="pass a list of tools"):
        ToolSet(given)
