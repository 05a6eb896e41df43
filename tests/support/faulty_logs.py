"""Logs with one defect each, and the tests of the contract that must find it."""

from __future__ import annotations

import json
import time
from dataclasses import replace

from langchain_convmem.logs import InMemoryLog, SQLiteLog
from langchain_convmem.logs.base import get_own_id, plan_append, read_message_id
from langchain_convmem.logs.in_memory import _StoredThread
from langchain_convmem.records import Metadata, Owner, StateDocument
from langchain_convmem.views.live import find_live_entries

FAULTS = []


def killed_by(*tests):
    """Declare which tests of the contract find the fault."""

    def note(fault):
        FAULTS.extend((fault, test) for test in tests)
        return fault

    return note


class Edits(InMemoryLog):
    """A log that changes what it is given: drafts, or the fields of their messages."""

    def edit(self, draft):
        message = draft.message
        fields = {} if message is None else self.fields(message)
        return replace(draft, message=message.model_copy(update=fields)) if fields else draft

    def append(self, key, drafts, *, durable=True):
        return super().append(key, [self.edit(draft) for draft in drafts])


class Shows(InMemoryLog):
    """A log that reads well and then changes what it shows."""

    def entries(self, key, *, after=0, until=None, last=None):
        return self.shown(super().entries(key, after=after, until=until), last)

    def changes(self, owner, cursor=0, *, limit=None):
        page = super().changes(owner, cursor, limit=limit)
        return replace(page, entries=tuple(self.fed(page.entries)))

    def shown(self, entries, last):
        return entries if last is None else entries[len(entries) - last :]

    def fed(self, entries):
        return entries


# -- writing ------------------------------------------------------------------------------------


@killed_by("test_order_holds_over_batches_and_inside_one")
class WritesOnePage(InMemoryLog):
    def append(self, key, drafts, *, durable=True):
        return super().append(key, drafts[:100], durable=durable)


@killed_by("test_order_holds_over_batches_and_inside_one")
class OrdersByText(Shows):
    def shown(self, entries, last):
        return sorted(entries, key=lambda entry: entry.contents)


@killed_by("test_order_holds_over_batches_and_inside_one")
class TakesTheTimeForThePosition(InMemoryLog):
    def _plan(self, thread, batch):
        plan = super()._plan(thread, batch)
        for row in plan.added:
            row.position = time.time_ns() // 1_000_000
        return sign_again(self, thread, plan)


@killed_by("test_a_batch_with_one_bad_message_leaves_nothing")
class WritesBatchesPieceByPiece(InMemoryLog):
    def append(self, key, drafts, *, durable=True):
        return [InMemoryLog.append(self, key, [one])[0] for one in drafts]


@killed_by("test_every_message_comes_back_exactly")
class KeepsContentOnly(Edits):
    def fields(self, message):
        return {"additional_kwargs": {}, "response_metadata": {}, "name": None}


@killed_by("test_everything_of_a_draft_comes_back", "test_annotations_add_to_what_is_there")
class DropsMetadata(Edits):
    def edit(self, draft):
        return replace(draft, metadata=Metadata())


@killed_by("test_a_batch_with_one_bad_message_leaves_nothing")
class WritesWhatItCannotKeepAsText(Edits):
    def fields(self, message):
        kwargs = json.dumps(message.additional_kwargs, default=str)
        return {"additional_kwargs": json.loads(kwargs)}


@killed_by("test_texts_come_back_verbatim")
class StripsTexts(Edits):
    def fields(self, message):
        return {"content": message.content.strip()}


@killed_by("test_a_message_of_five_megabytes_comes_back_whole")
class CutsLongTexts(Edits):
    def fields(self, message):
        return {"content": message.content[:400_000]}


@killed_by("test_nothing_is_shared_with_the_caller")
class HandsOutItsOwnMessages(InMemoryLog):
    def __init__(self):
        super().__init__()
        self.cache = {}

    def entries(self, key, *, after=0, until=None, last=None):
        found = super().entries(key, after=after, until=until, last=last)
        return [self.cache.setdefault(entry.id, entry) for entry in found]


