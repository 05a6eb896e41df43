"""Promises of answers within a budget: enough where it is about the user, nothing about nothing."""

from __future__ import annotations

import pytest

from langchain_convmem.logs import InMemoryLog
from langchain_convmem.recall import LineRecall, RecallSettings
from langchain_convmem.records import Owner

pytestmark = pytest.mark.encoder

ANA = Owner(user_id="ana")
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


def recall_of(chat, exchanges):
    log = InMemoryLog()
    chat(log, exchanges)
    return LineRecall(log)


def recall_facts(chat, count):
    return recall_of(chat, [(fact, None) for fact in FACTS[:count]])


def lines(found):
    return [line.text for block in found.blocks for line in block.lines]


@pytest.mark.parametrize(
    "said",
    [
        "Thanks!",
        "Thank you so much",
        "Hello there!",
        "Good night",
        "ok, great",
        "Danke schön",
        "Guten Morgen",
        "Merci beaucoup",
        "Bonjour",
        "¡Muchas gracias!",
        "Hola, buenos días",
        "Grazie mille",
        "Buongiorno",
        "Obrigado",
        "Olá",
        "Dank je wel",
        "Goedemorgen",
        "Kiitos",
        "Teşekkürler",
        "Спасибо",
        "Привет",
        "Ευχαριστώ",
        "شكرا",
        "مرحبا",
        "谢谢你",
        "你好",
        "ありがとうございます",
        "こんにちは",
        "감사합니다",
        "안녕하세요",
    ],
)
def test_thanks_and_greetings_bring_nothing(chat, everyday, said):
    recall = recall_of(chat, [*everyday, (said, "You are welcome."), ("Thanks, hello!", None)])
    assert recall.recall(ANA, said).blocks == ()


@pytest.mark.parametrize("count", range(2, len(FACTS) + 1))
@pytest.mark.parametrize(
    "question",
    [
        "What is the half-life of caesium?",
        "Translate 'umbrella' into Icelandic.",
        "Explain quicksort in Python.",
        "What is the capital of Mongolia?",
        "Fix this regex: ^[a-z]+$",
        "Who won the chess championship in 1972?",
        "Convert 300 kelvin to celsius.",
        "List five prime numbers.",
    ],
)
def test_an_unrelated_request_brings_nothing_of_a_small_memory(chat, question, count):
    assert recall_facts(chat, count).recall(ANA, question).blocks == ()


@pytest.mark.parametrize("count", range(1, len(FACTS) + 1))
@pytest.mark.parametrize(
    "question", ["Where does my brother live?", "What is my brother called?", "Where did Tom move?"]
)
def test_of_a_few_lines_a_related_question_brings_them_all(chat, question, count):
    found = recall_facts(chat, count).recall(ANA, question)
    assert sorted(lines(found)) == sorted(FACTS[:count])
    assert found.matches[0].line.text == FACTS[0]


@pytest.mark.parametrize(
    "question", ["What are my hobbies?", "What do you know about me?", "What do I like?"]
)
def test_a_personal_question_brings_what_the_user_stated(chat, everyday, question):
    stated = {mine for mine, _ in everyday if mine.startswith(("My ", "I ", "We "))}
    assert stated <= set(lines(recall_of(chat, everyday).recall(ANA, question)))


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Where does my brother Tom live?", "My brother Tom moved to Lisbon."),
        ("What am I allergic to?", "I am allergic to peanuts."),
        ("Where does the cat Minka sleep?", "Our cat Minka sleeps in the laundry basket."),
        ("In which year did Rembrandt finish the painting?", "Rembrandt finished it in 1642."),
    ],
)
@pytest.mark.parametrize("copies", [0, 1, 5, 20])
def test_unrelated_lines_make_no_clear_answer_disappear(chat, everyday, question, answer, copies):
    log = InMemoryLog()
    chat(log, everyday)
    for copy in range(copies):
        noise = [
            (f"The invoice {copy}-{number} is archived.", f"Folder {number} holds {copy} sheets.")
            for number in range(20)
        ]
        chat(log, noise, thread=f"noise-{copy}")
    assert answer in lines(LineRecall(log).recall(ANA, question))


def test_plain_settings_rank_by_cosine_alone_whatever_was_said(chat, everyday):
    stated = [
        ("My phone number is 555 1234.", "I don't know your address."),
        ("What is my phone number?", "I don't know your phone number."),
        ("My phone number is 555 9876.", "Noted."),
        ("My phone number is 555 9876.", "Noted."),
    ]
    log = InMemoryLog()
    chat(log, [*everyday, *stated])
    recall = LineRecall(log, settings=RecallSettings.spec())
    found = recall.recall(ANA, "What is my phone number?", k=1, ranking=100, threshold=-1.0)
    cosines = [match.similarity for match in found.matches]
    assert cosines == sorted(cosines, reverse=True)
    assert [match.relevance for match in found.matches] == pytest.approx(
        standardize(cosines), abs=1e-3
    )
    assert found.matches[0].line.text == "What is my phone number?"


def standardize(values):
    mean = sum(values) / len(values)
    deviation = (sum((value - mean) ** 2 for value in values) / len(values)) ** 0.5
    return [(value - mean) / deviation for value in values]


def test_a_threshold_that_no_line_surpasses_is_named_with_the_best_cosine(log, say):
    say(log, ["The boat is blue.", "The dog is called Rex."])
    recall = LineRecall(log, settings=RecallSettings.spec())
    found = recall.recall(ANA, "What colour has the ship?")
    assert found.blocks == ()
    [problem] = found.problems
    assert "threshold of 0.8" in problem
    assert "best cosine is 0." in problem
    assert recall.recall(ANA, "The boat is blue.").problems == ()
