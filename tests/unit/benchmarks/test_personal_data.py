"""What the data of `benchmarks.personal` promise, so that its figures mean what they say."""

from __future__ import annotations

import json

import pytest

from benchmarks.personal.data import FOLDER, load_languages, load_ordinary, load_people
from benchmarks.recall.measuring import fold_spaces
from langchain_convmem.words.analysis import analyze, extract_query_terms

FILES = sorted(
    file
    for file in (*FOLDER.glob("*.json"), *(FOLDER / "languages").glob("*.json"))
    if file.stem not in {"ordinary", "requests"}
)
WITHOUT_STEMS = {"zh", "ja"}


def read(file):
    return json.loads(file.read_text(encoding="utf-8"))


def pieces(value):
    """Return each piece with the role of the message it stands in."""
    user = [*value["facts"]]
    user += [one[side] for one in value.get("updates", ()) for side in ("old", "new")]
    user += [one for several in value.get("several", ()) for one in several["needs"]]
    return [(one, "user") for one in user] + [
        (one, "assistant") for one in value.get("replies", ())
    ]


def content_terms(text):
    return {term for term in extract_query_terms(text) if not term.isdigit()}


@pytest.fixture(params=FILES, ids=lambda file: file.stem)
def value(request):
    return read(request.param)


def test_five_people_and_seven_languages_are_there():
    assert [person.name for person in load_people()] == [
        "annika",
        "desmond",
        "luis",
        "mara",
        "priya",
    ]
    languages = [person.language for person in load_languages()]
    assert languages == ["ar", "de", "es", "fr", "it", "ja", "zh"]


def test_there_are_as_many_questions_as_the_tables_say():
    people = [read(FOLDER / f"{person.name}.json") for person in load_people()]
    counts = {
        name: sum(len(value[name]) for value in people)
        for name in ("facts", "replies", "updates", "several", "near_topic")
    }
    assert counts == {"facts": 160, "replies": 30, "updates": 30, "several": 20, "near_topic": 50}
    assert sum(thread.exchanges for thread in load_ordinary()) == 100


def test_a_piece_stands_once_in_its_message_and_in_no_other_of_that_role(value):
    for piece, role in pieces(value):
        says = fold_spaces(piece["says"])
        places = {
            one["id"]: fold_spaces(one[role]).count(says)
            for one in value["exchanges"]
            if says in fold_spaces(one[role])
        }
        assert places == {piece["exchange"]: 1}, says


def test_no_piece_stands_in_an_ordinary_message(value):
    others = [fold_spaces(one.text) for thread in load_ordinary() for one in thread.messages]
    said = [fold_spaces(piece["says"]) for piece, _ in pieces(value)]
    assert [says for says in said if any(says in other for other in others)] == []


def test_one_question_shares_a_content_term_with_its_fact_and_the_other_none(value):
    if value["language"] in WITHOUT_STEMS:
        pytest.skip("pairs of characters are shared by chance")
    messages = {one["id"]: one["user"] for one in value["exchanges"]}
    for fact in value["facts"]:
        assert content_terms(fact["word"]) & set(analyze(fact["says"])), fact["word"]
        shared = content_terms(fact["other"]) & set(analyze(messages[fact["exchange"]]))
        assert shared == set(), fact["other"]


def test_new_values_are_later_than_old_ones_and_facts_are_never_replaced(value):
    times = {one["id"]: one["time"] for one in value["exchanges"]}
    facts = {fold_spaces(fact["says"]) for fact in value["facts"]}
    for update in value.get("updates", ()):
        assert times[update["old"]["exchange"]] < times[update["new"]["exchange"]]
        assert fold_spaces(update["old"]["says"]) not in facts


def test_exchanges_come_in_order_of_time_each_under_an_id_of_its_own(value):
    times = [one["time"] for one in value["exchanges"]]
    assert times == sorted(times)
    ids = [one["id"] for one in value["exchanges"]]
    assert len(set(ids)) == len(ids)
    assert all(2 <= len(several["needs"]) <= 6 for several in value.get("several", ()))
