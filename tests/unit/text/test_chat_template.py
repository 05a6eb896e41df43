from __future__ import annotations

import json
import pickle
from datetime import datetime

import pytest
from langchain_core.tools import tool

from langchain_convmem import ChatTemplate
from langchain_convmem.errors import ChatTemplateError, ConfigError, InvalidMessageError
from langchain_convmem.text.chat_template import BUILTINS

USER = {"role": "user", "content": "Hi"}
LOOP = "{% for m in messages %}{{ m.role ~ ':' ~ m.content ~ ';' }}{% endfor %}"


# -- the dialect ----------------------------------------------------------------------------------


def test_blocks_leave_no_white_space_behind():
    source = "{% if true %}\n  {% if true %}\nx\n  {% endif %}\n{% endif %}\n"
    assert ChatTemplate(source).render([]) == "x\n"


def test_generation_blocks_mark_what_the_model_said_and_are_not_shown():
    source = "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}"
    assert ChatTemplate(source).render([USER]) == "Hi"


def test_loops_can_be_left_and_rounds_skipped():
    source = (
        "{% for m in messages %}{% if m.role == 'tool' %}{% continue %}{% endif %}"
        "{% if m.role == 'end' %}{% break %}{% endif %}{{ m.content }}{% endfor %}"
    )
    roles = ("user", "tool", "user", "end", "user")
    chat = [{"role": role, "content": str(n)} for n, role in enumerate(roles)]
    assert ChatTemplate(source).render(chat) == "02"


def test_json_is_not_escaped_for_html_nor_to_ascii():
    source = (
        "{{ messages[0] | tojson }}|{{ {'b': 1, 'a': [2]} | tojson(indent=1, sort_keys=true) }}"
    )
    written = ChatTemplate(source).render([{"role": "user", "content": "<é> & 'x'"}])
    expected = """{"role": "user", "content": "<é> & 'x'"}|{\n "a": [\n  2\n ],\n "b": 1\n}"""
    assert written == expected


def test_the_words_of_the_template_are_kept_when_it_refuses():
    template = ChatTemplate("a\n{{ raise_exception('no tools here') }}", name="ours")
    with pytest.raises(ChatTemplateError, match=r"ours.*no tools here") as caught:
        template.render([USER])
    error = caught.value
    assert (error.reason, error.kind, error.line) == ("no tools here", "TemplateError", 2)
    assert pickle.loads(pickle.dumps(error)).reason == error.reason  # noqa: S301 - our own bytes


def test_a_template_that_is_none_is_reported_when_it_is_made_with_its_line():
    with pytest.raises(ChatTemplateError, match="line 2") as caught:
        ChatTemplate("{% for m in messages %}\n{{ m.content }")
    assert (caught.value.kind, caught.value.line) == ("TemplateSyntaxError", 2)


def test_a_prompt_tells_the_time_it_is_told():
    template = ChatTemplate("{{ strftime_now('%d %b %Y') }}", now=lambda: datetime(2031, 5, 6))  # noqa: DTZ001
    assert template.render([]) == "06 May 2031"


@pytest.mark.parametrize(
    "attack",
    [
        "{{ messages.__class__ }}",
        "{{ messages[0].__init__.__globals__ }}",
        "{{ strftime_now.__globals__ }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update({'role': 'system'}) }}",
        "{{ ''.format.__func__ }}",
        "{{ '{0.__class__}'.format(messages) }}",
        "{{ lipsum.__globals__['os'] }}",
    ],
    ids=range(8),
)
def test_a_template_cannot_leave_the_sandbox_or_change_messages(attack):
    # Jinja raises where what was refused is used; where it is only printed, it prints nothing.
    chat = [dict(USER)]
    assert _outcome(attack, chat) in {"", "SecurityError", "UndefinedError"}
    assert chat == [USER]


def _outcome(source, chat):
    try:
        return ChatTemplate(source).render(chat)
    except ChatTemplateError as error:
        return error.kind


# -- what is rendered -----------------------------------------------------------------------------


def test_variables_of_the_call_go_before_those_of_the_template():
    template = ChatTemplate("{{ bos_token }}{{ mode }}", bos_token="<s>", mode="calm")
    assert template.render([], mode="loud") == "<s>loud"
    assert template.variables == {"bos_token", "mode"}


@pytest.mark.parametrize("name", ["messages", "add_generation_prompt"])
def test_what_a_template_is_always_given_is_no_variable(name):
    with pytest.raises(ConfigError, match=name):
        ChatTemplate("", **{name: 1})


