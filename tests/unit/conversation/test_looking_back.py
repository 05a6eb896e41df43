"""The history of a conversation: copies, checkpoints, branches, and prompts that are only shown."""

from __future__ import annotations

import json

import pytest
from langchain_core.messages import messages_to_dict
from scripted_chat import ScriptedChatModel

from langchain_convmem import ChatTemplate, Conversation
from langchain_convmem.errors import (
    ConfigError,
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


# -- branches -----------------------------------------------------------------------------------


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


# -- prompts ------------------------------------------------------------------------------------


def test_chat_models_write_no_prompts():
    said = chat("one")
    with pytest.raises(ConfigError, match="is sent messages"):
        said.render_message("a")


# -- reasoning ----------------------------------------------------------------------------------


def test_thinking_is_switched_by_setting_and_by_send():
    seen = "{{ 'thinking' if enable_thinking is defined and enable_thinking else 'plain' }}"
    source = f"{{% for m in messages %}}{{{{ m['content'] }}}}{{% endfor %}}{seen}>"
    engine = ScriptedEngine("x", template=ChatTemplate(source))
    said = Conversation(engine, thinking=True)
    assert said.render_message("a").endswith("thinking>")
    assert said.render_message("a", thinking=False).endswith("plain>")
    assert said.render_message("a", extra_context={"enable_thinking": False}).endswith("plain>")
    assert said.render_message("a").endswith("thinking>")
