"""Conversations that are spoken: replies cut to what was heard, in lists, memories and sessions."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from langchain_core.messages import AIMessage
from scripted_chat import ScriptedChatModel

from langchain_convmem import Conversation, ConversationMemory, InMemoryLog

REPLY = "From platform 9, at noon."
USAGE = {"input_tokens": 3, "output_tokens": 6, "total_tokens": 9}


def spoken(text=REPLY, **more):
    told = {"model_name": "m", "finish_reason": "stop"}
    return AIMessage(text, id="r1", usage_metadata=USAGE, response_metadata=told, **more)


@pytest.fixture(params=["list", "memory"])
def open_talk(request):
    """Opens conversations with one kind of history; `models` holds the model of each."""
    models = []
    with ExitStack() as stack:

        def opened(*replies, **settings):
            model = ScriptedChatModel(replies=list(replies))
            models.append(model)
            if request.param == "list":
                return Conversation(model, **settings)
            memory = stack.enter_context(ConversationMemory(InMemoryLog()))
            options = {"thread_id": "t", "user_id": "ana", "recall": False, **settings}
            return memory.conversation(model, **options)

        opened.models = models
        yield opened


def texts(talk):
    return [message.text for message in talk.history]


# -- what was heard -----------------------------------------------------------------------------


@pytest.mark.parametrize("until", [15, "from platform 9"])
def test_a_reply_is_cut_to_what_was_heard_and_the_model_reads_no_more(open_talk, until):
    talk = open_talk(spoken(), "You are welcome.")
    talk.send_message("When?")
    cut = talk.cut_reply(until)
    assert cut.text == "From platform 9"
    assert (cut.id, cut.usage_metadata) == ("r1", USAGE)
    assert cut.response_metadata["model_name"] == "m"
    assert cut.response_metadata["interrupted"] is True
    assert talk.last_message == cut
    talk.send_message("Thanks")
    seen = open_talk.models[-1].seen[-1]
    assert [message.text for message in seen] == ["When?", "From platform 9", "Thanks"]


def test_a_reply_of_which_nothing_was_heard_is_taken_out(open_talk):
    talk = open_talk(spoken(), "At noon.", "Bye.")
    talk.send_message("When?")
    assert talk.cut_reply(0) is None
    assert texts(talk) == ["When?"]
    talk.send_message("Hello?")
    talk.send_message("Bye")
    assert [message.text for message in talk.undo()] == ["Bye", "Bye."]
    assert texts(talk) == ["When?", "Hello?", "At noon."]
