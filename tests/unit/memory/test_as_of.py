from datetime import UTC, datetime

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_convmem import ConversationMemory
from langchain_convmem.errors import ConfigError, LogError
from langchain_convmem.ids import get_ulid_ms
from langchain_convmem.logs import InMemoryLog
from langchain_convmem.recall import LineRecall
from tests.fuzz.time_travel import TinyEmbeddings, compare


@pytest.fixture
def memory():
    with ConversationMemory(InMemoryLog(), embeddings=TinyEmbeddings()) as opened:
        yield opened


def say(memory, text, thread_id="t1"):
    said = [HumanMessage(text), AIMessage("Noted.")]
    return memory.add_messages(said, thread_id=thread_id, user_id="ana")[-1]


@pytest.mark.parametrize("seed", range(1, 13))
def test_a_random_log_as_of_a_step_is_a_memory_that_was_given_no_more(seed):
    assert compare(seed) is None


def test_a_point_in_time_is_an_entry_a_datetime_milliseconds_or_iso_text(memory):
    first = say(memory, "I live in Lisbon.")
    at_ms = get_ulid_ms(first.id)
    say(memory, "I live in Porto.")
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    for when in (first.id, moment, at_ms, moment.isoformat(timespec="milliseconds")):
        # Both may have been written within one millisecond.
        assert first.id in [
            one.id for one in memory.as_of(when).history("t1", user_id="ana").entries
        ]
    assert len(memory.as_of(first.id).history("t1", user_id="ana").entries) == 2
    assert memory.as_of("2001-01-01").threads("ana") == []


@pytest.mark.parametrize("when", [None, True, -1, "yesterday", datetime(2026, 5, 1), 1.5])  # noqa: DTZ001
def test_what_is_no_point_in_time_is_refused_by_name(memory, when):
    with pytest.raises(ConfigError, match="as_of"):
        memory.as_of(when)


def test_the_past_is_read_only(memory):
    entry = say(memory, "I live in Lisbon.")
    past = memory.as_of(entry.id)
    with pytest.raises(LogError, match="read-only"):
        say(past, "I live in Porto.")
    with pytest.raises(LogError):
        past.forget(user_id="ana")
    with pytest.raises(LogError):
        past.history("t1", user_id="ana").undo()
    with pytest.raises(LogError):
        past.profile("ana").retract(past.profile("ana").items[0])
    with pytest.raises(LogError):
        past.log.annotate(entry.key, entry.id, aux={"a": 1})
    assert len(memory.history("t1", user_id="ana").entries) == 2


def test_a_turn_in_the_past_fails_before_its_model_is_called(memory):
    past, called = memory.as_of(say(memory, "Hello.").id), []
    chain = past.wrap(lambda messages: called.append(messages) or AIMessage("Hi"))
    with pytest.raises(LogError):
        chain.invoke("Hi", {"configurable": {"thread_id": "t1", "user_id": "ana"}})
    assert called == []


def test_what_is_erased_is_erased_from_the_past(memory):
    first = say(memory, "I live in Lisbon.")
    past = memory.as_of(say(memory, "I'm vegan.").id)
    assert len(past.profile("ana").items) == 2
    named = memory.history("t1", user_id="ana").entries[0]
    memory.forget(user_id="ana", thread_id="t1", entry_ids=[named.id])
    assert [item.text for item in past.profile("ana").items] == ["I'm vegan."]
    found = past.recall("Lisbon", user_id="ana", k=4)
    assert "Lisbon" not in "".join(block.text for block in found.blocks)
    assert first.id in [one.id for one in past.history("t1", user_id="ana").entries]


def test_recall_of_the_past_embeds_no_line_that_was_embedded_before(tmp_path):
    embedded = []

    class Counting(TinyEmbeddings):
        def embed_documents(self, texts):
            embedded.extend(texts)
            return super().embed_documents(texts)

    with ConversationMemory.open(tmp_path / "a.db", embeddings=Counting()) as memory:
        entry = say(memory, "I live in Lisbon.")
        memory.recall("Where do I live?", user_id="ana", k=2)
        assert any("Lisbon" in text for text in embedded)
        embedded.clear()
        found = memory.as_of(entry.id).recall("Where do I live?", user_id="ana", k=2)
        assert "Lisbon" in "".join(block.text for block in found.blocks)
    assert embedded == []


def test_a_plan_is_not_over_before_its_day_was(memory):
    at = 1_736_000_000_000
    message = HumanMessage("My exam is on 14 January.", additional_kwargs={"timestamp": at})
    [entry] = memory.add_messages([message], thread_id="t1", user_id="ana")
    assert memory.profile("ana").items[0].state == "expired"
    then = ConversationMemory(memory.log).as_of(at - 1)
    assert memory.as_of(entry.id).profile("ana").items[0].state == "expired"
    assert then.profile("ana").items == ()


def test_a_memory_with_a_recall_of_its_own_has_no_past():
    log = InMemoryLog()
    with (
        ConversationMemory(log, recall=LineRecall(log, TinyEmbeddings())) as memory,
        pytest.raises(ConfigError, match="recall of its own"),
    ):
        memory.as_of(0)
