from __future__ import annotations

from pathlib import Path

import pytest

from langchain_convmem import ChatTemplate
from langchain_convmem.text.chat_template import BUILTINS
from langchain_convmem.text.reply_formats import REPLY_FORMATS, find_reply_format

OURS = {
    "chatml": ("hermes", ("<|im_end|>",)),
    "gemma": ("gemma", ("<end_of_turn>",)),
    "llama3": ("llama3", ("<|eot_id|>",)),
    "mistral": ("mistral", ("</s>",)),
    "qwen": ("hermes", ("<|im_end|>",)),
}
WRITES = {
    "llama3": {"one call", "two calls"},
    "mistral": {"one call", "two calls"},
    "qwen": {"one call", "two calls", "reasoning"},
}
"""What our templates write besides text."""


@pytest.fixture
def read_back(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3]))
    from tests.fuzz.reply_formats import read_back

    return read_back


@pytest.mark.parametrize("name", sorted(BUILTINS))
def test_what_our_templates_write_is_read_back(read_back, name):
    form = find_reply_format(ChatTemplate.from_builtin(name))
    assert (form.name, form.stop) == OURS[name]
    _, outcomes = read_back(ChatTemplate.from_builtin(name).source)
    assert {reply for reply, outcome in outcomes.items() if outcome == "read"} == WRITES.get(
        name, set()
    )
    assert {*outcomes.values()} <= {"read", "unwritten"}


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("<|start|>{{ role }}<|channel|>analysis<|message|><|end|>", "harmony"),
        ("<start_of_turn>model\n<start_function_call>", "gemma"),
        ("<|turn>model\n<|tool_call>call:", "gemma"),
        ("<|im_start|>assistant\n<|tool_call_start|>[", "pythonic"),
        ("<|im_start|>assistant\n<tool_call>\n<function=", "hermes"),
        ("[gMASK]<sop><|user|><think></think><tool_call>", "hermes"),
        ("<\uff5cUser\uff5c><\uff5cAssistant\uff5c>", "deepseek"),
        ("{{ messages[0].content }}", "plain"),
    ],
)
def test_a_family_is_recognised_by_its_marks(source, name):
    assert find_reply_format(ChatTemplate(source)).name == name


def test_the_page_about_replies_names_every_format():
    page = (Path(__file__).parents[3] / "docs/concepts/chat_templates.md").read_text("utf-8")
    assert [name for name in REPLY_FORMATS if f"`{name}`" not in page] == []


@pytest.mark.parametrize(
    ("source", "tokens", "stop"),
    [
        (
            "[INST]</s>{{ eos_token }}",
            {"eos_token": "<eos>", "bos_token": "<s>"},
            ("<eos>", "</s>"),
        ),
        ("[INST]</s>", {"eos_token": "</s>"}, ("</s>",)),
        # What ends a thought stops no reply.
        ("<|channel|>analysis<|message|><|end|><|return|><|call|>", {}, ("<|return|>", "<|call|>")),
    ],
)
def test_what_stops_a_reply_begins_with_the_end_of_a_text(source, tokens, stop):
    template = ChatTemplate(source, tools_in_user_message=True, **tokens)
    assert find_reply_format(template).stop == stop
    assert template.special_tokens == tokens
