"""States, calls and looks for tests of the LangGraph nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.graph import MessagesState
from langgraph.graph.message import add_messages
from pydantic import BaseModel
from scripted_chat import at

from langchain_convmem import ConversationMemory
from langchain_convmem.integrations.langgraph import MemoryState


class RecallState(MessagesState):
    turn_id: str
    recalled_ids: list[str]


class IdsModel(BaseModel):
    input: Any = ""
    turn_id: str = ""
    recalled_ids: list[str] = []
    reply: str = ""
    answer: str = ""


@dataclass
class IdsData:
    input: Any = ""
    turn_id: str = ""
    recalled_ids: list[str] = field(default_factory=list)
    reply: str = ""
    answer: str = ""


class MessagesModel(BaseModel):
    messages: Annotated[list[AnyMessage], add_messages] = []
    recalled_ids: list[str] | None = None


@dataclass
class MessagesData:
    messages: Annotated[list[AnyMessage], add_messages] = field(default_factory=list)


IDS = [MemoryState, IdsModel, IdsData]
WITH_MESSAGES = [MessagesState, RecallState, MessagesModel, MessagesData]


def says(schema: Any, text: str, message_id: str | None = None) -> dict[str, Any]:
    """Return the input of a graph with such a state."""
    if schema in IDS:
        return {"input": text if message_id is None else HumanMessage(text, id=message_id)}
    return {"messages": [HumanMessage(text, id=message_id)]}


def answer_of(state: dict[str, Any]) -> str:
    """Return the text of the reply that a graph ended with."""
    return state["messages"][-1].text if state.get("messages") else state["answer"]


def shown(
    memory: ConversationMemory, thread_id: str = "t", user_id: str | None = "ana"
) -> list[str]:
    """Return the texts of a thread's view, in order."""
    history = memory.history(thread_id, user_id=user_id)
    return [text for turn in history.turns for text in turn.contents]


def spoken(
    memory: ConversationMemory, thread_id: str = "t", user_id: str | None = "ana"
) -> list[str]:
    """Return the texts of all that was ever stored in a thread, in order."""
    history = memory.history(thread_id, user_id=user_id)
    return [text for entry in history.entries for text in entry.contents]


def snapshot(graph: Any, holds: Callable[[Any], bool], thread_id: str = "t") -> Any:
    """Return the config of the latest snapshot that holds something, with the user named."""
    found = next(s for s in graph.get_state_history(at(thread_id)) if holds(s))
    return {"configurable": {**found.config["configurable"], "user_id": "ana"}}