@killed_by("test_nothing_is_shared_with_the_caller")
class ReturnsWhatItWasGiven(InMemoryLog):
    def append(self, key, drafts, *, durable=True):
        entries = super().append(key, drafts)
        pairs = zip(entries, drafts, strict=True)
        return [replace(entry, message=draft.message) for entry, draft in pairs]


@killed_by("test_a_closed_log_says_so")
class AnswersWhenClosed(InMemoryLog):
    def _check_open(self):
        pass


@killed_by("test_what_was_appended_is_there_after_reopening")
class KeepsRelaxedWritesInMemory(SQLiteLog):
    def append(self, key, drafts, *, durable=True):
        return super().append(key, drafts) if durable else InMemoryLog().append(key, drafts)


# -- the same message twice ---------------------------------------------------------------------


@killed_by("test_equal_messages_without_ids_are_all_kept")
class DropsEqualTexts(InMemoryLog):
    def append(self, key, drafts, *, durable=True):
        known = {entry.contents: entry for entry in self.entries(key)}
        return [
            known.get(one.contents) or InMemoryLog.append(self, key, [one])[0] for one in drafts
        ]


@killed_by("test_the_same_message_is_stored_once", "test_a_retracted_message_can_be_added_again")
class StoresEveryRetry(Edits):
    def fields(self, message):
        return {"id": None}


@killed_by("test_another_payload_replaces_the_message_in_its_place")
class KeepsTheFirstVersion(InMemoryLog):
    def _plan(self, thread, batch):
        there = {read_message_id(row.id, row.body): row.body for row in thread.read_stored(batch)}
        kept = [one._replace(body=there.get(get_own_id(one.draft), one.body)) for one in batch]
        return super()._plan(thread, kept)


@killed_by(
    "test_another_payload_replaces_the_message_in_its_place",
    "test_a_message_may_be_replaced_many_times",
)
class ReplacesAtTheEnd(InMemoryLog):
    def _plan(self, thread, batch):
        plan = super()._plan(thread, batch)
        for row in plan.added:
            if row.role == "control":
                row.body = row.body.replace('"replacement"', '"forgotten"')
        return sign_again(self, thread, plan)


@killed_by("test_a_retracted_message_can_be_added_again")
class RemembersRetractedMessages(InMemoryLog):
    def _plan(self, thread, batch):
        stored = [row for row in thread.read_stored(batch) if row.role != "control"]
        return plan_append(batch, stored, first_position=self._position + 1)


# -- signing ------------------------------------------------------------------------------------


def sign_again(log, thread, plan):
    """Return a plan whose rows were changed, as a log with such a fault would have signed them."""
    sign = log._signer.chain(thread.key, thread.head)
    for row in plan.added:
        row.signature = sign(row)
    return plan


@killed_by(
    "test_a_checksum_stands_for_its_entry_wherever_it_is_read",
    "test_edits_copies_and_retractions_are_chained_too",
    "test_heads_are_those_of_the_last_entries",
)
class SignsNothing(InMemoryLog):
    def _plan(self, thread, batch):
        plan = super()._plan(thread, batch)
        for row in plan.added:
            row.signature = None
        return plan


@killed_by(
    "test_forgotten_entries_leave_the_chain_whole",
    "test_edits_copies_and_retractions_are_chained_too",
    "test_chains_hold_whoever_writes",
)
class ChainsWithinBatches(InMemoryLog):
    def _plan(self, thread, batch):
        plan = super()._plan(thread, batch)
        sign = self._signer.chain(thread.key)
        for row in plan.added:
            row.signature = sign(row)
        return plan


@killed_by(
    "test_forgotten_entries_leave_the_chain_whole",
    "test_a_thread_whose_entries_are_all_forgotten_goes_on",
)
class KeepsNoTombstones(InMemoryLog):
    def forget(self, scope, entry_ids=None):
        receipt = super().forget(scope, entry_ids)
        for thread in self._threads.values():
            thread.tombstones = []
        return receipt


@killed_by("test_nothing_of_a_chain_is_left_of_what_is_forgotten_whole")
class KeepsTombstonesOfThreads(InMemoryLog):
    def forget(self, scope, entry_ids=None):
        before = {key: thread.tombstones for key, thread in self._threads.items()}
        receipt = super().forget(scope, entry_ids)
        for key in before.keys() - self._threads.keys():
            self._make_thread(key).tombstones = before[key]
        return receipt


