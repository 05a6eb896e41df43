"""One thread, as the application sees it."""

from langchain_convmem.history.added_turn import AddedTurn
from langchain_convmem.history.conversation_history import ConversationHistory
from langchain_convmem.history.edited import cut_reply_steps
from langchain_convmem.history.forking import fork_steps
from langchain_convmem.history.live_reading import (
    LiveThread,
    context_steps,
    note_of,
    note_steps,
    read_all_steps,
    read_live_steps,
)
from langchain_convmem.history.transactions import append_planned_steps, write_cache_steps
from langchain_convmem.views.window import SummaryWindow

__all__ = [
    "AddedTurn",
    "ConversationHistory",
    "LiveThread",
    "SummaryWindow",
    "append_planned_steps",
    "context_steps",
    "cut_reply_steps",
    "fork_steps",
    "note_of",
    "note_steps",
    "read_all_steps",
    "read_live_steps",
    "write_cache_steps",
]
