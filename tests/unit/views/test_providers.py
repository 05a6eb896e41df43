import dataclasses

import pytest
from histories import answered, spoken
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_convmem.errors import ConfigError
from langchain_convmem.offline import OfflineChatModel
from langchain_convmem.views.context import build_context
from langchain_convmem.views.providers import (
    ANTHROPIC,
    BEDROCK_CONVERSE,
    GEMINI,
    OPENAI,
    PROVIDERS,
    STRICT,
    find_provider,
    fits,
)
from langchain_convmem.views.tool_calls import INTERRUPTED_RESULT, INTERRUPTED_SOURCE
from tests.fuzz.validators import VALIDATORS

ALL = sorted({*PROVIDERS} - {"text"})  # which is `strict` without media


def shown(profile, *messages, **options):
    found = build_context(spoken(*messages), provider=profile, **options)
    assert VALIDATORS[profile](found.messages) == []
    return found


def asks(*ids, name="weather", **args):
    calls = [{"name": name, "args": args, "id": own, "type": "tool_call"} for own in ids]
    return AIMessage("", tool_calls=calls)


def result(own, content="22", **more):
    return ToolMessage(content, tool_call_id=own, **more)


def test_strict_takes_only_what_all_of_them_take():
    for profile in (BEDROCK_CONVERSE, ANTHROPIC, OPENAI, GEMINI):
        for place, rules in STRICT.media.items():
            for kind, rule in rules.items():
                theirs = profile.media[place][kind]
                assert rule.forms <= theirs.forms
                assert rule.types <= theirs.types
                assert rule.max_bytes <= theirs.max_bytes
        for text in ("call_1", "a.b", "x" * 41, "ü", "1st", "get-time"):
            assert fits(text, profile.call_id) or not fits(text, STRICT.call_id)
            assert fits(text, profile.tool_name) or not fits(text, STRICT.tool_name)
    assert STRICT.system == "head"
    assert STRICT.takes_back == frozenset()
    assert STRICT.media["user"]["image"].types == {"image/png", "image/jpeg", "image/webp"}


def test_a_profile_is_named_or_given_as_a_value():
    entries = spoken("a")
    assert build_context(entries, provider=OPENAI) == build_context(entries, provider="openai")
    with pytest.raises(ConfigError, match=r"cohere.*strict"):
        build_context(entries, provider="cohere")


def test_a_model_that_takes_less_has_a_profile_of_its_own():
    blind = dataclasses.replace(OPENAI, name="blind", media={})
    picture = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
    [block] = build_context(answered(HumanMessage([picture])), provider=blind).messages[0].content
    assert block == {"type": "text", "text": "[image, image/png, 2 B: not shown]"}


@pytest.mark.parametrize(
    ("kind", "profile"),
    [
        ("ChatOpenAI", "openai"),
        ("AzureChatOpenAI", "openai"),
        ("ChatAnthropic", "anthropic"),
        ("ChatBedrockConverse", "bedrock_converse"),
        ("ChatGoogleGenerativeAI", "gemini"),
        ("FakeListChatModel", "strict"),
    ],
)
def test_a_chat_model_has_the_profile_of_its_provider_whatever_is_bound_to_it(kind, profile):
    model = type(kind, (), {"__module__": "langchain_them"})()
    assert find_provider(model) == profile
    assert find_provider(type("Bound", (), {"bound": model})()) == profile
    assert find_provider(object()) == "strict"


@pytest.mark.parametrize("profile", ["strict", "bedrock_converse", "anthropic", "gemini"])
def test_system_text_is_hoisted_where_the_provider_has_one_place_for_it(profile):
    found = shown(profile, SystemMessage("one"), "a", SystemMessage("two"), AIMessage("b"))
    hoisted = [("system", "one\n\ntwo"), ("human", "a"), ("ai", "b")]
    assert [(m.type, m.content) for m in found.messages] == hoisted


def test_system_text_stays_where_it_was_written_where_the_provider_allows_it():
    said = [SystemMessage("one"), HumanMessage("a"), SystemMessage("two"), HumanMessage("b")]
    found = shown("openai", *said, AIMessage("c")).messages
    assert [(m.type, m.content) for m in found[:-1]] == [(m.type, m.content) for m in said]


