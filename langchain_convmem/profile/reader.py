"""`ProfileReader`: profiles of users, followed through the changes of a log.

What was read of a user is kept in this process: the statements alone, not the lines. A `forget`
raises the generation of the changes, and all is read anew; a retraction is a change like any other.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial

from langchain_convmem.effects import Effect, Steps, perform
from langchain_convmem.forks import make_lock
from langchain_convmem.ids import get_now_ms
from langchain_convmem.profile.profile import (
    Decision,
    ProfileItem,
    SaidStatement,
    UserProfile,
    Verdict,
    build_profile,
    draft_decision,
    read_decision,
    read_line,
)
from langchain_convmem.protocols import LineSource, MessageLog, is_valid_for
from langchain_convmem.records import (
    Changes,
    Control,
    DialogLine,
    Draft,
    Entry,
    LineChanges,
    Owner,
)
from langchain_convmem.views.lines import make_dialog_lines
from langchain_convmem.workers import run_in_worker

MOST_STATEMENTS = 10_000
"""So many statements of a user are kept; of more, the oldest tastes and possessions go first."""
MOST_USERS = 256
"""Of so many users what was read is kept, those that were asked for last."""
_PAGE = 2_000
"""Entries that are read at once."""
_FIRST_TO_GO = ("tastes", "possessions", "plans")


@dataclass(frozen=True, slots=True)
class FollowedProfile:
    """A profile, and how far its log was read.

    Attributes:
        profile: What is known of the user.
        generation: That of the changes; a `forget` raises it.
        cursor: That of the changes.
        decisions: What was decided of its items, in order, taken back or not.
    """

    profile: UserProfile
    generation: int
    cursor: int
    decisions: tuple[Decision, ...] = ()


@dataclass(slots=True)
class _ReadUser:
    """What was read of one user."""

    generation: int = 0
    cursor: int = 0
    said: dict[str, list[SaidStatement]] = field(default_factory=dict)
    controls: dict[str, tuple[str, ...]] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)
    count: int = 0
    built: UserProfile | None = None
    good_until_ms: int = 0

    def take(self, changes: LineChanges) -> None:
        """Add a page of changes."""
        for line in changes.lines:
            self._take_line(line)
        for entry in changes.controls:
            self._take_control(entry)
        self.cursor = changes.cursor
        if self.count > MOST_STATEMENTS:
            self._drop_oldest()

    def _take_line(self, line: DialogLine) -> None:
        found = read_line(line)
        if found:
            self.said.setdefault(line.entry_id, []).extend(found)
            self.count += len(found)
            self.built = None

    def _take_control(self, entry: Entry) -> None:
        control = entry.control
        if control is None:
            return
        decision = read_decision(entry, len(self.decisions))
        if decision is not None:
            self.decisions.append(decision)
            self.controls[entry.id] = ()
            self.built = None
        retracted = tuple(
            name for name in control.retracts if name in self.said or name in self.controls
        )
        if retracted:
            self.controls[entry.id] = retracted
            self.built = None

    def _drop_oldest(self) -> None:
        """Forget statements beyond the limit, a tenth of them at once."""
        surplus = self.count - MOST_STATEMENTS * 9 // 10
        everything = [one for statements in self.said.values() for one in statements]
        everything.sort(key=lambda one: (one.item.kind not in _FIRST_TO_GO, one.item.since_ms))
        gone = {one.item.id for one in everything[:surplus]}
        for name in list(self.said):
            left = [one for one in self.said[name] if one.item.id not in gone]
            if left:
                self.said[name] = left
            else:
                del self.said[name]
        self.count = sum(map(len, self.said.values()))
        self.built = None

    def build(self, now_ms: int) -> UserProfile:
        """Return the profile at a time; the same object while nothing changed."""
        if self.built is not None and self.built.now_ms <= now_ms < self.good_until_ms:
            return self.built
        dead = self._find_dead()
        said = (one for name, all_of in self.said.items() if name not in dead for one in all_of)
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


_FOREVER_MS = 10**15
_FEW_LINES = 8
"""So many lines are read between two breaths."""


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

    def read_steps(self, owner: Owner) -> Steps[FollowedProfile]:
        """Return an owner's profile as of now."""
        while True:
            with self._lock:
                known = self._users.get(owner)
                cursor = known.cursor if known is not None else 0
                generation = known.generation if known is not None else None
            page = yield from _read_page_steps(self._log, owner, cursor)
            if generation is not None and page.generation != generation:
                self.drop(owner)
                continue
            # A page takes a while: an event loop goes on meanwhile.
            take = partial(self._take, owner, cursor, page)
            is_quick = len(page.lines) + len(page.controls) <= _FEW_LINES
            found: FollowedProfile | None = (
                take() if is_quick else (yield Effect(take, lambda: run_in_worker(take)))  # noqa: B023 - awaited at once
            )
            if found is not None:
                return found

    def read_profile_steps(self, owner: Owner) -> Steps[UserProfile]:
        """Return an owner's profile as of now, which can be decided of."""
        followed = yield from self.read_steps(owner)
        return replace(followed.profile, editor=ProfileEditor(self, self._log, owner))

    def _take(self, owner: Owner, cursor: int, page: LineChanges) -> FollowedProfile | None:
        """Add a page to what is known, unless somebody else did; return the profile then."""
        with self._lock:
            known = self._users.get(owner)
            if known is None:
                if cursor:
                    return None
                known = self._users[owner] = _ReadUser(page.generation)
            if known.cursor != cursor or known.generation != page.generation:
                return None
            known.take(page)
            self._users.move_to_end(owner)
            while len(self._users) > MOST_USERS:
                self._users.popitem(last=False)
            if page.cursor != cursor and not page.is_last:
                return None
            now_ms = get_now_ms() if self._now_ms is None else self._now_ms
            decisions = tuple(known.decisions)
            return FollowedProfile(known.build(now_ms), known.generation, known.cursor, decisions)

    def drop(self, owner: Owner) -> None:
        """Forget what was read of an owner."""
        with self._lock:
            self._users.pop(owner, None)


