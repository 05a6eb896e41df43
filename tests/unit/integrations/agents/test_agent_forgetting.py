"""What is forgotten while a tool of an agent waits for an approval stays forgotten."""

from __future__ import annotations

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from scripted_chat import ScriptedChatModel

from langchain_convmem import ConversationMemory, ConversationMemoryMiddleware

CONFIG = {"configurable": {"user_id": "ana", "thread_id": "mail"}}


@tool
def send_mail(text: str) -> str:
    """Send a mail."""
    return f"sent: {text}"


def test_an_approved_tool_leaves_nothing_in_a_thread_that_was_erased_meanwhile():
    call = {"name": "send_mail", "args": {"text": "the code is 4711"}, "id": "c1"}
    model = ScriptedChatModel(
        replies=[AIMessage("", tool_calls=[call]), "Sent the code 4711.", "Hello."]
    )
    with ConversationMemory.open(":memory:") as memory:
        agent = create_agent(
            model,
            [send_mail],
            middleware=[
                HumanInTheLoopMiddleware(interrupt_on={"send_mail": True}),
                ConversationMemoryMiddleware(memory),
            ],
            checkpointer=InMemorySaver(),
        )
        agent.invoke({"messages": [("user", "Mail the code 4711.")]}, CONFIG)
        memory.forget(user_id="ana", thread_id="mail")
        decision = Command(resume={"decisions": [{"type": "approve"}]})
        assert agent.invoke(decision, CONFIG)["messages"][-1].text == "Sent the code 4711."
        assert memory.threads("ana") == []
        agent.invoke({"messages": [("user", "Good morning.")]}, CONFIG)
        texts = [message.text for message in memory.history("mail", user_id="ana").messages]
        assert texts == ["Good morning.", "Hello."]