@pytest.mark.parametrize(
    ("own", "takers"),
    [
        ("functions.weather:0", {"openai", "openai_responses", "gemini"}),
        ("i" * 50, {"bedrock_converse", "anthropic", "gemini"}),
        ("i" * 70, {"gemini"}),
        ("two words", {"gemini"}),
        ("ü", {"gemini"}),
    ],
)
def test_an_id_is_rewritten_in_call_and_result_only_where_it_must_be(own, takers):
    said = ("q", asks(own), result(own))
    for profile in ALL:
        found = shown(profile, *said)
        call, answer = found.messages[1].tool_calls[0], found.messages[2]
        assert call["id"] == answer.tool_call_id
        assert answer.content == "22"
        assert (call["id"] == own) is (profile in takers)
        assert (found.repairs == ()) is (profile in takers)


@pytest.mark.parametrize(
    ("name", "profile", "written"),
    [
        ("get-time", "strict", "get-time"),
        ("my tool", "openai", "my_tool"),
        ("a.b:c", "gemini", "a.b:c"),
        ("a.b:c", "anthropic", "a_b_c"),
        ("1st", "openai", "1st"),
        ("1st", "gemini", "_1st"),
        ("t" * 100, "anthropic", "t" * 100),
        ("t" * 100, "strict", "t" * 63),
        ("", "strict", "tool"),
        ("ß", "strict", "_"),
    ],
)
def test_the_name_of_a_tool_is_written_in_letters_that_the_provider_takes(name, profile, written):
    found = shown(profile, "q", asks("c1", name=name), result("c1", name=name or None))
    assert found.messages[1].tool_calls[0]["name"] == written
    assert found.messages[2].name in (written, None)
    assert any("tool name" in repair for repair in found.repairs) is (name != written)


@pytest.mark.parametrize("profile", ALL)
def test_a_call_that_nothing_answers_is_closed_by_a_marked_error_with_a_lasting_id(profile):
    entries = spoken("q", asks("c1"))
    closed = build_context(entries, provider=profile).messages[-1]
    assert (closed.content, closed.status, closed.name) == (INTERRUPTED_RESULT, "error", "weather")
    assert closed.additional_kwargs == {"source": INTERRUPTED_SOURCE}
    assert closed.id == build_context(entries, provider=profile).messages[-1].id
    assert len(closed.id) == 26
    assert len(entries) == 2


def test_arguments_are_sent_as_json_can_carry_them():
    odd = {"nan": float("nan"), "set": {2, 1}, "half": "\ud83d", "bytes": b"x", "deep": [(1,)]}
    sent = {"nan": "nan", "set": [1, 2], "half": "\ufffd", "bytes": "[bytes]", "deep": [[1]]}
    found = shown("strict", "q", asks("c1", **odd))
    assert found.messages[1].tool_calls[0]["args"] == sent


def test_what_repeats_a_call_goes_back_to_who_wrote_it_alone():
    told = {"type": "tool_use", "id": "c1", "name": "weather", "input": {}}
    call = {"name": "weather", "args": {}, "id": "c1", "type": "tool_call"}
    said = AIMessage([told], tool_calls=[call], response_metadata={"model_provider": "anthropic"})
    for profile in ALL:
        found = shown(profile, "q", said, result("c1"), AIMessage("22."), "And now?")
        assert found.messages[1].content == ([told] if profile == "anthropic" else "")
        assert found.messages[1].tool_calls == [call]


def test_a_model_is_known_by_what_its_class_inherits_from(caplog):
    caplog.set_level("INFO", "langchain_convmem")
    known = type("ChatAnthropic", (), {"__module__": "langchain_anthropic.chat_models"})
    assert find_provider(type("OwnModel", (known,), {})()) == "anthropic"
    assert find_provider(OfflineChatModel()) == "strict"
    assert caplog.messages == []
    other = type("ChatAnthropic", (), {"__module__": "somewhere"})
    assert find_provider(other()) == "strict"
    assert "somewhere.ChatAnthropic: earlier turns are shown as every provider" in caplog.text
