"""The history of a conversation: copies, checkpoints, branches, and prompts that are only shown."""

from __future__ import annotations

import json
import threading

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from scripted_chat import ScriptedChatModel

from langchain_convmem import ChatTemplate, Conversation, Engine, Preface
from langchain_convmem.errors import (
    ConfigError,
    HistoryWriteError,
    UnknownCheckpointError,
    UnsupportedError,
)
from langchain_convmem.testing import ScriptedEngine


def chat(*replies, **settings):
    return Conversation(ScriptedChatModel(replies=list(replies or ("Fine.",))), **settings)


def text_engine(*replies, template="chatml", **options):
    end = {"end_text": "<|im_end|>", **options}
    script = replies[0] if callable(replies[0]) else list(replies)
    return ScriptedEngine(script, template=ChatTemplate.from_builtin(template), **end)


def texts(conversation):
    return [message.text for message in conversation.history]


# -- reading ------------------------------------------------------------------------------------


def test_the_history_is_a_copy():
    said = chat("one")
    said.send_message("a")
    said.history[0].content = "changed"
    said.history.clear()
    said.last_message.content = "changed"
    assert texts(said) == ["a", "one"]


def test_what_was_sent_is_copied_too():
    said = chat("one")
    message = HumanMessage("a")
    said.send_message(message)
    message.content = "changed"
    assert texts(said) == ["a", "one"]


def test_a_model_that_changes_what_it_is_given_changes_nothing():
    def greedy(messages):
        messages[0].content = "changed"
        messages.clear()
        return AIMessage("one")

    said = chat(greedy)
    said.send_message("a")
    assert texts(said) == ["a", "one"]


def test_the_preface_is_no_part_of_the_history():
    model = ScriptedChatModel(replies=["one"])
    said = Conversation(
        model, preface=Preface(messages=[("system", "Be brief."), "hi", ("ai", "ho")])
    )
    said.send_message("a")
    assert texts(said) == ["a", "one"]
    assert [message.type for message in model.seen[0]] == ["system", "human", "ai", "human"]


def test_the_history_can_be_looked_at_without_copies():
    said = chat("one")
    said.send_message("a")
    assert said.read_history(len) == 2
    assert said.read_history(lambda seen: seen[0]) is said.read_history(lambda seen: seen[0])


def test_what_replies_took_is_added_up():
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    said = chat(AIMessage("one", usage_metadata=usage), AIMessage("two", usage_metadata=usage))
    assert said.usage is None
    said.send_message("a")
    said.send_message("b")
    assert said.usage["total_tokens"] == 10


# -- back ---------------------------------------------------------------------------------------


def test_undo_takes_back_turns_with_their_tool_calls():
    said = chat("one", "two")
    said.send_message("a")
    said.send_message(["b", "c"])
    assert [message.text for message in said.undo()] == ["b", "c", "two"]
    assert [message.text for message in said.undo(5)] == ["a", "one"]
    assert said.undo() == []
    with pytest.raises(ConfigError, match="at least 1"):
        said.undo(0)


@pytest.mark.parametrize("rewindable", [True, False])
def test_a_rewound_conversation_goes_on_as_if_nothing_had_been_said_since(rewindable):
    engine = text_engine(lambda text: f"{len(text)}", rewindable=rewindable)
    said, twin = Conversation(engine), Conversation(engine)
    for one in (said, twin):
        one.send_message("a")
    point = said.checkpoint("here")
    said.send_message("b")
    said.send_message("c")
    said.rewind(point)
    assert said.send_message("d").text == twin.send_message("d").text
    first, second = engine.sessions[:2]
    assert first.text == second.text
    assert point.label == "here"


def test_a_checkpoint_behind_a_rewind_is_unknown():
    said = chat("one", "two", "three")
    start = said.checkpoint()
    said.send_message("a")
    later = said.checkpoint()
    said.rewind(start)
    with pytest.raises(UnknownCheckpointError, match="2 messages"):
        said.rewind(later)
    said.send_message("b")
    with pytest.raises(UnknownCheckpointError):
        said.rewind(later)
    assert texts(said) == ["b", "two"]


# -- branches -----------------------------------------------------------------------------------


@pytest.mark.parametrize("clonable", [True, False])
def test_a_clone_goes_on_by_itself_both_ways(clonable):
    engine = text_engine("one", "two", "three", "four", clonable=clonable)
    said = Conversation(engine)
    said.send_message("a")
    twin = said.clone()
    assert said.send_message("b").text == "two"
    assert twin.send_message("c").text == "three"
    assert said.send_message("d").text == "four"
    assert texts(said) == ["a", "one", "b", "two", "d", "four"]
    assert texts(twin) == ["a", "one", "c", "three"]
    assert "b<|im_end|>" not in engine.sessions[1].text
    assert engine.sessions[1].text.endswith("c<|im_end|>\n<|im_start|>assistant\nthree")


def test_a_clone_of_a_prefilled_preface_reads_nothing_twice():
    engine = text_engine("one", "two")
    said = Conversation(
        engine, preface=Preface(messages=[("system", "Long.")]), prefill_preface=True
    )
    for one in (said.clone(), said.clone()):
        one.send_message("a")
    assert sum("Long." in text for text in engine.prefills) == 1


def test_a_clone_made_within_a_turn_holds_what_was_said_before():
    inside, leave = threading.Event(), threading.Event()

    def slow(_messages):
        inside.set()
        leave.wait(10)
        return AIMessage("two")

    said = chat("one", slow)
    said.send_message("a")
    handle = said.send_message_async("b")
    inside.wait(10)
    twin = said.clone()
    leave.set()
    handle.result(10)
    assert texts(twin) == ["a", "one"]
    assert texts(said) == ["a", "one", "b", "two"]


