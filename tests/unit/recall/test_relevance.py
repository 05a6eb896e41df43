import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from histories import shown_lines
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from langchain_convmem.logs import InMemoryLog
from langchain_convmem.recall import LineRecall, RecallSettings
from langchain_convmem.records import Owner, ThreadKey
from langchain_convmem.views.codec import make_draft
from langchain_convmem.views.tokens import count_text_tokens

ANA = Owner(user_id="ana")
DATA = Path(__file__).parents[3] / "benchmarks" / "data"
FACTS = (
    "My brother Tom moved to Lisbon.",
    "I am allergic to peanuts.",
    "I started to learn the cello.",
    "My bicycle has a flat tyre again.",
    "We are painting the kitchen green.",
    "I planted tomatoes on the balcony.",
    "My thesis is about medieval bridges.",
    "Our cat Minka sleeps in the laundry basket.",
)
COURTESIES = """
Thanks! | Thank you so much | Hello there! | Good night | ok, great | Danke schön | Guten Morgen
Merci beaucoup | Bonjour | ¡Muchas gracias! | Hola, buenos días | Grazie mille | Buongiorno
Obrigado | Olá | Dank je wel | Goedemorgen | Kiitos | Teşekkürler | Спасибо | Привет
Ευχαριστώ | شكرا | مرحبا | 谢谢你 | 你好
ありがとうございます | こんにちは | 감사합니다 | 안녕하세요
"""


def recall_of(chat, exchanges, **numbers):
    log = InMemoryLog()
    chat(log, exchanges)
    return LineRecall(log, settings=RecallSettings(**numbers))


def recall_facts(chat, count):
    return recall_of(chat, [(fact, None) for fact in FACTS[:count]])


@pytest.mark.encoder
@pytest.mark.parametrize("said", COURTESIES.strip().replace("\n", " | ").split(" | "))
def test_thanks_and_greetings_bring_nothing(chat, everyday, said):
    recall = recall_of(chat, [*everyday, (said, "You are welcome."), ("Thanks, hello!", None)])
    found = recall.recall(ANA, said)
    assert (found.blocks, found.verdict) == ((), "nothing")


@pytest.mark.encoder
@pytest.mark.parametrize("count", [2, 5, 8])
@pytest.mark.parametrize(
    "question",
    [
        "What is the half-life of caesium?",
        "Translate 'umbrella' into Icelandic.",
        "Explain quicksort in Python.",
        "What is the capital of Mongolia?",
        "Who won the chess championship in 1972?",
    ],
)
def test_an_unrelated_request_brings_nothing_of_a_small_memory(chat, question, count):
    recall = recall_facts(chat, count)
    found = recall.recall(ANA, question)
    assert (found.matches, found.blocks) == ((), ())
    best = recall.recall(ANA, question, threshold=-1.0).matches[0]
    assert found.best_rejected == best.relevance


def test_lines_out_of_scope_relate_to_nothing(log, say):
    entries = say(log, ["I parked the car on floor three", "Noted", *FACTS])
    recall, question = LineRecall(log), "Where is the car parked?"
    seen = {ThreadKey("ana", "t"): [entries[0].position, entries[1].position]}
    assert recall.recall(ANA, question, exclude=seen).blocks == ()
    assert recall.recall(ANA, question).blocks


def test_a_threshold_that_no_line_surpasses_is_named_with_the_best_cosine(log, say):
    say(log, ["The boat is blue.", "The dog is called Rex."])
    recall = LineRecall(log, settings=RecallSettings.spec())
    found = recall.recall(ANA, "What colour has the ship?")
    [problem] = found.problems
    assert (found.blocks, "threshold of 0.8: the best cosine is 0." in problem) == ((), True)
    found = [recall.recall(ANA, "The boat is blue.", threshold=one) for one in (0.8, 1)]
    assert [len(one.problems) for one in found] == [0, 1]


