"""Checks of whole logs: what was altered is named, what is missing is counted.

A log compares checksums wherever it reads, so that every entry is checked by reading all of them.
What more a log knows, such as how many entries there should be, it tells by `check_storage`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from langchain_convmem.errors import ConfigError, LogClosedError, LogError
from langchain_convmem.protocols import MessageLog, OwnerListing
from langchain_convmem.records import Entry, Owner, ThreadKey

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the entries read so far, and all there are."""

KEPT = 1_000
_SHOWN_CHARS = 80
_PAGE = 500


class StorageProblem(NamedTuple):
    """Something that is wrong beside the entries that can be read.

    Attributes:
        what: In a few words, without message text.
        owner: Whose entries are concerned; None where that cannot be told.
        missing: How many entries are missing, where they can be counted.
    """

    what: str
    owner: Owner | None = None
    missing: int = 0


@runtime_checkable
class StorageCheck(Protocol):
    """Optional ability of a log: it knows what should be there."""

    def check_storage(self) -> Iterable[StorageProblem]:
        """Return what is wrong: missing entries, counts that were altered, damaged files."""
        ...


@dataclass(frozen=True, slots=True)
class Finding:
    """An entry that is damaged.

    Attributes:
        user_id: Of the thread; None where it belongs to no user.
        thread_id: Of the thread.
        position: Of the entry.
        entry_id: Its id, or `damaged-POSITION` where that cannot be read; `forget` takes both.
        what: What is wrong, in a few words.
    """

    user_id: str | None
    thread_id: str | None
    position: int
    entry_id: str
    what: str


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What a check of a log found.

    Attributes:
        owners: Users, and threads without a user.
        threads: Of all owners.
        entries: Control entries included, and those that are damaged.
        missing: Entries that were stored, were not forgotten, and are not there. A log that cannot
            count them leaves it at 0.
        damaged: Entries that are not as they were written; the first 1,000.
        problems: One sentence for each of these and for all else that is wrong; no message text;
            the first 1,000.
        more: How many problems there are beyond these.
    """

    owners: int
    threads: int
    entries: int
    missing: int
    damaged: tuple[Finding, ...]
    problems: tuple[str, ...]
    more: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {**asdict(self), "ok": self.ok}


def verify_log(log: MessageLog, progress: Progress | None = None) -> VerifyReport:
    """Read a whole log and return what is wrong with it. Others may write meanwhile.

    Args:
        log: A log that is an `OwnerListing`.
        progress: Called as entries are read.

    Raises:
        ConfigError: If the log cannot list its owners.
    """
    if not isinstance(log, OwnerListing):
        raise ConfigError(f"{log!r} cannot list its users, so that nobody can read all of it")
    check = _Check()
    owners: list[Owner] = []
    with check.guard("the owners"):
        owners = log.owners()
        users = {owner.user_id for owner in owners}
        check.total = sum(info.entries for user in users for info in log.threads(user))
    for owner in owners:
        with check.guard(f"all entries of {_describe_owner(owner)}"):
            check.read(log, owner, progress)
    if isinstance(log, StorageCheck):
        with check.guard("what should be there"):
            for problem in log.check_storage():
                check.note(problem.what, problem.owner)
                check.missing += problem.missing
    damaged, problems = tuple(check.damaged[:KEPT]), tuple(check.problems[:KEPT])
    more = len(check.problems) - len(problems)
    counts = len(owners), len(check.threads), check.entries, check.missing
    return VerifyReport(*counts, damaged, problems, more)


class _Check:
    """What was found so far."""

    def __init__(self) -> None:
        self.threads: set[ThreadKey] = set()
        self.entries = self.total = self.missing = 0
        self.damaged: list[Finding] = []
        self.problems: list[str] = []

    def note(self, what: str, owner: Owner | None = None) -> None:
        self.problems.append(what if owner is None else f"{_describe_owner(owner)}: {what}")

    @contextmanager
    def guard(self, what: str) -> Iterator[None]:
        """Take an error of the log within a block for a finding."""
        try:
            yield
        except LogClosedError:
            raise
        except LogError as error:
            self.note(f"{what} cannot be read to the end: {error}")

    def read(self, log: MessageLog, owner: Owner, progress: Progress | None) -> None:
        page = log.changes(owner, limit=_PAGE)
        while page.entries:
            for entry in page.entries:
                self.threads.add(entry.key)
                if entry.damage:
                    self._note_damage(entry)
            self.entries += len(page.entries)
            if progress is not None:
                progress(self.entries, max(self.entries, self.total))
            page = log.changes(owner, page.cursor, limit=_PAGE)

    def _note_damage(self, entry: Entry) -> None:
        key, position = entry.key, entry.position
        self.damaged.append(Finding(key.user_id, key.thread_id, position, entry.id, entry.damage))
        user = "" if key.user_id is None else f" of user {key.user_id!r:.{_SHOWN_CHARS}}"
        thread = f"thread {key.thread_id!r:.{_SHOWN_CHARS}}{user}"
        self.note(f"position {position} of {thread}: {entry.damage}")


def _describe_owner(owner: Owner) -> str:
    if owner.user_id is not None:
        return f"user {owner.user_id!r:.{_SHOWN_CHARS}}"
    return f"thread {owner.thread_id!r:.{_SHOWN_CHARS}}"
