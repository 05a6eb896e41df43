import json
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage
from written_calls import CALLS, WRITTEN

from langchain_convmem import ChatTemplate
from langchain_convmem.errors import ConfigError
from langchain_convmem.text.call_syntaxes import ParsedCall
from langchain_convmem.text.chat_template import BUILTINS
from langchain_convmem.text.replies import ReplyReader, read_reply
from langchain_convmem.text.reply_formats import (
    REPLY_FORMATS,
    Channel,
    ReplyFormat,
    ToolCallBlock,
    find_reply_format,
    get_reply_format,
)


def called(message: AIMessage) -> list[tuple[str, dict]]:
    return [(call["name"], call["args"]) for call in message.tool_calls]


@pytest.mark.parametrize("family", sorted(WRITTEN))
def test_a_family_s_calls_are_read_with_what_they_pass(family):
    name, text = WRITTEN[family]
    message = read_reply(text, name)
    assert called(message) == CALLS
    assert message.content == ""
    assert message.response_metadata == {"raw_text": text, "finish_reason": "stop"}


@pytest.mark.parametrize("family", sorted(WRITTEN))
def test_a_family_s_calls_that_break_off_are_broken_and_never_half_a_call(family):
    name, text = WRITTEN[family]
    whole = read_reply(text, name)
    for end in range(len(text)):
        message = read_reply(text[:end], name)
        assert called(message) == called(whole)[: len(message.tool_calls)]


@pytest.mark.parametrize("name", sorted(REPLY_FORMATS))
def test_without_tools_what_looks_like_a_call_is_text(name):
    texts = [text for form, text in WRITTEN.values() if form == name]
    for text in texts:
        message = read_reply(text, name, tools=False)
        assert (message.tool_calls, message.invalid_tool_calls) == ([], [])
        assert "find" in message.content


def test_reasoning_is_a_block_of_the_message_and_the_text_is_clean():
    message = read_reply("<think>\nLevel C?\n</think>\n\nLevel C.", "hermes")
    assert message.content == message.text == "Level C."
    assert message.additional_kwargs == {"reasoning_content": "Level C?"}
    assert message.content_blocks == [
        {"type": "reasoning", "reasoning": "Level C?"},
        {"type": "text", "text": "Level C."},
    ]


@pytest.mark.parametrize(
    ("prompt", "thought"),
    [
        *((prompt, "R") for prompt in ("<think>", "..<think>\n", "<think></think><think>Let me")),
        ("<think>\n\n</think>\n\n", None),
        ("What is <think>?<|im_end|>\n<|im_start|>assistant\n", None),
        ("<thin", None),
    ],
)
def test_a_prompt_that_ends_in_an_open_channel_lets_the_reply_begin_there(prompt, thought):
    text = "Text" if thought is None else f"{thought}\n</think>\n\nText"
    message = read_reply(text, "hermes", prompt_end=prompt)
    assert message.additional_kwargs.get("reasoning_content") == thought
    assert message.content == "Text"


@pytest.mark.parametrize(
    ("name", "start", "end"),
    [
        ("hermes", '<tool_call>{"name": "f", "arguments": ', "}</tool_call>"),
        ("mistral", "[TOOL_CALLS]f[ARGS]", ""),
        ("harmony", "<|start|>assistant to=functions.f<|message|>", "<|call|>"),
    ],
)
def test_a_mark_in_an_argument_is_part_of_it(name, start, end):
    marks = [text for block in REPLY_FORMATS[name].call_blocks for text in (block.start, block.end)]
    for mark in filter(None, marks):
        written = {"code": f'say("{mark}")', "more": [mark, "\\"]}
        once = f"{start}{json.dumps(written)}{end}"
        assert called(read_reply(once, name)) == [("f", written)]
        assert called(read_reply(once * 2, name)) == [("f", written)] * 2


