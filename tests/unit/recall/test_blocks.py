import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.recall import LineRecall, RecallSettings
from langchain_convmem.recall.segments import SEGMENT_CHARS, UNCUT_CHARS, split_line
from langchain_convmem.records import Owner

ANA = Owner(user_id="ana")
NAMES = [
    *("zero", "one", "two", "three", "four", "five"),
    *("six", "seven", "eight", "nine", "ten", "eleven"),
]
LONG = " ".join(f"Sentence {n} has five words." for n in range(50))


@pytest.mark.parametrize(
    ("question", "options", "numbers"),
    [
        # Within a budget neighbours share a block, and a window shrinks where it does not fit.
        ("three", {"max_tokens": 200, "budget_window": 2}, [[1, 2, 3, 4, 5]]),
        ("three", {"max_tokens": 25, "budget_window": 2}, [[2, 3, 4]]),
        ("three", {"max_tokens": 17, "budget_window": 2}, [[3]]),
        ("three", {"max_tokens": 3, "budget_window": 2}, []),
        ("two three", {"max_tokens": 200, "budget_window": 0}, [[2, 3]]),
        ("two three", {"k": 1, "max_tokens": 200, "budget_window": 0}, [[2, 3]]),
        ("four", {"max_tokens": 200, "budget_window": (0, 1)}, [[4, 5]]),
        # Of a number of blocks each comes with its window, on one side perhaps further.
        ("three", {"k": 1, "window": 2}, [[1, 2, 3, 4, 5]]),
        ("four", {"k": 1, "window": (1, 3)}, [[3, 4, 5]]),
        ("four", {"k": 1, "window": (2, 0)}, [[2, 3, 4]]),
        # A window ends at the session, or crosses it within the thread.
        ("five", {"k": 1, "window": 2}, [[3, 4, 5]]),
        ("five", {"k": 1, "window": 2, "cross_sessions": True}, [[3, 4, 5, 6, 7]]),
        # Windows that overlap merge, and the ranking is followed further.
        ("one three ten", {"k": 2, "window": 1}, [[0, 1, 2, 3, 4], [9, 10, 11]]),
        # Unless hits are counted: two next to each other are one block.
        ("three four", {"k": 2, "window": 1, "refill": False}, [[2, 3, 4, 5]]),
    ],
)
def test_blocks_are_hits_with_the_lines_around_them(log, say, question, options, numbers):
    for session in ("a", "b"):
        say(log, NAMES[:6] if session == "a" else NAMES[6:], speakers=("Ana",), session=session)
    wish = {name: options[name] for name in ("k", "max_tokens") if name in options}
    settings = RecallSettings(
        cosine_only=True,
        age_in_header=False,
        **{name: value for name, value in options.items() if name not in wish},
    )
    recall = LineRecall(log, settings=settings)
    found = recall.recall(ANA, question, threshold=0.5, **wish)
    shown = [[NAMES.index(line.text) for line in block.lines] for block in found.blocks]
    assert sorted(shown) == numbers


def test_k_blocks_come_back_where_there_are_k_lines(log, say, embedder):
    say(log, NAMES, speakers=("Ana",))
    recall = LineRecall(log, embedder)
    assert [len(recall.recall(ANA, "four", k=k).blocks) for k in (1, 3, 12, 13)] == [1, 3, 12, 12]


PET = "We adopted a cat, Miso, in March."


@pytest.mark.parametrize(
    ("session", "said", "question", "reasons"),
    [
        (
            "s",
            NAMES,
            "three three four",
            [("meaning", "words: three"), ("meaning", "words: four"), ("neighbours",)],
        ),
        (
            "s",
            ["Pets at home.", PET, *NAMES],
            "Which pets do we keep?",
            [("meaning", "words: pets"), ("kind",)],
        ),
        ("own", ["three", "nine"], "three", [("meaning", "words: three"), ()]),
    ],
)
def test_a_match_says_why_and_the_best_that_is_not_shown_is_named(
    *, log, chat, embedder, session, said, question, reasons
):
    chat(log, [(text, None) for text in said], session=session)
    recall = LineRecall(log, embedder, RecallSettings(window=0))
    found = recall.recall(ANA, question, k=1, ranking=len(reasons))
    assert [match.why for match in found.matches] == reasons
    assert found.matches[0].relevance > found.best_rejected == found.matches[1].relevance


@pytest.mark.parametrize(
    ("first", "skipped", "shown"), [([], 49, 1), ([], 50, 0), (["three"], 49, 2)]
)
def test_fifty_lines_in_a_row_that_do_not_fit_end_the_search(
    *, log, say, embedder, first, skipped, shown
):
    said = [*first, *["three " * 12] * skipped, "three four"]
    say(log, said, speakers=("Ana",))
    recall = LineRecall(log, embedder, RecallSettings(cosine_only=True, age_in_header=False))
    assert len(recall.recall(ANA, "three", max_tokens=35, threshold=-1.0).blocks) == shown


