"""What of the messages of a state is new to the log. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from langchain_core.messages import BaseMessage

from langchain_convmem.ids import make_ulid
from langchain_convmem.records import Draft, Entry
from langchain_convmem.turns.node_context import is_of_a_state
from langchain_convmem.turns.view import has_same_content
from langchain_convmem.views.codec import get_role
from langchain_convmem.views.live import find_live_entries, find_retracted_ids


@dataclass(slots=True)
class StateDiff:
    """Compares a state with the log. For one comparison, not thread-safe.

    Attributes:
        entries: Those of the messages compared at least, by position.
        draft: Makes what is to be stored of a message, in a turn; None if nothing is.
        versions: All that was stored under each message's id.
        dead: Ids that count no more.
        live: The entries that count.
        news: What to append.
        turns: The turn of each message compared; None of a system message, and of a forgotten one.
        is_heard: Whether anything of the user's latest message is stored; if not, no answer is.
    """

    entries: Sequence[Entry]
    draft: Callable[[BaseMessage, str | None], Draft | None]
    versions: dict[str, list[Entry]] = field(init=False, default_factory=dict)
    dead: Collection[str] = field(init=False)
    live: Sequence[Entry] = field(init=False)
    news: list[Draft] = field(init=False, default_factory=list)
    turns: list[str | None] = field(init=False, default_factory=list)
    is_heard: bool = field(init=False, default=True)

    def __post_init__(self) -> None:
        """Look up what is known."""
        for entry in self.entries:
            if entry.control is None and entry.role != "summary":
                self.versions.setdefault(entry.message_id, []).append(entry)
        self.dead = find_retracted_ids(self.entries)
        self.live = find_live_entries(self.entries)

    def compare(
        self,
        said: Sequence[BaseMessage],
        forgotten: Collection[str] = (),
        *,
        turn_id: str | None = None,
        asked: int | None = None,
    ) -> None:
        """Compare messages of a state, in order.

        What the user newly says begins a turn. In a run it does so only after an answer: what comes
        in the middle of a loop of tools belongs to the turn.

        Args:
            said: The messages.
            forgotten: Ids of messages that are not stored again.
            turn_id: The turn that is under way; None if one begins.
            asked: Number of the message with which a turn begins; if it was taken back before, it
                counts again, and nothing else does.
        """
        turn, before, joins = turn_id, None, False
        for number, message in enumerate(said):
            role, versions = get_role(message), self.versions.get(message.id or "", [])
            self.turns.append(None)
            if message.id in forgotten:
                continue
            if role != "system":
                if number == asked and all(one.id in self.dead for one in versions):
                    versions = []
                begins = is_answer(before) or (turn_id is None and not joins)
                if versions:
                    turn = versions[-1].turn_id
                elif turn is None or (role == "user" and begins):
                    turn = make_ulid()
                self.turns[-1] = turn
                before, joins = message, role == "user" and not versions
            draft = self.draft(message, self.turns[-1])
            if role == "user":
                self.is_heard = bool(versions) or draft is not None
            if draft is None or not (self.is_heard or role == "system"):
                continue
            if not _is_known(versions, draft):
                self.news.append(draft)

    def count_settled(self, messages: Sequence[BaseMessage]) -> int:
        """Return how many messages come before the last one that is known."""
        known = (number for number, one in enumerate(messages) if one.id in self.versions)
        return max(known, default=0)

    def is_changed(self, message: BaseMessage) -> bool:
        """Return whether the state says something else than it said before under this id."""
        versions, draft = self.versions.get(message.id or "", []), self.draft(message, None)
        return bool(versions) and draft is not None and not _is_known(versions, draft)


def _is_known(versions: Sequence[Entry], draft: Draft) -> bool:
    """Return whether a state says what it said before, or what was made of that in the log.

    A message of the log's own that is newer than what the state says is an edit of it.
    """
    if versions and is_of_a_state(versions[-1]):
        return has_same_content(versions[-1], draft)
    return any(has_same_content(one, draft) for one in versions if one.role == draft.role)


def is_answer(message: BaseMessage | None) -> bool:
    """Return whether a message answers the user; a call of a tool does not."""
    is_said = message is not None and get_role(message) == "assistant"
    return is_said and not getattr(message, "tool_calls", None)
