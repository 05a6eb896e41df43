"""Checks of whole logs: what was altered is named, what is missing is counted.

A log compares checksums wherever it reads, so that every entry is checked by reading all of them.
What more a log knows, such as how many entries there should be, it tells by `check_storage`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

from langchain_convmem.errors import LogClosedError, LogError
from langchain_convmem.message_log import MessageLog
from langchain_convmem.records import Owner, ThreadKey

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the entries read so far, and all there are."""

KEPT = 1_000
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
    """The findings of a log check.

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


def verify_log(log: MessageLog, progress: Progress | None = None) -> VerifyReport:
    """Read a whole log and return its problems. Other programs may write meanwhile.

    Args:
        log: The log.
        progress: Called as entries are read.
    """
    owners: list[Owner] = []
    threads: set[ThreadKey] = set()
    damaged: list[Finding] = []
    problems: list[str] = []
    entries = total = missing = 0
    with _note_error("the owners", problems):
        owners = log.owners()
        users = {owner.user_id for owner in owners}
        total = sum(info.entries for user in users for info in log.threads(user))
    for owner in owners:
        with _note_error(f"all entries of {_describe(owner)}", problems):
            cursor = 0
            while (page := log.changes(owner, cursor, limit=_PAGE)).entries:
                for entry in page.entries:
                    key, position, damage = entry.key, entry.position, entry.damage
                    threads.add(key)
                    if damage:
                        named = key.user_id, key.thread_id, position, entry.id
                        damaged.append(Finding(*named, damage))
                        problems.append(f"position {position} of {_describe(key)}: {damage}")
                entries, cursor = entries + len(page.entries), page.cursor
                if progress is not None:
                    progress(entries, max(entries, total))
    if isinstance(log, StorageCheck):
        with _note_error("what should be there", problems):
            for what, whose, count in log.check_storage():
                problems.append(what if whose is None else f"{_describe(whose)}: {what}")
                missing += count
    shown = tuple(damaged[:KEPT]), tuple(problems[:KEPT]), max(0, len(problems) - KEPT)
    return VerifyReport(len(owners), len(threads), entries, missing, *shown)


@contextmanager
def _note_error(what: str, problems: list[str]) -> Iterator[None]:
    """Take an error of the log within a block for a problem."""
    try:
        yield
    except LogClosedError:
        raise
    except LogError as error:
        problems.append(f"{what} cannot be read to the end: {error}")


def _describe(at: Owner | ThreadKey) -> str:
    named = {"thread": at.thread_id, "user": at.user_id}
    return " of ".join(f"{kind} {name!r:.80}" for kind, name in named.items() if name is not None)
