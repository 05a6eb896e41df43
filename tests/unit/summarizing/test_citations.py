"""A sentence comes from the entries that it names, or else from all that its summary covers."""

from __future__ import annotations

from langchain_core.messages import AIMessage, HumanMessage
from summaries import ScriptedSummarizer

from langchain_convmem import ConversationMemory, InMemoryLog
from langchain_convmem.summarizing import explain_summary

SAID = [
    HumanMessage("The rent is 1,240 euros.", id="m1"),
    AIMessage("That is a lot.", id="m2"),
    HumanMessage("The landlord is Petrov.", id="m3"),
    AIMessage("I see.", id="m4"),
]


def explain(text):
    """Return the noted positions of a summary, and the sources of each of its sentences."""
    with ConversationMemory(InMemoryLog(), summarizer=ScriptedSummarizer(text)) as memory:
        memory.add_messages(SAID, thread_id="t")
        report = memory.summarize("t", force=True)
        noted = report.summary.metadata.aux["summary"].get("cites")
        found = explain_summary(memory, "t")
    return noted, [[one.position for one in sentence.sources] for sentence in found]


def test_ids_in_brackets_are_sources():
    text = "They pay 1,240 euros [m1]. To Petrov [m3], it seems [m1] [m1]. So it is."
    assert explain(text) == ([[1], [1, 3], []], [[1], [1, 3], [1, 2, 3, 4]])


def test_where_no_sentence_names_an_id_each_comes_from_the_whole():
    text = "They pay 1,240 euros m1 (m2). To Petrov [m9]."
    assert explain(text) == (None, [[1, 2, 3, 4]] * 2)
