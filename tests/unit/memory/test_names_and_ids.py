"""Ids that are no text, roles by LangChain's names, and names that nobody knows."""

from __future__ import annotations

from enum import Enum
from uuid import UUID

import pytest
from scripted_chat import ScriptedChatModel

from langchain_convmem import Conversation, ConversationMemory, SummarySettings
from langchain_convmem.errors import ConfigError, InvalidMessageError
from langchain_convmem.records import Owner, ThreadKey

NAME = UUID("0b7a5f0e-5a0a-4d2c-9a3e-6a4d7f9f2b11")


def test_uuids_and_whole_numbers_are_ids_by_their_text(memory):
    config = {"configurable": {"thread_id": NAME, "session_id": str(NAME), "user_id": 7}}
    memory.wrap(ScriptedChatModel(replies=["Noted."])).invoke("The key is under the pot.", config)
    assert len(memory.history(str(NAME), user_id="7").messages) == 2
    assert [one.key for one in memory.threads(7)] == [ThreadKey("7", str(NAME))]
    assert memory.recall("Where is the key?", user_id=7, k=1).blocks
    assert memory.recall("Where is the key?", user_ids=[7, "8"], k=1).blocks


async def test_users_are_listed_and_threads_of_nobody_are_not_theirs(memory):
    for user in ("bo", 7, None, "ana"):
        memory.add_messages(["Hello."], thread_id="t", user_id=user)
    assert memory.users() == await memory.ausers() == ["7", "ana", "bo"]
    assert [one.key for one in memory.threads()] == [ThreadKey(None, "t")]


@pytest.mark.parametrize("wrong", [True, 1.5, "", "  ", "\n", b"t", ["t"]])
def test_what_names_nobody_is_refused(wrong):
    for make in (lambda: ThreadKey(None, wrong), lambda: Owner(user_id=wrong)):
        with pytest.raises(ConfigError, match="must be text that is not blank"):
            make()


class Speaker(Enum):
    """Roles of an application."""

    CALLER = "human"
    BOT = "ai"


def test_roles_have_the_names_that_langchain_gives_them(memory):
    history = memory.history("t")
    for role in ("human", "ai", "user", "assistant", Speaker.CALLER, Speaker.BOT, "system"):
        history.add(role, f"said by {role}")
    assert [entry.role for entry in history.entries] == [*(["user", "assistant"] * 3), "system"]
    with pytest.raises(InvalidMessageError, match="names its call"):
        history.add("tool", "30 degrees")
    with pytest.raises(InvalidMessageError, match="got a dict"):
        history.add({"role": "user"}, "hello")


def test_times_have_known_names_or_a_prefix(memory):
    turn = memory.history("t").add("user", "hello")
    turn.add_timing("x_rang", 5)
    turn.add_timing("app.hungUp", 6)
    with pytest.raises(ConfigError, match="did you mean 'listenStart'"):
        turn.add_timing("listnStart")
    [entry] = memory.history("t").entries
    assert set(entry.metadata.timing) == {"creation", "x_rang", "app.hungUp"}


@pytest.mark.parametrize(
    ("make", "way"),
    [
        (lambda: ConversationMemory.open("sqlite:///x.db"), r"open\('x\.db'\)"),
        (lambda: SummarySettings(trigger=4000), r'trigger must look like \("tokens", 4000\)'),
        (lambda: SummarySettings(keep=900), r'keep must look like \("tokens", 900\)'),
        (lambda: Conversation(ScriptedChatModel(replies=[]), system="Be brief."), "system_prompt="),
        (lambda: Conversation(ScriptedChatModel(replies=[]), preface="Brief."), "system_prompt="),
        (lambda: Conversation(ScriptedChatModel(replies=[]), on_cancl="keep"), "'on_cancel'"),
    ],
)
def test_an_error_names_the_way_out(make, way):
    with pytest.raises(ConfigError, match=way):
        make()


def test_an_option_of_a_call_that_is_misspelt_is_named_with_its_neighbour(memory):
    chain = memory.wrap(ScriptedChatModel(replies=["Hi."]))
    config = {"configurable": {"thread_id": "t", "memory": {"histry_tokens": 5}}}
    with pytest.raises(ConfigError, match="did you mean 'history_tokens'"):
        chain.invoke("hello", config)
    assert memory.history("t").entries == []
