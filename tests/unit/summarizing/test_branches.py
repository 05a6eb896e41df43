from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from summary_trees import add_chat, add_leaf, add_parent

from langchain_convmem.logs import InMemoryLog
from langchain_convmem.records import ThreadKey
from langchain_convmem.summarizing.branches import Branches, find_folding, fold_text, open_summaries
from langchain_convmem.views.live import find_live_entries
from langchain_convmem.views.tokens import count_text_tokens

KEY = ThreadKey("ana", "branches")
TEXTS = [
    "Aunt Ottilie breeds alpacas in Tyrol. The boat lies at pier 14.",
    "The plumber charged 318 euros.\n- User: the code of the cellar is 4471",
    "The user decided against the yellow sofa. Her piano is tuned every March.",
]


class Tree:
    """A thread whose leaves are all folded, and how often its entries were read."""

    def __init__(self, texts=TEXTS, layers=1, cites=None):
        self.log = InMemoryLog()
        self.leaves = []
        for number, text in enumerate(texts):
            said = add_chat(self.log, KEY, [f"Line {number}"])
            noted = cites and [[said[one].position for one in some] for some in cites[number]]
            self.leaves.append(add_leaf(self.log, KEY, text, said, cites=noted))
        tops = self.leaves
        for _ in range(layers):
            tops = [add_parent(self.log, KEY, "In short: much.", tops)]
        self.branches = Branches()

    def open(self, question, max_tokens=1000, **options):
        read = partial(self.log.entries, KEY)
        folding = find_folding(find_live_entries(self.log.entries(KEY)))
        return open_summaries(
            self.branches, folding, question, read, max_tokens=max_tokens, **options
        )

    def sentences(self, question, **options):
        return [sentence for one in self.open(question, **options) for sentence in one.sentences]


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_the_sentences_that_answer_are_opened_however_deep_they_lie(layers):
    tree = Tree(layers=layers)
    [opened] = tree.open("Which animals does my aunt Ottilie breed?")
    assert opened.sentences == ("Aunt Ottilie breeds alpacas in Tyrol.",)
    assert (opened.summary_id, opened.position) == (tree.leaves[0].id, tree.leaves[0].position)
    assert opened.text == (
        "[2026-05-01 to 2026-05-03, from a summary]\n- Aunt Ottilie breeds alpacas in Tyrol."
    )


@pytest.mark.parametrize("question", ["", "Hello!", "the of and", "What is the capital of Peru?"])
def test_a_question_about_something_else_opens_nothing(question):
    assert Tree().open(question) == ()


def test_what_is_shown_anyway_is_not_repeated():
    shown = fold_text("So: the CODE of the cellar  is 4471!")
    question = "What is the code of the cellar?"
    assert Tree().sentences(question) == ["- User: the code of the cellar is 4471"]
    assert Tree().sentences(question, shown=fold_text("User: the code of the cellar is 4471")) == []
    assert Tree().sentences(question, shown=shown) != []


def test_a_sentence_that_comes_from_recalled_lines_alone_says_nothing_new():
    cites = [[[0], [0]], [[0], [1]], [[0], [0, 1]]]
    tree = Tree(cites=cites)
    said = tree.log.entries(KEY)[0].position
    assert tree.sentences("Where does the boat lie?") == ["The boat lies at pier 14."]
    assert tree.sentences("Where does the boat lie?", hits={said}) != [], "shown in part"
    assert tree.sentences("Where does the boat lie?", hits={said}, whole={said}) == []


def test_what_recall_found_opens_what_else_was_said_there():
    tree = Tree(cites=[[[0], [0]], [[0], [1]], [[0], [0, 1]]])
    [user] = [one.position for one in tree.log.entries(KEY) if one.contents == ("Line 2",)]
    question = "When is the piano of my grandmother due for maintenance?"
    assert tree.sentences(question) == []
    assert tree.sentences(question, hits={user}) == ["Her piano is tuned every March."]


