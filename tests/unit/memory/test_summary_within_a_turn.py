"""A summary that is written while a turn waits for its tools stands in for what it covers."""

from __future__ import annotations

import threading

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableLambda

from langchain_convmem import ConversationMemory, SummarySettings

CONFIG = {"configurable": {"user_id": "ana", "thread_id": "t"}}


def test_the_model_sees_the_summary_or_what_it_covers():
    seen: list[str] = []
    is_due = threading.Event()

    def answer(payload):
        messages = payload["messages"]
        seen[:] = [message.text for message in messages]
        if messages[-1].text == "Send it.":
            call = {"name": "send", "args": {}, "id": "c1"}
            return AIMessage("", tool_calls=[call])
        return AIMessage("Noted.")

    def summarize(messages):
        is_due.wait(5)
        return " ".join(message.text for message in messages if message.type == "human")

    settings = SummarySettings(trigger=("messages", 4), keep=("messages", 2))
    with ConversationMemory.open(
        ":memory:", summarizer=summarize, summary_settings=settings
    ) as memory:
        chain = memory.wrap(RunnableLambda(answer), recall=False)
        for number in range(4):
            chain.invoke(f"Fact {number}.", CONFIG)
        chain.invoke("Send it.", CONFIG)
        is_due.set()
        memory.flush()  # the summary is there now, and the call is still open
        chain.invoke([ToolMessage("sent", tool_call_id="c1")], CONFIG)
    shown = "\n".join(seen)
    assert all(f"Fact {number}." in shown for number in range(4))
    assert seen[-1] == "sent"
