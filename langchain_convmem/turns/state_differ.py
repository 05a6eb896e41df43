"""What a log lacks of the messages of a state."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
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
        forgotten: Ids of messages that are not stored again.
        known: The entry of each message, as it was when a state was last seen.
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
    forgotten: Collection[str] = ()
    known: dict[str, Entry] = field(init=False)
    news: list[Draft] = field(default_factory=list)
    same: list[Entry] = field(default_factory=list)
    edits: list[BaseMessage] = field(default_factory=list)
    turns: list[str | None] = field(default_factory=list)
    after: str | None = None
    is_heard: bool = True
    _turn: str | None = None
    _joins: bool = False
    _newest: dict[str, Entry] = field(init=False)
    _live: set[str] = field(init=False)

    def __post_init__(self) -> None:
        """Look up what is known."""
        self.known = _select_versions(self.entries)
        self._newest = {
            entry.message_id: entry for entry in self.entries if entry.message_id in self.known
        }
        self._live = {entry.id for entry in find_live_entries(self.entries)}

    def compare(
        self,
        spoken: Sequence[BaseMessage],
        *,
        first: int = 0,
        turn_id: str | None = None,
        asked: int | None = None,
    ) -> None:
        """Compare the messages of a state, in order.

        Args:
            spoken: All of them.
            first: Number of the first one to compare.
            turn_id: What all that is new belongs to; None where it tells its turn itself.
            asked: Number of the message with which a turn begins; if it was taken back before, it
                counts again, and nothing else does.
        """
        if first and spoken[first - 1].id in self.known:
            self.after = spoken[first - 1].id
        settled = self._count_forgotten(spoken)
        for number, message in enumerate(spoken[first:], first):
            entry = self.known.get(message.id or "")
            if number == asked and not self._is_live(message):
                entry = None
            if entry is None and (number < settled or message.id in self.forgotten):
                self.turns.append(None)
                continue
            self._place(message, entry, turn_id)
            self._take(message, entry)

    def _is_live(self, message: BaseMessage) -> bool:
        return any(
            entry.message_id == message.id and entry.id in self._live for entry in self.entries
        )

    def _count_forgotten(self, spoken: Sequence[BaseMessage]) -> int:
        """Return how many messages stand up to one that another followed, and that is gone."""
        marks = filter(None, map(read_mark, self.known.values()))
        gone = {mark.after for mark in marks} - self.known.keys()
        return max((n for n, one in enumerate(spoken, 1) if one.id in gone), default=0)

    def _place(self, message: BaseMessage, entry: Entry | None, turn_id: str | None) -> None:
        """Find the turn: what the user newly says begins one, up to the next answer."""
        role = get_role(message)
        if role == "system":
            self.turns.append(None)
            return
        if entry is not None:
            self._turn = entry.turn_id
        elif turn_id is not None:
            self._turn = turn_id
        elif self._turn is None or (role == "user" and not self._joins):
            self._turn = make_ulid()
        self._joins = role == "user" and entry is None
        self.turns.append(self._turn)

    def _take(self, message: BaseMessage, entry: Entry | None) -> None:
        """Note whether the message is news."""
        role = get_role(message)
        metadata = self.context.make_metadata(self.after)
        draft = draft_message(self.drafting, message, self.turns[-1], metadata)
        if role == "user":
            self.is_heard = entry is not None or draft is not None
        if entry is not None and (draft is None or self._is_known(entry, draft)):
            self.same.append(entry)
        elif draft is not None and (self.is_heard or role == "system"):
            self.news.append(draft)
        else:
            return
        self.after = message.id

    def _is_known(self, entry: Entry, draft: Draft) -> bool:
        """Return whether the state says what it said before, or what was made of that in the log.

        A message of the log's own that is newer than what the state says is an edit, and stays.
        """
        newest = self._newest[entry.message_id]
        if read_mark(newest) is not None:
            return has_same_content(entry, draft)
        if has_same_content(newest, draft):
            return True
        is_known = any(
            has_same_content(one, draft) for one in self.entries if _is_version(one, newest)
        )
        if is_known and newest.message is not None and newest.id in self._live:
            self.edits.append(build_message(newest))
        return is_known


def _is_version(entry: Entry, of: Entry) -> bool:
    return entry.control is None and entry.role == of.role and entry.message_id == of.message_id


def _select_versions(entries: Iterable[Entry]) -> dict[str, Entry]:
    """Return the version of each message that a state was last seen with, else the latest.

    What was edited in the log since is not marked, and so not taken for what the state said.
    """
    found: dict[str, Entry] = {}
    for entry in entries:
        if entry.control is None and entry.role != "summary":
            before = found.get(entry.message_id)
            if before is None or read_mark(entry) or not read_mark(before):
                found[entry.message_id] = entry
    return found


def draft_message(
    drafting: DraftBuilder,
    message: BaseMessage,
    turn_id: str | None,
    metadata: Metadata | None = None,
) -> Draft | None:
    """Return what is to be stored of a message, if anything is."""
    own = None if get_role(message) == "system" else turn_id
    return drafting.filter_draft(make_draft(message, turn_id=own, metadata=metadata))
