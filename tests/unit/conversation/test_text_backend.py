import pytest
from langchain_core.messages import AIMessage, ChatMessage, HumanMessage, SystemMessage
from scripted_chat import ScriptedChatModel
from talks import CHATML, QWEN, text_engine, text_talk

from langchain_convmem import ChatTemplate, Conversation, ConversationMemory, InMemoryLog, Preface
from langchain_convmem.conversation.inputs import coerce_messages
from langchain_convmem.errors import ChatTemplateError, ConfigError
from langchain_convmem.testing import ScriptedEngine, SessionFault

FOLDING = ChatTemplate(
    "{% if messages[0]['role'] == 'system' %}{% set first = messages[0]['content'] %}"
    "{% set messages = messages[1:] %}{% endif %}"
    "{% for message in messages %}[{{ message['role'] }}]"
    "{{ first if loop.first else '' }}{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
"""The system prompt is folded into the first user message: alone it is no text at all."""
REFUSING = ChatTemplate(
    "{{ messages[1]['content'].upper() }}>{{ messages[2:] | map(attribute='content') | join('|') }}"
)
"""A preface alone is an error."""
FORGETFUL = ChatTemplate(
    "{% for message in messages %}{{ '(' if loop.last else '<' }}{{ message['content'] }}"
    "{% endfor %}{% if add_generation_prompt %}:{% endif %}"
)
"""Writes every message otherwise as soon as another one follows."""


def held(model):
    """Return what the only open session of a model has read and written."""
    [session] = model.open_sessions
    return session.text


@pytest.mark.parametrize("holds_stop", [True, False])
def test_each_turn_reads_what_is_new_alone(holds_stop):
    model = text_engine(holds_stop=holds_stop)
    talk = Conversation(model, preface={"messages": [("system", "Be brief.")]})
    for question in ("one", "two", "three"):
        talk.send_message(question)
    end = "\n" if holds_stop else "<|im_end|>\n"
    assert model.prefills[1:] == [
        f"{end}<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
        for question in ("two", "three")
    ]
    whole = CHATML.render([*talk.config.preface.messages, *talk.history])
    assert whole.startswith(held(model))
    assert len(model.sessions) == 1


def test_stop_texts_and_arguments_reach_the_model():
    model = text_engine("Fine. END never", stop=["END"])
    talk = Conversation(model, stop=("HALT",), model_kwargs={"temperature": 0, "top_k": 1})
    assert talk.send_message("a", temperature=1, max_output_tokens=9, stop="Fin.").text == "Fine. "
    given = next(event.options for event in model.events if event.action == "decode")
    assert set(given["stop"]) == {"END", "HALT", "<|im_end|>", "Fin."}
    for name, value in {"stop": 5, "timeout": float("inf")}.items():
        with pytest.raises(ConfigError, match=f"{name} must be"):
            talk.send_message("a", **{name: value})
    assert (given["temperature"], given["top_k"], given["max_tokens"]) == (1, 1, 9)
    talk.send_message("a", max_tokens=4)
    [*_, last] = [event.options for event in model.events if event.action == "decode"]
    assert last["max_tokens"] == 4


@pytest.mark.parametrize("rewindable", [True, False])
def test_extra_context_holds_for_one_send(rewindable):
    model = text_engine(template=QWEN, rewindable=rewindable)
    talk = Conversation(model, thinking=True)
    talk.send_message("a", thinking=False)
    assert held(model).endswith("<think>\n\n</think>\n\nFine.")
    talk.send_message("b")
    assert held(model).endswith("<|im_start|>assistant\nFine.")
    assert talk.render_stats[0].diverged_at is not None


def test_a_chat_model_takes_its_own_parameters_and_no_extra_context():
    seen = []

    class Model(ScriptedChatModel):
        def _generate(self, messages, stop=None, run_manager=None, **kwargs):
            seen.append(kwargs)
            return super()._generate(messages)

    talk = Conversation(Model(replies=["a"]), model_kwargs={"effort": "low"})
    with pytest.raises(ConfigError, match=r"\['enable_thinking'\].* in model_kwargs"):
        talk.send_message("a", thinking=True)
    talk.send_message("a", max_output_tokens=7)
    assert seen == [{"effort": "low", "max_tokens": 7}]


def test_a_preface_can_be_read_at_once():
    model = text_engine()
    talk = Conversation(model, preface={"messages": "Be brief."}, prefill_preface=True)
    assert model.prefills == [CHATML.render(["Be brief."], add_generation_prompt=False)]
    talk.send_message("a")
    assert model.prefills[1].startswith("<|im_start|>user\na")
    assert talk.history[0].text == "a"
    idle = text_engine()
    Conversation(idle, prefill_preface=True)
    assert idle.open_sessions == []


@pytest.mark.parametrize("template", [FOLDING, REFUSING])
def test_a_preface_that_cannot_stand_alone_is_read_with_the_first_message(template):
    model = text_engine(template=template)
    preface = {"messages": [("system", "Be brief."), ("user", "Hm")][: 1 + (template is FOLDING)]}
    talk = Conversation(model, preface=preface, prefill_preface=True)
    other = text_engine(template=template)
    plain = Conversation(other, preface=preface)
    assert talk.send_message("a").text == plain.send_message("a").text == "Fine."
    assert held(model) == held(other)


def test_a_response_format_that_an_engine_would_ignore_is_refused():
    talk, model = text_talk("Fine.", template=QWEN)
    with pytest.raises(ConfigError, match="takes no response_format"):
        talk.send_message("a", response_format={"type": "json_object"})
    assert (talk.history, model.prefills) == ([], [])
    model.takes_response_format = True
    talk.send_message("a", response_format={"type": "json_object"})
    decode = [event for event in model.events if event.action == "decode"][-1]
    assert decode.options["response_format"] == {"type": "json_object"}


@pytest.mark.parametrize("rewindable", [True, False])
def test_a_template_that_changes_its_mind_is_followed(rewindable):
    talk, model = text_talk(template=FORGETFUL, rewindable=rewindable)
    for question in ("one", "two", "three"):
        talk.send_message(question)
        assert held(model) == FORGETFUL.render(talk.history[:-1]) + "Fine."
    assert talk.render_stats[0].diverged_at is not None


def test_a_message_that_the_template_refuses_is_refused_before_anything_is_read():
    model = text_engine(
        template=ChatTemplate("{{ raise_exception('no ' ~ messages[0]['content']) }}")
    )
    talk = Conversation(model)
    with pytest.raises(ChatTemplateError, match="no a"):
        talk.send_message("a")
    assert model.sessions == []


def test_a_picture_shown_to_another_model_is_a_note_for_a_template_without_pictures():
    model, picture = text_engine("Yes."), {"type": "image", "base64": "cG5n"}
    with ConversationMemory(InMemoryLog()) as memory:
        memory.add_messages([HumanMessage([picture]), AIMessage("A cat.")], thread_id="t")
        memory.conversation(model, thread_id="t").send_message("Thanks")
        assert held(model).startswith("<|im_start|>user\n[image")


def test_what_was_recalled_stays_where_the_session_has_read_it():
    memory = ConversationMemory(InMemoryLog())
    told = [HumanMessage("I parked the car on level 3."), AIMessage("Noted.")]
    memory.add_messages(told, thread_id="old", user_id="ana")
    model = text_engine()
    talk = memory.conversation(model, thread_id="t", user_id="ana")
    talk.send_message("Where did I park the car?")
    assert "level 3" in model.prefills[0]
    talk.send_message("Thanks")
    assert talk.render_stats[0].diverged_at is None
    assert "level 3" not in model.prefills[1]
    assert "level 3" not in talk.history[0].text
    twin = talk.clone()
    twin.send_message("And?")
    assert twin.render_stats[0].diverged_at is None


@pytest.mark.parametrize("action", ["rewind", "reset", "checkpoint", "create", "close"])
def test_a_session_that_fails_in_any_way_is_replaced(action):
    faults = [SessionFault(at=action, nth=n) for n in (1, 2)]
    faults.append(SessionFault(at="prefill", nth=2, after=1))
    talk, model = text_talk(rewindable=action != "reset", faults=faults)
    errors = 0
    while len(talk.history) < 4:
        try:
            talk.send_message("a")
        except RuntimeError:
            errors += 1
    assert 1 <= errors <= 3
    assert CHATML.render(talk.history).startswith(held(model))
    assert held(model).count("<|im_start|>user") == 2
    talk.close()
    assert model.misuses == []


END = "<end>\n"
OWN_NAMES = """\
{%- for tool in tools or [] %}<tool>{{ tool.function.name }}<end>
{% endfor %}
{%- for m in messages %}
{%- if m['role'] == 'developer' %}<developer>{{ m.content }}<end>
{% elif m.role == 'human' %}<human>{{ m.content }}<end>
{% elif m.role == 'model' %}<model>{{ m.content }}
{%- for call in m.tool_calls or [] %}<tool_call>
{{ {'name': call.function.name, 'arguments': call.function.arguments} | tojson }}
</tool_call>{% endfor %}<end>
{% elif m.role == 'function' %}<function>{{ m.name }}: {{ m.content }}<end>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<model>{% endif %}"""
FOUR = {"assistant": "model", "system": "developer", "tool": "function", "user": "human"}


def engine(*replies):
    template = ChatTemplate(OWN_NAMES, roles=FOUR)
    return ScriptedEngine(list(replies), template=template, end_text="<end>", reply_format="hermes")


def test_preface_and_history_are_shown_by_the_templates_names():
    preface = Preface(messages=[("system", "S"), ("user", "hello"), ("model", "Hi.")])
    history = [("user", "before"), ChatMessage("There.", role="model")]
    model = engine("One.", "Two.")
    talk = Conversation(model, preface=preface, history=history)
    talk.send_message("a")
    talk.send_message("b")
    before = f"<human>hello{END}<model>Hi.{END}<human>before{END}<model>There.{END}"
    assert model.prefills == [
        f"<developer>S{END}{before}<human>a{END}<model>",
        f"{END}<human>b{END}<model>",
    ]
    assert [message.type for message in talk.history] == ["human", "ai"] * 3
    assert talk.render_stats[0].diverged_at is None


def test_tools_are_described_called_and_answered_by_the_templates_names():
    def platform(train: str) -> str:
        """Tell the platform of a train."""
        return f"{train}: 9"

    call = '<tool_call>\n{"name": "platform", "arguments": {"train": "IC 73"}}\n</tool_call>'
    model = engine(call, "Platform 9.", "Yes.")
    talk = Conversation(model, preface=Preface(tools=[platform]))
    assert talk.send_message("Which platform?").text == "Platform 9."
    assert talk.send_message("Sure?").text == "Yes."
    assert model.prefills == [
        f"<tool>platform{END}<human>Which platform?{END}<model>",
        f"{END}<function>platform: IC 73: 9{END}<model>",
        f"{END}<human>Sure?{END}<model>",
    ]
    assert [message.type for message in talk.history][:4] == ["human", "ai", "tool", "ai"]


KINDS = dict.fromkeys(("model", "Assistant", "ai"), AIMessage)
KINDS |= dict.fromkeys(("user", "human"), HumanMessage) | {"system": SystemMessage}
KINDS |= dict.fromkeys(("narrator", "tool"), ChatMessage)


@pytest.mark.parametrize(("role", "kind"), KINDS.items())
def test_a_message_of_a_known_role_becomes_one_of_its_class(role, kind):
    given = ChatMessage("a", role=role, id="m1", name="Ana", additional_kwargs={"voice": "alto"})
    [message] = coerce_messages(given)
    assert type(message) is kind
    assert (message.text, message.id, message.name) == ("a", "m1", "Ana")
    assert message.additional_kwargs == {"voice": "alto"}
