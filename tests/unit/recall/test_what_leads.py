import json
from pathlib import Path

import pytest
from histories import shown_lines
from watched_embedder import WordEmbeddings

from langchain_convmem.logs import InMemoryLog
from langchain_convmem.recall import LineRecall, RecallSettings
from langchain_convmem.records import Owner

ANA = Owner(user_id="ana")
LATER_MS = 1_720_000_000_000
LIMITS = [{"k": 1}, {"k": 3}, {"max_tokens": 60}, {"max_tokens": 300}, {"max_tokens": 1000}]
limits = pytest.mark.parametrize("limits", LIMITS, ids=str)


@pytest.fixture
def recall_of(chat, everyday):
    """Return a recall over everyday talk and, later, these exchanges; None leaves a side silent."""

    def make(*exchanges, before=everyday):
        log = InMemoryLog()
        chat(log, before)
        chat(log, exchanges, thread="stated", start_ms=LATER_MS)
        return LineRecall(log)

    return make


def older_lines(found):
    headed = [block for block in found.blocks if ", older]" in block.text.splitlines()[0]]
    return [line.text for block in headed for line in block.lines]


OLD, NEW = "My phone number is 555 1234.", "My phone number is 555 9876."
QUESTION = "What is my phone number?"


@pytest.mark.parametrize(
    ("session", "texts"),
    [
        ("own", [f"[2023-11-15]\nUser: {NEW}", f"[2023-11-14, older]\nUser: {OLD}"]),
        ("one", [f"[2023-11-14]\nUser: {OLD}\nUser: {NEW}"]),
    ],
)
def test_a_block_is_called_older_where_the_latest_word_stands_in_another(log, chat, session, texts):
    chat(log, [(OLD, None), (NEW, None)], session=session)
    recall = LineRecall(log, WordEmbeddings(), RecallSettings(age_in_header=False))
    assert [block.text for block in recall.recall(ANA, QUESTION).blocks] == texts


def test_the_latest_word_leads_among_thousands_of_lines(log, chat):
    chat(log, [(f"Parcel {n} is on its way.", None) for n in range(4_100)], thread="parcels")
    chat(log, [(OLD, None), (NEW, None)], session="own")
    found = LineRecall(log, WordEmbeddings()).recall(ANA, QUESTION)
    assert [match.line.text for match in found.matches[:2]] == [NEW, OLD]
    assert older_lines(found) == [OLD]


@pytest.mark.encoder
@limits
@pytest.mark.parametrize(
    ("question", "old", "new"),
    [
        (QUESTION, OLD, NEW),
        (QUESTION, "My phone number is 555 9876.", "My new phone number is 555 1234 now."),
        ("Where do I live?", "I live in Leeds.", "I live in Bristol."),
        ("Who is my dentist?", "My dentist is Dr Brown.", "My dentist is Dr Patel."),
        ("Wo wohne ich?", "Ich wohne in Kassel.", "Ich wohne in Bremen."),
    ],
)
def test_the_later_of_two_statements_leads_and_the_other_is_called_older(
    recall_of, question, old, new, limits
):
    found = recall_of((old, None), (new, None)).recall(ANA, question, **limits)
    assert found.matches[0].line.text == found.blocks[0].lines[0].text == new
    assert older_lines(found) in ([], [old])
    assert older_lines(found) == [old] or limits != {"max_tokens": 1000}


@pytest.mark.encoder
@limits
@pytest.mark.parametrize(
    ("question", "stated", "later"),
    [
        (QUESTION, OLD, ("Is my phone number in your phone list?", None)),
        (QUESTION, OLD, ("Should I change my phone number?", None)),
        (QUESTION, OLD, (None, "Your phone number is 555 0000.")),
        (QUESTION, OLD, (None, "Your phone number is easy to remember.")),
        (QUESTION, OLD, ("My address is 12 Mill Lane.", None)),
        ("Which is my parking space on floor 3?", "My parking space on floor 3 is C.",
         ("My parking space on floor 5 is F.", None)),
    ],
)  # fmt: skip
def test_questions_other_speakers_and_other_things_replace_nothing(
    recall_of, question, stated, later, limits
):
    found = recall_of((stated, None), later).recall(ANA, question, **limits)
    assert found.matches[0].line.text == stated
    assert older_lines(found) == []


FACT = "I parked the car on level C of the station garage."
ASKED = "Where did I park the car?"
KNOWS_NOTHING = "I don't know where you parked your car."


