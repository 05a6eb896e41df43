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


def test_the_words_of_the_template_are_kept_when_it_refuses():
    template = ChatTemplate("a\n{{ raise_exception('no tools here') }}", name="ours")
    with pytest.raises(ChatTemplateError, match=r"ours.*no tools here") as caught:
        template.render([USER])
    error = caught.value
    assert (error.reason, error.kind, error.line) == ("no tools here", "TemplateError", 2)
    assert pickle.loads(pickle.dumps(error)).reason == error.reason  # noqa: S301 - our own bytes
    with pytest.raises(ChatTemplateError, match="line 2") as caught:
        ChatTemplate("{% for m in messages %}\n{{ m.content }")
    assert (caught.value.kind, caught.value.line) == ("TemplateSyntaxError", 2)


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


def weather(city: str) -> str:
    """Tell the weather."""
    return city


def test_functions_and_tools_are_described_and_maps_are_taken_as_they_are():
    source = "{% for t in tools %}{{ t.function.name if t.function else t.name }} {% endfor %}"
    tools = [tool("storm", weather), weather, {"name": "own"}]
    assert ChatTemplate(source).render([], tools=tools) == "storm weather own "


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


@pytest.mark.parametrize(
    ("kind", "told", "call"),
    [
        (ConfigError, "messages cannot", lambda: ChatTemplate("", messages=1)),
        (ConfigError, "a list of texts, got '<x>'", lambda: ChatTemplate("", control_tokens="<x>")),
        (
            InvalidMessageError,
            r"variable clock\.now is a type",
            lambda: ChatTemplate("").render([], clock={"now": datetime}),
        ),
        (TypeError, "a list of messages", lambda: ChatTemplate(LOOP).render(USER)),
        (TypeError, "is not a tool", lambda: ChatTemplate(LOOP).render([], tools=["weather"])),
        (
            ConfigError,
            "did you mean 'assistant'",
            lambda: ChatTemplate(LOOP, roles={"asistant": ""}),
        ),
        (ConfigError, r"'gpt'; there are \['chatml'", lambda: ChatTemplate.from_builtin("gpt")),
        (InvalidMessageError, "go on with", lambda: _go_on(LOOP, [])),
        (
            InvalidMessageError,
            "go on with",
            lambda: _go_on(LOOP, [{"role": "user", "content": ["x"]}]),
        ),
        (ChatTemplateError, "is not shown", lambda: _go_on("x", [USER])),
    ],
)
def test_what_cannot_be_is_refused_with_its_reason(kind, told, call):
    with pytest.raises(kind, match=told):
        call()


def _go_on(source, chat):
    return ChatTemplate(source).render(chat, continue_final_message=True)


def test_the_model_can_go_on_with_the_last_message():
    chat = [USER, {"role": "assistant", "content": "Once upon "}]
    assert _go_on(LOOP, chat) == "user:Hi;assistant:Once upon"


def test_a_template_may_call_the_roles_by_other_names():
    template = ChatTemplate(LOOP, roles={"assistant": "model"})
    chat = [("human", "a"), ("ai", "b"), ("model", "c"), ("assistant", "d"), ("tool", "e")]
    assert template.render(chat) == "user:a;model:b;model:c;model:d;tool:e;"


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
    (tmp_path / "tokenizer_config.json").write_text('{"bos_token": "<s>"}')
    with pytest.raises(ConfigError, match="has no 'chat_template'"):
        ChatTemplate.from_tokenizer_config(tmp_path)
    (tmp_path / "chat_template.jinja").write_text("{{ bos_token }}beside")
    assert ChatTemplate.from_tokenizer_config(tmp_path).render([]) == "<s>beside"


def test_one_of_several_templates_is_chosen_by_name():
    named = [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}]
    config = {"chat_template": named}
    assert ChatTemplate.from_tokenizer_config(config).render([]) == "plain"
    assert ChatTemplate.from_tokenizer_config(config, template="tool_use").render([]) == "tools"
    with pytest.raises(ConfigError, match=r"\['default', 'tool_use'\], not 'rag'"):
        ChatTemplate.from_tokenizer_config(config, template="rag")
    with pytest.raises(ConfigError, match="choose one"):
        ChatTemplate.from_tokenizer_config({"chat_template": {"a": "x", "b": "y"}})


@pytest.mark.parametrize("text", ["{", "[1]", "[" * 100_000], ids=["cut", "list", "deep"])
def test_a_config_that_is_none_is_refused(tmp_path, text):
    path = tmp_path / "tokenizer_config.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"tokenizer_config\.json"):
        ChatTemplate.from_tokenizer_config(path)


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
def test_a_template_of_ours_has_the_shape_of_its_family_and_writes_what_is_new(name):
    template = ChatTemplate.from_builtin(name)
    assert template.render(CHAT) == SHAPES[name]
    state = template.start()
    state.feed(CHAT[:1])
    state.record_reply("Here.")
    assert state.feed(CHAT[1:]).stats.diverged_at is None
    with pytest.raises(ChatTemplateError, match="shows no hologram"):
        template.render([{"role": "user", "content": [{"type": "hologram"}]}])
