import asyncio

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from scripted_chat import ProviderError, ScriptedChatModel
from talks import chat, text_engine, text_talk, texts

from langchain_convmem import ChatTemplate, Conversation
from langchain_convmem.testing import SessionFault

END = "<|im_end|>\n"
ASK = "<|im_start|>assistant\n"
PICTURE = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}


def user(text):
    return f"<|im_start|>user\n{text}"


def test_a_session_reads_each_part_as_it_comes():
    talk, engine = text_talk(["Hello!", "Bye."])
    assert talk.send_message("Hel", pending=True) is None
    assert talk.send_message("lo, ", pending=True) is None
    assert (talk.history, [one.text for one in talk.pending]) == ([], ["Hello, "])
    assert talk.send_message("I am Ana.").text == "Hello!"
    assert engine.prefills == [user("Hel"), "lo,", f" I am Ana.{END}{ASK}"]
    assert texts(talk) == ["Hello, I am Ana.", "Hello!"]
    assert talk.pending == []
    talk.send_message("Bye")
    assert engine.prefills[-1] == f"{END}{user('Bye')}{END}{ASK}"


def test_a_chat_model_gets_the_whole_message():
    model = ScriptedChatModel(replies=["Hello!"])
    talk = Conversation(model)
    talk.send_message("Hel", pending=True)
    assert model.seen == []
    talk.send_message(HumanMessage("lo", id="m1", name="Ana"))
    assert model.asked == ["Hello"]
    assert (talk.history[0].id, talk.history[0].name) == ("m1", "Ana")


def test_a_message_of_another_role_ends_the_one_before():
    talk, engine = text_talk("one")
    talk.send_message("a", pending=True)
    talk.send_message(SystemMessage("Be "), pending=True)
    assert engine.prefills == [user("a"), f"{END}<|im_start|>system\nBe"]
    talk.send_message(SystemMessage("brief."))
    assert texts(talk) == ["a", "one"], "a system message steers the send that brings it"
    assert engine.sessions[0].text.startswith("<|im_start|>system\nBe brief.")


def test_a_picture_is_read_when_its_message_is_whole():
    engine = text_engine("one")
    template = (
        "{% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}"
        "{% else %}{% for p in m.content %}{{ p.text or '<image>' }}{% endfor %}{% endif %}</>"
        "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
    )
    talk = Conversation(engine, template=ChatTemplate(template))
    talk.send_message("See ", pending=True)
    talk.send_message({"role": "user", "content": [PICTURE]}, pending=True)
    assert engine.prefills == ["<user>See"]
    talk.send_message(" here.")
    assert engine.sessions[0].text == "<user>See <image> here.</><assistant>one"
    [asked, _] = talk.history
    assert [block["type"] for block in asked.content] == ["text", "image", "text"]


async def read_stream(talk):
    return [one async for one in talk.astream("Hel", pending=True)]


@pytest.mark.parametrize(
    "send",
    [
        lambda talk: list(talk.stream("Hel", pending=True)),
        lambda talk: asyncio.run(read_stream(talk)),
        lambda talk: talk.send_message_async("Hel", pending=True).result(10),
        lambda talk: talk.batch(["He", "l"], pending=True),
        lambda talk: asyncio.run(talk.asend_message("Hel", pending=True)),
        lambda talk: talk.send_message("Hel", pending=True, timeout=10),
    ],
    ids=["stream", "astream", "callback", "batch", "asend", "timeout"],
)
def test_parts_can_be_sent_in_every_way(send):
    talk = chat("Hello!")
    for chunk in filter(None, send(talk) or ()):
        assert (chunk.content, chunk.chunk_position) == ("", "last")
    talk.send_message("lo")
    assert texts(talk) == ["Hello", "Hello!"]


def test_a_turn_that_fails_leaves_its_earlier_parts():
    talk = chat(ProviderError("down"), "Hello!")
    talk.send_message("Hel", pending=True)
    with pytest.raises(ProviderError):
        talk.send_message("lo")
    assert (talk.history, [one.text for one in talk.pending]) == ([], ["Hel"])
    talk.send_message("lo")
    assert texts(talk) == ["Hello", "Hello!"]


@pytest.mark.parametrize("rewindable", [True, False])
def test_a_part_that_cannot_be_read_leaves_no_trace(rewindable):
    fault = SessionFault(at="prefill", nth=2, error=ProviderError("gone"))
    talk, engine = text_talk("one", rewindable=rewindable, faults=[fault])
    talk.send_message("a", pending=True)
    with pytest.raises(ProviderError):
        talk.send_message("b", pending=True)
    assert [one.text for one in talk.pending] == ["a"]
    talk.send_message("c")
    assert texts(talk) == ["ac", "one"]
    assert engine.open_sessions[0].text == f"{user('ac')}{END}{ASK}one"
    assert engine.misuses == []


def test_the_result_of_a_call_may_come_as_a_part():
    call = {"name": "look", "args": {}, "id": "c1", "type": "tool_call"}
    talk = chat(AIMessage("", tool_calls=[call]), "Fine.", auto_tools=False)
    talk.send_message("a")
    talk.send_message(ToolMessage("9", tool_call_id="c1"), pending=True)
    talk.send_message("b")
    assert [message.type for message in talk.history] == ["human", "ai", "tool", "human", "ai"]


@pytest.mark.parametrize("way", ["undo", "rewind"])
def test_going_back_drops_what_is_pending(way):
    talk = chat("one", "two")
    start = talk.checkpoint()
    talk.send_message("a")
    talk.send_message("b", pending=True)
    talk.undo() if way == "undo" else talk.rewind(start)
    assert (talk.history, talk.pending) == ([], [])


def test_a_clone_holds_what_is_pending_and_goes_on_by_itself():
    talk, engine = text_talk(["one", "two"])
    talk.send_message("a", pending=True)
    twin = talk.clone()
    talk.send_message("b")
    twin.send_message("c")
    assert (texts(talk), texts(twin)) == (["ab", "one"], ["ac", "two"])
    assert [session.text for session in engine.sessions] == [
        f"{user('ab')}{END}{ASK}one",
        f"{user('ac')}{END}{ASK}two",
    ]
