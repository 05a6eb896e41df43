"""A reply on its way from the model into the log, as plain text in the state."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from langchain_convmem.errors import ConfigError, InvalidMessageError
from langchain_convmem.logs.rows import same_payload
from langchain_convmem.memory.replies import reply_messages
from langchain_convmem.memory.turn_entries import replies_of
from langchain_convmem.records import Control, Draft, Entry, Metadata
from langchain_convmem.views.codec import (
    decode_message,
    draft_of,
    dumps,
    encode_body,
    encode_message,
    loads,
)
from langchain_convmem.views.live import live_entries

__all__ = ["Reply", "reply_drafts"]


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answered, and when.

    Attributes:
        messages: All that is new, in order; the answer is the last.
        timing: Milliseconds since the epoch by name.
    """

    messages: Sequence[BaseMessage]
    timing: Mapping[str, int] = field(default_factory=dict)

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
        fields = [encode_message(message) for message in self.messages]
        return dumps({"messages": fields, "timing": dict(self.timing)}, what="reply")

    @classmethod
    def of(cls, reply: Any, answer: Any) -> Reply | None:
        """Return the reply that a state holds: of the node `model`, or of a node of the user's.

        Raises:
            ConfigError: If it is of neither kind.
        """
        if reply:
            try:
                fields = loads(reply)
                messages = [decode_message(one) for one in fields["messages"]]
            except (ValueError, TypeError, LookupError) as error:
                msg = f"state['reply'] is no reply of the node 'model' ({error}): {reply!r:.80}"
                raise ConfigError(msg) from error
            return cls(messages, fields["timing"])
        if not answer:
            return None
        try:
            return cls(reply_messages(answer, [AIMessage("")]))
        except InvalidMessageError as error:
            msg = f"state['answer'] must be text, a message or messages, got {answer!r:.80}"
            raise ConfigError(msg) from error


def reply_drafts(
    entries: Sequence[Entry], turn_id: str, reply: Reply, found: Collection[Entry]
) -> list[Draft]:
    """Return what to append: the reply in the place of an earlier one; nothing if it is there.

    Args:
        entries: The thread's entries from the turn's first on.
        turn_id: The turn.
        reply: What was answered.
        found: Entries that have ids of its messages.
    """
    taken = {entry.message_id for entry in found if entry.turn_id != turn_id}
    *plain, last = _with_free_ids(reply.messages, taken, turn_id)
    drafts = [draft_of(message, turn_id=turn_id) for message in plain]
    drafts.append(draft_of(last, turn_id=turn_id, metadata=Metadata(timing=reply.timing)))
    outdated = set(replies_of(entries, turn_id))
    stored = [entry for entry in live_entries(entries) if entry.id in outdated]
    if len(stored) == len(drafts) and all(map(_is_same, stored, drafts)):
        return []
    if outdated:
        ids = tuple(entry.id for entry in stored)
        drafts.insert(0, Draft(role="control", control=Control(ids, "replaced")))
    return drafts


def _is_same(entry: Entry, draft: Draft) -> bool:
    told = Draft(role=entry.role, message=entry.message, contents=entry.contents)
    has_id = draft.message is not None and draft.message.id == entry.message_id
    return has_id and same_payload(encode_body(told), encode_body(draft))


def _with_free_ids(
    messages: Sequence[BaseMessage], taken: set[str], turn_id: str
) -> Iterator[BaseMessage]:
    """Yield the messages, each with an id that no other turn has, the same in every attempt.

    A cached model repeats its ids, and an equal id would replace what was said before.
    """
    for number, message in enumerate(messages):
        if message.id and message.id not in taken:
            taken.add(message.id)
            yield message
        else:
            yield message.model_copy(update={"id": f"{turn_id}-{number}"})
