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
    add_askings,
    sample_questions,
)
from benchmarks.personal.memories import (
    Answer,
    PersonalMemory,
    ask_all,
    fill_threads,
    judge,
    list_figures,
    list_ways,
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


def test_an_answer_of_several_facts_counts_by_fact_and_as_a_whole():
    question = Question("?", "several", (CAT, NEW))
    half, whole = Answer((CAT.says,)), Answer((NEW.says, CAT.says))
    found = list_figures([judge(question, half), judge(question, whole)])
    assert (found["several"], found["complete"]) == (0.75, 0.5)
    assert found["word"] is None
    assert found["interval_95"]["word"] is None


def test_tokens_are_kept_apart_by_kind_and_verdicts_are_counted():
    def way(question):
        return Answer(("z" * 4 * len(question),), "unsure" if "Miso" in question else "found")

    found = list_figures(ask_all(way, (*ANA.questions[:2], ANA.questions[-1], *REQUESTS)))
    lengths = [len(question.text) for question in ANA.questions[:2]]
    assert found["tokens"] == sum(lengths) / 2
    assert (found["off_topic"], found["courtesies"], found["near_topic"]) == (13, 7, 16)
    assert found["verdicts"]["near_topic"] == {"unsure": 1}
    assert found["verdicts"]["word"] == {"found": 1}


# -- memories -------------------------------------------------------------------------------------


def test_a_memory_is_filled_with_whole_ordinary_threads():
    filled = fill_threads(ANA, 7, ORDINARY)
    assert sum(one.exchanges for one in filled) == 7
    assert filled[:3] == list(ANA.threads)
    assert {one.name for one in filled[3:]} < {one.name for one in ORDINARY}
    assert filled == fill_threads(ANA, 7, ORDINARY)
    with pytest.raises(ValueError, match="ana holds 4 to 10 user messages"):
        fill_threads(ANA, 11, ORDINARY)


def test_every_way_asks_the_same_memory_by_role_a_day_after_the_last_line():
    memory = PersonalMemory("ana", [*ANA.threads, *ORDINARY], HashEmbeddings())
    ways = list_ways(memory, 1000)
    assert list(ways) == ["default", "plain", "bm25_lines"]
    answers = {name: way("What is my cat called?") for name, way in ways.items()}
    for name, answer in answers.items():
        assert judge(ANA.questions[0], answer).found == 1.0, name
    assert answers["plain"].blocks[0].startswith("[2025-02-")
    assert "yesterday" in "\n".join(ways["plain"]("Where to sleep?").blocks)


def test_earlier_askings_stand_in_threads_of_their_own_after_all_else():
    person = Person("ana", "en", ANA.threads, (ANA.questions[0],) * 13)
    questions = sample_questions(person)
    assert len(questions) == 2
    replies = [f"I know nothing {number}." for number in range(10)]
    threads = add_askings(ANA.threads, questions, 10, replies)
    asked = threads[len(ANA.threads) :]
    assert len({one.name for one in asked}) == len(asked) == 20
    last_ms = ANA.threads[-1].messages[-1].time_ms
    assert all(message.time_ms > last_ms for one in asked for message in one.messages)
    assert {one.messages[0].text for one in asked} == {questions[0].text}
    assert len({one.messages[1].text for one in asked}) == 10
    assert add_askings(ANA.threads, questions, 0, replies) == list(ANA.threads)


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
