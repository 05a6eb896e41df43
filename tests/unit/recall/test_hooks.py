import asyncio

import pytest
from histories import SMALL_TALK as TEXTS
from histories import shown_lines
from langchain_core.runnables import RunnableLambda

from langchain_convmem.errors import ConfigError
from langchain_convmem.recall import LineRecall, RecallSettings
from langchain_convmem.recall.options import LONGEST_QUESTION, cut_question, read_parts
from langchain_convmem.records import Owner

ANA = Owner(user_id="ana")
NARROW = RecallSettings(window=0, budget_window=0)


@pytest.fixture
def recall_with(log, say, embedder):
    say(log, TEXTS)
    return lambda rewriter: LineRecall(log, embedder, NARROW, rewriter=rewriter)


def to_paper(question):
    return "paper music"


async def to_paper_later(question):
    await asyncio.sleep(0)
    return "paper music"


class Later:
    async def __call__(self, question):
        return await to_paper_later(question)


@pytest.mark.parametrize(
    "rewriter", [to_paper, RunnableLambda(to_paper), RunnableLambda(to_paper, to_paper_later)]
)
def test_what_the_rewriter_says_is_asked_instead(recall_with, embedder, rewriter):
    found = recall_with(rewriter=rewriter).recall(ANA, "Where is my car?", k=1)
    assert (shown_lines(found), found.problems, embedder.asked) == ([TEXTS[4]], (), ["paper music"])
    assert "words: paper, music" in found.matches[0].why


@pytest.mark.parametrize(
    "rewriter",
    [
        to_paper,
        to_paper_later,
        Later(),
        RunnableLambda(to_paper),
        RunnableLambda(to_paper_later),
    ],
)
async def test_a_rewriter_may_be_plain_or_asynchronous_where_the_recall_is(recall_with, rewriter):
    found = await recall_with(rewriter=rewriter).arecall(ANA, "Where is my car?", k=1)
    assert (shown_lines(found), found.problems) == ([TEXTS[4]], ())


def failing(_):
    raise RuntimeError("no model today")


@pytest.mark.parametrize(
    ("rewriter", "problem"),
    [
        (failing, "RuntimeError"),
        (RunnableLambda(failing), "RuntimeError"),
        (lambda _: "  ", "not blank"),
        (lambda _: None, "None"),
        (lambda _: ["car"], "a list"),
    ],
)
def test_where_the_rewriter_fails_the_question_itself_is_asked(
    recall_with, embedder, rewriter, problem
):
    found = recall_with(rewriter=rewriter).recall(ANA, "car", k=1)
    assert shown_lines(found) == [TEXTS[0]]
    assert embedder.asked == ["car"]
    [said] = found.problems
    assert "the question is asked as it is" in said
    assert problem in said


def test_a_rewriter_that_only_an_event_loop_awaits_is_refused_elsewhere(recall_with, embedder):
    for rewriter in (to_paper_later, Later(), RunnableLambda(to_paper_later)):
        with pytest.raises(ConfigError, match="arecall"):
            recall_with(rewriter=rewriter).recall(ANA, "car", k=1)
    assert embedder.asked == []


BEFORE = "What is my brother's phone number?"
LETTER = (
    "\nDear Ms Rao,\nthank you for your message of Tuesday. Our plumber looked at the heating in "
    "the stairwell and found nothing wrong. Could you tell us which radiators are cold, and since "
    "when? We would also like to remind you that the bins must be put out on Mondays before seven, "
    "since the lorry does not wait for anybody, and that bicycles in the cellar need a label. The "
    "key of the laundry is with the caretaker from now on.\nKind regards, the management\n"
)


@pytest.mark.parametrize(
    ("text", "before", "parts"),
    [
        *(
            (text, BEFORE, (text, BEFORE))
            for text in ("and hers?", "And my sister's?", "und seine?")
        ),
        # Nothing is borrowed from what has no topic of its own.
        *(
            ("and hers?", text, ("and hers?",))
            for text in (None, "  \n", "Thanks!", "And the dog?")
        ),
    ],
)
def test_a_follow_up_has_what_was_said_before_in_front(text, before, parts):
    assert read_parts(text, before) == parts


def test_a_long_message_is_searched_for_what_it_asks_outside_pasted_passages():
    message = f"Which radiators did I say were cold in my kitchen?\n{LETTER}"
    assert read_parts(message)[0] == "Which radiators did I say were cold in my kitchen?"


@pytest.mark.parametrize(
    "message",
    [
        "Can you do this?\n```python\n" + "print('boat')\n" * 40 + "```",
        "We sat in the garden until late, and the birds went on singing. " * 8,
    ],
)
def test_a_long_message_that_hardly_says_what_it_asks_is_searched_for_whole(message):
    assert read_parts(message) == (message,)


@pytest.fixture
def recall(log, say, embedder):
    say(log, TEXTS)
    return LineRecall(log, embedder)


def test_a_follow_up_finds_what_its_topic_is_found_by(recall, embedder):
    found = recall.recall(ANA, "and my sister's?", before=BEFORE, k=1)
    assert found.matches[0].line.text == TEXTS[8]
    assert embedder.asked[-1].split() == f"{BEFORE} and my sister's?".split()


def test_a_hook_is_passed_first_and_the_recall_itself_keeps_none(recall, embedder):
    seen = []
    bound = recall.bind(query_hook=lambda text: seen.append(text) or f"{text} one")
    for each in (recall, bound):
        assert each.recall(ANA, "Soup?").matches
    assert embedder.asked == ["Soup?", "Soup? one"]
    bound.recall(ANA, "And hers?", before="Where is my key?")
    assert sorted(seen) == ["And hers?", "Soup?", "Where is my key?"]


async def test_where_a_hook_leaves_nothing_nothing_is_embedded_or_found(recall, embedder):
    empty = recall.bind(query_hook=lambda _: " ")
    assert empty.recall(ANA, "Soup?").matches == ()
    assert (await empty.arecall(ANA, "Soup?")).matches == ()
    assert embedder.asked == []


@pytest.mark.parametrize("place", ["before", "after"])
def test_what_is_asked_before_or_after_a_long_text_is_read(place):
    pasted, asked = "word " * 10_000, "Where does Vera live?"
    question = f"{asked} {pasted}" if place == "before" else f"{pasted} {asked}"
    read = cut_question(question)
    assert asked in read
    assert len(read) == LONGEST_QUESTION
