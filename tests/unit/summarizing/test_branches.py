"""A question opens what was folded: the nearest sentences, once, within the budget."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from summary_trees import add_chat, add_leaf, add_parent

from langchain_convmem.logs import InMemoryLog
from langchain_convmem.records import Entry, ThreadKey
from langchain_convmem.summarizing.branches import (
    BranchCache,
    Branches,
    find_folding,
    fold_text,
    open_summaries,
)
from langchain_convmem.views.live import find_live_entries
from langchain_convmem.views.tokens import count_text_tokens

KEY = ThreadKey("ana", "branches")
TEXTS = [
    "Aunt Ottilie breeds alpacas in Tyrol. The boat lies at pier 14.",
    "The plumber charged 318 euros.\n- User: the code of the cellar is 4471",
    "The user decided against the yellow sofa. Her piano is tuned every March.",
]
MEANINGS = [
    {"animals", "breed", "breeds", "alpacas", "aunt"},
    {"boat", "ship", "pier"},
    {"plumber", "charged", "charge", "euros"},
    {"code", "cellar"},
    {"sofa", "yellow"},
    {"piano", "tuned"},
]


def embed(texts):
    """Return a vector for each text: how many of its words mean each of a few things."""
    words = [[word.strip(".,?").casefold() for word in text.split()] for text in texts]
    return [[float(sum(word in one for word in some)) for one in MEANINGS] for some in words]


class Tree:
    """A thread whose leaves are all folded, and how often its entries were read."""

    def __init__(self, texts=TEXTS, layers=1):
        self.log = InMemoryLog()
        self.positions: list[int] = []
        self.leaves: list[Entry] = []
        for number, text in enumerate(texts):
            said = add_chat(self.log, KEY, [f"Line {number}"])
            self.leaves.append(add_leaf(self.log, KEY, text, said))
        self.tops = self.leaves
        for _ in range(layers):
            self.tops = [add_parent(self.log, KEY, "In short: much.", self.tops)]
        self.branches = Branches()

    def read(self, stretches):
        found = [
            one
            for first, last in stretches
            for one in self.log.entries(KEY, after=first, until=last)
        ]
        self.positions += [one.position for one in found]
        return found

    def open(self, question, max_tokens=1000, embed=embed, **options):
        folding = find_folding(find_live_entries(self.log.entries(KEY)))
        return open_summaries(
            self.branches,
            folding,
            question,
            self.read,
            max_tokens=max_tokens,
            embed=embed,
            **options,
        )

    def sentences(self, question, **options):
        return [sentence for one in self.open(question, **options) for sentence in one.sentences]


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_the_sentences_that_answer_are_opened_at_any_depth_and_read_once(layers):
    tree = Tree(layers=layers)
    [opened] = tree.open("Which animals does she breed?")
    assert opened.sentences == ("Aunt Ottilie breeds alpacas in Tyrol.",)
    assert (opened.summary_id, opened.position) == (tree.leaves[0].id, tree.leaves[0].position)
    assert opened.text == (
        "[2026-05-01 to 2026-05-03, from a summary]\n- Aunt Ottilie breeds alpacas in Tyrol."
    )
    read = list(tree.positions)
    assert len(read) == len(set(read)) == len(TEXTS) + layers - 1
    assert tree.sentences("Where is the ship?") == ["The boat lies at pier 14."]
    assert tree.positions == read


def test_several_summaries_come_in_the_order_of_what_they_cover_and_the_nearest_fit_first():
    tree, question = Tree(), "Which piano is tuned, and which alpacas?"
    both = ["Aunt Ottilie breeds alpacas in Tyrol.", "Her piano is tuned every March."]
    assert tree.sentences(question) == both
    assert tree.sentences(question, max_tokens=42) == both[1:]


@pytest.mark.parametrize("text", ["", "Which village in Zanzibar?", "The boat and the pier."])
def test_what_asks_nothing_or_of_something_else_opens_nothing(text):
    assert Tree().open(text) == ()


def test_what_is_shown_anyway_is_not_repeated():
    question = "What is the code of the cellar?"
    assert Tree().sentences(question) == ["- User: the code of the cellar is 4471"]
    assert (
        Tree().sentences(question, shown=fold_text("User: the CODE of the cellar  is 4471")) == []
    )
    assert Tree().sentences(question, shown=fold_text("The CODE of the cellar is 4471!")) != []


def test_each_sentence_is_embedded_once():
    asked: list[str] = []

    def watch(texts):
        asked.extend(texts)
        return embed(texts)

    tree = Tree(["\n", *TEXTS])
    for question in ("Which ship?", "Which code?"):
        assert len(tree.sentences(question, embed=watch)) == 1
    assert len(asked) == len(set(asked)) == 6 + 2


def test_a_later_summary_is_read_when_it_is_folded():
    tree = Tree()
    tree.open("Which plumber?")
    leaf = add_leaf(tree.log, KEY, "Cousin Baldur sells a boat.", add_chat(tree.log, KEY, ["More"]))
    assert tree.sentences("Which boat?") == ["The boat lies at pier 14."]
    add_parent(tree.log, KEY, "In short: more.", [*tree.tops, leaf])
    assert tree.sentences("Which boat?")[1:] == ["Cousin Baldur sells a boat."]
    assert tree.sentences("Which plumber?") == ["The plumber charged 318 euros."]


def test_a_summary_that_is_gone_is_left_out():
    tree = Tree()
    tree.log.forget(KEY, [tree.leaves[0].id])
    assert tree.sentences("Where does the boat lie?") == []
    assert tree.sentences("What did the plumber charge?") == ["The plumber charged 318 euros."]


def test_summaries_that_nothing_folds_any_more_are_dropped():
    tree = Tree()
    assert tree.sentences("Which boat?") != []
    tree.branches.read([], tree.read)
    assert list(tree.branches.rank("Which boat?", embed)) == []


def test_notes_that_are_none_of_ours_fold_nothing():
    log = InMemoryLog()
    said = add_chat(log, KEY, ["Hello"])
    for children in ("x", 3, [["a"]], [["a", "b"]], [[1, 2]], [None], {"a": 1}):
        [entry] = find_live_entries(
            [add_parent(log, KEY, f"{children}", [add_leaf(log, KEY, "a", said)])]
        )
        entry.metadata.aux["summary"]["children"] = children
        assert find_folding([entry]) == []


def test_a_cache_keeps_the_latest_threads_and_drops_those_of_an_owner():
    cache = BranchCache(most=2)
    others = [ThreadKey("ben", "one"), ThreadKey("ben", "two")]
    first = cache.get("log", KEY)
    assert cache.get("log", KEY) is first
    assert cache.get("other log", KEY) is not first
    cache.drop("log", others[0].owner)
    assert cache.get("log", KEY) is first
    cache.drop("log", KEY.owner)
    kept = cache.get("log", KEY)
    assert kept is not first
    for key in others:
        cache.get("log", key)
    assert cache.get("log", KEY) is not kept


def test_days_appear_once_over_what_was_said_on_them():
    texts = ["The boat is red. It sails.", "The boat is fast.", "The boat is old."]
    opened = Tree(texts).open("Which boat?")
    assert [one.text.splitlines()[0] for one in opened] == [
        "[2026-05-01 to 2026-05-03, from a summary]",
        "- The boat is fast.",
        "- The boat is old.",
    ]


COUNTERS = {
    "ours": count_text_tokens,
    "characters": len,
    # One by one they take a little less than together, as some tokenizers have it.
    "halves": lambda text: len(text) // 2,
    # Or much more: most of what is said together is said again.
    "kinds of words": lambda text: len(set(text.split())),
}
_words = st.sampled_from(["alpacas", "boat", "code", "4471", "pier", "房租", "аренда", "euros"])
_sentences = st.lists(_words, min_size=1, max_size=6).map(lambda words: " ".join(words) + ".")
_texts = st.lists(_sentences, min_size=1, max_size=5).map(" ".join)


@given(
    st.lists(_texts, min_size=1, max_size=5),
    st.lists(_words, min_size=1, max_size=3).map(" ".join),
    st.integers(0, 400),
    st.lists(_sentences, max_size=3).map(" ".join),
    st.sampled_from(sorted(COUNTERS)),
)
def test_what_is_opened_fits_is_new_and_comes_from_its_summary(
    texts, question, max_tokens, shown, name
):
    tree, count = Tree(texts), COUNTERS[name]
    opened = tree.open(f"{question}?", max_tokens=max_tokens, shown=fold_text(shown), count=count)
    assert not opened or count("\n\n".join(["", *(one.text for one in opened)])) <= max_tokens
    assert [one.position for one in opened] == sorted({one.position for one in opened})
    by_id = {leaf.id: leaf for leaf in tree.leaves}
    sentences = [sentence for one in opened for sentence in one.sentences]
    assert len(sentences) == len(set(sentences))
    for one in opened:
        assert one.sentences
        assert all(sentence in by_id[one.summary_id].contents[0] for sentence in one.sentences)
        assert all(sentence in one.text for sentence in one.sentences)
    assert not any(fold_text(sentence) in fold_text(shown) for sentence in sentences)
