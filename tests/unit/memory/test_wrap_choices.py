import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import ConfigurableField, RunnableLambda
from scripted_chat import WAYS, ScriptedChatModel, at

from langchain_convmem.errors import ConfigError


class ChatOpenAI(ScriptedChatModel):
    """A model that the memory takes for OpenAI's."""

    __module__ = "langchain_openai"


class ChatBedrockConverse(ScriptedChatModel):
    """A model that the memory takes for Bedrock's."""

    __module__ = "langchain_aws"


def _two_systems(memory):
    said = [HumanMessage("Hi."), AIMessage("Hello."), SystemMessage("Be brief.")]
    memory.add_messages(said, thread_id="t", user_id="ana")


MIDDLE = ["human", "ai", "system", "human"]
HEAD = ["system", "human", "ai", "human"]


def _kinds(model):
    return [message.type for message in model.seen[-1]]


@pytest.mark.parametrize("behind_a_prompt", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_the_profile_is_that_of_the_model_chosen_at_the_call(memory, way, behind_a_prompt):
    one, other = ChatOpenAI(replies=["One."]), ChatBedrockConverse(replies=["Other."])
    inner = one.configurable_alternatives(ConfigurableField(id="llm"), other=other)
    if behind_a_prompt:
        inner = ChatPromptTemplate([MessagesPlaceholder("messages")]) | inner
    chain = memory.wrap(inner, recall=False)
    _two_systems(memory)
    WAYS[way](chain, "Well?", at(llm="other", remember=False))
    WAYS[way](chain, "Well?", at(remember=False))
    assert (_kinds(one), _kinds(other)) == (MIDDLE, HEAD)


@pytest.mark.parametrize("way", WAYS)
def test_a_chosen_chain_gets_a_dict_where_the_default_gets_messages(memory, way):
    model = ScriptedChatModel(replies=["Yes."])
    prompt = ChatPromptTemplate([("system", "Be brief."), MessagesPlaceholder("messages")])
    inner = model.configurable_alternatives(ConfigurableField(id="how"), brief=prompt | model)
    chain = memory.wrap(inner, recall=False)
    WAYS[way](chain, "Really?", at("a"))
    WAYS[way](chain, "Really?", at("b", how="brief"))
    assert [len(messages) for messages in model.seen] == [1, 2]


@pytest.mark.parametrize("way", ["invoke", "stream"])
def test_an_unknown_choice_is_refused_before_anything_is_stored(memory, way):
    model = ScriptedChatModel(replies=["Yes."])
    inner = model.configurable_alternatives(ConfigurableField(id="llm"))
    with pytest.raises(ValueError, match="nobody"):
        WAYS[way](memory.wrap(inner), "Well?", at(llm="nobody"))
    assert memory.threads("ana") == []


@pytest.mark.parametrize("way", WAYS)
def test_a_model_that_a_function_uses_decides_the_profile(memory, way):
    """Also where the function names the wrapped chain itself."""
    model = ChatOpenAI(replies=["Yes."])
    _two_systems(memory)
    inner = RunnableLambda(lambda given: model.invoke(given["messages"]) if chain else inner)
    chain = memory.wrap(inner, recall=False)
    WAYS[way](chain, "Well?", at())
    assert _kinds(model) == MIDDLE


@pytest.mark.parametrize("name", ["userId", "user-id", "USER_ID"])
def test_another_spelling_of_a_users_key_is_refused_before_anything_is_stored(memory, name):
    chain = memory.wrap(ScriptedChatModel(replies=["Hello."]))
    with pytest.raises(ConfigError, match="did you mean 'user_id'"):
        chain.invoke("I am Ana.", {"configurable": {name: "ana", "thread_id": "t"}})
    assert memory.threads() == []
