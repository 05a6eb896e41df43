"""A reply on its way from the model into the log, as plain text in the state."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from langchain_convmem.errors import ConfigError, InvalidMessageError
from langchain_convmem.integrations.langgraph.syncing import says
from langchain_convmem.records import Control, Draft, Entry, Metadata
from langchain_convmem.turns.entries import replies_of
from langchain_convmem.turns.replies import reply_messages, with_free_ids
from langchain_convmem.views.codec import (
    decode_message,
    dumps,
    encode_message,
    loads,
)
from langchain_convmem.views.drafting import Drafting
from langchain_convmem.views.live import live_entries

__all__ = ["Reply", "reply_drafts"]


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
            msg = f"state['answer'] must be text, a message or messages, got {answer!r:.80}"
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
        msg = f"state['reply'] is no reply of the node 'model' ({error}): {reply!r:.80}"
        raise ConfigError(msg) from error


def reply_drafts(
    drafting: Drafting,
    entries: Sequence[Entry],
    turn_id: str,
    reply: Reply,
    found: Collection[Entry],
) -> list[Draft]:
    """Return what to append: the reply in the place of an earlier one; nothing if it is there.

    Args:
        drafting: What is stored of a message.
        entries: The thread's entries from the turn's first on.
        turn_id: The turn.
        reply: What was answered.
        found: Entries that have ids of its messages.
    """
    taken = {entry.message_id for entry in found if entry.turn_id != turn_id}
    # The same ids in every attempt.
    fresh = with_free_ids(reply.messages, taken, lambda number: f"{turn_id}-{number}")
    drafts = drafting.drafts(fresh, turn_id=turn_id)
    if not drafts:
        return []
    drafts[-1] = replace(drafts[-1], metadata=Metadata(timing=reply.timing))
    outdated = set(replies_of(entries, turn_id))
    stored = [entry for entry in live_entries(entries) if entry.id in outdated]
    if len(stored) == len(drafts) and all(map(_is_same, stored, drafts)):
        return []
    if outdated:
        ids = tuple(entry.id for entry in stored)
        drafts.insert(0, Draft(role="control", control=Control(ids, "replaced")))
    return drafts


def _is_same(entry: Entry, draft: Draft) -> bool:
    has_id = draft.message is not None and draft.message.id == entry.message_id
    return has_id and says(entry, draft)
