import math
import re
import tomllib
from datetime import UTC, datetime
from itertools import cycle, islice
from pathlib import Path

import numpy as np
import pytest
from histories import KEY

from langchain_convmem.recall import RecallSettings, ranking
from langchain_convmem.recall.calibration import is_answered, select_worth
from langchain_convmem.recall.options import make_query
from langchain_convmem.recall.segments import SegmentTable, SegmentVectors, round_vector
from langchain_convmem.records import DialogLine
from langchain_convmem.words.analysis import extract_line_terms
from langchain_convmem.words.bm25 import LexicalIndex

NOW_MS, DAY_MS = 1_700_000_000_000, 86_400_000
SAID = re.compile(r"(\w+)(?:@(\S+))? (\S+) (\S+) (.*)")
LONG = " ".join(f"The paper number {n} is about the river." for n in range(16))


def rank_lines(said, asked, *, fill=0, session=None, before=None, filter=None, **settings):  # noqa: A002
    """Rank lines by hand-made vectors.

    Each line is who said it (and when, if not a day after the one before), its cosine to the
    question, its cosine to something else, `-` where it has no vector, and its text. `fill` more
    were said before them, by the same people, which come near to nothing.
    """
    told = said.replace("LONG", LONG).strip().splitlines()
    lines = [SAID.fullmatch(one).groups() for one in told]
    people = cycle(dict.fromkeys(who for who, *_ in lines))
    for n, who in enumerate(islice(people, fill)):
        near, other = 0.1 - n % 4 // 2 * 0.2, 0.1 - n % 8 // 4 * 0.2
        lines.append((who, f"2018-01-01T00:00:{n % 60:02}Z", near, other, f"Shelf {n} holds jars."))
    table, lexical, vectors = SegmentTable(), LexicalIndex(), SegmentVectors()
    made = []
    for n, (who, when, *_, text) in enumerate(lines):
        time_ms = NOW_MS - (100 - n) * DAY_MS
        if when:
            time_ms = int(datetime.fromisoformat(when).replace(tzinfo=UTC).timestamp() * 1000)
        role = "assistant" if who == "Assistant" else "user"
        name = str(n) if session is None else session
        made.append(DialogLine(f"m{n}", KEY, n + 1, 0, who, text, time_ms, name, role, f"e{n}"))
    table.add_many(made)
    numbers = range(len(table))
    lexical.add(extract_line_terms(table.find_line(n), table.get_text(n)) for n in numbers)
    embedded = []
    for n in numbers:
        *_, near, other, _ = lines[table.find_line_number(n)]
        if near != "-":
            vector = np.zeros(len(table) + 2)
            vector[:2] = float(near), float(other)
            vector[n + 2] = math.sqrt(1 - vector @ vector)
        embedded.append(None if near == "-" else round_vector(vector))
    vectors.extend(embedded)
    question = np.eye(1, len(table) + 2, dtype=np.float32)[0]
    options = {"before": before, "filter": filter, "now_ms": NOW_MS}
    query = make_query(KEY.owner, asked, RecallSettings(**settings), **options)
    return ranking.rank(query, table, vectors, lexical, question)


def rest_of(found):
    """Return what evidence holds beside what meaning, words, kinds and neighbours say."""
    return found.evidence - found.meaning - found.words - found.kinds - found.around


def numbers(mask):
    return mask.nonzero()[0].tolist()


def answers(found):
    shown = numbers(select_worth(found)[0])
    return is_answered(found, found.view.held.find_shared(shown, len(found.view.table)))


def keep(found):
    """Return which lines are kept, and which of these are loose; those that fill are left out."""
    kept, loose = select_worth(found)
    kept &= found.view.table.get_column("time") > 1_546_000_000_000  # 2018
    return kept, kept & loose


