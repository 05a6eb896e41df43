import numpy as np
import pytest
from histories import KEY, spoken
from langchain_core.messages import AIMessage, HumanMessage
from watched_embedder import WordEmbeddings

from langchain_convmem.recall import RecallSettings
from langchain_convmem.recall.options import make_query
from langchain_convmem.recall.ranking import rank
from langchain_convmem.recall.segments import SegmentTable, SegmentVectors, round_vector
from langchain_convmem.views.lines import make_dialog_lines
from langchain_convmem.words.analysis import extract_line_terms
from langchain_convmem.words.bm25 import LexicalIndex

NOW_MS = 1_700_000_000_000
LONG = " ".join(f"The paper number {n} is about the river." for n in range(24))
NOTES = ["dog", "red boat", "paper", "music", "tree", "river", "stone", "a car by the river"]


def say(text, kind=HumanMessage):
    return kind(text, additional_kwargs={"timestamp": NOW_MS, "session": "s"})


def rank_all(question, *said):
    """Return how lines rank of which all but the paper have a vector."""
    table, lexical, vectors = SegmentTable(), LexicalIndex(), SegmentVectors()
    table.add_many(line for entry in spoken(*said) for line in make_dialog_lines(entry))
    texts = [table.get_text(number) for number in range(len(table))]
    lexical.add(extract_line_terms(table.find_line(n), text) for n, text in enumerate(texts))
    embed = WordEmbeddings().embed_query
    vectors.extend([None if text == "paper" else round_vector(embed(text)) for text in texts])
    query = make_query(KEY.owner, question, RecallSettings(), now_ms=NOW_MS)
    return rank(query, table, vectors, lexical, np.array(embed(question), dtype=np.float32))


def test_a_line_takes_of_the_two_on_each_side_the_less_the_longer_it_is():
    found = rank_all("Where is the car?", *map(say, [*NOTES[:4], LONG, *NOTES[4:]]))
    own, lines = found.meaning + found.words, found.view.table.get_column("line").tolist()
    assert (lines[3:8], found.meaning[2]) == ([3, 4, 4, 4, 5], 0), "LONG is cut, paper is pending"
    taken = np.zeros(len(own))
    for number, line in enumerate(lines):
        share = 1 / (1 + (found.lexical.lengths[np.equal(lines, line)].sum() / 60) ** 3)
        for step, weight in ((-2, 0.25), (-1, 0.5), (1, 0.5), (2, 0.25)):
            if 0 <= number + step < len(own):
                part = 0.25 if lines[number + step] == line else share
                taken[number] += weight * part * own[number + step]
    assert found.around == pytest.approx(taken, abs=1e-4)
    assert found.relevance == pytest.approx(own + taken, abs=1e-4)


def test_a_question_about_much_more_is_not_the_same_one():
    said = ["The red car is here.", "Where is the red car, the dog, the paper and the music?"]
    found = rank_all("Where is the red car?", *map(say, [*said, "Where is my red car?", *NOTES]))
    assert np.flatnonzero(found.evidence == -np.inf).tolist() == [2]


def test_a_long_reply_to_what_answers_clearly_is_worth_half_of_it():
    said = [say("The zeitgeist committee met."), say(LONG, AIMessage), *map(HumanMessage, NOTES)]
    found = rank_all("Which zeitgeist committee met?", *said)
    assert found.beside == {0, 1, 2, 3}
    assert found.relevance[1:4].tolist() == [found.relevance[0] / 2] * 3
