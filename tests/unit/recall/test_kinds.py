"""Promises of questions that name the kind of thing which a line names one of."""

from __future__ import annotations

import pytest

from langchain_convmem.logs import InMemoryLog
from langchain_convmem.recall import LineRecall, RecallSettings
from langchain_convmem.records import Owner

ANA = Owner(user_id="ana")
FACT = "We adopted a cat, Miso, in March."
QUESTION = "Which pets do I have?"
AROUND = [(f"My shelf number {n} holds {n * 7} jars.", f"Jars last {n} years.") for n in range(12)]


def recall_of(chat, embeddings=None, **numbers):
    log = InMemoryLog()
    chat(log, [*AROUND[:6], (FACT, "Lovely."), *AROUND[6:]])
    return LineRecall(log, embeddings, settings=RecallSettings(**numbers))


def find_place(recall, question):
    ranked = [match.line.text for match in recall.recall(ANA, question, ranking=100).matches]
    return ranked.index(FACT)


@pytest.mark.parametrize("dense_weight", [0.0, 1.0])
def test_a_line_that_names_one_of_a_kind_leads(chat, dense_weight):
    assert find_place(recall_of(chat, dense_weight=dense_weight), QUESTION) == 0


def test_the_kind_is_a_reason(chat):
    found = recall_of(chat).recall(ANA, QUESTION)
    assert "kind" in found.matches[0].why
    assert not any("kind" in match.why for match in found.matches[1:])
