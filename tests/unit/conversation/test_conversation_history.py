import json

import pytest
from langchain_core.messages import AIMessage, HumanMessage, messages_to_dict
from scripted_chat import ScriptedChatModel
from talks import CHATML, chat, text_engine, text_talk, texts

from langchain_convmem import ChatTemplate
from langchain_convmem.conversation import Conversation
from langchain_convmem.errors import ConfigError, ConversationError


def count(text):
    return f"Reply {text.count('<|im_start|>assistant')}"


def test_what_is_handed_out_and_what_was_given_are_copies():
    shared = AIMessage([{"type": "text", "text": "Always me"}], id="r")

    def change_and_reply(messages):
        for message in messages:
            message.content = "changed by the model"
        return shared

    talk = Conversation(ScriptedChatModel(replies=[change_and_reply]))
    asked = HumanMessage("One", additional_kwargs={"a": {"b": 1}})
    reply = talk.send_message(asked)
    asked.content, asked.additional_kwargs["a"]["b"] = "changed", 2
    reply.content[0]["text"] = "changed"
    shared.content[0]["text"] = "changed"
    for message in talk.history:
        message.content = "changed"
    talk.last_message.content = "changed"
    assert texts(talk) == ["One", "Always me"]
    assert talk.history[0].additional_kwargs == {"a": {"b": 1}}


def test_a_history_in_which_an_id_comes_twice_is_kept_whole():
    history = [HumanMessage("One", id="1"), AIMessage("Two", id="1"), HumanMessage("One", id="1")]
    talk = Conversation(ScriptedChatModel(replies=[]), history=history)
    assert texts(talk) == ["One", "Two", "One"]


@pytest.mark.parametrize("rewindable", [True, False])
def test_going_back_forgets_what_was_said_since(rewindable):
    talk, model = text_talk(count, rewindable=rewindable)
    start = talk.checkpoint()
    talk.send_message("a")
    mark = talk.checkpoint("after a")
    assert mark.label == "after a"
    talk.send_message("b")
    talk.send_message("c")
    with pytest.raises(ConfigError, match="'lunch' is no checkpoint"):
        talk.rewind("lunch")
    talk.rewind(mark)
    assert texts(talk) == ["a", "Reply 1"]
    talk.send_message("d")
    assert texts(talk) == ["a", "Reply 1", "d", "Reply 2"]
    [session] = model.open_sessions
    assert "b<|im_end|>" not in session.text
    assert CHATML.render(talk.history).startswith(session.text)
    talk.rewind(start)
    assert talk.history == []
    assert talk.send_message("e").text == "Reply 1"
    with pytest.raises(ConversationError):
        talk.rewind(mark)
    assert texts(talk) == ["e", "Reply 1"]


@pytest.mark.parametrize("clonable", [True, False])
def test_a_clone_goes_on_by_itself(clonable):
    talk, model = text_talk(count, clonable=clonable)
    talk.send_message("a")
    twin = talk.clone()
    assert twin.send_message("twin").text == talk.send_message("own").text == "Reply 2"
    assert texts(twin) == ["a", "Reply 1", "twin", "Reply 2"]
    assert texts(talk) == ["a", "Reply 1", "own", "Reply 2"]
    talk.undo(2)
    talk.close()
    assert twin.send_message("more").text == "Reply 3"
    assert model.misuses == []
    read = [text for text in model.prefills if "twin" in text]
    assert [text.startswith("<|im_start|>user\na") for text in read] == [not clonable]


def test_a_clone_during_a_turn_holds_what_was_said_before():
    talk, model = text_talk(count)
    talk.send_message("a")
    stream = talk.stream("b")
    next(stream)
    twin = talk.clone()
    assert talk.token_count > 0
    assert texts(twin) == ["a", "Reply 1"]
    assert twin.send_message("c").text == "Reply 2"
    assert [chunk.content for chunk in stream][-1] == ""
    assert texts(talk) == ["a", "Reply 1", "b", "Reply 2"]
    assert model.misuses == []


