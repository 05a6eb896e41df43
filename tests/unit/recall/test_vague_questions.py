"""Promises of the ranking where no line answers: then meaning leads, and words by chance do not."""

from __future__ import annotations

import numpy as np
import pytest
from langchain_core.embeddings import Embeddings

from langchain_convmem.logs import InMemoryLog
from langchain_convmem.recall import LineRecall
from langchain_convmem.records import Owner

ANA = Owner(user_id="ana")
QUESTION = "Which pets do I keep?"
FACT = "I adopted a tabby, Miso."
TOPICS = {FACT: 0, QUESTION: 0, "A tabby is a pattern of fur.": 0}
BY_CHANCE = "I keep bees out of my tent."


class TopicEmbeddings(Embeddings):
    """Texts of the named topics are alike; each other one is about something of its own."""

    fingerprint = "topics-64"

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text):
        random = np.random.default_rng(sum(map(ord, text)))
        own = random.normal(size=64)
        own /= np.linalg.norm(own)
        if text in TOPICS:
            own *= 0.87
            own[TOPICS[text]] += 0.5
        return own.tolist()


def recall_of(chat, exchanges, embeddings=None):
    log = InMemoryLog()
    chat(log, exchanges)
    return LineRecall(log, embeddings or TopicEmbeddings())


def texts(found):
    return [match.line.text for match in found.matches]


def filling(count):
    return [
        (f"My shed number {n} holds {n * 7} planks.", f"Planks last {n} years.")
        for n in range(count)
    ]


@pytest.mark.parametrize("count", [20, 60])
def test_a_fact_near_in_meaning_leads_over_a_word_shared_by_chance(chat, count):
    recall = recall_of(chat, [(FACT, "Nice."), (BY_CHANCE, "Seal it."), *filling(count)])
    found = recall.recall(ANA, QUESTION, ranking=300)
    ranked = texts(found)
    assert ranked.index(FACT) < ranked.index(BY_CHANCE)


def test_where_words_answer_clearly_they_lead(chat):
    said = "My leaking tent stands in the orchard."
    recall = recall_of(chat, [(FACT, "Nice."), (said, "Seal it."), *filling(60)])
    found = recall.recall(ANA, "Where does my leaking tent stand, in which orchard?")
    assert texts(found)[0] == said
    assert FACT not in texts(found)
