"""LangChain's own completion model behind a chat template, over real HTTP."""

from __future__ import annotations

import pytest
from completions_server import CompletionsServer
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool

from langchain_convmem.text import ChatTemplate
from langchain_convmem.text.template_chat_model import TemplateChatModel

openai = pytest.importorskip("openai", reason="openai is not installed")
langchain_openai = pytest.importorskip("langchain_openai", reason="langchain-openai is missing")
pytestmark = pytest.mark.sockets

REPLY = (
    "<think>\nLevel three.\n</think>\n\n"
    '<tool_call>\n{"name": "look", "arguments": {"level": 3}}\n</tool_call><|im_end|>\nAnd more.'
)


@tool
def look(level: int) -> str:
    """Look there."""
    return str(level)


async def test_a_completion_service_calls_tools_as_a_chat_model():
    with CompletionsServer(REPLY) as server, openai.DefaultHttpxClient(verify=False) as client:
        async with openai.DefaultAsyncHttpxClient(verify=False) as async_client:
            llm = langchain_openai.OpenAI(
                base_url=server.url,
                api_key="test",
                model="test-model",
                max_tokens=99,
                http_client=client,
                http_async_client=async_client,
            )
            model = TemplateChatModel(llm=llm, template="qwen").bind_tools([look])
            chunks = [chunk async for chunk in model.astream("Where?")]
            streamed = sum(chunks[1:], start=chunks[0])
            replies = [model.invoke("Where?"), await model.ainvoke("Where?"), streamed]
        bodies = [request.body for request in server.requests]
    for reply in replies:
        assert reply.tool_calls[0]["args"] == {"level": 3}
        assert reply.additional_kwargs["reasoning_content"] == "Level three."
        assert reply.response_metadata["model_name"] == "test-model"
        assert reply.usage_metadata["input_tokens"] > 0
    prompt = ChatTemplate.from_builtin("qwen").render([HumanMessage("Where?")], tools=[look])
    assert [body["prompt"] for body in bodies] == [prompt, [prompt], [prompt]]
    assert all(body["stop"] == ["<|im_end|>"] for body in bodies)