@killed_by(
    "test_heads_are_those_of_the_last_entries",
    "test_a_log_is_verified_whole_and_against_heads_kept_elsewhere",
)
class TellsTheHeadsOfOthers(InMemoryLog):
    def heads(self, owner=None):
        return super().heads()[-1:]


@killed_by("test_a_checksum_stands_for_its_entry_wherever_it_is_read")
class AnnotatesWithoutSigning(InMemoryLog):
    def annotate(self, key, entry_id, *, attributes=(), timing=None, aux=None):
        before = {row.id: row.signature for row in self._threads[key].rows}
        super().annotate(key, entry_id, attributes=attributes, timing=timing, aux=aux)
        for row in self._threads[key].rows:
            row.signature = before[row.id]
        return next(one for one in self.entries(key) if one.turn_id == entry_id)


# -- reading ------------------------------------------------------------------------------------


@killed_by("test_ranges_are_the_latest_in_order")
class GivesTheFirstForTheLast(Shows):
    def shown(self, entries, last):
        return entries[:last]


@killed_by("test_ranges_are_the_latest_in_order")
class GivesTheLatestReversed(Shows):
    def shown(self, entries, last):
        return entries if last is None else super().shown(entries, last)[::-1]


@killed_by("test_ranges_are_the_latest_in_order")
class TakesNoneForAll(Shows):
    def shown(self, entries, last):
        return entries[-(last or 0) :]


@killed_by("test_changes_come_in_the_order_of_commits_over_threads")
class MissesThreadsInChanges(Shows):
    def fed(self, entries):
        return [entry for entry in entries if entry.key == entries[0].key]


@killed_by("test_changes_come_in_the_order_of_commits_over_threads")
class GroupsChangesByThread(Shows):
    def fed(self, entries):
        return sorted(entries, key=lambda entry: entry.key.thread_id)


@killed_by("test_changes_after_a_cursor_are_only_what_came_later")
class RepeatsTheEntryAtTheCursor(InMemoryLog):
    def changes(self, owner, cursor=0, *, limit=None):
        return super().changes(owner, max(cursor - 1, 0), limit=limit)


@killed_by("test_annotations_add_to_what_is_there")
class OverwritesAttributes(InMemoryLog):
    def annotate(self, key, entry_id, *, attributes=(), timing=None, aux=None):
        with self._lock:
            rows = self._threads[key].rows
            for number, row in enumerate(rows):
                if row.id == entry_id and attributes:
                    fields = json.loads(row.metadata or "{}")
                    fields.pop("a", None)
                    rows[number] = replace(row, metadata=json.dumps(fields))
                    rows[number].signature = self._signer.sign_metadata(key, rows[number])
        return super().annotate(key, entry_id, attributes=attributes, timing=timing, aux=aux)


@killed_by("test_annotations_at_once_lose_nothing")
class LosesAnnotationsAtOnce(InMemoryLog):
    def annotate(self, key, entry_id, *, attributes=(), timing=None, aux=None):
        before = list(self._threads[key].rows)
        time.sleep(0.0005)
        self._threads[key].rows[:] = before
        return super().annotate(key, entry_id, attributes=attributes, timing=timing, aux=aux)


# -- documents ----------------------------------------------------------------------------------


@killed_by(
    "test_a_document_is_written_over_just_the_version_that_was_read",
    "test_one_of_several_writers_of_a_version_wins",
)
class IgnoresVersions(InMemoryLog):
    def set_state(self, key, name, value, *, expected):
        time.sleep(0.0005)
        found = self.get_state(key, name)
        return super().set_state(key, name, value, expected=found.version if found else expected)


@killed_by("test_a_deleted_document_is_gone_with_its_version")
class CountsVersionsFromOne(InMemoryLog):
    def set_state(self, key, name, value, *, expected):
        if super().set_state(key, name, value, expected=expected) is None:
            return None
        documents = self._threads[key].documents
        documents[name] = (documents[name][0], (expected or 0) + 1)
        return StateDocument(value, documents[name][1])


# -- erasing ------------------------------------------------------------------------------------