@pytest.mark.encoder
@pytest.mark.parametrize("count", [1, 4, 8])
@pytest.mark.parametrize(
    "question",
    ["Where does my brother live?", "What is my brother called?", "Where did Tom move?"],
)
def test_of_a_few_lines_a_related_question_brings_them_all(chat, question, count):
    found = recall_facts(chat, count).recall(ANA, question)
    assert sorted(shown_lines(found)) == sorted(FACTS[:count])
    assert found.matches[0].line.text == FACTS[0]


@pytest.mark.parametrize(
    ("said", "question"),
    [
        (["My boat is red", "I see"], "Which colour has the boat?"),
        (["I parked on level C"], "Where did I park?"),
        (["My sister lives in Oslo", "Nice city"], "Where does my sibling live?"),
        (["Ich habe das Auto in der Tiefgarage geparkt", "Gut"], "Wo steht mein Auto?"),
        (["J'ai garé la voiture au niveau C"], "Où est ma voiture ?"),
        (["Мой кот любит рыбу"], "Чем кормить кота?"),
        (["我把钥匙放在厨房抽屉里了", "好的"], "钥匙在哪里?"),
        (["鍵は台所の引き出しにあります", "はい"], "鍵はどこですか"),
        (["열쇠는 부엌 서랍에 있어요", "네"], "열쇠가 어디 있어요?"),
    ],
)
def test_in_a_log_of_a_line_or_two_a_related_question_finds_them(log, say, said, question):
    say(log, said)
    recall = LineRecall(log)
    assert recall.recall(ANA, question).blocks
    assert recall.recall(ANA, "At what temperature does tungsten melt?").blocks == ()


@pytest.mark.encoder
@pytest.mark.parametrize(
    "question", ["What are my hobbies?", "What do you know about me?", "What do I like?"]
)
def test_a_personal_question_brings_what_the_user_stated_and_no_thanks(chat, everyday, question):
    polite = {"Thanks, perfect!", "You are welcome.", "Hello!"}
    facts = ("My ", "I ", "We ", "Our ", "The boiler ")
    stated = {mine for mine, _ in everyday if mine.startswith(facts)}
    said = [*everyday, ("Thanks, perfect!", "You are welcome."), ("Hello!", None)]
    shown = set(shown_lines(recall_of(chat, said).recall(ANA, question)))
    assert stated <= shown
    assert not polite & shown


@pytest.mark.encoder
def test_a_question_about_the_assistant_brings_what_it_said(chat, everyday):
    shown = shown_lines(recall_of(chat, everyday).recall(ANA, "Which tips did you give me?"))
    assert {reply for _, reply in everyday} <= set(shown)


@pytest.mark.encoder
@pytest.mark.parametrize("copies", [0, 5, 20])
def test_unrelated_lines_make_no_answer_disappear(chat, everyday, copies):
    log = InMemoryLog()
    chat(log, everyday)
    for copy in range(copies):
        noise = [
            (f"The invoice {copy}-{number} is archived.", f"Folder {number} holds {copy} sheets.")
            for number in range(20)
        ]
        chat(log, noise, thread=f"noise-{copy}")
    for question, answer in {
        "Where does my brother Tom live?": "My brother Tom moved to Lisbon.",
        "What am I allergic to?": "I am allergic to peanuts.",
        "Where does the cat Minka sleep?": "Our cat Minka sleeps in the laundry basket.",
        "In which year did Rembrandt finish the painting?": "Rembrandt finished it in 1642.",
        "Who lives abroad?": "My brother Tom moved to Lisbon.",
        "Which colour will the room have?": "We are painting the kitchen green.",
    }.items():
        assert answer in shown_lines(LineRecall(log).recall(ANA, question))


