"""Memories that summarise, and what to check after each way in which others lose something."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from summaries import ScriptedSummarizer, bare_texts

from langchain_convmem import ConversationMemory, InMemoryLog, SQLiteLog, SummarySettings
from langchain_convmem.views.live import (
    find_covers,
    find_frontier,
    find_live_entries,
    find_nodes,
    find_uncovered,
)
from langchain_convmem.views.providers import PROVIDERS
from tests.fuzz.validators import VALIDATORS

SETTINGS = SummarySettings(
    trigger=("messages", 6),
    keep=("messages", 2),
    max_summary_tokens=4000,
    first_pause_s=0.001,
    lease_s=60,
)

TOPICS = ["tea", "coffee", "bread", "salt", "pepper", "rice", "wine", "beer", "milk", "butter"]
"""No names, so that a summary may tell of them in any words."""


class Thread:
    """A thread of ana's with a summariser, and how to say what it holds."""

    def __init__(self, log):
        self.log = log
        self.summarizer = ScriptedSummarizer()
        self.memory = self.with_summarizer(self.summarizer)

    def with_summarizer(self, summarizer, **options):
        """Return another memory of the same log."""
        own = {"summary_settings": SETTINGS, **options}
        return ConversationMemory(self.log, summarizer=summarizer, **own)

    @property
    def settings(self):
        """What its memory goes by."""
        return SETTINGS

    @property
    def history(self):
        return self.memory.history("t", user_id="ana")

    def say(self, *texts):
        """Store texts, the user's first, or messages."""
        kinds = (HumanMessage, AIMessage)
        said = [kinds[n % 2](one) if isinstance(one, str) else one for n, one in enumerate(texts)]
        self.memory.add_messages(said, thread_id="t", user_id="ana")

    def talk(self, exchanges=4, start=0):
        """Store exchanges."""
        for number in range(start, start + exchanges):
            self.say(f"What about {TOPICS[number]}?", f"Fine: {TOPICS[number]}.")

    def summarize(self, memory=None, **options):
        return (memory or self.memory).summarize("t", user_id="ana", **options)

    @property
    def summaries(self):
        """Return the texts of all summaries that the log holds, in order of their writing."""
        found = [entry for entry in self.history.entries if entry.role == "summary"]
        return ["\n".join(entry.contents) for entry in found]

    @property
    def shown(self):
        """Return what a model reads, the summary without its fence."""
        return bare_texts(self.history.messages)

    def check(self):
        """Every entry is shown or told by one summary of the frontier, for every provider."""
        live = find_live_entries(self.history.entries)
        told = [find_covers(live, find_nodes(live, [top])) for top in find_frontier(live)]
        shown = {entry.id for entry in find_uncovered(live)}
        for entry in live:
            if entry.role in ("summary", "system"):
                continue
            under = [covers for covers in told if entry.id in covers]
            assert len(under) == (entry.id not in shown), entry.contents
        for name in PROVIDERS:
            messages = self.history.context(provider=name).messages
            assert VALIDATORS[name](messages) == [], name

    def check_all_was_told(self):
        """Every text that a summary covers reached the summariser."""
        live = find_live_entries(self.history.entries)
        covered = find_covers(live, find_nodes(live))
        asked = _squeezed(self.summarizer.asked)
        for entry in live:
            if entry.id in covered:
                assert all(_squeezed(text) in asked for text in entry.contents), entry.contents


def _squeezed(text):
    return " ".join(text.split())


@pytest.fixture
def thread():
    """A thread in memory."""
    with InMemoryLog() as log:
        yield Thread(log)


@pytest.fixture
def stored(tmp_path):
    """A thread in a file."""
    with SQLiteLog(tmp_path / "memory.db") as log:
        yield Thread(log)
