"""Threads that a LangGraph checkpointer keeps, brought into a memory.

Requires the extra `langgraph`. Any checkpointer will do, such as `PostgresSaver`: it reads its own
tables. A SQLite file of checkpoints needs none, `import_file` reads it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from langchain_core.messages import BaseMessage, convert_to_messages

from langchain_convmem.background import ask, to_async
from langchain_convmem.errors import ConfigError, MissingExtraError
from langchain_convmem.memory import ConversationMemory
from langchain_convmem.records import ThreadKey
from langchain_convmem.transfer.imports import list_threads, store_file
from langchain_convmem.transfer.messages import repair_timestamp
from langchain_convmem.transfer.threads import build_thread
from langchain_convmem.turns.memory import get_turn_memory

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
    _check_checkpointer(checkpointer)
    if user_id is not None and find_user is not None:
        raise ConfigError("pass user_id or find_user, not both")
    if isinstance(thread_ids, str):
        raise ConfigError("thread_ids must be several ids, got one text")
    if thread_ids is not None:
        names = list(dict.fromkeys(thread_ids))
    else:
        names = ask(partial(_list_names, checkpointer), partial(_alist_names, checkpointer))
    report = CheckpointReport()
    for number, name in enumerate(names, 1):
        place: RunnableConfig = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
        checkpoint = ask(
            partial(checkpointer.get_tuple, place), partial(checkpointer.aget_tuple, place)
        )
        messages = [] if checkpoint is None else _read_messages(checkpoint)
        if checkpoint is None or not messages:
            report = _add(report, CheckpointReport(empty=(name,)))
        else:
            user = find_user(name, checkpoint.metadata or {}) if find_user else user_id
            report = _add(report, _store(memory, ThreadKey(user, name), messages))
        if progress is not None:
            progress(number, len(names))
    return report


aimport_checkpoints = to_async(import_checkpoints)


# -- what a checkpointer holds --------------------------------------------------------------------


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


def _list_names(checkpointer: BaseCheckpointSaver[Any]) -> list[str]:
    """Return the names of all threads, each once."""
    return list(dict.fromkeys(map(_get_name, checkpointer.list(None))))


async def _alist_names(checkpointer: BaseCheckpointSaver[Any]) -> list[str]:
    return list(dict.fromkeys([_get_name(one) async for one in checkpointer.alist(None)]))


def _get_name(checkpoint: CheckpointTuple) -> str:
    return str(checkpoint.config["configurable"]["thread_id"])


def _read_messages(checkpoint: CheckpointTuple) -> list[BaseMessage]:
    held = checkpoint.checkpoint.get("channel_values", {}).get(_CHANNEL)
    return convert_to_messages(held) if isinstance(held, Sequence) else []


# -- from there into a log ------------------------------------------------------------------------


def _store(
    memory: ConversationMemory, key: ThreadKey, messages: Sequence[BaseMessage]
) -> CheckpointReport:
    path = f"checkpoints of thread {key.thread_id!r}"
    found = [
        repair_timestamp(message.model_copy(deep=True), f"message {number}")
        for number, message in enumerate(messages, 1)
    ]
    thread = build_thread(key.thread_id, found, path, number_repeats=True)
    file = list_threads(path, [thread])
    drafting = get_turn_memory(memory).drafting
    stored = store_file(memory.log, file, user_id=key.user_id, drafting=drafting)
    entries = memory.log.find(key, [str(one.id) for one in thread.messages])
    latest = {entry.message_id: entry.message for entry in entries}
    return CheckpointReport(
        threads=(key.thread_id,),
        messages=len(messages),
        added=stored.added,
        known=stored.known,
        differing=sum(latest.get(str(one.id)) != one for one in thread.messages),
        skipped=stored.skipped,
    )


def _add(first: CheckpointReport, second: CheckpointReport) -> CheckpointReport:
    values = ((getattr(one, field.name) for one in (first, second)) for field in fields(first))
    return CheckpointReport(*(before + after for before, after in values))
