from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from scripted_chat import ScriptedChatModel
from turn_hosts import RUNS

from langchain_convmem import ConversationMemory, InMemoryLog


@pytest.fixture
def memory():
    """Return a memory in which nothing was said."""
    with ConversationMemory(InMemoryLog()) as opened:
        yield opened


@pytest.fixture
def told():
    """Return a memory in which Ana told of three things elsewhere, and of one in her thread.

    It shows no profile, which would tell of the same things.
    """
    with ConversationMemory(InMemoryLog(), profile_tokens=0) as opened:
        for number, text in enumerate(("red and fast", "locked in the shed", "ten years old")):
            said = HumanMessage(f"My bicycle is {text}. {'It rained on that day. ' * 9}")
            opened.add_messages([said], thread_id=f"old {number}", user_id="ana")
        turn = [HumanMessage("My name is Ana. " * 20), AIMessage("Nice to meet you.")]
        opened.add_messages(turn, thread_id="t", user_id="ana")
        yield opened


@pytest.fixture
def model():
    return ScriptedChatModel(replies=["Yes."])


@pytest.fixture(params=RUNS)
def run(request) -> Callable[..., Any]:
    """Return what runs a turn, synchronously and asynchronously."""
    way: Callable[..., Any] = RUNS[request.param]
    return way
