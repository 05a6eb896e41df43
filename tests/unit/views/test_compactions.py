"""Items of a provider's own compaction: who gets them back, until when, and what others read."""

from __future__ import annotations

import pytest
from histories import KEY, spoken
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from summaries import bare_texts

from langchain_convmem import ConversationMemory
from langchain_convmem.errors import BudgetError
from langchain_convmem.logs import InMemoryLog
from langchain_convmem.records import Cover, Draft
from langchain_convmem.views.codec import make_draft
from langchain_convmem.views.compactions import find_compactions
from langchain_convmem.views.context import LEFT_OUT_TEXT, build_context
from langchain_convmem.views.messages import count_tokens
from langchain_convmem.views.providers import PROVIDERS, find_provider, join_providers
from tests.fuzz.validators import VALIDATORS

CLAUDES = {"type": "compaction", "content": "They met.", "signature": "s", "tool_changes": []}
CIPHER = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA"}
YES = {"type": "text", "text": "Yes."}


def said_by(provider, *blocks, **more):
    return AIMessage([*blocks], response_metadata={"model_provider": provider}, **more)


def talk(provider, item, *later):
    return spoken("a", AIMessage("b"), "c", said_by(provider, item, YES), "d", *later)


def two_at_once(*said):
    """Return the entries of turns that run at once: each message with the number of its turn."""
    with InMemoryLog() as log:
        for message, turn in said:
            whole = HumanMessage(message) if isinstance(message, str) else message
            log.append(KEY, [make_draft(whole, turn_id=f"{turn:026}")])
        return log.entries(KEY)


def items(found):
    return [item for message in found.messages for item in find_compactions(message)]


OWN = [("anthropic", "anthropic", CLAUDES), ("openai", "openai_responses", CIPHER)]


@pytest.mark.parametrize(("provider", "profile", "item"), OWN)
@pytest.mark.parametrize("wrapped", [False, True])
def test_it_goes_back_to_its_provider_verbatim_and_what_it_stands_for_stays_out(
    provider, profile, item, wrapped
):
    inner = {**item, "index": 3}
    block = {"type": "non_standard", "value": inner, "index": 3} if wrapped else inner
    entries = spoken(SystemMessage("s"), "a", AIMessage("b"), "c", said_by(provider, block, YES))
    found = build_context(entries, provider=profile)
    assert items(found) == [item]
    assert [message.text for message in found.messages] == ["s", "...", "Yes."]
    assert VALIDATORS[profile](found.messages) == []
    assert found.is_whole
    [repair] = found.repairs
    assert "the compaction in it stands for it" in repair


@pytest.mark.parametrize(("provider", "profile", "item"), OWN)
def test_everybody_else_gets_the_messages_and_what_it_says_in_words(provider, profile, item):
    entries = talk(provider, item)
    for other in PROVIDERS.keys() - {profile}:
        found = build_context(entries, provider=other)
        told = ["They met."] if provider == "anthropic" else []
        assert bare_texts(found.messages) == [*told, "a", "b", "c", "Yes.", "d"]
        assert items(found) == []
        assert VALIDATORS[other](found.messages) == []
        assert any("left out the compaction of" in repair for repair in found.repairs)


def test_a_thread_may_change_its_provider_and_change_back():
    entries = talk("anthropic", CLAUDES, said_by("openai", CIPHER, YES), "e")
    own = build_context(entries, provider="anthropic")
    assert items(own) == [CLAUDES]
    assert [message.text for message in own.messages] == ["...", "Yes.", "d", "Yes.", "e"]
    theirs = build_context(entries, provider="openai_responses")
    assert items(theirs) == [CIPHER]
    assert [message.text for message in theirs.messages] == ["...", "Yes.", "e"]


@pytest.mark.parametrize(("provider", "profile", "item"), OWN)
def test_it_ends_with_what_it_stands_for(provider, profile, item):
    with ConversationMemory.open(":memory:") as memory:
        said = ["a", AIMessage("b"), "c", said_by(provider, item, YES, id="m"), "d"]
        memory.add_messages(said, thread_id="t", user_id="ana")
        history = memory.history("t", user_id="ana")
        assert items(history.context(provider=profile)) == [item]
        history.replace(history.entries[0].message_id, "A", keep_later=True)
        for name in PROVIDERS:
            found = history.context(provider=name)
            assert bare_texts(found.messages) == ["A", "b", "c", "Yes.", "d"]


