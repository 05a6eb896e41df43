"""Threads that a LangGraph checkpointer keeps, brought into a memory.

Requires the extra `langgraph`. Any checkpointer will do, such as `PostgresSaver`: it reads its own
tables. A SQLite file of checkpoints needs none, `import_file` reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from langchain_core.messages import convert_to_messages

from langchain_convmem.background import ask, to_async
from langchain_convmem.errors import ConfigError, MissingExtraError
from langchain_convmem.memory import ConversationMemory
from langchain_convmem.transfer.imports import ImportReport, list_threads, store_file
from langchain_convmem.transfer.threads import build_thread, repair_timestamp
from langchain_convmem.turns.memory import get_turn_memory

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

try:
    from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
except ImportError as error:
    raise MissingExtraError.build("import_checkpoints", "langgraph") from error

UserFinder: TypeAlias = Callable[[str, Mapping[str, Any]], str | None]
"""Says whose a thread is, by its id and the metadata of its latest checkpoint."""


def import_checkpoints(
    memory: ConversationMemory,
    checkpointer: BaseCheckpointSaver[Any],
    *,
    user_id: str | None = None,
    find_user: UserFinder | None = None,
    thread_ids: Iterable[str] | None = None,
) -> list[ImportReport]:
    """Bring the threads of a checkpointer into a memory, each as its latest checkpoint has it.

    Messages keep their ids, so importing again doubles nothing and adds what is new. Subgraphs,
    which have namespaces of their own, are left aside. Nothing is deleted:
    `checkpointer.delete_thread` does that, once you have looked at what came in.

    Args:
        memory: Where they go.
        checkpointer: Any of LangGraph's, such as `PostgresSaver` or `InMemorySaver`.
        user_id: Whose all of them are; None makes each thread one of no user.
        find_user: Or says whose each thread is, such as
            `lambda thread_id, metadata: metadata.get("user_id")`.
        thread_ids: These threads alone. None is all of them, for which the checkpointer lists every
            checkpoint that it has: name them if there are many.

    Returns:
        What became of each thread that holds messages.

    Raises:
        ConfigError: If both a user and a finder are given, or the ids come as one text.
        ImportFormatError: If a thread's messages cannot be stored; earlier threads are stored.
        LogError: If the log cannot be read or written.
    """
    if not isinstance(checkpointer, BaseCheckpointSaver):
        msg = (
            f"expected a checkpointer of LangGraph, got {type(checkpointer).__name__}; "
            "PostgresSaver.from_conn_string(...) is one, within its `with` block"
        )
        raise ConfigError(msg)
    if user_id is not None and find_user is not None:
        raise ConfigError("pass user_id or find_user, not both")
    if isinstance(thread_ids, str):
        raise ConfigError("thread_ids must be several ids, got one text")
    if thread_ids is None:
        thread_ids = ask(partial(_list_names, checkpointer), partial(_alist_names, checkpointer))
    reports: list[ImportReport] = []
    for name in dict.fromkeys(thread_ids):
        place: RunnableConfig = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
        read, aread = checkpointer.get_tuple, checkpointer.aget_tuple
        found = ask(partial(read, place), partial(aread, place))
        held = found.checkpoint.get("channel_values", {}).get("messages") if found else None
        if found and held and isinstance(held, Sequence):
            user = find_user(name, found.metadata or {}) if find_user else user_id
            reports.append(_store(memory, user, name, held))
    return reports


aimport_checkpoints = to_async(import_checkpoints)


def _list_names(checkpointer: BaseCheckpointSaver[Any]) -> list[str]:
    return [_get_name(one) for one in checkpointer.list(None)]


async def _alist_names(checkpointer: BaseCheckpointSaver[Any]) -> list[str]:
    return [_get_name(one) async for one in checkpointer.alist(None)]


def _get_name(checkpoint: CheckpointTuple) -> str:
    return str(checkpoint.config["configurable"]["thread_id"])


def _store(
    memory: ConversationMemory, user_id: str | None, thread_id: str, held: Sequence[Any]
) -> ImportReport:
    path = f"checkpoints of thread {thread_id!r}"
    found = [
        repair_timestamp(message.model_copy(deep=True), f"message {number}")
        for number, message in enumerate(convert_to_messages(held), 1)
    ]
    file = list_threads(path, [build_thread(thread_id, found, path)])
    drafting = get_turn_memory(memory).drafting
    return store_file(memory.log, file, user_id=user_id, drafting=drafting)