def test_a_conversation_comes_back_from_plain_values():
    said = chat("one", "two")
    said.send_message("a")
    said.send_message("b")
    saved = json.loads(json.dumps(said.to_dict()))
    engine = text_engine("three")
    again = Conversation(engine, history=Conversation.load_thread(saved))
    assert texts(again) == texts(said)
    assert again.send_message("c").text == "three"
    assert engine.prefills[0].count("<|im_start|>") == 6
    assert [message.text for message in again.undo(2)] == ["b", "two", "c", "three"]
    with pytest.raises(ConfigError, match="version 7"):
        Conversation.load_thread({"version": 7})


# -- prompts ------------------------------------------------------------------------------------


def test_a_prompt_can_be_shown_and_nothing_changes():
    engine = text_engine("one", "two")
    said = Conversation(engine, preface=Preface(messages=[("system", "Be brief.")]))
    assert said.render_preface() == "<|im_start|>system\nBe brief.<|im_end|>\n"
    said.send_message("a")
    before = (engine.events, said.render_stats, said.token_count)
    shown = said.render_message("b")
    assert shown == said.render_message("b")
    assert (engine.events, said.render_stats, said.token_count) == before
    said.send_message("b")
    assert engine.prefills[-1] == shown


def test_a_template_that_cannot_begin_alone_reads_the_preface_with_the_first_message():
    source = (
        "{% if not messages or messages[-1]['role'] != 'user' %}"
        "{{ raise_exception('a user must speak') }}{% endif %}"
        "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}{% endfor %}>"
    )
    engine = ScriptedEngine("one", template=ChatTemplate(source))
    said = Conversation(engine, preface=Preface(messages=[("system", "S")]), prefill_preface=True)
    assert engine.prefills == []
    said.send_message("a")
    assert engine.prefills == ["[system]S[user]a>"]


def test_chat_models_write_no_prompts_and_tell_no_likelihoods():
    said = chat("one")
    for asked in (lambda: said.render_message("a"), said.render_preface, lambda: said.score(["x"])):
        with pytest.raises(UnsupportedError):
            asked()


def test_replies_are_scored_without_effect():
    engine = text_engine("one", scorer=lambda text, reply: -float(len(text) + len(reply)))
    said = Conversation(engine)
    said.send_message("a")
    held, events = engine.sessions[0].text, len(engine.sessions)
    low, high = said.score(["a long reply", "short"])
    assert low < high
    assert engine.sessions[0].text == held
    assert texts(said) == ["a", "one"]
    assert len(engine.sessions) >= events


# -- reasoning ----------------------------------------------------------------------------------


THOUGHT = "<think>\nfirst A, then B\n</think>\n\n"


def test_thoughts_of_earlier_turns_leave_the_prompt_when_the_user_speaks():
    engine = text_engine(THOUGHT + "one", THOUGHT + "two", "three", template="qwen")
    said = Conversation(engine, reasoning_history="current_turn")
    for text in "abc":
        said.send_message(text)
    assert "first A" not in engine.sessions[0].text
    assert said.history[1].content_blocks[0]["reasoning"] == "first A, then B"
    [stats] = said.render_stats
    assert stats.diverged_in == "reply"
    assert "first A" in stats.session_had


def test_by_default_the_template_decides_about_thoughts():
    engine = text_engine(THOUGHT + "one", "two", template="qwen")
    said = Conversation(engine)
    said.send_message("a")
    said.send_message("b")
    assert "first A" in engine.sessions[0].text
    assert said.render_stats[0].diverged_at is None


def test_thinking_is_switched_by_setting_and_by_send():
    seen = "{{ 'thinking' if enable_thinking is defined and enable_thinking else 'plain' }}"
    source = f"{{% for m in messages %}}{{{{ m['content'] }}}}{{% endfor %}}{seen}>"
    engine = ScriptedEngine("x", template=ChatTemplate(source))
    said = Conversation(engine, thinking=True)
    assert said.render_message("a").endswith("thinking>")
    assert said.render_message("a", thinking=False).endswith("plain>")
    assert said.render_message("a", extra_context={"enable_thinking": False}).endswith("plain>")
    assert said.render_message("a").endswith("thinking>")


# -- stores -------------------------------------------------------------------------------------


class Store:
    """A chat history by its shape alone."""

    def __init__(self, *messages, error=None):
        self.messages, self.error = list(messages), error

    async def aget_messages(self):
        return self.messages

    def add_messages(self, messages):
        if self.error is not None:
            raise self.error
        self.messages += messages

    async def aadd_messages(self, messages):
        self.add_messages(messages)


async def test_any_chat_history_may_hold_the_messages():
    store = Store(HumanMessage("a"), AIMessage("one"))
    said = chat("two", history=store)
    said.send_message("b")
    assert [message.text for message in store.messages] == ["a", "one", "b", "two"]
    with pytest.raises(UnsupportedError, match="cannot take messages back"):
        said.undo()
    assert len(said.history) == 4
    again = await Engine(ScriptedChatModel(replies=["x"])).acreate_conversation(history=store)
    await again.asend_message("c")
    assert len(store.messages) == 6


def test_a_store_that_fails_undoes_the_turn_and_the_reply_is_not_lost():
    said = chat("two", history=Store(error=OSError("the disk is full")))
    with pytest.raises(HistoryWriteError, match="the disk is full") as raised:
        said.send_message("b")
    assert raised.value.text == "two"
    assert said.history == []
