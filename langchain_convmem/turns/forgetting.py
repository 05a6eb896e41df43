"""Erasing what was said, with the summaries and pins that tell of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from langchain_convmem.causes import describe_value
from langchain_convmem.errors import ConfigError
from langchain_convmem.ids import get_ulid_ms, is_ulid
from langchain_convmem.logs.as_of import LogBound, PointInTime
from langchain_convmem.message_log import MessageLog
from langchain_convmem.records import Entry, ForgetReceipt, Owner, ThreadKey, find_owner
from langchain_convmem.titles import DOCUMENT
from langchain_convmem.turns.memory import TurnMemory
from langchain_convmem.views.edits import plan_without_compactions
from langchain_convmem.views.summaries import find_pins_over, find_summaries_over


def list_owners(
    log: MessageLog, user_id: str | None, thread_id: str | None, *, all_users: bool = False
) -> Sequence[Owner]:
    """Return whom a call names.

    Raises:
        ConfigError: If it names nobody, somebody and everybody, or all users of a log that cannot
            list them.
    """
    if not all_users:
        return [find_owner(user_id, thread_id)]
    if user_id is not None or thread_id is not None:
        raise ConfigError("pass user_id or thread_id, or all_users=True, not both")
    return log.owners()


def list_keys(
    log: MessageLog, user_id: str | None, thread_id: str | None, *, all_users: bool = False
) -> list[ThreadKey]:
    """Return the threads that a call names; see `list_owners`."""
    owners = list_owners(log, user_id, thread_id, all_users=all_users)
    if thread_id is not None:
        return [ThreadKey(user_id, thread_id)]
    users = dict.fromkeys(owner.user_id for owner in owners)
    return [info.key for user in users for info in log.threads(user)]


def forget_scope(
    memory: TurnMemory, scope: Owner | ThreadKey, entry_ids: Iterable[str] | None = None
) -> ForgetReceipt:
    """Erase all of an owner, a thread, or entries of a thread; see `ConversationMemory.forget`.

    Raises:
        ConfigError: If the entries are of no thread, or no list of ids.
    """
    from langchain_convmem.summarizing.branches import BRANCHES

    if isinstance(entry_ids, str):
        raise ConfigError(f"entry_ids must be a list of ids, got {describe_value(entry_ids)}")
    ids = None if entry_ids is None else list(entry_ids)
    key, owner = (scope, scope.owner) if isinstance(scope, ThreadKey) else (None, scope)
    if key is None and ids is not None:
        raise ConfigError("entry_ids need the thread they belong to; pass thread_id")
    recall, log = memory.recall, memory.log
    copies = [] if recall is None else recall.list_copies(scope, ids)
    receipt = log.forget(scope, ids) if key is None or not ids else _erase(log, key, ids)
    if recall is not None:
        recall.drop_forgotten(owner, copies)
    BRANCHES.drop(memory.log_place, owner)
    if key is not None and ids:
        memory.compact(key)  # what else the summaries covered is shown again
    return receipt


def forget_before(
    memory: TurnMemory, keys: Iterable[ThreadKey], before: PointInTime
) -> ForgetReceipt:
    """Erase what was written before a time, thread by thread; see `ConversationMemory.forget`."""
    end_ms = LogBound(before).time_ms
    receipt = ForgetReceipt()
    for key in keys:
        known = [entry.id for entry in memory.log.entries(key) if is_ulid(entry.id)]
        old = [name for name in known if get_ulid_ms(name) < end_ms]
        if old:
            receipt += forget_scope(memory, key, old)
    return receipt


def move_thread(memory: TurnMemory, origin: ThreadKey, target: ThreadKey) -> None:
    """Copy a thread, then erase what was copied; see `ConversationMemory.assign_user`."""
    from langchain_convmem.transfer.copy import copy_thread

    forget_scope(memory, origin, copy_thread(memory.log, origin, target))
    memory.embed_soon(target.owner)


def _erase(log: MessageLog, key: ThreadKey, ids: Sequence[str]) -> ForgetReceipt:
    """Erase entries, the summaries that cover them and what a provider compacted of them."""
    known: list[Entry] = log.entries(key)
    named = {entry.id for entry in known if not {entry.id, entry.message_id}.isdisjoint(ids)}
    drafts, compacted = plan_without_compactions(known, named)
    if drafts:
        log.append(key, drafts)
    gone = [*ids, *_list_telling(known, named), *compacted]
    receipt = log.forget(key, gone)
    # Who writes a summary looks afterwards whether all is there that it tells of; here goes one
    # that was written, and looked, since the thread was read.
    later = log.entries(key, after=known[-1].position if known else 0)
    late = set(_list_telling([*known, *later], named)).difference(gone)
    if late:
        receipt += log.forget(key, list(late))
    if not known or log.entries(key, last=1):
        return receipt
    # The whole thread is not forgotten: somebody may speak in it at this moment.
    log.delete_state(key, DOCUMENT)
    return replace(receipt, threads=receipt.threads + 1)


def _list_telling(entries: Sequence[Entry], ids: Collection[str]) -> list[str]:
    """Return the ids of the summaries that cover entries, and of the pins that quote them."""
    summaries = find_summaries_over([entry for entry in entries if entry.control is None], ids)
    return [*summaries, *find_pins_over(entries, {*ids, *summaries})]
