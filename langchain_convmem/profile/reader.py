"""`ProfileReader`: profiles of users, followed through the changes of a log.

What was read of a user is kept in this process: the statements alone, not the lines. A `forget`
raises the generation of the changes, and all is read anew; a retraction is a change like any other.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from langchain_convmem.forks import make_lock
from langchain_convmem.ids import get_now_ms
from langchain_convmem.message_log import MessageLog
from langchain_convmem.profile.profile import (
    Decision,
    ProfileItem,
    SaidStatement,
    UserProfile,
    Verdict,
    build_profile,
    draft_control,
    read_decision,
    read_line,
)
from langchain_convmem.profile.profiler import is_known, read_proposals, read_proposed
from langchain_convmem.records import Control, DialogLine, Draft, Entry, LineChanges, Owner
from langchain_convmem.views.lines import make_dialog_lines
from langchain_convmem.views.live import find_live_entries

MOST_USERS = 256
"""Of so many users what was read is kept, those that were asked for last."""
_PAGE = 2_000
"""Entries that are read at once."""
_FOREVER_MS = 10**15

QuotedLines: TypeAlias = Mapping[tuple[str, int], DialogLine]
"""Lines by entry and part."""


class FollowedProfile(NamedTuple):
    """A profile, and the generation of the changes that it was read from."""

    profile: UserProfile
    generation: int


@dataclass(slots=True)
class _ReadUser:
    """What was read of one user.

    Attributes:
        generation: That of the changes; a `forget` raises it.
        cursor: How far the changes were read.
        said: The statements of each entry, and of each one that proposals quote.
        controls: What each control entry retracts of the others.
        decisions: What was decided of items, in order, taken back or not.
        built: The profile of all this, until something changes.
        good_until_ms: When its next plan is over.
    """

    generation: int = 0
    cursor: int = 0
    said: dict[str, list[SaidStatement]] = field(default_factory=dict)
    controls: dict[str, tuple[str, ...]] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)
    built: UserProfile | None = None
    good_until_ms: int = 0

    def take(self, changes: LineChanges, quoted: QuotedLines) -> None:
        """Add a page of changes, and the lines that its proposals quote."""
        for line in changes.lines:
            found = read_line(line)
            if found:
                self.said.setdefault(line.entry_id, []).extend(found)
                self.built = None
        for entry_id, _ in quoted:
            # So that a retraction of it is noticed, whichever comes first.
            self.said.setdefault(entry_id, [])
        for entry in changes.controls:
            self._take_control(entry)
            self._take_proposals(entry, quoted)
        self.generation, self.cursor = changes.generation, changes.cursor

    def _take_control(self, entry: Entry) -> None:
        decision = read_decision(entry)
        if decision is not None:
            self.decisions.append(decision)
        retracts = entry.control.retracts if entry.control is not None else ()
        known = tuple(name for name in retracts if name in self.said or name in self.controls)
        if known or decision is not None:
            self.controls[entry.id] = known
            self.built = None

    def _take_proposals(self, entry: Entry, quoted: QuotedLines) -> None:
        read = read_proposals(entry)
        if read is None:
            return
        self.controls.setdefault(entry.id, ())
        for proposal in read.items:
            line = quoted.get((proposal.entry_id, proposal.part))
            said = None if line is None else read_proposed(line, proposal)
            known = self.said.get(proposal.entry_id, [])
            if said is not None and said.item.key == entry.key and not is_known(said, known):
                known.append(said._replace(proposed_by=entry.id))
                self.built = None

    def build(self, now_ms: int) -> UserProfile:
        """Return the profile at a time; the same object while nothing changed."""
        if self.built is not None and self.built.now_ms <= now_ms < self.good_until_ms:
            return self.built
        dead = self._find_dead()
        said = (
            one
            for name, all_of in self.said.items()
            if name not in dead
            for one in all_of
            if one.proposed_by not in dead
        )
        decisions = (one for one in self.decisions if one.entry_id not in dead)
        self.built = build_profile(said, decisions, now_ms=now_ms)
        ends = (item.days[1] for item in self.built.current if item.days and item.kind == "plans")
        self.good_until_ms = min(ends, default=now_ms + _FOREVER_MS)
        return self.built

    def _find_dead(self) -> set[str]:
        """Return what is retracted; a retraction that was taken back retracts nothing."""
        dead: set[str] = set()
        for name in reversed(self.controls):
            if name not in dead:
                dead.update(self.controls[name])
        return dead


class ProfileReader:
    """Reads the profiles of a log's users. Thread-safe; a forked child starts anew."""

    def __init__(self, log: MessageLog, *, now_ms: int | None = None) -> None:
        """Take a log; nothing is read yet.

        Args:
            log: Where entries are kept.
            now_ms: The time that decides which plans are past, milliseconds since the epoch; None
                is the time at which a profile is asked for.
        """
        self._log = log
        self._now_ms = now_ms
        self._lock = make_lock()
        self._users: OrderedDict[Owner, _ReadUser] = OrderedDict()

    def read(self, owner: Owner) -> FollowedProfile:
        """Return an owner's profile as of now."""
        while True:
            with self._lock:
                known = self._users.get(owner, _ReadUser())
                cursor, generation = known.cursor, known.generation
            page = self._log.line_changes(owner, cursor, limit=_PAGE)
            is_other = bool(cursor) and page.generation != generation
            quoted = {} if is_other else _read_quoted(self._log, page)
            with self._lock:
                if is_other:
                    self._users.pop(owner, None)
                elif known.cursor == cursor:  # nobody else was faster
                    known.take(page, quoted)
                    self._keep(owner, known)
                    if page.is_last or page.cursor == cursor:
                        now_ms = get_now_ms() if self._now_ms is None else self._now_ms
                        return FollowedProfile(known.build(now_ms), known.generation)

    def _keep(self, owner: Owner, known: _ReadUser) -> None:
        self._users[owner] = known
        self._users.move_to_end(owner)
        while len(self._users) > MOST_USERS:
            self._users.popitem(last=False)

    def read_profile(self, owner: Owner) -> UserProfile:
        """Return an owner's profile as of now, which can be decided of."""
        profile = self.read(owner).profile
        return replace(profile, decide=lambda verdict, item: self._decide(owner, verdict, item))

    def _decide(self, owner: Owner, verdict: Verdict | None, item: ProfileItem) -> UserProfile:
        """Store a decision in the thread that says the item; None takes back all that was made."""
        draft = draft_control({"verdict": verdict, "item": item.id})
        if verdict is None:
            self.read(owner)
            with self._lock:
                known = self._users.get(owner, _ReadUser())
                names = [one.entry_id for one in known.decisions if one.item_id == item.id]
            draft = Draft(role="control", control=Control(tuple(names), "undo"))
            if not names:
                return self.read_profile(owner)
        self._log.append(item.key, [draft])
        return self.read_profile(owner)


def _read_quoted(log: MessageLog, page: LineChanges) -> QuotedLines:
    """Return the lines that the proposals of a page quote, by entry and part.

    Most stand in the page as well. The others are read, as their threads showed them when they were
    proposed; what is erased is nowhere.
    """
    quoted: dict[tuple[str, int], DialogLine] = {}
    lines = {(line.entry_id, line.part): line for line in page.lines}
    for control in page.controls:
        read = read_proposals(control)
        names = [] if read is None else [(one.entry_id, one.part) for one in read.items]
        found = lines
        if read is not None and not lines.keys() >= set(names):
            entries = log.entries(control.key, after=read.after, until=control.position)
            said = (line for one in find_live_entries(entries) for line in make_dialog_lines(one))
            found = lines | {(line.entry_id, line.part): line for line in said}
        quoted.update((name, found[name]) for name in names if name in found)
    return quoted