@limits
@pytest.mark.parametrize("times", [0, 3, 30])
def test_the_stated_fact_leads_however_often_it_was_asked_for(recall_of, times, limits):
    found = recall_of((FACT, "Noted."), *[(ASKED, KNOWS_NOTHING)] * times).recall(
        ANA, ASKED, **limits
    )
    assert found.matches[0].line.text == FACT
    assert FACT in [line.text for line in found.blocks[0].lines]
    if "max_tokens" in limits:  # they take no room while there is a statement
        assert {ASKED, KNOWS_NOTHING}.isdisjoint(shown_lines(found))


LISTED = ("Add milk to the shopping list.", "The shopping list needs candles.")


def test_what_a_request_puts_on_a_list_comes_back_with_it(recall_of):
    recall = recall_of(*[(text, "Done.") for text in LISTED])
    assert {*LISTED} <= {*shown_lines(recall.recall(ANA, "What's on the shopping list?"))}


SAME = [FACT, f"  {FACT}", FACT.upper(), FACT.replace(" ", "\n", 1)]


@pytest.mark.parametrize("max_tokens", [60, 300, 1000])
def test_equal_lines_are_shown_once_within_a_budget(recall_of, max_tokens):
    recall = recall_of(*[(text, None) for text in SAME])
    shown = shown_lines(recall.recall(ANA, ASKED, max_tokens=max_tokens))
    assert len([text for text in shown if text in SAME]) == 1


TENT = "The red tent is in the cellar."


@pytest.mark.parametrize(
    ("question", "role"),
    [("Wo ist mein red tent?", "user"), ("Where did you say the red tent is?", "assistant")],
)
def test_of_equal_words_those_of_the_person_who_is_meant_lead(chat, everyday, question, role):
    log = InMemoryLog()
    chat(log, [(TENT, None), (None, TENT), *everyday])
    match = LineRecall(log).recall(ANA, question, k=1).matches[0]
    assert (match.line.text, match.line.role) == (TENT, role)
    assert "speaker" in match.why


PET, PETS = "We adopted a cat, Miso, in March.", "Which pets do I have?"
AROUND = [(f"My shelf number {n} holds {n * 7} jars.", f"Jars last {n} years.") for n in range(12)]


def test_a_line_that_names_one_of_a_kind_leads_and_says_why(recall_of):
    recall = recall_of((PET, "Lovely."), before=AROUND)
    first, *others = recall.recall(ANA, PETS, ranking=100).matches
    assert (first.line.text, "kind" in first.why) == (PET, True)
    assert not any("kind" in match.why for match in others)


DAY_MS = 24 * 3_600_000
BETWEEN = json.loads(
    (Path(__file__).parents[3] / "benchmarks/data/personal/ordinary.json").read_text("utf-8")
)


@pytest.mark.encoder
@pytest.mark.parametrize(
    ("file", "least"),
    # In the second one the old statement answers clearly, in the words of the question.
    [("updates.json", (0.8, 0.5)), ("clear_updates.json", (0.8, 0.3))],
)
def test_in_a_year_of_requests_the_present_state_comes_back_and_before_the_old_one(
    log, chat, file, least
):
    pairs = json.loads(Path(__file__).with_name(file).read_text(encoding="utf-8"))
    days = [(n * 3, one["user"], one["assistant"]) for n, one in enumerate(BETWEEN["exchanges"])]
    days += [(40 + n, pair["old"], "Let me think.") for n, pair in enumerate(pairs)]
    days += [(250 + n, pair["new"], "Gladly.") for n, pair in enumerate(pairs)]
    for number, (day, *said) in enumerate(sorted(days)):
        chat(log, [said], thread=f"t{number}", start_ms=LATER_MS + day * DAY_MS, session=None)
    recall, places = LineRecall(log), []
    for pair in pairs:
        found = recall.recall(ANA, pair["question"], now_ms=LATER_MS + 400 * DAY_MS)
        texts = [block.text for block in found.blocks] + [pair["new"] + pair["old"]]
        starts = [pair[state].split("?")[0][:40] for state in ("new", "old")]
        at = [next(n for n, text in enumerate(texts) if start in text) for start in starts]
        places.append((at[0] < len(found.blocks), at[0] < at[1]))
    present, first = (sum(column) / len(pairs) for column in zip(*places, strict=True))
    assert present >= least[0]
    assert first >= least[1]
