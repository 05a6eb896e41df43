"""Budgets in real tokens: with a real vocabulary, and any plain settings."""

from __future__ import annotations

import importlib.util
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from tokenizers import Tokenizer

from langchain_convmem import ConversationMemory
from langchain_convmem.offline import ExtractiveSummarizer
from langchain_convmem.summarizing import SummarySettings
from langchain_convmem.turns.memory import get_turn_memory
from langchain_convmem.views.messages import TOKENS_PER_MESSAGE, list_counted

DATA = Path(__file__).parents[1] / "views" / "data" / "texts.json"
TEXTS = json.loads(DATA.read_text(encoding="utf-8"))
AT = {"configurable": {"thread_id": "t", "user_id": "ana"}}


@lru_cache
def load_vocabulary():
    [folder] = importlib.util.find_spec("wordllama").submodule_search_locations
    return Tokenizer.from_file(f"{folder}/tokenizers/l2_supercat_tokenizer_config.json")


def count_real(messages):
    """Count by the vocabulary that the embedder's wheel brings along."""
    texts = [text for one in messages for text in list_counted(one)[0]]
    ids = [load_vocabulary().encode(text, add_special_tokens=False).ids for text in texts]
    return TOKENS_PER_MESSAGE * len(messages) + sum(map(len, ids))


class Provider(BaseChatModel):
    """A model that reports what it read, by a counter of its own."""

    model_name: str = "scripted-1"
    count: Any = count_real
    reply: str = "Noted."
    seen: list[Any] = []  # noqa: RUF012 - a field

    @property
    def _llm_type(self):
        return "scripted"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        self.seen.append(list(messages))
        usage = {"input_tokens": self.count(messages), "output_tokens": 2, "total_tokens": 0}
        reply = AIMessage(self.reply, usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=reply)])


@pytest.mark.parametrize("kind", list(TEXTS))
def test_every_request_is_within_the_budget_in_real_tokens(kind):
    model = Provider()
    with ConversationMemory.open(":memory:") as memory:
        chain = memory.wrap(model, recall_tokens=200, context_tokens=900)
        for number in range(14):
            chain.invoke(TEXTS[kind][number % 2] * 2, AT)
    real = [count_real(messages) for messages in model.seen]
    assert len(real) == 14
    assert max(real) <= 900 * 1.03
    assert max(real) > 250


def test_a_counter_of_the_application_counts_everywhere():
    def count_letters(messages):
        return sum(len(one.text) for one in messages)

    model = Provider()
    with ConversationMemory.open(":memory:", token_counter=count_letters) as memory:
        memory.add_messages(
            [HumanMessage("My boat is red. " * 4)] * 9, thread_id="a", user_id="ana"
        )
        found = memory.recall("boat", user_id="ana", max_tokens=200)
        assert sum(len(block.text) for block in found.blocks) <= 200
        chain = memory.wrap(model, recall_tokens=300, context_tokens=700)
        for number in range(12):
            chain.invoke(f"And number {number}, the boat? " * 3, AT)
        assert memory.history("t", user_id="ana").context(max_tokens=400).tokens <= 400
    assert max(count_letters(messages) for messages in model.seen) <= 700


def make_windowed(tokens, **fields):
    return Provider(profile={"max_input_tokens": tokens}, **fields)


@pytest.mark.parametrize("settings", [None, SummarySettings(trigger=("fraction", 0.5))])
def test_threads_are_compacted_by_the_window_of_the_models_own(settings):
    made = []
    for tokens in (4096, 200_000):
        with ConversationMemory.open(
            ":memory:",
            summarizer=ExtractiveSummarizer(),
            summary_settings=settings,
            summarize_when="foreground",
        ) as memory:
            chain = memory.wrap(make_windowed(tokens), recall=False)
            for number in range(12):
                chain.invoke(f"Number {number} is a matter of {'many words, ' * 90}", AT)
            made.append(memory.history("t", user_id="ana").last_summary is not None)
    assert made == [True, False]


def test_auto_has_the_chains_own_model_summarise():
    model = Provider(reply="Ana moved to Lisbon and opens a bakery next year with her sister.")
    said = "I moved to Lisbon and my sister and I open a bakery next year. "
    with ConversationMemory.open(
        ":memory:", summarizer="auto", summarize_when="foreground"
    ) as memory:
        assert get_turn_memory(memory).summaries.has_summarizer
        chain = memory.wrap(model, recall=False, context_tokens=1000)
        for _ in range(12):
            chain.invoke(said * 4, AT)
        entries = memory.history("t", user_id="ana").entries
    summaries = [entry for entry in entries if entry.role == "summary"]
    assert summaries
    assert all(one.contents[0] == model.reply for one in summaries)