def test_a_variable_that_is_not_plain_is_refused():
    with pytest.raises(InvalidMessageError, match=r"variable clock\.now is a type"):
        ChatTemplate("").render([], clock={"now": datetime})


def test_functions_and_tools_are_described_and_maps_are_taken_as_they_are():
    @tool
    def weather(city: str) -> str:
        """Tell the weather."""
        return city

    def clock(zone: str) -> str:
        """Tell the time."""
        return zone

    source = (
        "{% for t in tools %}{{ (t.function.name if t.function else t.name) ~ ' ' }}{% endfor %}"
    )
    assert ChatTemplate(source).render([], tools=[weather, clock, {"name": "own"}]) == (
        "weather clock own "
    )
    with pytest.raises(TypeError, match="is not a tool"):
        ChatTemplate(source).render([], tools=["weather"])


@pytest.mark.parametrize(
    "arguments", [{"dish": "soupe à l'oignon"}, '{"dish": "soupe à l\'oignon"}']
)
@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("{% for k, v in args|items %}{{ k }}={{ v }}{% endfor %}", "dish=soupe à l'oignon"),
        ("{% for k in args %}{{ k }}={{ args[k] }}{% endfor %}", "dish=soupe à l'oignon"),
        ("{{ 'call:' + args }}", 'call:{"dish": "soupe à l\'oignon"}'),
        ("{{ args }}", '{"dish": "soupe à l\'oignon"}'),
        ("{{ args if args is string else args|tojson }}", '{"dish": "soupe à l\'oignon"}'),
    ],
)
def test_arguments_of_a_call_come_in_the_form_that_the_template_reads(arguments, written, shown):
    source = (
        "{% for m in messages %}{% for c in m.tool_calls or [] %}"
        f"{{% set args = c.function.arguments %}}{written}{{% endfor %}}{{% endfor %}}"
    )
    call = {"type": "function", "function": {"name": "order", "arguments": arguments}}
    chat = [USER, {"role": "assistant", "content": "", "tool_calls": [call]}]
    assert ChatTemplate(source).render(chat) == shown


def test_a_single_message_is_no_list_of_messages():
    with pytest.raises(TypeError, match="a list of messages"):
        ChatTemplate(LOOP).render(USER)


def test_the_model_can_go_on_with_the_last_message():
    chat = [USER, {"role": "assistant", "content": "Once upon "}]
    template = ChatTemplate.from_builtin("chatml")
    written = template.render(chat, continue_final_message=True)
    assert written == template.render([USER]) + "Once upon"


@pytest.mark.parametrize("chat", [[], [{"role": "user", "content": ["x"]}]], ids=["none", "parts"])
def test_only_text_can_be_gone_on_with(chat):
    with pytest.raises(InvalidMessageError, match="go on with"):
        ChatTemplate(LOOP).render(chat, continue_final_message=True)


def test_a_message_that_is_not_shown_cannot_be_gone_on_with():
    with pytest.raises(ChatTemplateError, match="is not shown"):
        ChatTemplate("x").render([USER], continue_final_message=True)


def test_a_template_may_call_the_roles_by_other_names():
    template = ChatTemplate(LOOP, roles={"assistant": "model"})
    chat = [("human", "a"), ("ai", "b"), ("model", "c"), ("assistant", "d"), ("tool", "e")]
    assert template.render(chat) == "user:a;model:b;model:c;model:d;tool:e;"


def test_a_role_that_is_none_is_refused():
    with pytest.raises(ConfigError, match="did you mean 'assistant'"):
        ChatTemplate(LOOP, roles={"asistant": "model"})


# -- where templates come from --------------------------------------------------------------------


def test_a_template_is_read_from_a_file(tmp_path):
    path = tmp_path / "mine.jinja"
    path.write_text("\ufeff" + LOOP, "utf-8")
    assert ChatTemplate.from_file(path).render([USER]) == "user:Hi;"
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r"mine\.jinja is not UTF-8"):
        ChatTemplate.from_file(path)


