"""Whole threads: to erase them, to move them to another user, and to count what they hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from langchain_core.messages import AIMessage

from langchain_convmem.causes import describe_value
from langchain_convmem.errors import ConfigError
from langchain_convmem.ids import get_ulid_ms, is_ulid
from langchain_convmem.logs.as_of import LogBound, PointInTime
from langchain_convmem.message_log import MessageLog
from langchain_convmem.records import Entry, ForgetReceipt, Owner, ThreadKey, find_owner
from langchain_convmem.runnables import OWN_TOKENS
from langchain_convmem.titles import DOCUMENT
from langchain_convmem.turns.memory import TurnMemory
from langchain_convmem.views.edits import INTERRUPTED, plan_without_compactions
from langchain_convmem.views.live import build_turns, find_live_entries
from langchain_convmem.views.summaries import find_pins_over, find_summaries_over


def list_owners(
    log: MessageLog, user_id: str | None, thread_id: str | None, *, all_users: bool = False
) -> Sequence[Owner]:
    """Return the owners that a call names.

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
    known = log.entries(key)
    named = {entry.id for entry in known if not {entry.id, entry.message_id}.isdisjoint(ids)}
    drafts, compacted = plan_without_compactions(known, named)
    log.append(key, drafts)
    gone = [*ids, *_list_telling(known, named), *compacted]
    receipt = log.forget(key, gone)
    # Whoever writes a summary checks afterwards that nothing it covers was erased. One whose check
    # came before the erasure is found here.
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


# -- A thread in numbers --------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class ThreadStats:
    """What a thread holds, in numbers; all are 0 for a thread that does not exist.

    Attributes:
        entries: Entries in the log, those that views skip and control entries included.
        messages: Messages that views show, by role; summaries are not among them.
        turns: Turns as `history.turns` shows them, placeholders and summaries left out.
        summaries: Summaries that views show.
        retracted: Entries that views skip: undone, replaced, cleared.
        damaged: Entries that cannot be read, and stretches that are missing.
        interrupted: Replies among `messages` that were cut off.
        input_tokens: Sum of the input tokens that replies report. Every reply counts, even one
            that was replaced later: it was paid for.
        output_tokens: Sum of the output tokens that replies report; counted the same way.
        own_calls: Calls of models that the memory itself made: in turns, for summaries that were
            written, and for what a profiler read.
        own_input_tokens: Input tokens of these calls.
        own_output_tokens: Output tokens of these calls.
    """

    entries: int = 0
    messages: Mapping[str, int] = field(default_factory=dict)
    turns: int = 0
    summaries: int = 0
    retracted: int = 0
    damaged: int = 0
    interrupted: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    own_calls: int = 0
    own_input_tokens: int = 0
    own_output_tokens: int = 0


def compute_stats(entries: Sequence[Entry]) -> ThreadStats:
    """Return the statistics of a thread.

    Args:
        entries: All of its entries by ascending position, control entries included.
    """
    live = find_live_entries(entries)
    shown = [entry for entry in live if entry.role != "summary"]
    said = sum(entry.control is None for entry in entries)
    # A reply that was edited or cut keeps its id and usage, and counts once.
    taken = {
        (entry.message_id, usage.get("input_tokens") or 0, usage.get("output_tokens") or 0)
        for entry in entries
        if isinstance(entry.message, AIMessage) and (usage := entry.message.usage_metadata)
    }
    # An application may put anything there.
    notes = (entry.metadata.aux.get(OWN_TOKENS) for entry in entries)
    own = sum((Counter(one) for one in notes if isinstance(one, dict)), Counter[str]())
    return ThreadStats(
        entries=len(entries),
        messages=dict(Counter(entry.role for entry in shown)),
        turns=sum(bool(turn.entries) and turn.role != "summary" for turn in build_turns(entries)),
        summaries=len(live) - len(shown),
        retracted=said - len(live),
        damaged=sum(bool(entry.damage) for entry in entries),
        interrupted=sum(INTERRUPTED in entry.metadata.attributes for entry in shown),
        input_tokens=sum(read for _, read, _ in taken),
        output_tokens=sum(written for _, _, written in taken),
        own_calls=own["calls"],
        own_input_tokens=own["input_tokens"],
        own_output_tokens=own["output_tokens"],
    )