@killed_by("test_forgetting_a_thread_leaves_the_others")
class ForgetKeepsDocuments(InMemoryLog):
    def forget(self, scope, entry_ids=None):
        kept = self._threads[scope].documents if scope in self._threads else None
        receipt = super().forget(scope, entry_ids)
        if kept is not None:
            self._threads.setdefault(scope, _StoredThread(scope)).documents.update(kept)
        return receipt


@killed_by("test_forgetting_erases_segments")
class ForgetKeepsSegments(SQLiteLog):
    def load_segments(self, owner, fingerprint, *, after=0):
        known = self.__dict__.setdefault("known", {})
        found = super().load_segments(owner, fingerprint, after=after)
        return known.get((owner, fingerprint), []) + found

    def save_segments(self, owner, fingerprint, rows):
        self.__dict__.setdefault("known", {})[owner, fingerprint] = list(rows)


@killed_by("test_rows_of_a_fingerprint_are_deleted_and_no_others")
class DeletesSegmentsOfEveryFingerprint(SQLiteLog):
    def delete_segments(self, owner, fingerprint):
        gone = [
            super().delete_segments(owner, "model a"),
            super().delete_segments(owner, "model b"),
        ]
        return max(gone)


@killed_by("test_rows_are_overwritten_but_no_vector_is_lost")
class LosesVectors(SQLiteLog):
    def save_segments(self, owner, fingerprint, rows):
        super().save_segments(owner, fingerprint, [replace(row, vector=None) for row in rows])


@killed_by("test_rows_of_a_fingerprint_are_deleted_and_no_others")
class TakesPendingSegmentsForVectors(SQLiteLog):
    def segment_fingerprints(self, owner):
        return [*super().segment_fingerprints(owner), "words alone"]


@killed_by("test_forgetting_a_thread_leaves_the_others")
class ForgetsTheWholeUser(InMemoryLog):
    def forget(self, scope, entry_ids=None):
        return super().forget(scope if entry_ids is not None else getattr(scope, "owner", scope))


@killed_by("test_forgetting_a_message_erases_every_version")
class ForgetsTheNewestVersionOnly(InMemoryLog):
    def forget(self, scope, entry_ids=None):
        if entry_ids is None:
            return super().forget(scope)
        live = find_live_entries(self.entries(scope))
        return super().forget(scope, [e.id for e in live if {e.id, e.message_id} & {*entry_ids}])


@killed_by("test_every_forget_raises_the_generation")
class NeverRaisesTheGeneration(InMemoryLog):
    def changes(self, owner, cursor=0, *, limit=None):
        return replace(super().changes(owner, cursor, limit=limit), generation=1)


@killed_by("test_an_owner_who_starts_again_is_not_taken_for_the_one_before")
class CountsGenerationsByOwner(InMemoryLog):
    def forget(self, scope, entry_ids=None):
        receipt = super().forget(scope, entry_ids)
        if isinstance(scope, Owner):
            self._epoch = 0
        return receipt


@killed_by("test_forgetting_entries_leaves_the_rest_of_the_thread")
class UsesPositionsAgain(InMemoryLog):
    def forget(self, scope, entry_ids=None):
        receipt = super().forget(scope, entry_ids)
        self._position = 0
        return receipt


@killed_by("test_another_handle_sees_what_was_forgotten")
class TrustsItsCache(SQLiteLog):
    def entries(self, key, *, after=0, until=None, last=None):
        cache = self.__dict__.setdefault("cache", {})
        found = super().entries(key, after=after, until=until, last=last)
        return cache.setdefault(key, found)


# -- many callers -------------------------------------------------------------------------------


@killed_by("test_writers_in_threads_lose_nothing")
class LosesWritesAtOnce(InMemoryLog):
    def append(self, key, drafts, *, durable=True):
        rows = list(self._threads[key].rows) if key in self._threads else []
        time.sleep(0.0005)
        entries = super().append(key, drafts)
        self._threads[key].rows[: -len(drafts)] = rows
        return entries


@killed_by("test_other_tasks_run_while_entries_are_appended")
class BlocksTheLoop(SQLiteLog):
    async def _run_off_loop(self, call, *args, **kwargs):
        return call(*args, **kwargs)
