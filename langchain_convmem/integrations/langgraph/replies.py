"""A reply on its way from the model into the log, as plain text in the state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_convmem.errors import ConfigError, InvalidMessageError
from langchain_convmem.protocols import MessageLog
from langchain_convmem.records import Draft, Entry, Metadata
from langchain_convmem.steps import Steps, step
from langchain_convmem.turns.entries import is_answered, start_of
from langchain_convmem.turns.reconcile import reconcile
from langchain_convmem.turns.recording import draft_reply
from langchain_convmem.turns.replies import INTERRUPTED, reply_messages
from langchain_convmem.turns.state_sync import (
    NodeContext,
    rewind_turns,
)
from langchain_convmem.turns.turn_memory import TurnMemory
from langchain_convmem.views.codec import (
    decode_message,
    dumps,
    encode_message,
    loads,
)
from langchain_convmem.views.live import live_entries

__all__ = ["Reply", "asked_in_turn", "keep_asked", "keep_reply"]

_PAGE = 64
"""So many of the latest entries are read first: a turn in progress is among them."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answered, and when.

    Attributes:
        messages: All that is new, in order; the answer is the last. None of them before the model
            was called.
        timing: Milliseconds since the epoch by name.
        is_kept: Whether the turn is stored.
    """

    messages: Sequence[BaseMessage]
    timing: Mapping[str, int] = field(default_factory=dict)
    is_kept: bool = True

    @property
    def text(self) -> str:
        """The text of the answer."""
        last = self.messages[-1] if self.messages else None
        return str(last.text) if isinstance(last, AIMessage) else ""

    def to_text(self) -> str:
        """Return the reply as JSON text.

        Raises:
            InvalidMessageError: If a message holds what cannot be stored.
        """
        fields = {
            "messages": [encode_message(message) for message in self.messages],
            "timing": dict(self.timing),
            "is_kept": self.is_kept,
        }
        return dumps(fields, what="reply")

    @classmethod
    def of(cls, reply: Any, answer: Any) -> Reply | None:
        """Return the reply that a state holds: of the node `model`, or of a node of the user's.

        Raises:
            ConfigError: If it is of neither kind.
        """
        carried = _carried(reply) if reply else None
        if not answer or (carried is not None and carried.messages):
            return carried
        try:
            messages = reply_messages(answer, [AIMessage("")])
        except InvalidMessageError as error:
            kind = type(answer).__name__
            msg = f"state['answer'] must be text, a message or messages, not of type {kind}"
            raise ConfigError(msg) from error
        return cls(messages, is_kept=carried is None or carried.is_kept)

    @staticmethod
    def is_kept_in(reply: Any) -> bool:
        """Return whether a state is in a turn that is stored.

        Raises:
            ConfigError: If the state's reply is none.
        """
        return not reply or _carried(reply).is_kept


def _carried(reply: Any) -> Reply:
    try:
        fields = loads(reply)
        messages = [decode_message(one) for one in fields["messages"]]
        return Reply(messages, fields["timing"], fields["is_kept"])
    except (ValueError, TypeError, LookupError) as error:
        kind = type(reply).__name__
        msg = f"state['reply'] is not what the node 'model' writes, but of type {kind}"
        raise ConfigError(msg) from error


# -- a state without messages --------------------------------------------------------------------


def keep_asked(
    memory: TurnMemory, context: NodeContext, asked: HumanMessage, current: str | None
) -> Steps[Entry]:
    """Store what the user says, and go back first where the run was told where to begin.

    The same text once more, without an id of its own, is the same turn as long as nobody answered.

    Args:
        memory: Whose log.
        context: Where the node stands.
        asked: What is said, with an id; something of it is to be stored.
        current: The turn that the state knows, if it knows one.

    Returns:
        The entry, which may have been there before.
    """
    log = memory.log
    back = yield from _going_back(log, context, current)
    metadata = context.metadata("turn", current or None)
    draft = memory.drafting.draft(asked, metadata=metadata)
    is_unnamed = asked.id == context.place.task
    if is_unnamed and context.since is None and not context.is_sent:
        said = [asked.model_copy(update={"id": None})]
        entries = yield step(log, "entries", context.key, last=_PAGE)
        kept = None if draft is None else draft.message
        meant = reconcile(entries, said, stored_form=lambda _: kept)
        if meant is not None and meant.again is not None:
            return meant.again
    *_, entry = yield step(log, "append", context.key, [*back, draft])
    return entry  # type: ignore[no-any-return]  # what a step returns is not typed


def keep_reply(
    memory: TurnMemory,
    context: NodeContext,
    turn_id: str,
    reply: Reply,
    *,
    is_broken: bool = False,
) -> Steps[list[Draft]]:
    """Store the reply of a turn, in the place of an earlier one; return what was appended.

    One that broke off does not take the place of a whole one.
    """
    log = memory.log
    turn = yield from _turn_entries(log, context, turn_id)
    back = yield from _going_back(log, context, turn_id)
    names = {message.id for message in reply.messages if message.id}
    found: list[Entry] = yield step(log, "find", context.key, names)
    start = start_of(turn, turn[0])
    entries: list[Entry] = yield step(log, "entries", context.key, after=start - 1)
    if is_broken and is_answered(live_entries(entries), turn_id):
        return []
    drafts = draft_reply(
        memory.drafting,
        reply.messages,
        turn_id=turn_id,
        entries=entries,
        found=found,
        metadata=Metadata((INTERRUPTED,) if is_broken else (), reply.timing),
        new_id=lambda number: f"{turn_id}-{number}",  # the same in every attempt
    )
    if back or drafts:
        yield step(log, "append", context.key, [*back, *drafts])
    return drafts


def asked_in_turn(memory: TurnMemory, context: NodeContext, turn_id: str) -> Steps[list[str]]:
    """Return the ids of what the user said in a turn."""
    turn = yield from _turn_entries(memory.log, context, turn_id)
    return [entry.message_id for entry in turn if entry.role == "user"]


def _turn_entries(log: MessageLog, context: NodeContext, turn_id: str) -> Steps[list[Entry]]:
    """Return the live entries of a turn.

    Raises:
        ConfigError: If the thread has none.
    """
    for last in (_PAGE, None):
        entries: list[Entry] = yield step(log, "entries", context.key, last=last)
        turn = [entry for entry in live_entries(entries) if entry.turn_id == turn_id]
        # Where the page begins within the turn, some of it may lie before.
        is_all = last is None or len(entries) < last
        if turn and (is_all or entries[0].turn_id != turn_id):
            return turn
    msg = (
        f"thread {context.key.thread_id!r} of user {context.key.user_id!r} has no turn "
        f"{turn_id!r}, which the graph's state names: it was forgotten or undone, or this call "
        "names another user; pass the same user_id in every call, also beside the config of a "
        "snapshot"
    )
    raise ConfigError(msg)


def _going_back(log: MessageLog, context: NodeContext, current: str | None) -> Steps[list[Draft]]:
    """Return what takes back the turns that the graph has left by beginning from a checkpoint."""
    if context.since is None:
        return []
    return rewind_turns((yield step(log, "entries", context.key)), context, current)