@pytest.mark.encoder
def test_in_ten_dialogues_questions_find_parts_of_long_replies_and_unrelated_ones_little():
    log, asked, found = InMemoryLog(), [], []
    for file in sorted((DATA / "long_replies").glob("*.json")):
        value = json.loads(file.read_text(encoding="utf-8"))
        asked += value["questions"]
        said = [
            make_draft(HumanMessage(content=one["text"], id=one["id"], name=one["speaker"]))
            for one in value["lines"]
        ]
        log.append(ThreadKey("nora", file.stem), said)
    unrelated = json.loads((DATA / "off_topic.json").read_text(encoding="utf-8"))["questions"]
    recall = LineRecall(log)

    def find(question):
        return [block.text for block in recall.recall(Owner(user_id="nora"), question).blocks]

    off_topic = [find(text.replace("{speaker}", "Nora")) for text in unrelated]
    assert np.mean([len("".join(texts)) / 4 for texts in off_topic]) <= 300
    for one in asked:
        shown = "\n".join(find(one["question"]))
        found.append(np.mean([part["part"] in shown for part in one["evidence"]]))
    assert np.mean(found) >= 0.93


@pytest.mark.encoder
def test_of_notes_that_nobody_answers_only_what_comes_near_the_best_one_is_shown(chat):
    notes = [
        *FACTS,
        "I cycle to work.",
        "My car is a red Fiat.",
        "I hate karaoke.",
        "I was in Oslo.",
    ]
    recall = recall_of(chat, [(note, None) for note in notes])
    assert shown_lines(recall.recall(ANA, "Where did I travel?")) == ["I was in Oslo."]


WAYS = [{}, {"k": 2}, {"max_tokens": 200}, {"k": 2, "threshold": -1.0}, {"k": 2, "threshold": 0.1}]
LINES = """
My cat is called Miso and loves the windowsill | What a fine name
I parked the car on floor three of the garage | Floor three, noted
The soup needs more salt | Add a pinch | I planted tulips by the gate | They come up in April
My sister moved to Norway in the spring | I hope she likes the snow
The paper about baroque music is due in a week | Shall I remind you?
"""


@pytest.mark.parametrize("options", WAYS)
@pytest.mark.parametrize(
    ("question", "verdict"),
    [
        ("What is my cat called?", "answered"),
        ("On which floor of the garage did I park the car?", "answered"),
        ("What is the cat's age?", "related"),
        ("How much does parking in the garage cost me a month?", "related"),
    ],
)
def test_an_answer_says_whether_it_holds_what_is_asked(log, say, question, verdict, options):
    said = LINES.strip().replace("\n", " | ").split(" | ")
    say(log, said, speakers=("User", "Assistant"))
    found = LineRecall(log).recall(ANA, question, **options)
    assert (found.verdict, bool(found.blocks)) == (verdict, True)


STATED = "I run four times a week before work and train for the Lisbon marathon."
ASKED = "Could you write me a short poem about autumn leaves?"
LATER = "My knee hurts a little since Monday."
MESSAGE = f"{STATED} {ASKED} {LATER}"
DOCTOR = "Which of the doctors near the old railway station would you recommend for that?"
LONG_MESSAGE = " ".join([*[STATED] * 5, LATER, LATER, DOCTOR])
RUNS = (
    "毎朝仕事の前に友達と川沿いを走っていて、秋に行われるリスボンのマラソンに向けて練習しています。"
)
POEM = "秋の落ち葉と霧と静かな森について、カードに書ける短くて明るい詩を書いてもらえますか\uff1f"
AROUND = (("The heron is grey.", None), ("I keep two goats.", None))
QUESTION = "What do I like?"
SENTENCES = (
    STATED,
    ASKED,
    LATER,
    "Our allotment lies behind the old railway station.",
    "Thanks a lot!",
    "Which of these is cheaper?",
)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (MESSAGE, f"{STATED} [...] {LATER}"),
        (f"{ASKED} {STATED} {LATER}", f"[...] {STATED} {LATER}"),
        (f"{STATED} {LATER} {ASKED}", f"{STATED} {LATER} [...]"),
        (f"{STATED} {LATER} We sleep in a tent.", f"{STATED} {LATER} We sleep in a tent."),
        (f"{RUNS * 2}{POEM}", f"{RUNS * 2} [...]"),
        # A short part of a long message is shown whole.
        (LONG_MESSAGE, LONG_MESSAGE),
    ],
)
def test_a_loosely_related_message_is_shown_without_its_request(chat, message, expected):
    found = recall_of(chat, [(message, None), *AROUND]).recall(ANA, QUESTION)
    assert f"User: {expected}" in "\n".join(block.text for block in found.blocks).splitlines()
    assert message in shown_lines(found)


