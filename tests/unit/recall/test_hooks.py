"""Promises of the hooks: a rewriter says what is asked, a reranker what leads; neither can harm."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.runnables import RunnableLambda

from langchain_convmem.errors import ConfigError
from langchain_convmem.recall import LineRecall, RecallSettings
from langchain_convmem.records import Control, Draft, Owner, ThreadKey

ANA = Owner(user_id="ana")
NARROW = RecallSettings(window=0, budget_window=0)
TEXTS = [
    "I parked the car on floor three",
    "Thanks, I noted the floor",
    "My dog likes the river",
    "Dogs often do",
    "The paper about music is due in May",
    "Shall I remind you of the paper",
]


@pytest.fixture
def recall_with(log, say, embedder):
    say(log, TEXTS)
    return lambda **hooks: LineRecall(log, embedder, NARROW, **hooks)


def texts(found):
    return [line.text for block in found.blocks for line in block.lines]


def to_paper(question):
    return "paper music"


async def to_paper_later(question):
    await asyncio.sleep(0)
    return ["paper music"]


def to_paper_soon(question):
    return to_paper_later(question)


class Later:
    async def __call__(self, question):
        return await to_paper_later(question)


@pytest.mark.parametrize(
    "rewriter", [to_paper, RunnableLambda(to_paper), RunnableLambda(to_paper, to_paper_later)]
)
def test_what_the_rewriter_says_is_asked_instead(recall_with, embedder, rewriter):
    found = recall_with(rewriter=rewriter).recall(ANA, "Where is my car?", k=1)
    assert (texts(found), found.problems, embedder.asked) == ([TEXTS[4]], (), ["paper music"])
    assert "words: paper, music" in found.matches[0].why


@pytest.mark.parametrize(
    "rewriter",
    [
        to_paper,
        to_paper_later,
        to_paper_soon,
        Later(),
        RunnableLambda(to_paper),
        RunnableLambda(to_paper_later),
    ],
)
async def test_a_rewriter_may_be_plain_or_asynchronous_where_the_recall_is(recall_with, rewriter):
    found = await recall_with(rewriter=rewriter).arecall(ANA, "Where is my car?", k=1)
    assert (texts(found), found.problems) == ([TEXTS[4]], ())


def test_of_several_questions_each_line_counts_as_for_the_one_that_suits_it_best(recall_with):
    questions = ["car", "river"]

    def relevance(found):
        return {match.line.text: match.relevance for match in found.matches}

    one, two = (relevance(recall_with().recall(ANA, question, k=1)) for question in questions)
    both = recall_with(rewriter=lambda _: [*questions, " ", questions[0]]).recall(ANA, "?", k=2)
    assert relevance(both) == {text: max(one[text], two[text]) for text in TEXTS}
    assert set(texts(both)) == {TEXTS[0], TEXTS[2]}


def failing(_):
    raise RuntimeError("no model today")


@pytest.mark.parametrize(
    ("rewriter", "problem"),
    [
        (failing, "RuntimeError"),
        (RunnableLambda(failing), "RuntimeError"),
        (to_paper_soon, "arecall"),
        (lambda _: "  ", "blanks"),
        (lambda _: [], "blanks"),
        (lambda _: None, "NoneType"),
        (lambda _: ["car", 3], "list"),
    ],
)
def test_where_the_rewriter_fails_the_question_itself_is_asked(
    recall_with, embedder, rewriter, problem
):
    found = recall_with(rewriter=rewriter).recall(ANA, "car", k=1)
    assert texts(found) == [TEXTS[0]]
    assert embedder.asked == ["car"]
    [said] = found.problems
    assert "the question is asked as it is" in said
    assert problem in said


@pytest.mark.parametrize("rewriter", [to_paper_later, Later(), RunnableLambda(to_paper_later)])
def test_a_rewriter_that_only_an_event_loop_awaits_is_refused_elsewhere(
    recall_with, embedder, rewriter
):
    with pytest.raises(ConfigError, match="arecall"):
        recall_with(rewriter=rewriter).recall(ANA, "car", k=1)
    assert embedder.asked == []


class Reranker(BaseDocumentCompressor):
    """Answers what a function makes of documents and question."""

    answer: object
    seen: list = []  # noqa: RUF012 - pydantic copies it for each reranker

    def compress_documents(self, documents, query, callbacks=None):
        self.seen.append((query, [document.page_content for document in documents]))
        return self.answer(documents, query)


class AsyncReranker(Reranker):
    async def acompress_documents(self, documents, query, callbacks=None):
        return self.compress_documents(list(reversed(documents)), query)

    def compress_documents(self, documents, query, callbacks=None):
        return super().compress_documents(documents, query)


def last_letters(documents, query):
    return sorted(documents, key=lambda document: document.page_content[::-1])


def test_the_rerankers_order_leads(recall_with):
    reranker = Reranker(answer=last_letters)
    found = recall_with(reranker=reranker).recall(ANA, "car floor", k=3)
    assert texts(found) == sorted(TEXTS, key=lambda text: text[::-1])[:3]
    assert [match.line.text for match in found.matches] == sorted(TEXTS, key=lambda t: t[::-1])
    [(query, documents)] = reranker.seen
    assert query == "car floor"
    assert sorted(documents) == sorted(
        f"{name}: {text}" for name, text in zip(("Ana", "Bo") * 3, TEXTS, strict=True)
    )
    assert found.best_rejected == max(match.relevance for match in found.matches[3:])


def test_what_the_reranker_leaves_out_is_no_hit(recall_with):
    def about_dogs(documents, query):
        dogs = [one for one in documents if "og" in one.page_content]
        return [*dogs, *dogs]

    found = recall_with(reranker=Reranker(answer=about_dogs)).recall(ANA, "car", k=6)
    assert sorted(texts(found)) == ["Dogs often do", "My dog likes the river"]
    nothing = recall_with(reranker=Reranker(answer=lambda d, q: [])).recall(ANA, "car", k=6)
    assert (nothing.blocks, nothing.problems) == ((), ())
    assert nothing.best_rejected is not None


@pytest.mark.parametrize(
    "answer",
    [
        lambda documents, query: 1 / 0,
        lambda documents, query: None,
        lambda documents, query: ["car"],
        lambda documents, query: [Document("car")],
        lambda documents, query: [Document("car", metadata={"candidate": 99})],
    ],
)
def test_where_the_reranker_fails_lines_keep_our_order(recall_with, answer):
    found = recall_with(reranker=Reranker(answer=answer)).recall(ANA, "car floor", k=3)
    assert texts(found) == texts(recall_with().recall(ANA, "car floor", k=3))
    [said] = found.problems
    assert "lines keep their order" in said


async def test_an_asynchronous_recall_awaits_an_asynchronous_reranker(recall_with):
    plain, own = Reranker(answer=last_letters), AsyncReranker(answer=lambda d, q: d)
    found = await recall_with(reranker=plain).arecall(ANA, "car floor", k=3)
    assert found == recall_with(reranker=plain).recall(ANA, "car floor", k=3)
    found = await recall_with(reranker=own).arecall(ANA, "car floor", k=6)
    assert texts(found) == texts(recall_with().recall(ANA, "car floor", k=6))[::-1]


def test_a_line_that_is_retracted_while_the_reranker_thinks_does_not_come_back(recall_with, log):
    key = ThreadKey("ana", "t")

    def retracting(documents, query):
        first = log.entries(key)[0]
        log.append(key, [Draft(role="control", control=Control((first.id,), "undo"))])
        recall.refresh(ANA)
        return documents

    recall = recall_with(reranker=Reranker(answer=retracting))
    found = recall.recall(ANA, "car floor", k=6)
    assert sorted(texts(found)) == sorted(TEXTS[1:])


@pytest.mark.parametrize(
    ("hooks", "named"),
    [({"rewriter": "better"}, "rewriter"), ({"reranker": lambda d, q: d}, "reranker")],
)
def test_what_can_never_serve_as_a_hook_is_refused_at_once(log, hooks, named):
    with pytest.raises(ConfigError, match=named):
        LineRecall(log, **hooks)
