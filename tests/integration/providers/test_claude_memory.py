"""Anthropic's memory tool through the real `ChatAnthropic`, to a service on loopback."""

from __future__ import annotations

import pytest
from langchain.agents import create_agent
from native_compaction import MessagesServer, _MessagesConnection

from langchain_convmem import ConversationMemory
from langchain_convmem.integrations import ClaudeMemoryMiddleware, MemoryFiles
from langchain_convmem.testing.scripted_replies import ScriptedReply, ScriptedToolCall

NOTE = {"command": "create", "path": "/memories/tea.md", "file_text": "No sugar."}


class _ToolConnection(_MessagesConnection):
    def find_faults(self, body):
        return iter(())

    def send_reply(self, request, reply):
        calls = [
            {"type": "tool_use", "id": one.call_id, "name": one.name, "input": one.arguments}
            for one in reply.tool_calls
        ]
        text = [{"type": "text", "text": reply.text}] if reply.text else []
        self.send_whole(
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": request["model"],
                "content": [*text, *calls],
                "stop_reason": "tool_use" if calls else "end_turn",
                "stop_sequence": None,
                "usage": {"input_tokens": 1, "output_tokens": 1},
            },
            reply,
        )


class ToolServer(MessagesServer):
    @property
    def connection(self):
        return _ToolConnection


@pytest.mark.sockets
def test_claude_gets_its_own_tool_and_its_files_are_in_the_log():
    anthropic = pytest.importorskip("langchain_anthropic")
    replies = [ScriptedReply(tool_calls=[ScriptedToolCall("memory", NOTE)]), "I noted that."]
    script = iter(replies)
    with (
        ConversationMemory.open(":memory:") as memory,
        ToolServer(lambda _: next(script)) as server,
    ):
        model = anthropic.ChatAnthropic(
            base_url=server.url, api_key="test", model="claude-test", max_retries=0
        )
        agent = create_agent(model, [], middleware=[ClaudeMemoryMiddleware(memory)])
        state = agent.invoke(
            {"messages": [("user", "I take my tea without sugar.")]},
            {"configurable": {"user_id": "ana", "thread_id": "t1"}},
        )
        model._client.close()
        assert state["messages"][-1].text == "I noted that."
        first, second = server.bodies
        assert first["tools"] == [{"type": "memory_20250818", "name": "memory"}]
        assert "MEMORY PROTOCOL" in str(first["system"])
        [told] = second["messages"][-1]["content"]
        assert (told["type"], told["tool_use_id"]) == ("tool_result", "call_1")
        assert "File created at: /memories/tea.md" in str(told["content"])
        assert MemoryFiles(memory, user_id="ana").read_all() == {"/memories/tea.md": "No sugar."}
