"""One thread, as the application sees it."""

from langchain_convmem.history.added_turn import AddedTurn
from langchain_convmem.history.conversation_history import ConversationHistory
from langchain_convmem.history.forking import fork_steps
from langchain_convmem.views.window import SummaryWindow

__all__ = ["AddedTurn", "ConversationHistory", "SummaryWindow", "fork_steps"]
