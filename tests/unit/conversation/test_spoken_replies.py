"""Conversations that are spoken: replies cut to what was heard, in lists and in memories."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage
from scripted_chat import ScriptedChatModel
from talks import texts

from langchain_convmem import Conversation, ConversationMemory, InMemoryLog

USAGE = {"input_tokens": 3, "output_tokens": 6, "total_tokens": 9}
TOLD = {"model_name": "m", "finish_reason": "stop"}
SPOKEN = {"usage_metadata": USAGE, "response_metadata": TOLD}


@pytest.fixture
def model():
    spoken = AIMessage("From platform 9, at noon.", id="r1", **SPOKEN)
    return ScriptedChatModel(replies=[spoken, "At once.", "Bye."])


@pytest.fixture(params=["list", "memory"])
def talk(request, model):
    """A conversation in which the model has said when a train goes."""
    if request.param == "list":
        opened = Conversation(model)
    else:
        opened = ConversationMemory(InMemoryLog()).conversation(model, thread_id="t", recall=False)
    opened.send_message("When?")
    return opened


@pytest.mark.parametrize("until", [15, "from platform 9"])
def test_a_reply_is_cut_to_what_was_heard_and_the_model_reads_no_more(talk, model, until):
    cut = talk.cut_reply(until)
    assert (cut.id, cut.text, cut.usage_metadata) == ("r1", "From platform 9", USAGE)
    assert cut.response_metadata["model_name"] == "m"
    assert cut.response_metadata["interrupted"] is True
    assert talk.last_message == cut
    talk.send_message("Thanks")
    assert [one.text for one in model.seen[-1]] == ["When?", "From platform 9", "Thanks"]


def test_a_reply_of_which_nothing_was_heard_is_taken_out(talk):
    assert talk.cut_reply(0) is None
    assert texts(talk) == ["When?"]
    talk.send_message("Hello?")
    talk.send_message("Bye")
    assert [message.text for message in talk.undo()] == ["Bye", "Bye."]
    assert texts(talk) == ["When?", "Hello?", "At once."]