TOLD = {
    "older": lambda found: sorted(found.older),
    "beside": lambda found: sorted(found.beside),
    "silent": lambda found: numbers(found.evidence == -np.inf),
    "raised": lambda found: numbers(rest_of(found) > 1e-4),
    "lowered": lambda found: numbers(rest_of(found) < -1e-4),
    "preferred": lambda found: numbers(found.said_by > 0),
    "kept": lambda found: numbers(keep(found)[0]),
    "loose": lambda found: numbers(keep(found)[1]),
    "answers": answers,
}
CASES = tomllib.loads(Path(__file__).with_name("rankings.toml").read_text("utf-8"))["case"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["promise"])
def test_lines_rank_as_a_person_would_expect(case):
    expected = {name: case[name] for name in TOLD.keys() & case.keys()}
    leads = case.get("leads", [])
    options = {name: value for name, value in case.items() if name not in (*TOLD, "leads")}
    options.pop("promise")
    found = rank_lines(**options)
    assert found.sort(found.view.allowed, len(leads)).tolist() == leads
    assert {name: TOLD[name](found) for name in expected} == expected


def test_nothing_ranks_of_nothing():
    found = rank_lines("", "Where do I live?")
    assert (len(found), found.older, found.beside) == (0, frozenset(), frozenset())


@pytest.mark.parametrize(
    ("scores", "counted", "least", "expected"),
    [
        ([1, 2, 3, 6], "1111", 0, np.array([-2, -1, 0, 3]) / math.sqrt(3.5)),
        ([1, 9, 3], "101", 0, [-1, 0, 1]),
        ([1, 9, 3], "101", 4, [-0.25, 0, 0.25]),
        ([0, 1e-4], "11", 0, [-1, 1]),
        ([1, 1 + 1e-7], "11", 0, [0, 0]),
        ([4, 9], "10", 0, [0, 0]),
        ([4, 9], "00", 0, [0, 0]),
        ([], "", 0, []),
    ],
)
def test_scores_are_deviations_from_the_mean_of_those_that_count(scores, counted, least, expected):
    mask = np.array([sign == "1" for sign in counted], dtype=bool)
    found = ranking.standardize(np.array(scores, dtype=float), mask, least_deviation=least)
    assert found.tolist() == pytest.approx(np.array(expected).tolist(), abs=1e-6)


def test_coverage_is_the_share_of_words_by_their_rarity():
    index = LexicalIndex()
    index.add([["cat", "dog"], ["dog"], ["chien", "tree"], ["stone"]])
    rarity, unknown = index.compute_rarities(["cat", "dog", "chien"]), index.rarest
    # A word that was never said is as rare as can be, and one by two terms counts once.
    terms = {"cat": "cat", "dog": "dog", "chien": "dog", "whale": "whale"}
    whole = rarity["cat"] + max(rarity["dog"], rarity["chien"]) + unknown
    found = ranking.compute_coverage(terms, index.find([*terms, "tree"]), index) * whole
    expected = [rarity["cat"] + rarity["dog"], rarity["dog"], rarity["chien"], 0]
    assert found.tolist() == pytest.approx(expected)
    assert ranking.compute_coverage({}, index.find(["tree"]), index).tolist() == [0] * 4


@pytest.mark.parametrize(
    ("relevance", "among", "most", "expected"),
    [
        ([1, 3, 2, 3], "1111", None, [1, 3, 2, 0]),
        ([1, 3, 2, 3], "1011", None, [3, 2, 0]),
        ([1, 3, 2, 3], "1111", 3, [1, 3, 2]),
        ([1, 3, 2, 3], "1111", 1, [1]),
        ([1, 3, 2, 3], "1111", 9, [1, 3, 2, 0]),
        # What differs by next to nothing ties, also where not all are wanted.
        ([1, 1.000002, 1.000001], "111", 1, [0]),
        ([0.00001], "1", None, [0]),
    ],
)
def test_the_best_come_first_and_equal_ones_in_the_order_of_saying(
    relevance, among, most, expected
):
    found = rank_lines("\n".join(["Ana 0 0 Tea."] * len(relevance)), "tea")
    found.relevance = np.array(relevance, dtype=np.float32)
    assert found.sort(np.array([sign == "1" for sign in among]), most).tolist() == expected


DRINKS = """
User .3 .1 My tea is green.
Assistant .3 .1 Your tea is green.
User .1 .1 Thanks!
User -.3 .1 The soup was cold.
Assistant -.3 .1 The bus is late.
"""


