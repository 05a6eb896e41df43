"""The part of a memory that erases."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from langchain_convmem.errors import ConfigError
from langchain_convmem.memory.memory_part import owner_of
from langchain_convmem.memory.summarizing import SummarizingPart
from langchain_convmem.records import Entry, ForgetReceipt, Owner, ThreadKey
from langchain_convmem.steps import Steps, arun, run, step
from langchain_convmem.views.summaries import summaries_over

__all__ = ["ForgettingMemory"]


class ForgettingMemory(SummarizingPart):
    """Erases for good what was said, and all that was derived from it."""

    def forget(
        self,
        *,
        user_id: str | None = None,
        thread_id: str | None = None,
        entry_ids: Iterable[str] | None = None,
    ) -> ForgetReceipt:
        """Erase for good: a user with all threads, a thread, or entries of a thread.

        What recall keeps of it in this process's memory goes too; other processes notice when they
        next recall for this user. Summaries that tell of it go with it, also those that are written
        meanwhile, and with a summarizer the thread is compacted anew.

        Args:
            user_id: Alone: everything of this user.
            thread_id: This thread of the user, or the thread of no user.
            entry_ids: Only these entries of the thread, by entry id or message id.

        Returns:
            What was erased, in counts.
        """
        return run(self._forget_steps(user_id, thread_id, entry_ids))

    async def aforget(
        self,
        *,
        user_id: str | None = None,
        thread_id: str | None = None,
        entry_ids: Iterable[str] | None = None,
    ) -> ForgetReceipt:
        """Erase for good; see `forget`."""
        return await arun(self._forget_steps(user_id, thread_id, entry_ids))

    def _forget_steps(
        self, user_id: str | None, thread_id: str | None, entry_ids: Iterable[str] | None
    ) -> Steps[ForgetReceipt]:
        owner_of(user_id, thread_id)
        if thread_id is None and entry_ids is not None:
            raise ConfigError("entry_ids need the thread they belong to; pass thread_id")
        if isinstance(entry_ids, str):
            raise ConfigError(f"entry_ids must be a list of ids, got the text {entry_ids!r}")
        scope = ThreadKey(user_id, thread_id) if thread_id is not None else Owner(user_id=user_id)
        ids = None if entry_ids is None else list(entry_ids)
        if isinstance(scope, ThreadKey) and ids:
            receipt = yield from self._erasing_steps(scope, ids)
        else:
            receipt = yield step(self.log, "forget", scope, ids)
        if self._recall is not None:
            owner = scope if isinstance(scope, Owner) else scope.owner
            yield from self._recall.forgotten_steps(owner)
        if isinstance(scope, ThreadKey) and ids:
            # What else the summaries covered is shown again.
            yield from self.after_turn_steps(scope)
        return receipt

    def _erasing_steps(self, key: ThreadKey, ids: Sequence[str]) -> Steps[ForgetReceipt]:
        """Erase entries, and the summaries that tell of them, those taken back included."""
        known: list[Entry] = yield step(self.log, "entries", key)
        named = {entry.id for entry in known if not {entry.id, entry.message_id}.isdisjoint(ids)}
        telling = _telling(known, named)
        receipt: ForgetReceipt = yield step(self.log, "forget", key, [*ids, *telling])
        while True:
            # A summary may have been written since the thread was read.
            seen = known[-1].position if known else 0
            known = [*known, *(yield step(self.log, "entries", key, after=seen))]
            late = [name for name in _telling(known, named) if name not in telling]
            if not late:
                return receipt
            telling += late
            more: ForgetReceipt = yield step(self.log, "forget", key, late)
            receipt = _both(receipt, more)


def _telling(entries: Iterable[Entry], ids: Collection[str]) -> list[str]:
    """Return the ids of the summaries that tell of entries."""
    return summaries_over([entry for entry in entries if entry.control is None], ids)


def _both(first: ForgetReceipt, second: ForgetReceipt) -> ForgetReceipt:
    return replace(
        second,
        entries=first.entries + second.entries,
        threads=first.threads + second.threads,
        segments=first.segments + second.segments,
        documents=first.documents + second.documents,
    )
