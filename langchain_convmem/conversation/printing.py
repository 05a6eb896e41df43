"""A conversation as a table, for notebooks."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage

__all__ = ["html_table"]

_MAX_ROWS = 200
_MAX_TEXT = 2000


def html_table(messages: Sequence[BaseMessage]) -> str:
    """Return who said what, one row a message; of a long conversation the latest."""
    shown = messages[-_MAX_ROWS:]
    rows = "".join(
        f"<tr><td>{message.type}</td><td>{_cell(message)}</td></tr>" for message in shown
    )
    left_out = len(messages) - len(shown)
    head = f"<caption>{left_out} earlier messages</caption>" if left_out else ""
    return f"<table>{head}{rows}</table>"


def _cell(message: BaseMessage) -> str:
    text = html.escape(message.text[:_MAX_TEXT]).replace("\n", "<br>")
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    written = [f"{call['name']}({json.dumps(call['args'], ensure_ascii=False)})" for call in calls]
    return text + "".join(f"<br><code>{html.escape(one)}</code>" for one in written)