def test_of_a_number_of_blocks_what_was_said_twice_comes_last(log, say, embedder):
    say(log, ["four", "four", "nine"], speakers=("Ana",))
    recall = LineRecall(log, embedder, RecallSettings(window=0, threshold=-1))
    assert [block.lines[0].text for block in recall.recall(ANA, "four", k=3).blocks][-1] == "four"


# Within a budget, which is the default, all of these lines share one block.
@pytest.mark.parametrize(
    ("settings", "blocks"), [({"k": 3}, 3), ({"k": 3, "max_tokens": 99}, 1), ({}, 1)]
)
def test_where_a_call_names_no_limit_the_settings_do(log, say, embedder, settings, blocks):
    say(log, NAMES, speakers=("Ana",))
    recall = LineRecall(log, embedder, RecallSettings(window=0, threshold=-1, **settings))
    assert len(recall.recall(ANA, "four").blocks) == blocks


def test_a_block_is_a_date_and_labelled_lines_and_of_a_long_one_what_fits(log, say, embedder):
    say(log, ["Hi!", "two\nlines ", f"heron {LONG}"])
    recall = LineRecall(log, embedder, RecallSettings(age_in_header=False))
    [block] = recall.recall(ANA, "Hi!", max_tokens=60, threshold=-1.0).blocks
    assert block.text == "[2023-11-14]\nAna: Hi!\nBo: two\n  lines "
    text = "\n".join(one.text for one in recall.recall(ANA, "heron", max_tokens=160).blocks)
    assert "Ana: heron Sentence 0" in text
    assert text.endswith("[...]")
    [block] = recall.recall(ANA, "Sentence 25", k=1, settings=RecallSettings(window=0)).blocks
    assert block.text.count("[...]") == 2
    whole = "\n".join(
        one.text for one in recall.recall(ANA, "heron", max_tokens=10**6, threshold=-1.0).blocks
    )
    assert f"Ana: heron {LONG}" in whole


WORDS = st.text(alphabet="ab cd.!?\n\t。\uff01字é", max_size=30)
LONG_TEXTS = st.lists(WORDS, max_size=80).map(" ".join)
PARAGRAPHS = ["A dog. " * 45 + "\n\n", "A cat. " * 45 + "\n\n", "A cow. " * 45]


def parts(text):
    return [text[start:end] for start, end in split_line(text)]


@given(LONG_TEXTS)
def test_segments_join_back_to_the_text_and_are_short(text):
    pieces = parts(text)
    assert "".join(pieces) == text
    assert len(pieces) == 1 or all(pieces)
    assert max(map(len, pieces)) <= UNCUT_CHARS
    assert all(len(piece) <= SEGMENT_CHARS for piece in pieces[:-1])


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("".join(PARAGRAPHS), "."),
        ("Twelve birds flew over the house, it cost 3.5 euros. " * 14, "euros."),
        ("今日は駅の前に車を停めました。" * 40, "。"),
    ],
)
def test_cuts_fall_behind_paragraphs_and_sentences(text, end):
    assert all(piece.rstrip().endswith(end) for piece in parts(text))
    assert parts("".join(PARAGRAPHS)) == PARAGRAPHS


def test_a_short_heading_stays_with_what_follows():
    assert parts("Steps:\n\n" + "Open the door. " * 60)[0].startswith("Steps:\n\nOpen the door.")


@pytest.mark.parametrize(
    ("words", "lengths"), [(172, [400, 460]), (180, [400, 500]), (181, [400, 400, 105])]
)
def test_a_short_tail_stays_with_what_precedes_it(words, lengths):
    assert list(map(len, parts("word " * words))) == lengths


HALF_HOUR_MS = 30 * 60_000


@pytest.mark.parametrize(
    ("names", "gap_ms", "is_same"),
    [
        ((None, None), HALF_HOUR_MS, True),
        ((None, None), 2 * HALF_HOUR_MS, False),
        ((None, None), -2 * HALF_HOUR_MS, False),
        (("a", "a"), 20 * HALF_HOUR_MS, True),
        (("a", "b"), 0, False),
        (("a", None), 0, False),
    ],
)
def test_a_session_ends_by_its_name_or_after_half_an_hour(log, chat, names, gap_ms, is_same):
    for number, name in enumerate(names):
        start_ms = 1_700_000_000_000 + number * gap_ms
        chat(log, [(f"line {number}", None)], start_ms=start_ms, session=name)
    found = LineRecall(log, settings=RecallSettings(window=1)).recall(ANA, "line 0", k=1)
    assert len(found.blocks[0].lines) == 1 + is_same
