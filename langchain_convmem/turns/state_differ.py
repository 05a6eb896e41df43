"""What a log lacks of the messages of a state."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from langchain_core.messages import BaseMessage

from langchain_convmem.ids import make_ulid
from langchain_convmem.records import Draft, Entry, Metadata
from langchain_convmem.turns.node_context import NodeContext, read_mark
from langchain_convmem.turns.view import has_same_content
from langchain_convmem.views.codec import get_role, make_draft
from langchain_convmem.views.live import find_live_entries
from langchain_convmem.views.messages import DraftBuilder, build_message


@dataclass(slots=True)
class StateDiffer:
    """Finds what the log lacks of a state. Pure; for one comparison, not thread-safe.

    Attributes:
        drafting: What is stored of a message.
        context: The node that runs.
        entries: Those of the messages compared at least, by position.
        versions: All that was stored under each message's id.
        live: The entries that count.
        news: What to append.
        same: Entries that say what the state says.
        edits: Messages that were edited in the log since the state was last seen.
        turns: The turn of each message compared; None of a system message, and of a forgotten one.
        after: Id of the latest message that is in the log, or will be.
        is_heard: Whether anything of the user's latest message is stored; if not, no answer is.
    """

    drafting: DraftBuilder
    context: NodeContext
    entries: Sequence[Entry]
    versions: dict[str, list[Entry]] = field(init=False, default_factory=dict)
    live: Sequence[Entry] = field(init=False)
    news: list[Draft] = field(default_factory=list)
    same: list[Entry] = field(default_factory=list)
    edits: list[BaseMessage] = field(default_factory=list)
    turns: list[str | None] = field(default_factory=list)
    after: str | None = None
    is_heard: bool = True
    _live: set[str] = field(init=False)

    def __post_init__(self) -> None:
        """Look up what is known."""
        for entry in self.entries:
            if entry.control is None and entry.role != "summary":
                self.versions.setdefault(entry.message_id, []).append(entry)
        self.live = find_live_entries(self.entries)
        self._live = {entry.id for entry in self.live}

    def compare(
        self,
        spoken: Sequence[BaseMessage],
        forgotten: Collection[str] = (),
        *,
        first: int = 0,
        turn_id: str | None = None,
        asked: int | None = None,
    ) -> None:
        """Compare the messages of a state, in order.

        What the user newly says begins a turn, up to the next answer.

        Args:
            spoken: All of them.
            forgotten: Ids of messages that are not stored again.
            first: Number of the first one to compare.
            turn_id: What all that is new belongs to; None where it tells its turn itself.
            asked: Number of the message with which a turn begins; if it was taken back before, it
                counts again, and nothing else does.
        """
        if first and spoken[first - 1].id in self.versions:
            self.after = spoken[first - 1].id
        turn, joins = None, False
        for number, message in enumerate(spoken[first:], first):
            versions, role = self.versions.get(message.id or "", []), get_role(message)
            if number == asked and not any(one.id in self._live for one in versions):
                versions = []
            if role == "system" or message.id in forgotten:
                self.turns.append(None)
            else:
                if versions:
                    turn = versions[-1].turn_id
                elif turn_id or turn is None or (role == "user" and not joins):
                    turn = turn_id or make_ulid()
                joins = role == "user" and not versions
                self.turns.append(turn)
            if message.id not in forgotten:
                self._take(message, versions)

    def _take(self, message: BaseMessage, versions: Sequence[Entry]) -> None:
        """Note whether the message is news."""
        role, draft = get_role(message), self._draft(message)
        if role == "user":
            self.is_heard = bool(versions) or draft is not None
        if versions and (draft is None or _is_known(versions, draft)):
            newest = versions[-1]
            self.same.append(newest)
            is_own = draft is None or read_mark(newest) is not None
            if draft and not is_own and newest.id in self._live:
                self.edits += [] if has_same_content(newest, draft) else [build_message(newest)]
        elif draft is not None and (self.is_heard or role == "system"):
            self.news.append(draft)
        else:
            return
        self.after = message.id

    def is_changed(self, message: BaseMessage) -> bool:
        """Return whether the state says something else than it said before under this id."""
        versions, draft = self.versions.get(message.id or "", []), self._draft(message)
        return bool(versions) and draft is not None and not _is_known(versions, draft)

    def _draft(self, message: BaseMessage) -> Draft | None:
        turn = self.turns[-1] if self.turns else None
        metadata = self.context.make_metadata(self.after)
        return draft_message(self.drafting, message, turn, metadata)


def _is_known(versions: Sequence[Entry], draft: Draft) -> bool:
    """Return whether a state says what it said before, or what was made of that in the log.

    A message of the log's own, without a mark, that is newer than what the state says is an edit.
    """
    if read_mark(versions[-1]) is not None:
        return has_same_content(versions[-1], draft)
    return any(has_same_content(one, draft) for one in versions if one.role == draft.role)


def draft_message(
    drafting: DraftBuilder,
    message: BaseMessage,
    turn_id: str | None,
    metadata: Metadata | None = None,
) -> Draft | None:
    """Return what is to be stored of a message, if anything is."""
    own = None if get_role(message) == "system" else turn_id
    return drafting.filter_draft(make_draft(message, turn_id=own, metadata=metadata))
