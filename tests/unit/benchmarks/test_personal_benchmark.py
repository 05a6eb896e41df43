from __future__ import annotations

import json

import pytest

from benchmarks.personal.data import (
    Message,
    Person,
    Piece,
    Question,
    Thread,
)
from benchmarks.personal.measuring import ask_all, figures, judge
from benchmarks.personal.memories import Answer, PersonalMemory, fill_threads, ways_to_ask
from benchmarks.personal.report import table
from benchmarks.personal.running import Data, run
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
    ("blocks", "present", "first", "leads"),
    [
        ((NEW.says, OLD.says), 1.0, 1.0, 1.0),
        ((OLD.says, NEW.says), 1.0, 0.0, 0.0),
        ((f"{OLD.says} {NEW.says}",), 1.0, 0.0, 1.0),
        (("something else", NEW.says), 1.0, 1.0, None),
        ((OLD.says,), 0.0, 0.0, 0.0),
        ((), 0.0, 0.0, None),
    ],
)
def test_of_an_update_the_new_value_is_looked_for_and_where_it_stands(
    blocks, present, first, leads
):
    update = Question("Where is my desk?", "updates", (NEW,), OLD)
    found = figures([judge(update, Answer(blocks))])
    assert (found["new_present"], found["new_first"], found["new_leads"]) == (present, first, leads)


def test_an_answer_of_several_facts_counts_by_fact_and_as_a_whole():
    question = Question("?", "several", (CAT, NEW))
    half, whole = Answer((CAT.says,)), Answer((NEW.says, CAT.says))
    found = figures([judge(question, half), judge(question, whole)])
    assert (found["several"], found["complete"]) == (0.75, 0.5)
    assert found["word"] is None
    assert found["interval_95"]["word"] is None


def test_tokens_are_kept_apart_by_kind_and_verdicts_are_counted():
    def way(question):
        return Answer(("z" * 4 * len(question),), "unsure" if "Miso" in question else "found")

    found = figures(ask_all(way, (*ANA.questions[:2], ANA.questions[-1], *REQUESTS)))
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
    assert {one.name for one in filled[3:]} <= {one.name for one in ORDINARY}
    assert fill_threads(ANA, 7, ORDINARY) == filled
    assert fill_threads(ANA, 99, ORDINARY) is None


def test_every_way_asks_the_same_memory_by_role_a_day_after_the_last_line():
    memory = PersonalMemory("ana", [*ANA.threads, *ORDINARY], HashEmbeddings())
    ways = ways_to_ask(memory)
    assert list(ways) == ["default", "plain", "k3", "user_lines", "bm25_lines"]
    answers = {name: way("What is my cat called?") for name, way in ways.items()}
    for name, answer in answers.items():
        assert judge(ANA.questions[0], answer).found == 1.0, name
    assert answers["plain"].blocks[0].startswith("[2025-02-")
    assert "Assistant: " not in "\n".join(answers["user_lines"].blocks)
    assert "yesterday" in "\n".join(ways["plain"]("Where to sleep?").blocks)
    assert len(answers["k3"].blocks) == 3


# -- the run --------------------------------------------------------------------------------------


def test_a_report_holds_every_table_and_says_which_sizes_were_skipped():
    data = Data([ANA], [ANA], REQUESTS, ORDINARY * 10)
    report = run(data, [8, 500], {"static": HashEmbeddings()}, ablates=True)
    static = report["embedders"]["static"]
    assert static["sizes"]["8"]["default"]["word"] == 1.0
    assert static["languages"]["en"]["bm25_lines 300"]["word"] == 1.0
    assert "without smoothing" in static["ablation"]
    assert report["skipped"] == {"size 500": "memories can hold 4 to 64 user messages"}
    assert json.loads(json.dumps(report)) == report
    assert "static, 8 user messages" in table(report)
    assert "size 500: skipped" in table(report)
