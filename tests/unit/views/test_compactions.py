import pytest
from histories import spoken
from langchain_core.messages import AIMessage

from langchain_convmem.views.content import find_compactions
from langchain_convmem.views.context import build_context
from langchain_convmem.views.providers import PROVIDERS, find_provider, join_providers
from tests.fuzz.validators import VALIDATORS

CLAUDES = {"type": "compaction", "content": "They met.", "signature": "s", "tool_changes": []}
CIPHER = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA"}
YES = {"type": "text", "text": "Yes."}


def said_by(provider, *blocks, **more):
    return AIMessage([*blocks], response_metadata={"model_provider": provider}, **more)


def talk(provider, item, *later):
    return spoken("a", AIMessage("b"), "c", said_by(provider, item, YES), "d", *later)


def items(found):
    return [item for message in found.messages for item in find_compactions(message)]


OWN = [("anthropic", "anthropic", CLAUDES), ("openai", "openai_responses", CIPHER)]


@pytest.mark.parametrize(("provider", "profile", "item"), OWN)
@pytest.mark.parametrize("wrapped", [False, True])
def test_it_goes_back_to_its_provider_verbatim(provider, profile, item, wrapped):
    inner = {**item, "index": 3}
    block = {"type": "non_standard", "value": inner, "index": 3} if wrapped else inner
    found = build_context(talk(provider, block), provider=profile)
    assert items(found) == [item]
    assert [message.text for message in found.messages] == ["a", "b", "c", "Yes.", "d"]
    assert VALIDATORS[profile](found.messages) == []
    assert found.repairs == ()


@pytest.mark.parametrize(("provider", "profile", "item"), OWN)
def test_everybody_else_gets_the_messages_alone(provider, profile, item):
    for other in PROVIDERS.keys() - {profile}:
        found = build_context(talk(provider, item), provider=other)
        assert [message.text for message in found.messages] == ["a", "b", "c", "Yes.", "d"]
        assert items(found) == []
        assert VALIDATORS[other](found.messages) == []
        assert any("left out the compaction of" in repair for repair in found.repairs)


@pytest.mark.parametrize(
    "block",
    [
        {"type": "compaction", "content": None},
        {"type": "compaction", "content": ""},
        {"type": "compaction"},
        {"type": "compaction", "id": "cmp", "encrypted_content": 5},
    ],
)
@pytest.mark.parametrize("provider", ["anthropic", "openai", None])
def test_one_that_stands_for_nothing_is_left_out(block, provider):
    for profile in PROVIDERS:
        found = build_context(talk(provider, block), provider=profile)
        assert [message.text for message in found.messages] == ["a", "b", "c", "Yes.", "d"]
        assert items(found) == []


@pytest.mark.parametrize(("provider", "profile", "item"), OWN)
def test_it_ends_with_what_it_stands_for(memory, provider, profile, item):
    history = memory.history("t", user_id="ana")
    reply = said_by(provider, item, YES, id="m")
    history.add_messages(["a", AIMessage("b"), "c", reply, "d", AIMessage("e"), "f"])
    history.undo()
    assert items(history.context(provider=profile)) == [item], "what comes after it does not end it"
    history.replace(history.entries[0].message_id, "A", keep_later=True)
    for name in PROVIDERS:
        found = history.context(provider=name)
        assert [message.text for message in found.messages] == ["A", "b", "c", "Yes.", "d", "e"]
        assert items(found) == []


@pytest.mark.parametrize(("provider", "profile", "item"), OWN)
def test_forgetting_what_it_stands_for_erases_it_and_keeps_the_reply(
    memory, provider, profile, item
):
    history = memory.history("t", user_id="ana")
    reply = said_by(provider, item, YES, id="m")
    history.add_messages(["a", AIMessage("b"), "c", reply, "d", said_by(provider, item, id="n")])
    memory.forget(user_id="ana", thread_id="t", entry_ids=[history.entries[0].id])
    assert not any(find_compactions(entry.message) for entry in history.entries)
    found = history.context(provider=profile)
    assert [message.text for message in found.messages] == ["...", "b", "c", "Yes.", "d"]
    assert history.context().messages[3].id == "m"


class ChatOpenAI:
    __module__ = "langchain_openai"

    def __init__(self, **fields):
        self.__dict__.update(fields)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "openai"),
        ({"use_responses_api": True}, "openai_responses"),
        ({"use_responses_api": False, "context_management": [{}]}, "openai"),
        ({"context_management": [{"type": "compaction"}]}, "openai_responses"),
        ({"output_version": "responses/v1"}, "openai_responses"),
        ({"use_previous_response_id": True}, "openai_responses"),
        ({"use_responses_api": None, "truncation": None}, "openai"),
    ],
)
def test_only_a_model_that_speaks_responses_gets_their_items(fields, expected):
    assert find_provider(ChatOpenAI(**fields)) == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ({"openai"}, "openai"),
        ({"openai", "openai_responses"}, "openai"),
        ({"openai", "anthropic"}, "strict"),
        (set(), "strict"),
    ],
)
def test_a_chain_of_several_models_gets_what_all_of_them_take(names, expected):
    assert join_providers(names) == expected
