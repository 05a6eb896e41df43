"""Memories and wrapped chains on their way to another process: pickled, copied, or refused."""

from __future__ import annotations

import copy
import pickle

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from scripted_chat import at

from langchain_convmem import ConversationMemory, InMemoryLog, RecallSettings
from langchain_convmem.errors import ConfigError
from langchain_convmem.memory import make_address_portable

PROMPT = ChatPromptTemplate([MessagesPlaceholder("history"), MessagesPlaceholder("input")])


def shout(message):
    """A write hook that another process can import."""
    return message.model_copy(update={"content": message.text.upper()})


def _pickled(value):
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - our own bytes


@pytest.fixture
def in_file(tmp_path, monkeypatch):
    """A memory opened by a relative path."""
    monkeypatch.chdir(tmp_path)
    with ConversationMemory.open("memory.db", settings=RecallSettings(k=2)) as memory:
        yield memory


def test_a_memory_in_a_file_is_opened_again_by_its_path(in_file, tmp_path, monkeypatch):
    in_file.add_messages([HumanMessage("I parked on level 3.")], thread_id="t", user_id="ana")
    data = pickle.dumps(in_file)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pickle.loads(data) as again:  # noqa: S301 - our own bytes
        assert [info.key.thread_id for info in again.threads("ana")] == ["t"]
        again.history("t", user_id="ana").add("assistant", "Noted.")
    assert len(in_file.history("t", user_id="ana").entries) == 2
    assert b"parked" not in data


def test_its_parts_go_with_it(tmp_path):
    with ConversationMemory.open(tmp_path / "memory.db", before_write=shout) as memory:
        again = _pickled(memory)
    with again:
        again.add_messages([HumanMessage("quiet")], thread_id="t")
        [entry] = again.history("t").entries
    assert entry.contents == ("QUIET",)


def test_a_wrapped_chain_goes_on_where_it_was(in_file):
    model = FakeListChatModel(responses=["On level 3."])
    chain = in_file.wrap(PROMPT | model, recall_k=3, provider="openai", user_id_key="a key")
    chain.invoke("Where?", at())
    again = _pickled(chain)
    with again.memory:
        assert again.invoke("Where again?", at()).text == "On level 3."
        assert (again.options.recall_k, again.provider) == (3, "openai")
        assert again.user_id_key == chain.user_id_key
    assert len(in_file.history("t", user_id="ana").entries) == 4


def test_a_sequence_around_a_wrapped_chain_is_pickled_too(in_file):
    chain = in_file.wrap(FakeListChatModel(responses=["Yes."])).with_retry() | StrOutputParser()
    again = _pickled(chain)
    with again.first.bound.memory:
        assert again.invoke("Really?", at()) == "Yes."


@pytest.mark.parametrize(
    "memory",
    [ConversationMemory.open(":memory:"), ConversationMemory(InMemoryLog())],
    ids=["opened in memory", "given its log"],
)
def test_a_memory_of_this_process_alone_is_refused_and_told_the_way_out(memory):
    chain = memory.wrap(FakeListChatModel(responses=["Yes."]))
    for value in (memory, chain):
        with pytest.raises(ConfigError, match=r"cannot be pickled.*Memory\.open\('memory\.db'\)"):
            pickle.dumps(value)


@pytest.mark.parametrize(
    "address",
    ["postgresql://ana:hush@db/chat", "postgresql://ana@db/chat?password=hush"],
)
def test_a_password_is_written_into_no_pickle_and_no_message(address):
    with pytest.raises(ConfigError, match="password") as refused:
        make_address_portable(address)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    "address", ["postgresql://ana@db/chat?schema=s", "dynamodb://log?region=eu-west-1"]
)
def test_an_address_without_a_password_is_kept(address):
    assert make_address_portable(address) == address


def test_copies_of_a_chain_share_its_memory(memory):
    chain = memory.wrap(FakeListChatModel(responses=["Yes."]), recall=False)
    for again in (copy.copy(chain), copy.deepcopy(chain), chain.model_copy(deep=True)):
        assert again.memory is memory
        again.invoke("Really?", at())
    assert len(memory.history("t", user_id="ana").entries) == 6