def test_lines_that_are_not_asked_for_do_not_rank():
    found = rank_lines(DRINKS, "tea", filter={"role": "assistant"})
    assert numbers(found.evidence > -np.inf) == found.sort(found.view.allowed).tolist() == [1, 4]
    assert len(found) == 2


def test_cosines_alone_rank_where_that_is_set():
    found = rank_lines(DRINKS, "tea", filter={"role": "user"}, cosine_only=True)
    near = ranking.standardize(found.view.similarity, found.view.allowed)
    assert found.relevance.tolist() == near.tolist()
    assert numbers(found.evidence > -np.inf) == [0, 2, 3]
    assert not any(found.words)


@pytest.mark.parametrize(
    ("fill", "vague"),
    # Of a few lines, or where one answers clearly, what speaks for a line itself counts in full.
    [(0, False), (3, False), (4, True), (40, True)],
)
def test_where_nothing_answers_clearly_words_count_less_and_who_is_meant_always(fill, vague):
    found = rank_lines(DRINKS, "Which tea is mine?", fill=fill)
    by_user = found.view.table.select_role("user")
    by_user[2] = False
    gained = found.relevance - found.evidence
    gained[[*found.beside]] = 0
    bonus = found.said_by.max()
    assert bonus > 0
    if not vague:
        by_user[[*found.beside]] = False
        assert gained == pytest.approx(bonus * (by_user & (found.evidence > 0)), abs=1e-5)
    else:
        taken = (bonus * by_user - gained) / found.words
        assert taken == pytest.approx(np.full(len(taken), taken[0]), rel=1e-3)
        assert 0 < taken[0] < 1


def test_what_has_no_vector_means_nothing():
    assert rank_lines("Ana - - Tea.\nAna .5 .1 Tea.", "Which tea?", fill=9).meaning[0] == 0


def test_a_word_that_one_line_holds_is_worth_the_same_however_many_hold_none():
    worth = [rank_lines("Ana 0 0 Zeitgeist.", "zeitgeist", fill=n).words[0] for n in (20, 80)]
    assert worth[0] == pytest.approx(worth[1], rel=0.1)


@pytest.mark.parametrize(
    ("words", "least", "most"), [(3, 0.95, 1), (60, 0.1, 0.9), (200, -0.02, 0.02)]
)
def test_a_line_takes_of_those_around_it_the_less_the_more_it_says(words, least, most):
    said = f"Ana .8 .1 Tea.\nBo 0 .1 {'hm ' * words}\nAna .5 .1 Tea.\nBo 0 .1 Soup."
    found = rank_lines(said, "Which tea?", session="one", fill=9)
    own = found.meaning + found.words
    lines = found.view.table.get_column("line")
    at = int((lines == 1).argmax())
    taken = found.around[at] / (own[0] / 2 + own[lines == 2][0] / 2 + own[lines == 3][0] / 4)
    assert least <= taken <= most


def test_short_lines_take_half_of_the_next_ones_and_a_quarter_of_those_beyond_in_a_session():
    said = "\n".join(f"Ana .{n} .1 Tea." for n in (9, 1, 5, 3, 7, 2))
    assert not rank_lines(said, "Which tea?").around.any()
    found = rank_lines(said, "Which tea?", session="one")
    own = np.pad(found.meaning + found.words, 2)
    expected = (own[1:-3] + own[3:-1]) / 2 + (own[:-4] + own[4:]) / 4
    assert found.around == pytest.approx(expected, rel=0.01)


def test_a_part_of_a_long_line_takes_something_of_the_other_parts():
    found = rank_lines("Ana .8 .1 LONG", "Which river?", fill=9)
    own = found.meaning + found.words
    assert (found.around[:2] > 0.1 * own[:2]).all()


def test_the_clearer_something_answers_the_less_of_the_rest_comes_along():
    rest = "".join(f"\nUser .12 -.1 I keep animals of kind {n}." for n in range(14))
    counts = [
        keep(rank_lines(said, "Which orchard do I tend?", fill=40))[0].sum()
        for near in (0.2, 0.4, 0.6, 0.9)
        for said in [f"Assistant 0 0 Hm.\nUser {near} .1 The orchard is far.{rest}"]
    ]
    assert 15 == counts[0] > counts[1] > counts[2] > counts[3] == 1
