from __future__ import annotations

import json

import pytest

from benchmarks.personal.__main__ import make_table, measure
from benchmarks.personal.data import (
    Data,
    Message,
    Person,
    Piece,
    Question,
    Thread,
)
from benchmarks.personal.memories import (
    Answer,
    judge,
    list_figures,
)
from langchain_convmem.testing import HashEmbeddings

DAY_MS = 24 * 3_600_000
CAT = Piece("ana-1", "user", "I adopted a cat, Miso")
OLD = Piece("ana-2", "user", "My desk is on floor three")
NEW = Piece("ana-3", "user", "my desk moved to floor nine")
HOTEL = Piece("ana-4", "assistant", "try the Hotel Aurora")


def thread(name, day, *texts):
    roles = ("user", "assistant")
    start = 1_740_000_000_000 + day * DAY_MS
    messages = [Message(roles[n % 2], text, start + n * 1000) for n, text in enumerate(texts)]
    return Thread(name, tuple(messages))


ANA = Person(
    "ana",
    "en",
    (
        thread("t1", 0, f"{CAT.says} last week.", "Lovely!"),
        thread("t2", 1, f"{OLD.says}.", "Noted."),
        thread("t3", 9, f"By the way {NEW.says}.", "Fine.", "Where to sleep?", f"{HOTEL.says}."),
    ),
    (
        Question("What is my cat called?", "word", (CAT,)),
        Question("Which pets do I have?", "other", (CAT,)),
        Question("Which hotel did you recommend?", "replies", (HOTEL,)),
        Question("Where is my desk?", "updates", (NEW,), OLD),
        Question("My cat and my desk?", "several", (CAT, NEW)),
        Question("How old is Miso?", "near_topic"),
    ),
)
ORDINARY = [thread(f"o{n}", n, f"What is {n} times seven?", f"{n * 7}.") for n in range(6)]
REQUESTS = (Question("Write a haiku", "off_topic"), Question("Thanks!", "courtesies"))


# -- measuring ------------------------------------------------------------------------------------


def test_a_fact_is_found_where_its_words_stand_however_they_are_spaced():
    question = Question("?", "word", (CAT,))
    assert judge(question, Answer(("[2025]\nUser: I adopted\n a  cat, Miso!",))).found == 1.0
    assert judge(question, Answer(("User: I adopted a cat",))).found == 0.0
    # Two blocks do not make one fact.
    assert judge(question, Answer(("User: I adopted a", "cat, Miso"))).found == 0.0
    assert judge(question, Answer(("x" * 10, "y" * 10))).tokens == 5


@pytest.mark.parametrize(
    ("blocks", "present", "first"),
    [
        ((NEW.says, OLD.says), 1.0, 1.0),
        ((OLD.says, NEW.says), 1.0, 0.0),
        ((f"{OLD.says} {NEW.says}",), 1.0, 0.0),
        (("something else", NEW.says), 1.0, 1.0),
        ((OLD.says,), 0.0, 0.0),
        ((), 0.0, 0.0),
    ],
)
def test_of_an_update_the_new_value_is_looked_for_and_where_it_stands(blocks, present, first):
    update = Question("Where is my desk?", "updates", (NEW,), OLD)
    found = list_figures([judge(update, Answer(blocks))])
    assert (found["new_present"], found["new_first"]) == (present, first)


# -- memories -------------------------------------------------------------------------------------


# -- the run --------------------------------------------------------------------------------------


def test_a_report_holds_every_table():
    data = Data([ANA], [ANA], REQUESTS, ORDINARY * 10, ["I do not know."])
    found = measure(data, 8, HashEmbeddings())
    assert found["ways"]["default"]["word"] == 1.0
    assert list(found["asked_before"]) == ["of", "0", "3", "10", "30"]
    assert found["asked_before"]["of"] == {"questions": 1}
    assert found["languages"]["en"]["bm25_lines 300, word"] == 1.0
    report = {"embedders": {"hash": found}, "skipped": {}}
    assert json.loads(json.dumps(report)) == report
    assert "hash, 8 user messages" in make_table(report)
