from datetime import UTC, datetime

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_convmem import ConversationMemory
from langchain_convmem.errors import ConfigError, LogError
from langchain_convmem.ids import get_ulid_ms
from langchain_convmem.logs import InMemoryLog
from langchain_convmem.recall import LineRecall
from langchain_convmem.testing import HashEmbeddings
from tests.fuzz.time_travel import compare


@pytest.fixture
def memory():
    with ConversationMemory(InMemoryLog(), embeddings=HashEmbeddings()) as opened:
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
    for change in (
        lambda: say(past, "I live in Porto."),
        lambda: past.forget(user_id="ana"),
        past.history("t1", user_id="ana").undo,
        lambda: past.profile("ana").retract(past.profile("ana").items[0]),
        lambda: past.log.annotate(entry.key, entry.id, aux={"a": 1}),
    ):
        with pytest.raises(LogError, match="read-only"):
            change()
    assert len(memory.history("t1", user_id="ana").entries) == 2


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


def test_a_memory_with_a_recall_of_its_own_has_no_past():
    log = InMemoryLog()
    memory = ConversationMemory(log, recall=LineRecall(log, HashEmbeddings()))
    with pytest.raises(ConfigError, match="recall of its own"):
        memory.as_of(0)
