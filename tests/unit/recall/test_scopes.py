from datetime import UTC, datetime, timedelta, timezone

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_convmem.errors import ConfigError
from langchain_convmem.recall import LineRecall, RecallSettings
from langchain_convmem.records import Owner, ThreadKey
from langchain_convmem.views.codec import make_draft

ANA, BO = Owner(user_id="ana"), Owner(user_id="bo")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
WIDE = RecallSettings(window=9, budget_window=9, buffer_size=10)


def said(text, minute, *, name="Ana", kind=HumanMessage, **extra):
    stamp = (NOON + timedelta(minutes=minute)).isoformat()
    return make_draft(
        kind(content=text, name=name, additional_kwargs={"timestamp": stamp, **extra})
    )


@pytest.fixture
def recall(log, embedder):
    log.append(
        ThreadKey("ana", "t1"),
        [
            said("the car is red", 0, session="one", topic="cars", weight=3, urgent=True),
            said("a red car it is", 1, name="Bot", kind=AIMessage, session="one", topic="cars"),
            said("the boat is red", 2, session="one", topic="boats", weight=1),
            said("the car is sold", 60, session="two", topic=None, price=2.5),
        ],
    )
    log.append(ThreadKey("ana", "t2"), [said("a car for two", 90), said("my car, my dog", 91)])
    log.append(ThreadKey("bo", "t1"), [said("bo drives a car", 5, name="Bo", topic="cars")])
    return LineRecall(log, embedder, WIDE)


def shown(found):
    """Every text that a caller sees anywhere in an answer."""
    blocks = (*found.blocks, *found.buffer)
    return {line.text for block in blocks for line in block.lines} | {
        match.line.text for match in found.matches
    }


CARS = {"the car is red", "a red car it is", "the car is sold", "a car for two", "my car, my dog"}


@pytest.mark.parametrize(
    ("wanted", "texts"),
    [
        ({}, CARS | {"the boat is red"}),
        ({"speaker": "Bot"}, {"a red car it is"}),
        ({"role": "assistant"}, {"a red car it is"}),
        ({"session": "two"}, {"the car is sold"}),
        ({"session": None}, {"a car for two", "my car, my dog"}),
        ({"thread_id": ["t2", "t3"]}, {"a car for two", "my car, my dog"}),
        ({"user_id": "bo"}, set()),
        ({"topic": "cars"}, {"the car is red", "a red car it is"}),
        ({"topic": ["boats", None]}, {"the boat is red", "the car is sold"}),
        ({"weight": 1}, {"the boat is red"}),
        ({"weight": True}, set()),
        ({"urgent": True}, {"the car is red"}),
        ({"price": {2.5, 3.5}}, {"the car is sold"}),
        ({"topic": "cars", "role": "human"}, {"the car is red"}),
        ({"topic": "boats", "role": "assistant"}, set()),
        ({"colour": "red"}, set()),
        ({"trust": "model"}, {"a red car it is"}),
        ({"trust": ["import", "outside"]}, set()),
        ({"topic": []}, set()),
    ],
)
def test_a_filter_lets_lines_with_one_of_the_values_come_back_and_no_others(recall, wanted, texts):
    found = recall.recall(ANA, "Which car is red?", filter=wanted, buffer=ThreadKey("ana", "now"))
    assert (shown(found), found.verdict == "nothing") == (texts, not texts)
    named = f"({', '.join(wanted)})"
    assert [named in problem for problem in found.problems] == ([] if texts else [True])


def at(minute):
    return NOON + timedelta(minutes=minute)


@pytest.mark.parametrize(
    ("span", "texts"),
    [
        ({"since": at(60)}, {"the car is sold", "a car for two", "my car, my dog"}),
        ({"until": at(1)}, {"the car is red"}),
        ({"since": at(1), "until": at(60)}, {"a red car it is", "the boat is red"}),
        ({"since": at(60), "until": at(60)}, set()),
        ({"since": round(at(91).timestamp() * 1000)}, {"my car, my dog"}),
        ({"since": at(91).astimezone(timezone(timedelta(hours=9)))}, {"my car, my dog"}),
        ({"since": at(91) + timedelta(microseconds=1)}, set()),
    ],
)
def test_a_time_range_holds_its_beginning_and_not_its_end(recall, span, texts):
    assert shown(recall.recall(ANA, "Which car is red?", **span)) == texts


CY = ThreadKey("cy", "t")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"filter": {"topic": object()}}, "topic"),
        ({"filter": {"topic": ["cars", {"a": 1}]}}, "topic"),
        ({"filter": {"topic": {"$in": ["cars"]}}}, "topic"),
        ({"filter": {3: "cars"}}, "filter"),
        ({"filter": "cars"}, "filter"),
        ({"since": datetime(2026, 3, 1)}, "zone"),  # noqa: DTZ001 - the point of the test
        ({"until": "2026-03-01"}, "until"),
        ({"since": 1.5}, "since"),
        ({"since": True}, "since"),
        ({"since": at(2), "until": at(1)}, "after"),
        ({"within": CY}, "within"),
        ({"buffer": CY}, "buffer"),
    ],
)
def test_what_is_no_scope_of_these_users_is_refused_by_name(recall, options, named):
    with pytest.raises(ConfigError, match=named):
        recall.recall([ANA, BO], "car", **options)


def test_a_set_of_users_is_searched_together_and_documents_could_tell_them_apart(recall):
    found = recall.recall([ANA, BO], "Who drives a car?")
    assert shown(found) == CARS | {"the boat is red", "bo drives a car"}
    assert all(len({line.key for line in block.lines}) == 1 for block in found.blocks)
    assert recall.recall({BO}, "car") == recall.recall(BO, "car")
    assert recall.recall([BO, ANA, BO], "car") == recall.recall([ANA, BO], "car")


def test_the_buffer_shows_only_what_is_in_scope_and_keeps_the_rest_for_later(recall):
    now = ThreadKey("ana", "now")
    whole = recall.recall(ANA, "boat", k=1, buffer=now)
    assert {"the boat is red", "the car is red"} <= shown(whole)
    narrow = recall.recall(ANA, "Which?", k=1, buffer=now, filter={"topic": "boats"})
    assert shown(narrow) == {"the boat is red"}
    assert {"the boat is red", "the car is red"} <= shown(recall.recall(ANA, "x", k=1, buffer=now))


def test_another_users_lines_do_not_outlive_the_set_in_a_buffer(recall):
    now = ThreadKey("ana", "now")
    assert "bo drives a car" in shown(recall.recall([ANA, BO], "bo drives", buffer=now))
    assert "bo drives a car" not in shown(recall.recall(ANA, "bo drives", buffer=now))
