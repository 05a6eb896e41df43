"""Threads that a LangGraph checkpointer keeps, brought into a memory.

Requires the extra `langgraph`. Any checkpointer will do, such as `PostgresSaver`: it reads its own
tables. A SQLite file of checkpoints needs none, `import_file` reads it.
"""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeAlias

from langchain_core.messages import BaseMessage, convert_to_messages

from langchain_convmem.effects import Effect, Steps, perform, run_async, run_sync
from langchain_convmem.errors import ConfigError, MissingExtraError
from langchain_convmem.memory import ConversationMemory
from langchain_convmem.records import Entry, ThreadKey
from langchain_convmem.transfer.imports import list_threads, store_file_steps
from langchain_convmem.transfer.messages import repair_timestamp
from langchain_convmem.transfer.threads import ImportedThread, build_thread
from langchain_convmem.workers import run_in_thread

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

UserFinder: TypeAlias = Callable[[str, Mapping[str, Any]], str | None]
"""Says whose a thread is, by its id and the metadata of its latest checkpoint."""

_CHANNEL = "messages"


@dataclass(frozen=True, slots=True)
class CheckpointReport:
    """What became of the threads of a checkpointer.

    Attributes:
        threads: The threads that hold messages, as they are named there.
        messages: How many messages these hold.
        added: Entries that were not in the log before.
        known: Entries that were there already.
        differing: Messages that the log shows otherwise than the checkpointer; 0 unless a write
            hook changed some, or the thread went on in the log since an earlier import.
        empty: Threads without messages, which were left out.
        skipped: One sentence for each message that was left out, saying why.
    """

    threads: tuple[str, ...] = ()
    messages: int = 0
    added: int = 0
    known: int = 0
    differing: int = 0
    empty: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