def test_messages_that_share_a_block_are_each_shown_without_their_request(chat):
    log = InMemoryLog()
    chat(log, [(MESSAGE, None), (f"{STATED} {LATER} {ASKED}", None)], session="s")
    [block] = LineRecall(log).recall(ANA, QUESTION).blocks
    cut = [f"User: {STATED} [...] {LATER}", f"User: {STATED} {LATER} [...]"]
    assert block.text.splitlines()[1:] == cut


def test_a_loosely_related_reply_is_shown_whole(chat):
    found = recall_of(chat, [("The heron is grey.", MESSAGE), *AROUND]).recall(ANA, QUESTION)
    assert f"Assistant: {MESSAGE}" in "\n".join(block.text for block in found.blocks)


messages = st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=7).map(" ".join)


@given(
    said=st.lists(st.tuples(messages, st.none() | messages), min_size=1, max_size=6),
    tokens=st.integers(1, 300),
    window=st.integers(0, 2),
)
@settings(max_examples=60)
def test_no_budget_is_exceeded_and_what_is_shown_is_verbatim(chat, said, tokens, window):
    found = recall_of(chat, said, budget_window=window).recall(ANA, QUESTION, max_tokens=tokens)
    assert sum(count_text_tokens(block.text) for block in found.blocks) <= tokens
    for block in found.blocks:
        for line, text in zip(block.lines, block.text.splitlines()[1:], strict=True):
            label, _, pieces = text.partition(": ")
            assert label == line.speaker
            at = 0
            for piece in pieces.split("[...]"):
                at = line.text.index(piece.strip(), at) + len(piece.strip())
            assert pieces == line.text or "[...]" in pieces


def test_the_buffer_takes_in_a_message_that_was_shown_in_part(chat):
    recall, now = recall_of(chat, [(MESSAGE, None), *AROUND], buffer_size=10), ThreadKey("ana", "n")
    found = recall.recall(ANA, QUESTION, buffer=now)
    assert MESSAGE in shown_lines(found)
    later = recall.recall(ANA, "Thanks!", buffer=now)
    assert later.blocks == ()
    assert [block.lines for block in later.buffer] == [block.lines for block in found.buffer]


TABLE = json.loads(Path(__file__).with_name("questions.json").read_text(encoding="utf-8"))
TALK = [tuple(exchange) for exchange in TABLE["talk"]]


@pytest.fixture(scope="module")
def recall_talk(chat):
    @cache
    def make(*, has_model):
        log = InMemoryLog()
        chat(log, TALK)
        return LineRecall(log)

    return make


def first_lines(recall, question):
    blocks = recall.recall(ANA, question).blocks
    return [line.text for line in blocks[0].lines] if blocks else []


@pytest.mark.parametrize("has_model", [False, pytest.param(True, marks=pytest.mark.encoder)])
@pytest.mark.parametrize(("question", "line"), TABLE["words"])
def test_what_shares_words_with_the_question_comes_first(recall_talk, has_model, question, line):
    assert line in first_lines(recall_talk(has_model=has_model), question)


@pytest.mark.encoder
@pytest.mark.parametrize(("question", "line"), TABLE["meaning"])
def test_what_answers_in_other_words_or_another_language_comes_first(recall_talk, question, line):
    first = first_lines(recall_talk(has_model=True), question)
    assert {line} & {*first} if isinstance(line, str) else {*line} & {*first}