def _read_page_steps(log: MessageLog, owner: Owner, cursor: int) -> Steps[LineChanges]:
    if isinstance(log, LineSource) and is_valid_for(log, "line_changes", "changes"):
        read = partial(log.line_changes, owner, cursor, limit=_PAGE)
        lines: LineChanges = yield Effect(read, lambda: run_in_worker(read))
        return lines
    changes: Changes = yield from perform(log.changes, log.achanges, owner, cursor, limit=_PAGE)
    return LineChanges(
        tuple(line for entry in changes.entries for line in make_dialog_lines(entry)),
        _select_controls(changes.entries),
        # Without entries the log has ended, wherever it says that its cursor is.
        changes.cursor if changes.entries else cursor,
        changes.generation,
        is_last=not changes.entries,
    )


def _select_controls(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    return tuple(entry for entry in entries if entry.control is not None)


# -- what people decide -------------------------------------------------------------------------


class ProfileEditor:
    """Writes what people decide of a profile's items into the log, and reads it again."""

    def __init__(self, reader: ProfileReader, log: MessageLog, owner: Owner) -> None:
        """Take a profile's reader, its log and whose profile it is."""
        self._reader = reader
        self._log = log
        self._owner = owner

    def decide_steps(self, verdict: Verdict, item: ProfileItem) -> Steps[UserProfile]:
        """Store a decision in the thread that says the item, and return the profile after it."""
        draft = draft_decision(verdict, item)
        yield from perform(self._log.append, self._log.aappend, item.key, [draft])
        return (yield from self._reader.read_profile_steps(self._owner))

    def undo_steps(self, item: ProfileItem) -> Steps[UserProfile]:
        """Take back all that was decided of an item, and return the profile after it."""
        followed = yield from self._reader.read_steps(self._owner)
        names = tuple(one.entry_id for one in followed.decisions if one.item_id == item.id)
        if names:
            draft = Draft(role="control", control=Control(names, "undo"))
            yield from perform(self._log.append, self._log.aappend, item.key, [draft])
        return (yield from self._reader.read_profile_steps(self._owner))
