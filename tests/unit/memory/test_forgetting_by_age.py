"""`memory.forget(before=...)`: what is older than a time goes."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from summaries import ScriptedSummarizer

from langchain_convmem import ConversationMemory, InMemoryLog
from langchain_convmem.errors import ConfigError
from langchain_convmem.ids import get_ulid_ms


def say(memory, text, **of):
    return memory.add_messages([text], **of)[0]


@pytest.fixture
def middle(memory):
    """A time between the older and the newer half of four threads."""
    threads = [{"thread_id": "a", "user_id": "ana"}, {"thread_id": "b", "user_id": "ana"}]
    threads += [{"thread_id": "a", "user_id": "bo"}, {"thread_id": "c"}]
    for of in threads:
        say(memory, "The old code is 4711.", **of)
    time.sleep(0.005)
    newer = [say(memory, "The new code is 815.", **of) for of in threads[1:]]
    return datetime.fromtimestamp(get_ulid_ms(newer[0].id) / 1000, UTC)


def left(memory):
    keys = [info.key for user in ("ana", "bo", None) for info in memory.threads(user)]
    return {(key.user_id, key.thread_id): len(memory.log.entries(key)) for key in keys}


@pytest.mark.parametrize(
    ("scope", "erased", "rest"),
    [
        ({"user_id": "ana"}, 2, {("ana", "b"): 1, ("bo", "a"): 2, (None, "c"): 2}),
        (
            {"user_id": "ana", "thread_id": "b"},
            1,
            {("ana", "a"): 1, ("ana", "b"): 1, ("bo", "a"): 2, (None, "c"): 2},
        ),
        (
            {"thread_id": "c"},
            1,
            {("ana", "a"): 1, ("ana", "b"): 2, ("bo", "a"): 2, (None, "c"): 1},
        ),
        ({"all_users": True}, 4, {("ana", "b"): 1, ("bo", "a"): 1, (None, "c"): 1}),
    ],
)
def test_what_is_older_goes_and_the_receipt_counts_it(memory, middle, scope, erased, rest):
    memory.set_title("a", "Codes", user_id="ana")
    receipt = memory.forget(before=middle, **scope)
    assert (receipt.entries, receipt.threads) == (erased, 4 - len(rest))
    assert left(memory) == rest
    assert memory.get_title("a", user_id="ana") == ("Codes" if ("ana", "a") in rest else "")
    found = memory.recall("What is the code?", user_id="ana", k=3)
    told = " ".join(block.text for block in found.blocks)
    assert ("4711" in told) is (
        sum(count for (user, _), count in rest.items() if user == "ana") > 1
    )
    assert memory.forget(before=middle, **scope).entries == 0


async def test_a_summary_of_what_is_older_goes_with_it():
    with ConversationMemory(InMemoryLog(), summarizer=ScriptedSummarizer()) as memory:
        for text in ("I live in Porto.", "The tram is late."):
            memory.history("t").add("user", text)
            memory.history("t").add("assistant", "Noted.")
        assert memory.summarize("t", force=True)
        later = datetime.now(UTC) + timedelta(minutes=1)
        assert (await memory.aforget(thread_id="t", before=later)).threads == 1
        assert memory.threads() == []


@pytest.mark.parametrize(
    "call",
    [
        {"all_users": True},
        {"before": 5},
        {"before": 5, "user_id": "ana", "all_users": True},
        {"before": 5, "thread_id": "t", "entry_ids": ["m1"]},
        {"before": "yesterday", "thread_id": "t"},
        {"before": datetime(2026, 5, 1), "thread_id": "t"},  # noqa: DTZ001 - without a zone
    ],
)
def test_a_call_that_names_nobody_or_no_time_is_refused(memory, call):
    say(memory, "Hello.", thread_id="t")
    with pytest.raises(ConfigError):
        memory.forget(**call)
    assert len(memory.history("t").messages) == 1
