"""Logs with one defect each in what they read and write at once."""

from __future__ import annotations

import time
from dataclasses import replace

from faulty_logs import killed_by

from langchain_convmem.logs import InMemoryLog, SQLiteLog
from langchain_convmem.logs.base import merge_entries

# -- reading ------------------------------------------------------------------------------------


@killed_by("test_a_document_says_what_is_read_with_it")
class ReadsTheWholeThread(InMemoryLog):
    def read_thread(self, key, name, stretches):
        return super().read_thread(key, name, lambda _: [(0, None)])


@killed_by("test_a_document_says_what_is_read_with_it")
class HidesTheDocument(InMemoryLog):
    def read_thread(self, key, name, stretches):
        return None, super().read_thread(key, name, stretches)[1]


@killed_by("test_what_changed_since_is_read_as_it_is")
class ReadsWhatItKnew(SQLiteLog):
    def read_thread(self, key, name, stretches):
        known = self.__dict__.setdefault("known", {})
        document, entries = super().read_thread(key, name, stretches)
        return document, [known.setdefault((key, one.position), one) for one in entries]


@killed_by("test_lines_are_those_of_the_changes")
class TakesEveryPageForTheLast(InMemoryLog):
    def line_changes(self, owner, cursor=0, *, limit=None):
        return replace(super().line_changes(owner, cursor, limit=limit), is_last=True)


# -- writing ------------------------------------------------------------------------------------


class Plans(InMemoryLog):
    """A log that shows a plan something else than what is there, or writes something else."""

    def append_planned(self, key, plan, *, after, message_ids=(), documents=()):
        return super().append_planned(
            key,
            lambda there: self.planned(plan, there),
            after=self.after(after),
            message_ids=self.ids(message_ids),
            documents=self.caches(documents),
        )

    def planned(self, plan, there):
        return plan(there)

    def after(self, after):
        return after

    def ids(self, message_ids):
        return message_ids

    def caches(self, documents):
        return documents


@killed_by("test_a_plan_sees_what_is_there_and_is_appended")
class PlansWithTheEntryBefore(Plans):
    def after(self, after):
        return after - 1


@killed_by("test_a_plan_sees_what_is_there_and_is_appended")
class PlansWithoutIds(Plans):
    def ids(self, message_ids):
        return ()


@killed_by("test_a_plan_sees_what_is_there_and_is_appended")
class PlansOutOfOrder(Plans):
    def planned(self, plan, there):
        return plan(there[::-1])


@killed_by("test_a_plan_sees_what_is_there_and_is_appended", "test_equal_messages_are_planned_once")
class ForgetsTheIdsOfPlans(Plans):
    def planned(self, plan, there):
        drafts = plan(there)
        if not drafts[0].message.id:
            return drafts[:1]
        return [replace(one, message=one.message.model_copy(update={"id": None})) for one in drafts]


@killed_by("test_caches_are_written_too_if_nobody_was_faster")
class WritesNoCaches(Plans):
    def caches(self, documents):
        return ()


@killed_by("test_caches_are_written_too_if_nobody_was_faster")
class WritesCachesOverOthers(InMemoryLog):
    def append_planned(self, key, plan, *, after, message_ids=(), documents=()):
        found = super().append_planned(key, plan, after=after, message_ids=message_ids)
        for one in documents:
            there = self.get_state(key, one.name)
            expected = None if there is None else there.version
            self.set_state(key, one.name, one.value, expected=expected)
        return found


@killed_by("test_a_plan_that_fails_or_is_empty_writes_no_entry")
class WritesCachesFirst(InMemoryLog):
    def append_planned(self, key, plan, *, after, message_ids=(), documents=()):
        for one in documents:
            self.set_state(key, one.name, one.value, expected=one.expected)
        return super().append_planned(key, plan, after=after, message_ids=message_ids)


@killed_by("test_nobody_writes_between_reading_and_appending")
class PlansOutsideItsTransaction(SQLiteLog):
    def append_planned(self, key, plan, *, after, message_ids=(), documents=()):
        there = merge_entries(self.find(key, message_ids), self.entries(key, after=after))
        drafts = plan(there)
        time.sleep(0.001)
        return self.append(key, drafts)


# -- rows that wait -----------------------------------------------------------------------------


@killed_by("test_rows_that_wait_are_read_as_if_they_were_written")
class HidesWhatWaits(SQLiteLog):
    def load_segments(self, owner, fingerprint, *, after=0):
        waiting, self._waiting = self._waiting, type(self._waiting)()
        try:
            return super().load_segments(owner, fingerprint, after=after)
        finally:
            self._waiting = waiting


@killed_by("test_rows_that_wait_are_written_with_the_next_entry_or_at_close")
class LosesWhatWaits(SQLiteLog):
    def close(self):
        self._waiting = type(self._waiting)()
        super().close()


@killed_by("test_rows_that_wait_are_written_with_the_next_entry_or_at_close")
class WritesWhatWaitsAtCloseAlone(SQLiteLog):
    def append(self, key, drafts, *, durable=True):
        waiting, self._waiting = self._waiting, type(self._waiting)()
        try:
            return super().append(key, drafts, durable=durable)
        finally:
            self._waiting = waiting


@killed_by("test_rows_that_wait_are_forgotten_with_their_entry")
class ForgetsWrittenRowsAlone(SQLiteLog):
    def forget(self, scope, entry_ids=None):
        waiting, self._waiting = self._waiting, type(self._waiting)()
        try:
            return super().forget(scope, entry_ids)
        finally:
            self._waiting = waiting
