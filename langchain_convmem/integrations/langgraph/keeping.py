"""What the nodes write to the log, as steps: once, whatever is retried or resumed."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import BaseMessage, HumanMessage

from langchain_convmem.errors import ConfigError
from langchain_convmem.integrations.langgraph.moment import Moment
from langchain_convmem.integrations.langgraph.replies import Reply, reply_drafts
from langchain_convmem.integrations.langgraph.rewinding import left_turns, rewinding
from langchain_convmem.integrations.langgraph.syncing import edits, latest_exchange, news
from langchain_convmem.memory.memory_part import MemoryPart
from langchain_convmem.protocols import MessageLog
from langchain_convmem.records import Draft, Entry
from langchain_convmem.steps import Steps, step
from langchain_convmem.turns.entries import start_of
from langchain_convmem.views.live import live_entries

__all__ = ["asked_in_turn", "keep_asked", "keep_reply", "keep_state"]

_PAGE = 64
"""So many of the latest entries are read first: a turn in progress is among them."""


# -- a state without messages --------------------------------------------------------------------


def keep_asked(
    memory: MemoryPart, moment: Moment, asked: HumanMessage, current: str | None
) -> Steps[Entry]:
    """Store what the user says, and go back first where the run was told where to begin.

    Args:
        memory: Whose log.
        moment: Where the node stands.
        asked: What is said, with an id; something of it is to be stored.
        current: The turn that the state knows, if it knows one.

    Returns:
        The entry, which may have been there before.
    """
    back = yield from _going_back(memory.log, moment, current)
    metadata = moment.metadata("turn", current or None)
    draft = memory.drafting.draft(asked, metadata=metadata)
    *_, entry = yield step(memory.log, "append", moment.key, [*back, draft])
    return entry  # type: ignore[no-any-return]  # what a step returns is not typed


def keep_reply(memory: MemoryPart, moment: Moment, turn_id: str, reply: Reply) -> Steps[None]:
    """Store the reply of a turn, in the place of an earlier reply to the same."""
    log = memory.log
    turn = yield from _turn_entries(log, moment, turn_id)
    back = yield from _going_back(log, moment, turn_id)
    names = {message.id for message in reply.messages if message.id}
    found: list[Entry] = yield step(log, "find", moment.key, names)
    start = start_of(turn, turn[0])
    entries: list[Entry] = yield step(log, "entries", moment.key, after=start - 1)
    drafts = [*back, *reply_drafts(memory.drafting, entries, turn_id, reply, found)]
    if drafts:
        yield step(log, "append", moment.key, drafts)


def asked_in_turn(memory: MemoryPart, moment: Moment, turn_id: str) -> Steps[list[str]]:
    """Return the ids of what the user said in a turn."""
    turn = yield from _turn_entries(memory.log, moment, turn_id)
    return [entry.message_id for entry in turn if entry.role == "user"]


def _turn_entries(log: MessageLog, moment: Moment, turn_id: str) -> Steps[list[Entry]]:
    """Return the live entries of a turn.

    Raises:
        ConfigError: If the thread has none.
    """
    for last in (_PAGE, None):
        entries: list[Entry] = yield step(log, "entries", moment.key, last=last)
        turn = [entry for entry in live_entries(entries) if entry.turn_id == turn_id]
        # Where the page begins within the turn, some of it may lie before.
        is_all = last is None or len(entries) < last
        if turn and (is_all or entries[0].turn_id != turn_id):
            return turn
    msg = (
        f"thread {moment.key.thread_id!r} of user {moment.key.user_id!r} has no turn {turn_id!r}, "
        "which the graph's state names: it was forgotten or undone, or this call names another "
        "user; pass the same user_id in every call, also beside the config of a snapshot"
    )
    raise ConfigError(msg)


def _going_back(log: MessageLog, moment: Moment, current: str | None) -> Steps[list[Draft]]:
    """Return what takes back the turns that the graph has left by beginning from a checkpoint."""
    if moment.since is None:
        return []
    entries: list[Entry] = yield step(log, "entries", moment.key)
    moment.check_known(len(entries))
    turns, kept = left_turns(entries, moment, current)
    left = {entry.id for entry in live_entries(entries) if entry.turn_id in turns}
    wanted = {entry.id for entry in entries if entry.turn_id in kept}
    return rewinding(entries, moment, left=left, wanted=wanted)


# -- a state with messages -----------------------------------------------------------------------


def keep_state(
    memory: MemoryPart,
    moment: Moment,
    messages: Sequence[BaseMessage],
    *,
    follow: bool,
    whole: bool,
) -> Steps[None]:
    """Store what the state has new, and follow its edits.

    Args:
        memory: Whose log.
        moment: Where the node stands.
        messages: All messages of the state; at least one.
        follow: Whether what was taken out of the state goes out of the views.
        whole: Whether to look for edits; otherwise only at the latest exchange, if it is known.
    """
    log = memory.log
    start = latest_exchange(messages)
    part = messages[max(start - 1, 0) :]
    found: list[Entry] = yield step(log, "find", moment.key, {one.id for one in part})
    known = {entry.message_id for entry in found}
    if not whole and moment.since is None and messages[start].id in known:
        drafts = news(memory.drafting, moment, found, messages, start)
    else:
        entries: list[Entry] = yield step(log, "entries", moment.key)
        moment.check_known(len(entries))
        drafts = edits(memory.drafting, moment, entries, messages, follow=follow)
    if drafts:
        yield step(log, "append", moment.key, drafts)