@pytest.mark.parametrize("given", ["a", object()])
def test_a_history_that_is_no_list_is_refused_with_a_way_out(given):
    with pytest.raises(ConfigError, match=r"history\.messages.*ConversationMemory"):
        Conversation(text_engine(), history=given)


USAGE = {"input_tokens": 3, "output_tokens": 6, "total_tokens": 9}
TOLD = {"model_name": "m", "finish_reason": "stop"}


def asked_when():
    """Return a conversation in which a model has said when a train goes, and the model."""
    given = {"usage_metadata": USAGE, "response_metadata": TOLD}
    spoken = AIMessage("From platform 9, at noon.", id="r1", **given)
    model = ScriptedChatModel(replies=[spoken, "At once.", "Bye."])
    talk = Conversation(model)
    talk.send_message("When?")
    return talk, model


@pytest.mark.parametrize("until", [15, "from platform 9"])
def test_a_reply_is_cut_to_what_was_heard_and_the_model_reads_no_more(until):
    talk, model = asked_when()
    cut = talk.cut_reply(until)
    assert (cut.id, cut.text, cut.usage_metadata) == ("r1", "From platform 9", USAGE)
    assert cut.response_metadata["model_name"] == "m"
    assert cut.response_metadata["interrupted"] is True
    assert talk.last_message == cut
    talk.send_message("When?")  # an answer was heard: this is no retry
    assert [one.text for one in model.seen[-1]] == ["When?", "From platform 9", "When?"]
    assert texts(talk)[2:] == ["When?", "At once."]


def test_a_reply_of_which_nothing_was_heard_is_taken_out():
    talk, _ = asked_when()
    assert talk.cut_reply(0) is None
    assert texts(talk) == ["When?"]
    talk.send_message("Hello?")
    talk.send_message("Bye")
    assert [message.text for message in talk.undo()] == ["Bye", "Bye."]
    assert texts(talk) == ["When?", "Hello?", "At once."]


@pytest.mark.parametrize("counting", [True, False])
def test_tokens_are_those_of_the_session(counting):
    talk, model = text_talk(count, counting=counting)
    assert talk.token_count == 0
    talk.send_message("a")
    first = talk.token_count
    talk.send_message("b")
    assert talk.token_count > first > 0
    if counting:
        assert talk.token_count == model.open_sessions[0].token_count


def test_a_system_prompt_begins_the_preface_and_is_one_message_with_that_of_it():
    engine = text_engine()
    preface = {"messages": [("system", "You know trains."), ("user", "Hi"), ("ai", "Hello")]}
    Conversation(engine, preface=preface, system_prompt="Be brief.").send_message("a")
    one = ("system", "Be brief.\n\nYou know trains.")
    assert engine.prefills == [CHATML.render([one, ("user", "Hi"), ("ai", "Hello"), "a"])]


def test_a_conversation_comes_back_from_plain_values():
    said = chat("one", "two")
    said.send_message("a")
    said.send_message("b")
    saved = json.loads(json.dumps(messages_to_dict(said.history)))
    engine = text_engine("three")
    again = Conversation(engine, history=saved)
    assert texts(again) == texts(said)
    assert again.send_message("c").text == "three"
    assert engine.prefills[0].count("<|im_start|>") == 6
    assert [message.text for message in again.undo(2)] == ["b", "two", "c", "three"]


def test_thinking_is_switched_by_setting_and_by_send():
    seen = "{{ 'thinking' if enable_thinking is defined and enable_thinking else 'plain' }}"
    source = f"{{% for m in messages %}}{{{{ m['content'] }}}}{{% endfor %}}|{seen}"
    engine = text_engine("x", ChatTemplate(source))
    said = Conversation(engine, thinking=True)
    for options in ({}, {"thinking": False}, {"extra_context": {"enable_thinking": False}}, {}):
        said.send_message("a", **options)
    ends = [text.rpartition("|")[2] for text in engine.prefills]
    assert ends == ["thinking", "plain", "plain", "thinking"]