def test_a_tokenizer_config_names_the_template_and_its_special_tokens(tmp_path):
    config = {
        "bos_token": {"content": "<s>", "lstrip": False},
        "eos_token": "</s>",
        "pad_token": None,
        "chat_template": "{{ bos_token ~ messages[0].content ~ eos_token ~ (pad_token is none) }}",
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    for given in (tmp_path, tmp_path / "tokenizer_config.json", config):
        template = ChatTemplate.from_tokenizer_config(given)
        assert template.render([USER]) == "<s>Hi</s>False"
    assert ChatTemplate.from_tokenizer_config(config, eos_token="!").render([USER]) == "<s>Hi!False"


def test_one_of_several_templates_is_chosen_by_name():
    named = [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}]
    config = {"chat_template": named}
    assert ChatTemplate.from_tokenizer_config(config).render([]) == "plain"
    assert ChatTemplate.from_tokenizer_config(config, template="tool_use").render([]) == "tools"
    with pytest.raises(ConfigError, match=r"\['default', 'tool_use'\], not 'rag'"):
        ChatTemplate.from_tokenizer_config(config, template="rag")
    with pytest.raises(ConfigError, match="choose one"):
        ChatTemplate.from_tokenizer_config({"chat_template": {"a": "x", "b": "y"}})


def test_a_template_beside_the_config_is_found(tmp_path):
    (tmp_path / "tokenizer_config.json").write_text('{"bos_token": "<s>"}')
    with pytest.raises(ConfigError, match="has no 'chat_template'"):
        ChatTemplate.from_tokenizer_config(tmp_path)
    (tmp_path / "chat_template.jinja").write_text("{{ bos_token }}beside")
    assert ChatTemplate.from_tokenizer_config(tmp_path).render([]) == "<s>beside"


@pytest.mark.parametrize("text", ["{", "[1]", "[" * 100_000], ids=["cut", "list", "deep"])
def test_a_config_that_is_none_is_refused(tmp_path, text):
    path = tmp_path / "tokenizer_config.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"tokenizer_config\.json"):
        ChatTemplate.from_tokenizer_config(path)


# -- our own templates ----------------------------------------------------------------------------

CHAT = [
    {"role": "user", "content": "Where?"},
    {"role": "assistant", "content": "Here."},
    {"role": "user", "content": "Thanks."},
]
SHAPES = {
    "chatml": "<|im_start|>user\nWhere?<|im_end|>\n<|im_start|>assistant\nHere.<|im_end|>\n"
    "<|im_start|>user\nThanks.<|im_end|>\n<|im_start|>assistant\n",
    "gemma": "<bos><start_of_turn>user\nWhere?<end_of_turn>\n<start_of_turn>model\n"
    "Here.<end_of_turn>\n<start_of_turn>user\nThanks.<end_of_turn>\n<start_of_turn>model\n",
    "llama3": "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nWhere?<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\nHere.<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\nThanks.<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n",
    "mistral": "<s>[INST]Where?[/INST]Here.</s>[INST]Thanks.[/INST]",
}
SHAPES["qwen"] = SHAPES["chatml"]


@pytest.mark.parametrize("name", sorted(BUILTINS))
def test_a_template_of_ours_has_the_shape_of_its_family(name):
    assert ChatTemplate.from_builtin(name).render(CHAT) == SHAPES[name]


@pytest.mark.parametrize("name", sorted(BUILTINS))
def test_a_template_of_ours_writes_what_is_new_and_nothing_else(name):
    state = ChatTemplate.from_builtin(name).start()
    state.feed(CHAT[:1])
    state.record_reply("Here.")
    increment = state.feed(CHAT[1:])
    assert not increment.diverged


@pytest.mark.parametrize("name", sorted(set(BUILTINS) - {"gemma"}))
def test_a_template_of_ours_shows_calls_and_their_results(name):
    call = {"name": "weather", "arguments": {"city": "Tromsø"}}
    chat = [
        CHAT[0],
        {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "function": call}]},
        {"role": "tool", "content": "4 C", "tool_call_id": "1"},
    ]
    written = ChatTemplate.from_builtin(name).render(chat, tools=[{"name": "weather"}])
    assert "Tromsø" in written or name == "chatml"
    assert "4 C" in written


@pytest.mark.parametrize("name", sorted(BUILTINS))
def test_a_template_of_ours_refuses_media_that_it_cannot_show(name):
    chat = [{"role": "user", "content": [{"type": "hologram"}]}]
    with pytest.raises(ChatTemplateError, match="shows no hologram"):
        ChatTemplate.from_builtin(name).render(chat)


def test_there_are_only_so_many_templates_of_ours():
    with pytest.raises(ConfigError, match=r"'gpt'; there are \['chatml'"):
        ChatTemplate.from_builtin("gpt")