def test_channels_given_replace_those_of_the_format_and_none_is_none():
    text = "<think>a</think><note>b</note>c"
    note = Channel("note", "<note>", "</note>", reasoning=False)
    message = read_reply(text, "hermes", channels=[note])
    assert message.content == "<think>a</think>c"
    assert message.additional_kwargs == {"channels": {"note": "b"}}
    assert read_reply(text, "hermes", channels=[]).content == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hermes", '<tool_call>{"name": "f", "arguments": {"a": </tool_call>'),
        ("hermes", '<tool_call>{"name": "f", "arguments": [1]}</tool_call>'),
        ("hermes", '<tool_call>{"name": "f", "arguments": {"a": NaN}}</tool_call>'),
        ("hermes", '<tool_call>{"arguments": {}}</tool_call>'),
        ("hermes", "<tool_call></tool_call>"),
        ("hermes", "<tool_call><function=f><parameter=a>1</function></tool_call>"),
        ("hermes", '<tool_call>{"name": "f", "arguments": ' + '{"a":' * 150 + "1" + "}" * 151),
        ("mistral", '[TOOL_CALLS]f[ARGS]{"a"'),
        ("llama3", '{"name": "f", "parameters": {"a": '),
        ("gemma", '<|tool_call>call:f{a:<|"|>x}<tool_call|>'),
        ("pythonic", "<|tool_call_start|>[f(1)]<|tool_call_end|>"),
        ("harmony", "<|channel|>commentary to=functions.f<|message|>{"),
    ],
)
def test_a_broken_call_is_kept_as_an_invalid_one(name, text):
    message = read_reply(text, name)
    assert message.tool_calls == []
    assert len(message.invalid_tool_calls) == 1
    assert message.response_metadata["raw_text"] == text


SCHEMA = {
    "type": "function",
    "function": {
        "name": "f",
        "parameters": {
            "properties": {
                "zip": {"type": "string"},
                "n": {"type": "integer"},
                "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "code": {"type": ["string", "null"]},
                "pin": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "any": {},
            }
        },
    },
}


def test_the_schema_of_a_tool_tells_texts_from_numbers_where_the_model_does_not():
    passed = {"zip": "123", "n": "3", "note": "null", "code": "12", "pin": "45", "any": "7"}
    parameters = "".join(f"<parameter={key}>\n{one}\n</parameter>" for key, one in passed.items())
    text = f"<tool_call><function=f>{parameters}</function></tool_call>"
    guessed = {"zip": 123, "n": 3, "note": None, "code": 12, "pin": 45, "any": 7}
    assert called(read_reply(text, "hermes")) == [("f", guessed)]
    told = called(read_reply(text, "hermes", tools=[{"name": "of another form"}, SCHEMA]))
    assert told == [("f", {**guessed, "zip": "123", "code": "12", "pin": "45"})]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hermes", "Write <tool_call> before it."),
        ("hermes", "a < b, <tool_cal"),
        ("llama3", '{"name": "Ana", "age": 3}'),
        ("llama3", '{"name": "Ana"}'),
        ("llama3", '{ "not a call'),
        ("llama3", '{"name": "Ana'),
        ("llama3", 'As JSON: {"name": "f", "parameters": {}}'),
        ("gemma", "<start_of"),
        ("mistral", "[TOOL_CALLS"),
        ("plain", '<tool_call>{"name": "f"}</tool_call>'),
    ],
)
def test_what_merely_resembles_a_call_is_text_to_the_letter(name, text):
    message = read_reply(text, name)
    assert message.content == text
    assert (message.tool_calls, message.invalid_tool_calls) == ([], [])


def test_a_format_of_ones_own_is_read_like_those_that_are_known():
    def words(text):
        name, _, argument = text.partition(" ")
        return [ParsedCall(name, json.dumps({"text": argument}), text)]

    form = ReplyFormat(
        name="words",
        channels=(Channel("aside", "(", ")", reasoning=False),),
        call_blocks=(ToolCallBlock("!", "!", words),),
    )
    message = read_reply("Well (hm) !find it! then", form)
    assert called(message) == [("find", {"text": "it"})]
    assert message.content == "Well   then"
    assert message.additional_kwargs == {"channels": {"aside": "hm"}}


@pytest.mark.parametrize(
    "channel", [("", "<a>", "</a>"), ("a", "", "</a>"), ("a", "<a>", ""), ("id", "<a>", "</a>")]
)
def test_a_channel_without_a_name_or_marks_is_refused(channel):
    with pytest.raises(ConfigError, match="channel"):
        ReplyFormat(name="mine", channels=(Channel(*channel),))
    with pytest.raises(ConfigError, match="channel"):
        ReplyReader("hermes", channels=[Channel(*channel)])


F = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
BARE = '{"name": "f", "parameters": {}}'


