"""Logs that take one thread or owner for another, and the tests of the contract that find it."""

from __future__ import annotations

import re
import unicodedata

from faulty_logs import killed_by

from langchain_convmem.logs import InMemoryLog
from langchain_convmem.records import Changes, Owner


class MistakesIds(InMemoryLog):
    """A log that takes the ids of two threads for one."""

    def meant(self, key):
        alike = [
            one
            for one in self._threads
            if one.user_id == key.user_id and self.same(key.thread_id, one.thread_id)
        ]
        return alike[0] if alike else key

    def append(self, key, drafts, *, durable=True):
        return super().append(self.meant(key), drafts)

    def entries(self, key, *, after=0, until=None, last=None):
        return super().entries(self.meant(key), after=after, until=until, last=last)

    def get_state(self, key, name):
        return super().get_state(self.meant(key), name)

    def set_state(self, key, name, value, *, expected):
        return super().set_state(self.meant(key), name, value, expected=expected)


@killed_by("test_odd_ids_are_kept_apart", "test_documents_are_kept_apart_by_thread_and_name")
class LooksForIdsByPattern(MistakesIds):
    def same(self, asked, stored):
        pattern = re.escape(asked).replace("%", ".*").replace("_", ".")
        return re.fullmatch(pattern, stored, re.DOTALL) is not None


@killed_by("test_odd_ids_are_kept_apart", "test_documents_are_kept_apart_by_thread_and_name")
class TakesSmallLettersForLarge(MistakesIds):
    def same(self, asked, stored):
        return asked.lower() == stored.lower()


@killed_by("test_odd_ids_are_kept_apart", "test_documents_are_kept_apart_by_thread_and_name")
class IgnoresTrailingBlanks(MistakesIds):
    def same(self, asked, stored):
        return asked.rstrip(" ") == stored.rstrip(" ")


@killed_by("test_odd_ids_are_kept_apart", "test_documents_are_kept_apart_by_thread_and_name")
class ComposesLetters(MistakesIds):
    def same(self, asked, stored):
        return unicodedata.normalize("NFC", asked) == unicodedata.normalize("NFC", stored)


@killed_by("test_odd_ids_are_kept_apart")
class CutsIdsAtTheSeparator(MistakesIds):
    def same(self, asked, stored):
        return asked.partition("#")[0] == stored.partition("#")[0]


@killed_by("test_a_lone_thread_shares_nothing_with_a_user", "test_odd_ids_are_kept_apart")
class TakesAThreadForAUser(InMemoryLog):
    def changes(self, owner, cursor=0, *, limit=None):
        name = owner.user_id or owner.thread_id
        owners = (Owner(user_id=name), Owner(thread_id=name))
        pages = [InMemoryLog.changes(self, one) for one in owners]
        return Changes(pages[0].entries + pages[1].entries, 0, 0)
