"""What a log and the messages of a state know of each other: what is new, left, or forgotten. Pure.

Each entry that is stored for a state says which message of the state it follows. So the entries are
a tree, a state is a way through it, and what hangs beside that way was left, or runs at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from langchain_core.messages import BaseMessage

from langchain_convmem.ids import make_ulid
from langchain_convmem.records import Draft, Entry
from langchain_convmem.turns.node_context import Mark, NodeContext, read_mark, read_step
from langchain_convmem.turns.replies import INTERRUPTED
from langchain_convmem.turns.view import has_same_content
from langchain_convmem.views.codec import get_role, make_draft
from langchain_convmem.views.live import find_live_entries, find_retracted_ids
from langchain_convmem.views.messages import DraftBuilder, build_message
from langchain_convmem.views.summaries import find_summaries_over


@dataclass(slots=True)
class StateDiff:
    """Compares a state with the log. For one comparison, not thread-safe.

    Attributes:
        drafting: What is stored of a message.
        context: The node that runs.
        entries: Those of the messages compared at least, by position.
        versions: All that was stored under each message's id.
        dead: Ids of entries that count no more.
        live: The entries that count.
        news: What to append.
        same: Ids of entries that say what the state says.
        edits: Messages that were edited in the log since the state was last seen.
        turns: The turn of each message compared; None of a system message, and of a forgotten one.
        after: Id of the latest message that is in the log, or will be.
        is_heard: Whether anything of the user's latest message is stored; if not, no answer is.
    """

    drafting: DraftBuilder
    context: NodeContext
    entries: Sequence[Entry]
    versions: dict[str, list[Entry]] = field(init=False, default_factory=dict)
    dead: Collection[str] = field(init=False)
    live: Sequence[Entry] = field(init=False)
    news: list[Draft] = field(default_factory=list)
    same: set[str] = field(default_factory=set)
    edits: list[BaseMessage] = field(default_factory=list)
    turns: list[str | None] = field(default_factory=list)
    after: str | None = None
    is_heard: bool = True

    def __post_init__(self) -> None:
        """Look up what is known."""
        for entry in self.entries:
            if entry.control is None and entry.role != "summary":
                self.versions.setdefault(entry.message_id, []).append(entry)
        self.dead = find_retracted_ids(self.entries)
        self.live = find_live_entries(self.entries)

    # -- What is new ----------------------------------------------------------------------------

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

        What the user newly says begins a turn. In a run it does so only after an answer: what comes
        in the middle of a loop of tools belongs to the turn.

        Args:
            spoken: All of them.
            forgotten: Ids of messages that are not stored again.
            first: Number of the first one to compare.
            turn_id: The turn that is under way; None if one begins.
            asked: Number of the message with which a turn begins; if it was taken back before, it
                counts again, and nothing else does.
        """
        if first and spoken[first - 1].id in self.versions:
            self.after = spoken[first - 1].id
        turn, before, joins = turn_id, None, False
        for number, message in enumerate(spoken[first:], first):
            versions, is_user = self.versions.get(message.id or "", []), get_role(message) == "user"
            if number == asked and all(one.id in self.dead for one in versions):
                versions = []
            is_said = get_role(message) != "system" and message.id not in forgotten
            if is_said:
                begins = is_user and not joins and (turn_id is None or is_answer(before))
                if versions:
                    turn = versions[-1].turn_id
                elif turn is None or begins:
                    turn = make_ulid()
                before, joins = message, is_user and not versions
            self.turns.append(turn if is_said else None)
            if message.id not in forgotten:
                self._take(message, versions)

    def _take(self, message: BaseMessage, versions: Sequence[Entry]) -> None:
        """Note whether the message is news."""
        role, draft = get_role(message), self._draft(message)
        if role == "user":
            self.is_heard = bool(versions) or draft is not None
        if versions and (draft is None or _is_known(versions, draft)):
            newest = versions[-1]
            self.same.add(newest.id)
            is_own = read_mark(newest) is not None or newest.id in self.dead
            if draft is not None and not is_own and not has_same_content(newest, draft):
                self.edits.append(build_message(newest))
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
        return self.drafting.filter_draft(make_draft(message, turn_id=turn, metadata=metadata))

    # -- What is gone from the log --------------------------------------------------------------

    def find_forgotten(
        self, spoken: Sequence[BaseMessage], *, first: int, settled: int
    ) -> set[str]:
        """Return the ids of messages that the log had and has no more.

        What other messages followed, in the log, was there; so was all before a later message.

        Args:
            spoken: The messages of the state.
            first: Number of the first that is compared.
            settled: All up to this number was in the log.
        """
        gone = {mark.after for mark in map(read_mark, self.entries) if mark is not None}
        gone -= self.versions.keys()
        followed = [n for n, one in enumerate(spoken, 1) if n > first and one.id in gone]
        settled = max([settled, *followed])
        return {str(one.id) for one in spoken[first:settled] if one.id not in self.versions}

    # -- What is gone from the state ------------------------------------------------------------

    def take_back(
        self, ids: Collection[str], removed: Collection[str], *, is_whole: bool
    ) -> list[Draft]:
        """Return what takes out of the views what a state has left, and brings back what it holds.

        Nothing is erased, and a graph that returns to a branch it left finds it again: a later
        control entry takes back the earlier one. Summaries that cover retracted entries go as well.

        Args:
            ids: Those of the messages that the state holds.
            removed: Ids of messages that it held once.
            is_whole: Whether it holds all of the thread; if not, it says nothing of what came
                before.
        """
        lifted = [
            entry.id
            for entry in self.entries
            if entry.control is not None and entry.id not in self.dead and read_mark(entry)
            if not self.same.isdisjoint(set(entry.control.retracts).intersection(self.dead))
        ]
        held = [self.versions[name][0] for name in ids if name in self.versions]
        last = max(held, key=lambda entry: entry.position, default=None)
        left = {*removed, *self._find_left(ids, last, returns=bool(lifted))}.difference(ids)
        first = 0 if is_whole or last is None else last.position
        after = find_live_entries([one for one in self.entries if one.id not in lifted])
        gone: list[str] = []
        for entry in after:
            mark = read_mark(entry)
            # Words that broke off were in no state: they go with what they follow.
            is_cut = INTERRUPTED in entry.metadata.attributes
            is_left = entry.message_id in left or (mark and is_cut and mark.after in left)
            is_back = entry.id in self.dead and entry.id not in self.same and entry.position > first
            if entry.role != "summary" and (is_left or is_back):
                gone.append(entry.id)
        return self.context.retract([*lifted, *gone, *find_summaries_over(after, gone)], "rewind")

    def _find_left(
        self, ids: Collection[str], last: Entry | None, *, returns: bool
    ) -> Collection[str]:
        """Return the messages of a branch that a state has left for an earlier checkpoint.

        The config of a snapshot says so itself. `update_state` with it does not: then a turn tells
        that follows what the state holds last, is not in it, has an answer, and began at an earlier
        step. One that began in the same step, or that waits for its answer, runs beside this one,
        and so does one behind an open question.

        Args:
            ids: Those of the messages that the state holds.
            last: The latest of their entries.
            returns: Whether the state returns to a branch that it left before.
        """
        context, answered = self.context, {e.turn_id for e in self.entries if e.role == "assistant"}
        is_told = returns or context.since is not None
        roots: set[str | None] = set(ids)
        if last is None:
            if context.since is None or context.level or context.is_sent:
                return ()
            roots = {None}
        elif not is_told:
            if last.role == "user" or context.is_sent:
                return ()
            roots = {last.message_id}
        else:  # what came before the state's messages, too, which it need not hold
            for entry in reversed(self.entries):
                mark = read_mark(entry) if entry.message_id in roots else None
                roots.update([mark.after] if mark and mark.after else ())

        def is_left(entry: Entry, mark: Mark) -> bool:
            if is_told:
                return mark.path[0][0] != context.path[0][0]
            is_turn = entry.role == "user" and mark.level == context.level
            is_earlier = read_step(mark.path) < read_step(context.path)
            return is_turn and is_earlier and entry.turn_id in answered

        others = [one for one in self.entries if one.control is None and one.message_id not in ids]
        at = 0 if last is None else last.position
        found = _follow(others, roots, is_left).values()
        return [entry.message_id for entry in found if entry.position > at]

    def find_abandoned(self, live: Sequence[Entry], own: Sequence[BaseMessage]) -> list[str]:
        """Return the entries of replies that follow what the state holds last, and are not in it.

        An attempt made them that came to nothing; what followed them goes as well. What another
        branch of the same step says is none of them, nor what another graph says within the turn.

        Args:
            live: The live entries from the beginning of the turn on.
            own: The messages of the turn in the state.
        """
        held, context = {str(message.id) for message in own}, self.context
        last = [entry.message_id for entry in live if entry.message_id in held][-1:]

        def is_reply(entry: Entry, mark: Mark) -> bool:
            is_here = mark.level == context.level and not context.is_beside(mark.path)
            return entry.role != "user" and is_here

        others = [entry for entry in live if entry.message_id not in held]
        found = [entry.id for entry in _follow(others, last, is_reply).values()]
        return [*found, *find_summaries_over(live, found)]


def _follow(
    entries: Iterable[Entry],
    roots: Collection[str | None],
    is_first: Callable[[Entry, Mark], bool],
) -> dict[str, Entry]:
    """Return the entries that follow some messages, and what follows those, by message id.

    Args:
        entries: By position.
        roots: Ids of the messages.
        is_first: Whether an entry that follows one of them counts.
    """
    found: dict[str, Entry] = {}
    for entry in entries:
        mark = read_mark(entry)
        if mark and (mark.after in found or (mark.after in roots and is_first(entry, mark))):
            found[entry.message_id] = entry
    return found


def _is_known(versions: Sequence[Entry], draft: Draft) -> bool:
    """Return whether a state says what it said before, or what was made of that in the log.

    A message of the log's own, without a mark, that is newer than what the state says is an edit.
    """
    if read_mark(versions[-1]) is not None:
        return has_same_content(versions[-1], draft)
    return any(has_same_content(one, draft) for one in versions if one.role == draft.role)


def is_answer(message: BaseMessage | None) -> bool:
    """Return whether a message answers the user; a call of a tool does not."""
    is_said = message is not None and get_role(message) == "assistant"
    return is_said and not getattr(message, "tool_calls", None)
