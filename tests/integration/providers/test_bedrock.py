"""`memory.wrap(ChatBedrockConverse(...))` over real HTTP, before a strict Converse service."""

import pytest
from scripted_chat import at
from strict_converse import StrictConverse
from wire_models import chat_bedrock
from wire_promises import CALL, STREAMED, WAYS, look
from wire_providers import PROVIDERS

from langchain_convmem.testing import ScriptedReply
from langchain_convmem.testing.bedrock import sign

pytestmark = [pytest.mark.sockets, pytest.mark.usefixtures("socket_enabled")]


@pytest.mark.parametrize("way", WAYS)
async def test_reasoning_comes_back_whole_and_signed(memory, way):
    thought = ScriptedReply(reasoning="The car was  white.", text="On level 3.")
    with StrictConverse([thought, "Yes."]) as server:
        async with chat_bedrock(server) as model:
            chain = memory.wrap(model, recall=False)
            await WAYS[way](chain, "Where did I park?", at())
            await WAYS[way](chain, "Sure?", at())
        answer = server.requests[1].body["messages"][1]
    signed = {"text": thought.reasoning, "signature": sign(thought.reasoning)}
    assert answer["content"] == [
        {"reasoningContent": {"reasoningText": signed}},
        {"text": "On level 3."},
    ]


@pytest.mark.parametrize("way", STREAMED)
async def test_reasoning_that_was_cut_off_is_not_sent_back(memory, way):
    cut = ScriptedReply(reasoning="The car was white.", text="On level 3.", cut_after_chunks=3)
    async with PROVIDERS["bedrock"].answer([cut, "On level 3."]) as (model, service):
        chain = memory.wrap(model, recall=False)
        with pytest.raises(PROVIDERS["bedrock"].errors):
            await STREAMED[way](chain, "Where did I park?", at())
        await STREAMED[way](chain, "Hello?", at())
        assert service.requests[1] == ["user: Where did I park?\nHello?"]


@pytest.mark.parametrize("way", WAYS)
async def test_reasoning_before_a_call_stays_with_it(memory, way):
    def with_results(answer):
        return [answer, *(look.invoke(call) for call in answer.tool_calls)]

    thought = ScriptedReply(reasoning="I must look.", tool_calls=[CALL])
    with StrictConverse([thought, "On level 3."]) as server:
        async with chat_bedrock(server) as model:
            chain = memory.wrap(model.bind_tools([look]) | with_results, recall=False)
            await WAYS[way](chain, "Where did I park?", at())
            await WAYS[way](chain, "Well?", at())
        kinds = [
            [kind for block in message["content"] for kind in block]
            for message in server.requests[1].body["messages"]
        ]
    assert kinds == [["text"], ["reasoningContent", "toolUse"], ["toolResult", "text"]]
