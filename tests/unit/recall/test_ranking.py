import numpy as np
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


def test_a_long_reply_to_what_answers_clearly_is_worth_half_of_it():
    table, lexical, vectors = SegmentTable(), LexicalIndex(), SegmentVectors()
    said = [say("The zeitgeist committee met."), say(LONG, AIMessage), *map(HumanMessage, NOTES)]
    table.add_many(line for entry in spoken(*said) for line in make_dialog_lines(entry))
    texts = [table.get_text(number) for number in range(len(table))]
    lexical.add(extract_line_terms(table.find_line(n), text) for n, text in enumerate(texts))
    asked, embed = "Which zeitgeist committee met?", WordEmbeddings().embed_query
    vectors.extend([None if text == "paper" else round_vector(embed(text)) for text in texts])
    query = make_query(KEY.owner, asked, RecallSettings(), now_ms=NOW_MS)
    found = rank(query, table, vectors, lexical, np.array(embed(asked), dtype=np.float32))
    assert found.beside == {0, 1, 2, 3}
    assert found.relevance[1:4].tolist() == [found.relevance[0] / 2] * 3