def import_checkpoints(
    memory: ConversationMemory,
    checkpointer: BaseCheckpointSaver[Any],
    *,
    user_id: str | None = None,
    find_user: UserFinder | None = None,
    thread_ids: Iterable[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> CheckpointReport:
    """Bring the threads of a checkpointer into a memory, each as its latest checkpoint has it.

    Messages keep their ids, so importing again doubles nothing and adds what is new. Afterwards
    each message is compared with what the log shows. Subgraphs, which have namespaces of their own,
    are left aside. Nothing is deleted: `checkpointer.delete_thread` does that, once you have looked
    at the report.

    Args:
        memory: Where they go.
        checkpointer: Any of LangGraph's, such as `PostgresSaver` or `InMemorySaver`.
        user_id: Whose all of them are; None makes each thread one of no user.
        find_user: Or says whose each thread is, such as
            `lambda thread_id, metadata: metadata.get("user_id")`.
        thread_ids: These threads alone. None is all of them, for which the checkpointer lists every
            checkpoint that it has: name them if there are many.
        progress: Called with (done, total) threads after each.

    Raises:
        ConfigError: If both a user and a finder are given, or the ids come as one text.
        ImportFormatError: If a thread's messages cannot be stored; earlier threads are stored.
        LogError: If the log cannot be read or written.
        MissingExtraError: If langgraph is not installed.
    """
    wanted = _Wanted(user_id, find_user, thread_ids, progress)
    return run_sync(_import_steps(memory, _SyncReader(checkpointer), wanted))


async def aimport_checkpoints(
    memory: ConversationMemory,
    checkpointer: BaseCheckpointSaver[Any],
    *,
    user_id: str | None = None,
    find_user: UserFinder | None = None,
    thread_ids: Iterable[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> CheckpointReport:
    """Async `import_checkpoints`, by the checkpointer's asynchronous methods."""
    wanted = _Wanted(user_id, find_user, thread_ids, progress)
    return await run_async(_import_steps(memory, _AsyncReader(checkpointer), wanted))


# -- what a checkpointer holds --------------------------------------------------------------------


def _make_config(thread_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}


class _SyncReader:
    """Reads a checkpointer by its blocking methods."""

    def __init__(self, checkpointer: BaseCheckpointSaver[Any]) -> None:
        _check_checkpointer(checkpointer)
        self._saver = checkpointer

    def list_steps(self) -> Steps[list[str]]:
        """Return the names of all threads, each once."""
        found: list[str] = yield Effect(self._list, lambda: run_in_thread(self._list))
        return found

    def _list(self) -> list[str]:
        return list(dict.fromkeys(_name_threads(self._saver.list(None))))

    def read_steps(self, thread_id: str) -> Steps[CheckpointTuple | None]:
        """Return the latest checkpoint of a thread; None if there is none."""
        config = _make_config(thread_id)
        return (yield from perform(self._saver.get_tuple, self._saver.aget_tuple, config))


class _AsyncReader(_SyncReader):
    """Reads a checkpointer by its asynchronous methods."""

    def list_steps(self) -> Steps[list[str]]:
        """Return the names of all threads, each once."""
        found: list[str] = yield Effect(self._list, self._alist)
        return found

    async def _alist(self) -> list[str]:
        names = [name async for name in _aname_threads(self._saver.alist(None))]
        return list(dict.fromkeys(names))


def _check_checkpointer(value: object) -> None:
    try:
        base = importlib.import_module("langgraph.checkpoint.base")
    except ImportError as error:
        raise MissingExtraError.build("import_checkpoints", "langgraph") from error
    if not isinstance(value, base.BaseCheckpointSaver):
        msg = (
            f"expected a checkpointer of LangGraph, got {type(value).__name__}; PostgresSaver."
            "from_conn_string(...) is one, within its `with` block"
        )
        raise ConfigError(msg)


def _name_threads(found: Iterator[CheckpointTuple]) -> Iterator[str]:
    for one in found:
        yield str(one.config["configurable"]["thread_id"])


async def _aname_threads(found: AsyncIterator[CheckpointTuple]) -> AsyncIterator[str]:
    async for one in found:
        yield str(one.config["configurable"]["thread_id"])


def _read_messages(checkpoint: CheckpointTuple) -> list[BaseMessage]:
    held = checkpoint.checkpoint.get("channel_values", {}).get(_CHANNEL)
    return convert_to_messages(held) if isinstance(held, Sequence) else []


# -- from there into a log ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What to import, and whose it is; see `import_checkpoints`."""

    user_id: str | None
    find_user: UserFinder | None
    thread_ids: Iterable[str] | None
    progress: Callable[[int, int], None] | None

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        if self.user_id is not None and self.find_user is not None:
            raise ConfigError("pass user_id or find_user, not both")
        if isinstance(self.thread_ids, str):
            raise ConfigError("thread_ids must be several ids, got one text")

    def find_owner(self, name: str, checkpoint: CheckpointTuple) -> str | None:
        """Return whose a thread is."""
        if self.find_user is None:
            return self.user_id
        return self.find_user(name, checkpoint.metadata or {})


def _import_steps(
    memory: ConversationMemory, reader: _SyncReader, wanted: _Wanted
) -> Steps[CheckpointReport]:
    if wanted.thread_ids is not None:
        names = list(dict.fromkeys(wanted.thread_ids))
    else:
        names = yield from reader.list_steps()
    report = CheckpointReport()
    for number, name in enumerate(names, 1):
        checkpoint = yield from reader.read_steps(name)
        messages = [] if checkpoint is None else _read_messages(checkpoint)
        if checkpoint is None or not messages:
            report = _add(report, CheckpointReport(empty=(name,)))
        else:
            whose = wanted.find_owner(name, checkpoint)
            report = _add(report, (yield from _store_steps(memory, name, whose, messages)))
        if wanted.progress is not None:
            wanted.progress(number, len(names))
    return report


def _store_steps(
    memory: ConversationMemory, name: str, user_id: str | None, messages: Sequence[BaseMessage]
) -> Steps[CheckpointReport]:
    thread = _build_thread(name, messages)
    file = list_threads(f"checkpoints of thread {name!r}", [thread])
    drafting = memory.turn_memory.drafting
    stored = yield from store_file_steps(memory.log, file, user_id, drafting, None)
    key = ThreadKey(user_id, name)
    entries: list[Entry] = yield from perform(
        memory.log.find, memory.log.afind, key, [str(one.id) for one in thread.messages]
    )
    latest = {entry.message_id: entry.message for entry in entries}
    return CheckpointReport(
        threads=(name,),
        messages=len(messages),
        added=stored.added,
        known=stored.known,
        differing=sum(latest.get(str(one.id)) != one for one in thread.messages),
        skipped=stored.skipped,
    )


def _build_thread(name: str, messages: Sequence[BaseMessage]) -> ImportedThread:
    path = f"checkpoints of thread {name!r}"
    found = [
        repair_timestamp(message.model_copy(deep=True), f"message {number}")
        for number, message in enumerate(messages, 1)
    ]
    return build_thread(name, found, path, number_repeats=True)


def _add(first: CheckpointReport, second: CheckpointReport) -> CheckpointReport:
    values = ((getattr(one, field.name) for one in (first, second)) for field in fields(first))
    return CheckpointReport(*(before + after for before, after in values))