def test_a_summary_of_what_it_stands_for_is_left_to_it_and_a_later_one_takes_its_place():
    with InMemoryLog() as log:
        said = ("a", AIMessage("b"), "c", said_by("anthropic", CLAUDES, YES), "d", AIMessage("e"))
        drafts = [make_draft(HumanMessage(one) if one == str(one) else one) for one in said]
        entries = log.append(KEY, drafts)
        first = entries[0].position
        log.append(
            KEY, [Draft(role="summary", contents=("S",), cover=Cover(((first, first + 1),)))]
        )
        found = build_context(log.entries(KEY), provider="anthropic")
        assert [message.text for message in found.messages] == ["...", "Yes.", "d", "e"]
        assert items(found) == [CLAUDES]
        log.append(
            KEY, [Draft(role="summary", contents=("T",), cover=Cover(((first, first + 3),)))]
        )
        found = build_context(log.entries(KEY), provider="anthropic")
        assert bare_texts(found.messages) == ["T", "d", "e"]


def test_a_call_that_it_stands_for_keeps_it_from_going_back_as_long_as_its_result_comes_after():
    call = {"name": "look", "args": {}, "id": "c1", "type": "tool_call"}
    asked = AIMessage("", tool_calls=[call])
    late = ToolMessage("seen", tool_call_id="c1")
    entries = spoken("a", asked, said_by("anthropic", CLAUDES, YES), "d", late)
    found = build_context(entries, provider="anthropic")
    assert items(found) == []
    assert VALIDATORS["anthropic"](found.messages) == []
    assert "seen" in [message.text for message in found.messages]


@pytest.mark.parametrize(("provider", "profile", "item"), OWN)
def test_what_was_said_after_it_in_a_turn_that_began_before_it_is_shown_behind_it(
    provider, profile, item
):
    said = [("a", 1), (AIMessage("b"), 1), ("c", 2), (said_by(provider, item, YES), 2)]
    entries = two_at_once(*said, (SystemMessage("Be brief."), 1), ("and this", 1), ("d", 3))
    everything = build_context(entries, summary="omit").messages
    assert [one.text for one in everything] == ["Be brief.", "a", "b", "and this\nc", "Yes.", "d"]
    found = build_context(entries, provider=profile)
    assert items(found) == [item]
    assert VALIDATORS[profile](found.messages) == []
    assert [one.text for one in found.messages if one.type == "system"] == ["Be brief."]
    spoken_words = [one.text for one in found.messages if one.type != "system"]
    assert spoken_words == ["...", "Yes.", "and this\nd"]
    assert not {one.position for one in entries[:3]} & found.positions


@pytest.mark.parametrize(("provider", "profile", "item"), OWN)
@given(st.integers(1, 400))
def test_a_budget_never_cuts_it(provider, profile, item, budget):
    later = [part for n in range(9) for part in (f"question {n} " * 5, AIMessage(f"answer {n}"))]
    entries = talk(provider, item, *[AIMessage("x" * 90), *later], "last?")
    for name in (profile, "gemini"):
        needed = build_context(entries[-1:], provider=name).tokens
        try:
            found = build_context(entries, provider=name, max_tokens=budget)
        except BudgetError:
            assert budget < needed + 60
            continue
        assert found.tokens == count_tokens(found.messages) <= budget
        assert VALIDATORS[name](found.messages) == []
        assert found.messages[-1].text == "last?"
        if name == profile:
            assert items(found) == [item]
        elif provider == "anthropic":
            # What was said before is told; what came after is not, and that is said if it fits.
            told, *note = bare_texts(found.messages)[0].split("\n\n")
            assert told == "They met."
            assert note in ([], [LEFT_OUT_TEXT])
            assert found.left_out <= len(["Yes.", "d", "x", *later])


@pytest.mark.parametrize(("provider", "profile", "item"), OWN)
def test_forgetting_what_it_stands_for_erases_it_and_keeps_the_reply(provider, profile, item):
    with ConversationMemory.open(":memory:") as memory:
        reply = said_by(provider, item, YES, id="m")
        said = ["a", AIMessage("b"), "c", reply, "d", said_by(provider, item, id="n")]
        memory.add_messages(said, thread_id="t", user_id="ana")
        history = memory.history("t", user_id="ana")
        memory.forget(user_id="ana", thread_id="t", entry_ids=[history.entries[0].id])
        assert not any(find_compactions(entry.message) for entry in history.entries)
        found = history.context(provider=profile)
        assert bare_texts(found.messages) == ["...", "b", "c", "Yes.", "d"]
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
