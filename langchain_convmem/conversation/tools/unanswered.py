"""Calls that a history leaves open, and results that answer none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from langchain_core.messages import BaseMessage, ToolCall, ToolMessage

from langchain_convmem.views.tool_calls import calls_of

__all__ = ["find_stray_results", "unanswered_calls"]


def unanswered_calls(history: Iterable[BaseMessage]) -> list[ToolCall]:
    """Return the calls that no later result answers, in order.

    Results are matched by order too, since some models use an id anew in every reply: a result
    answers the latest earlier call of its id that is still open.
    """
    made: list[ToolCall] = []
    answered: set[int] = set()
    waiting: dict[str | None, list[int]] = {}
    for message in history:
        if isinstance(message, ToolMessage):
            answered.update(waiting.get(message.tool_call_id, [])[:1])
            del waiting.get(message.tool_call_id, [])[:1]
            continue
        calls = calls_of(message)
        waiting.update({call["id"]: [] for call in calls})
        for number, call in enumerate(calls, len(made)):
            waiting[call["id"]].append(number)
        made += calls
    return [call for number, call in enumerate(made) if number not in answered]


def find_stray_results(
    history: Sequence[BaseMessage], said: Sequence[BaseMessage]
) -> list[ToolMessage]:
    """Return the results that answer no call that is open before them."""
    return [
        message
        for number, message in enumerate(said)
        if isinstance(message, ToolMessage)
        and message.tool_call_id
        not in [call["id"] for call in unanswered_calls([*history, *said[:number]])]
    ]
