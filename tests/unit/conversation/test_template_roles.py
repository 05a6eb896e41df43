from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, ChatMessage, HumanMessage, SystemMessage

from langchain_convmem import ChatTemplate, Conversation, ConversationMemory, InMemoryLog, Preface
from langchain_convmem.conversation.inputs import coerce_messages
from langchain_convmem.testing import ScriptedEngine

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


def test_whatever_a_role_is_called_the_template_gets_its_own_name():
    said = [("system", "s"), {"role": "human", "content": "a"}, ("model", "b"), AIMessage("c")]
    text = ChatTemplate(OWN_NAMES, roles=FOUR).render(said, add_generation_prompt=False)
    assert text == f"<developer>s{END}<human>a{END}<model>b{END}<model>c{END}"


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


def test_a_thread_of_a_memory_is_shown_by_the_templates_names():
    with ConversationMemory(InMemoryLog()) as memory:
        said = [HumanMessage("a"), ChatMessage("b", role="model")]
        memory.add_messages(said, thread_id="t")
        model = engine("One.")
        memory.conversation(model, thread_id="t", recall=False).send_message("c")
        assert model.prefills == [f"<human>a{END}<model>b{END}<human>c{END}<model>"]


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
