"""What every part of the log contract shares: the log under test, and short ways to write to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

import pytest
from langchain_core.messages import BaseMessage, HumanMessage

from langchain_convmem.protocols import MessageLog, ThreadState
from langchain_convmem.records import Control, Draft, Entry, RetractReason, ThreadKey
from langchain_convmem.views.codec import draft_of
from langchain_convmem.views.live import live_entries

__all__ = [
    "ANA",
    "LONE",
    "ContractLog",
    "ContractPart",
    "OpenLog",
    "live_texts",
    "retract",
    "say",
    "say_all",
    "texts",
]

ANA = ThreadKey("ana", "t1")
LONE = ThreadKey(None, "t1")


@runtime_checkable
class ContractLog(MessageLog, ThreadState, Protocol):
    """What a log must be to be tested."""


OpenLog: TypeAlias = Callable[[], ContractLog]
"""Opens a handle on the storage of the running test; closed when the test ends."""


class ContractPart(ABC):
    """A part of the contract; see `MessageLogContract` for what a backend declares."""

    persistent: ClassVar[bool] = False
    several_handles: ClassVar[bool] = False
    several_processes: ClassVar[bool] = False

    @abstractmethod
    def make_log(self, tmp_path: Path) -> OpenLog:
        """Return a function that opens a handle on one storage, the same at every call.

        With `several_processes` it is called in other processes too, so it must be one that can be
        sent there: a `functools.partial` of something a module names, not a lambda.

        Args:
            tmp_path: An empty directory of the running test.
        """

    @pytest.fixture
    def open_log(self, tmp_path: Path) -> Iterator[OpenLog]:
        """Open handles on one storage; they are closed at the end."""
        make = self.make_log(tmp_path)
        opened: list[ContractLog] = []

        def open_one() -> ContractLog:
            opened.append(make())
            return opened[-1]

        yield open_one
        for log in opened:
            log.close()

    @pytest.fixture
    def log(self, open_log: OpenLog) -> ContractLog:
        """Return a log that holds nothing."""
        return open_log()


def say(log: MessageLog, key: ThreadKey, message: BaseMessage | str) -> Entry:
    """Append one message, a text as the user's."""
    [entry] = say_all(log, key, [message])
    return entry


def say_all(
    log: MessageLog, key: ThreadKey, messages: Sequence[BaseMessage | str], *, turn: str = ""
) -> list[Entry]:
    """Append one batch of messages, texts as the user's."""
    whole = [HumanMessage(item) if isinstance(item, str) else item for item in messages]
    return log.append(key, [draft_of(message, turn_id=turn or None) for message in whole])


def retract(log: MessageLog, key: ThreadKey, *ids: str, reason: RetractReason = "undo") -> Entry:
    """Append a control entry."""
    [entry] = log.append(key, [Draft(role="control", control=Control(ids, reason))])
    return entry


def texts(entries: Sequence[Entry]) -> list[str]:
    """Return the messages' texts, control entries left out."""
    return [str(entry.message.content) for entry in entries if entry.message is not None]


def live_texts(log: MessageLog, key: ThreadKey) -> list[str]:
    """Return the texts that the views show."""
    return texts(live_entries(log.entries(key)))
