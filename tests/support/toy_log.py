"""A message log as a stranger writes it first, and ways to write it wrong.

It keeps rows in a list by owner, under one lock, and uses the kit `langchain_convmem.logs.base`.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from contextlib import contextmanager
from dataclasses import replace
from threading import RLock

from langchain_convmem.errors import LogClosedError, LogError
from langchain_convmem.ids import get_now_ms, get_ulid_ms
from langchain_convmem.logs import base as kit
from langchain_convmem.protocols import CACHE_PREFIX
from langchain_convmem.records import ForgetReceipt, Owner, StateDocument, ThreadInfo
from langchain_convmem.views.codec import load_json


class ToyLog(kit.AsyncTwins):
    def __init__(self):
        self.lock, self.closed, self.last = RLock(), False, 0
        self.rows, self.documents, self.generations = defaultdict(list), {}, Counter()

    @contextmanager
    def opened(self):
        with self.lock:
            if self.closed:
                raise LogClosedError("the toy log is closed; make another one")
            yield

    def close(self):
        self.closed = True
        self._stop_workers()

    def read(self, key):
        return [row for of, row in self.rows[key.owner] if of == key]

    def append(self, key, drafts, *, durable=True):
        batch = kit.encode_drafts(drafts)
        with self.opened():
            plan = kit.plan_append(batch, self.read(key), first_position=self.last + 1)
            self.last += len(plan.added)
            self.rows[key.owner] += [(key, replace(row, decoded=None)) for row in plan.added]
            return plan.build_entries(key)

    def entries(self, key, *, after=0, until=None, last=None):
        with self.opened():
            rows = [row for row in self.read(key) if after < row.position <= kit.cap_bound(until)]
            first = max(0, len(rows) - kit.cap_count(last))
            return [kit.decode_entry(key, row) for row in rows[first:]]

    def find(self, key, message_ids):
        kit.check_ids(message_ids)
        return [
            entry
            for entry in self.entries(key)
            if entry.message_id in message_ids and entry.control is None
        ]

    def annotate(self, key, entry_id, *, attributes=(), timing=None, aux=None):
        with self.opened():
            for number, (of, row) in enumerate(self.rows[key.owner]):
                if (of, row.id) == (key, entry_id):
                    more = {"attributes": attributes, "timing": timing, "aux": aux}
                    noted = replace(row, metadata=kit.annotate_metadata(row.metadata, **more))
                    self.rows[key.owner][number] = key, noted
                    return kit.decode_entry(key, noted)
        raise LogError(f"thread {key.thread_id!r} has no entry {entry_id!r}; look for it with find")

    def threads(self, user_id):
        kit.check_user(user_id)
        with self.opened():
            rows = [pair for pairs in self.rows.values() for pair in pairs]
        found = defaultdict(list)
        for key, row in rows:
            if key.user_id == user_id:
                found[key].append(get_ulid_ms(row.id))
        order = sorted(found, key=lambda key: self.read(key)[-1].position, reverse=True)
        return [ThreadInfo(key, len(found[key]), min(found[key]), max(found[key])) for key in order]

    def owners(self):
        with self.opened():
            return [owner for owner, rows in self.rows.items() if rows]

    aowners = kit.make_twin(owners)

    def changes(self, owner, cursor=0, *, limit=None):
        with self.opened():
            rows = [pair for pair in self.rows[owner] if pair[1].position > cursor]
            return kit.build_changes(rows[: kit.cap_count(limit)], cursor, self.generations[owner])

    def forget(self, scope, entry_ids=None):
        kit.check_scope(scope, entry_ids)
        owner, is_whole = scope if isinstance(scope, Owner) else scope.owner, entry_ids is None
        with self.opened():
            self.generations[owner] += 1
            rows = [pair for pair in self.rows[owner] if self.is_meant(*pair, scope, entry_ids)]
            names = [
                (key, name)
                for key, name in self.documents
                if scope in (key, key.owner) and (is_whole or name.startswith(CACHE_PREFIX))
            ]
            threads = {key for key, _ in (*rows, *names)} if is_whole else ()
            self.rows[owner] = [pair for pair in self.rows[owner] if pair not in rows]
            for name in names:
                del self.documents[name]
        return ForgetReceipt(len(rows), len(threads), 0, len(names), at_ms=get_now_ms())

    def is_meant(self, key, row, scope, entry_ids):
        names = {row.id, kit.read_message_id(row.id, row.body)}
        return scope in (key, key.owner) and (entry_ids is None or not names.isdisjoint(entry_ids))

    def get_state(self, key, name):
        with self.opened():
            text, version = self.documents.get((key, name), (None, None))
        return None if text is None else StateDocument(load_json(text), version)

    def set_state(self, key, name, value, *, expected):
        text = kit.encode_state(value)
        with self.opened():
            if self.documents.get((key, name), (None, None))[1] != expected:
                return None
            self.documents[key, name] = text, kit.make_version(expected)
            return self.get_state(key, name)

    def delete_state(self, key, name):
        with self.opened():
            self.documents.pop((key, name), None)


# -- written wrong ------------------------------------------------------------------------------


class LosesTheLastOfABatch(ToyLog):
    def append(self, key, drafts, *, durable=True):
        entries = super().append(key, drafts)
        if len(drafts) > 1:
            self.rows[key.owner].pop()
        return entries


class StoresAnIdTwice(ToyLog):
    def read(self, key):
        return []

    def entries(self, key, **bounds):
        rows = [row for of, row in self.rows[key.owner] if of == key]
        return [kit.decode_entry(key, row) for row in rows]


class ShowsTheLatestFirst(ToyLog):
    def entries(self, key, **bounds):
        return super().entries(key, **bounds)[::-1]


class GivesPositionsAgain(ToyLog):
    def forget(self, scope, entry_ids=None):
        receipt = super().forget(scope, entry_ids)
        left = [row.position for rows in self.rows.values() for _, row in rows]
        self.last = max(left, default=0)
        return receipt


class ForgetsOneVersion(ToyLog):
    def is_meant(self, key, row, scope, entry_ids):
        if entry_ids is None:
            return super().is_meant(key, row, scope, None)
        newest = {kit.read_message_id(other.id, other.body): other.id for other in self.read(key)}
        ids = {newest.get(name, name) for name in entry_ids}
        return key == scope and row.id in ids


class KeepsTheGeneration(ToyLog):
    def changes(self, owner, cursor=0, *, limit=None):
        return replace(super().changes(owner, cursor, limit=limit), generation=0)


class OverwritesAnyVersion(ToyLog):
    def set_state(self, key, name, value, *, expected):
        document = self.get_state(key, name)
        version = None if document is None else document.version
        return super().set_state(key, name, value, expected=version)


class LetsWritersPlanAtOnce(ToyLog):
    def append(self, key, drafts, *, durable=True):
        plan = kit.plan_append(
            kit.encode_drafts(drafts), self.read(key), first_position=self.last + 1
        )
        time.sleep(0.001)
        with self.opened():
            self.last = plan.added[-1].position if plan.added else self.last
            self.rows[key.owner] += [(key, replace(row, decoded=None)) for row in plan.added]
            return plan.build_entries(key)


class HandsOutWhatItKeeps(ToyLog):
    def append(self, key, drafts, *, durable=True):
        entries = super().append(key, drafts)
        for entry, draft in zip(entries, drafts, strict=True):
            object.__setattr__(entry, "message", draft.message)
        return entries


class TrimsNames(ToyLog):
    def read(self, key):
        name = key.thread_id.strip()
        return [row for of, row in self.rows[key.owner] if of.thread_id.strip() == name]


class AnswersWhenClosed(ToyLog):
    def close(self):
        self._stop_workers()


FAULTS = {
    LosesTheLastOfABatch: "test_entries_stand_in_order_and_know_when_they_were_made",
    StoresAnIdTwice: "test_a_messages_own_id_is_its_key",
    ShowsTheLatestFirst: "test_entries_stand_in_order_and_know_when_they_were_made",
    GivesPositionsAgain: "test_what_is_forgotten_can_be_said_anew_in_a_new_place",
    ForgetsOneVersion: "test_forgetting_erases_its_scope_and_nothing_else",
    KeepsTheGeneration: "test_forgetting_erases_its_scope_and_nothing_else",
    OverwritesAnyVersion: "test_a_document_is_written_over_the_version_that_was_read",
    LetsWritersPlanAtOnce: "test_writers_at_once_lose_nothing",
    HandsOutWhatItKeeps: "test_nothing_is_shared_with_the_caller",
    TrimsNames: "test_odd_names_are_kept_apart",
    AnswersWhenClosed: "test_a_closed_log_says_so",
}
"""What is wrong, and the test of the contract that tells."""
