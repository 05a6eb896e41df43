"""How turns and recalls print themselves."""

from __future__ import annotations

from langchain_convmem import ConversationMemory
from langchain_convmem.views.shown import Recall, RecalledBlock


def test_a_recall_prints_what_a_model_would_read_and_its_problems_last():
    block = RecalledBlock((), "[2023-11-14]\nAna: Before.", (), 4.0, 0.8)
    found = Recall((), (block,), problems=("the embedder failed",), verdict="answered")
    assert str(found) == "answered: 1 block\n\n[2023-11-14]\nAna: Before.\n\nthe embedder failed"


def test_a_turn_prints_how_it_begins_and_not_all_of_it():
    with ConversationMemory.open(":memory:") as memory:
        turn = memory.history("t", user_id="ana").add("user", "word " * 1000)
        shown = repr(turn)
    assert shown.startswith("AddedTurn(user: 'word word")
    assert shown.endswith(f"…', id={turn.id!r})")
    assert len(shown) < 120