@pytest.mark.parametrize(
    ("name", "text", "content", "thought", "calls"),
    [
        ("hermes", "\n Hi \n\n", "\n Hi \n\n", None, []),
        ("hermes", "A <think>b</think>c\n<think>d</think>\ne <think>f", "A c\ne ", "bdf", []),
        ("hermes", "\n\n<think>b</think>c\n\n", "c\n\n", "b", []),
        ("hermes", f"<think>{F}</think>", "", F, []),
        ("hermes", F.replace("{}", '{"a": "<think>"}'), "", None, [("f", {"a": "<think>"})]),
        ("hermes", F.replace("{}", '"{\\"a\\": 1}"'), "", None, [("f", {"a": 1})]),
        ("hermes", f"<tool_call>{{</tool_call>.{F}", ".", None, [("f", {})]),
        ("llama3", f"{BARE}\nDone.", "Done.", None, [("f", {})]),
        ("llama3", f"As in {BARE}", f"As in {BARE}", None, []),
    ],
)
def test_a_reply_is_taken_apart(name, text, content, thought, calls):
    message = read_reply(text, name)
    assert (message.content, called(message)) == (content, calls)
    assert message.additional_kwargs.get("reasoning_content") == thought


def test_a_mark_that_opens_a_channel_in_the_prompt_is_no_part_of_the_thought():
    thought = Channel("thought", "<think>#", "</think>")
    form = ReplyFormat(name="mine", channels=(thought,), marks=("#",))
    message = read_reply("R</think>Text", form, prompt_end="<think>#")
    assert message.additional_kwargs == {"reasoning_content": "R"}


def test_what_ends_a_thought_is_told_only_within_one():
    channels = [Channel("a", "<a>", "</a>"), Channel("b", "<b>", "</b>", reasoning=False)]
    reader = ReplyReader("hermes", channels=channels)
    told = []
    for text in ("Hi", "<a>R", "</a>", "<b>S", "</b>", "<tool_call>{"):
        reader.feed(text)
        told.append(reader.end_of_thought)
    assert told == ["", "</a>", "", "", "", ""]


def test_a_broken_call_can_be_read_in_every_script():
    (call,) = read_reply("<tool_call>Zürich, 東京</tool_call>", "hermes").invalid_tool_calls
    assert call["args"] == '"Zürich, 東京"'


def test_a_prompt_that_ends_in_the_header_of_harmony_is_read_on_from_there():
    text = ' to=functions.f<|channel|>commentary json<|message|>{"a": 1}'
    message = read_reply(text, "harmony", prompt_end="<|end|><|start|>assistant")
    assert (called(message), message.content) == ([("f", {"a": 1})], "")


def test_every_call_has_an_id_of_its_own():
    once = '[TOOL_CALLS][{"name": "f", "id": "abcdefghi"}]'
    first, second = read_reply(once * 2, "mistral").tool_calls
    assert first["id"] == "abcdefghi" != second["id"]
    numbered = '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "f"}]'
    assert read_reply(numbered, "cohere").tool_calls[0]["id"] != "0"
    made = [call["id"] for _ in range(2) for call in read_reply(F * 2, "hermes").tool_calls]
    assert len(set(made)) == 4
    assert all(len(one) == 9 and one.isalnum() for one in made)  # as Mistral's templates demand


def test_a_call_comes_as_soon_as_it_is_closed_and_in_one_piece():
    reader = ReplyReader("hermes")
    assert reader.feed(F[:-1]) == []
    (chunk,) = reader.feed(F[-1])
    assert [(call["name"], call["args"]) for call in chunk.tool_calls] == [("f", {})]
    reader = ReplyReader("pythonic")
    [chunk] = reader.feed("""<|tool_call_start|>[f(a='{"b')]<|tool_call_end|>""")
    assert [call["args"] for call in chunk.tool_call_chunks] == [json.dumps({"a": '{"b'})]


def test_bare_text_is_held_only_while_it_may_begin_a_call():
    reader = ReplyReader("llama3")
    assert reader.feed('{"age": "' + "x" * 150) == []
    assert [len(chunk.content) for chunk in reader.feed("x" * 50)] == [209]
    reader = ReplyReader("llama3")
    assert reader.feed('{"name": "Ana", "age": 3}') == []
    assert reader.finish()[0].content == '{"name": "Ana", "age": 3}'


def test_a_format_that_cannot_be_is_refused():
    with pytest.raises(ConfigError, match=r"'gpt'.*'gemma'.*'hermes'"):
        get_reply_format("gpt")
    for marks in ({"marks": ("",)}, {"stop": ("",)}):
        with pytest.raises(ConfigError, match="empty mark"):
            ReplyFormat(name="mine", **marks)


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
def read_back(from_the_root):
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
        ("<|im_start|>system\n<|tool_list_start|>[", "pythonic"),
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