def test_a_summary_that_is_gone_is_left_out():
    tree = Tree()
    tree.log.forget(KEY, [tree.leaves[0].id])
    assert tree.sentences("Where does the boat lie?") == []
    assert tree.sentences("What did the plumber charge?") == ["The plumber charged 318 euros."]


_MEANINGS = {"Who": (0, 1), "Oslo": (0, 1), "tea": (1, 0), "drink": (1, 0)}


def _embed(texts):
    """Return a vector for each text: a sum of what is known of its words."""
    found = [[_MEANINGS.get(word.strip(".?"), (0, 0)) for word in text.split()] for text in texts]
    return [[float(sum(one[axis] for one in some)) for axis in (0, 1)] for some in found]


ROOM_FOR_ONE = 42
"""A sentence with its heading fits, a second one does not."""
MEANT = ["The flat is in Oslo. Verbena tea is best. It costs 40 euros. The 8 of May suits her."]


def test_without_an_answer_sentences_come_by_what_they_mean():
    tree = Tree(MEANT)
    assert tree.sentences("What do we drink?") == []
    [first, *_] = Tree(MEANT).open("What do we drink?", embed=_embed, max_tokens=ROOM_FOR_ONE)
    assert first.sentences == ("Verbena tea is best.",)


def test_a_sentence_that_holds_what_is_asked_for_comes_first():
    found = Tree(MEANT).sentences(
        "How much must they hand over?", embed=_embed, max_tokens=ROOM_FOR_ONE
    )
    assert found == ["It costs 40 euros."]
    found = Tree(MEANT).sentences("When may we visit?", embed=_embed, max_tokens=ROOM_FOR_ONE)
    assert found == ["The 8 of May suits her."]


def test_meaning_is_asked_where_words_answer_nothing():
    asked = []

    def embed(texts):
        asked.extend(texts)
        return _embed(texts)

    tree = Tree(MEANT)
    assert tree.sentences("Where is the flat in Oslo?", embed=embed) == ["The flat is in Oslo."]
    assert tree.sentences("They drank.", embed=embed) == []
    assert asked == []
    tree.sentences("Which drink?", embed=embed)
    sentences = [one for one in asked if one != "Which drink?"]
    assert len(sentences) == len(set(sentences)) == 4
    tree.sentences("Who was it?", embed=embed)
    assert asked[-1:] == ["Who was it?"]
    assert len(asked) == 6, "each sentence is embedded once"


_words = st.sampled_from(["alpaca", "boat", "code", "4471", "pier", "房租", "аренда", "euros"])
_sentences = st.lists(_words, min_size=1, max_size=6).map(lambda words: " ".join(words) + ".")
_texts = st.lists(_sentences, min_size=1, max_size=5).map(" ".join)


@given(
    st.lists(_texts, min_size=1, max_size=5),
    st.lists(_words, min_size=1, max_size=3).map(" ".join),
    st.integers(0, 60),
    st.lists(_sentences, max_size=3).map(" ".join),
    st.sampled_from([None, _embed]),
)
def test_what_is_opened_fits_stands_in_its_summary_and_is_new(
    texts, question, max_tokens, shown, embed
):
    tree, question = Tree(texts), f"{question}?"
    opened = tree.open(question, max_tokens=max_tokens, shown=fold_text(shown), embed=embed)
    assert sum(count_text_tokens(one.text) for one in opened) <= max_tokens
    assert [one.position for one in opened] == sorted({one.position for one in opened})
    by_id = {leaf.id: leaf for leaf in tree.leaves}
    sentences = [sentence for one in opened for sentence in one.sentences]
    assert len(sentences) == len(set(sentences))
    for one in opened:
        assert one.sentences
        assert all(sentence in by_id[one.summary_id].contents[0] for sentence in one.sentences)
        assert all(sentence in one.text for sentence in one.sentences)
    assert not any(fold_text(sentence) in fold_text(shown) for sentence in sentences)
    again = Tree(texts).sentences(
        question, max_tokens=max_tokens, shown=fold_text(shown), embed=embed
    )
    assert again == sentences
