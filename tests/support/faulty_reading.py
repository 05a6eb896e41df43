"""Logs with one defect each in reading a part of a thread, listing owners, or dropping caches."""

from __future__ import annotations

from faulty_logs import killed_by

from langchain_convmem.logs import InMemoryLog, SQLiteLog
from langchain_convmem.records import Owner, ThreadKey
from langchain_convmem.views.live import find_live_entries

# -- ranges -------------------------------------------------------------------------------------


class Ranges(InMemoryLog):
    """A log that misunderstands the ends of a range."""

    def entries(self, key, *, after=0, until=None, last=None):
        return InMemoryLog.entries(self, key, **self.meant(after, until, last))


@killed_by("test_ranges_end_at_a_position", "test_ranges_have_two_ends")
class LeavesOutTheEnd(Ranges):
    def meant(self, after, until, last):
        return {"after": after, "until": until and until - 1, "last": last}


@killed_by("test_ranges_end_at_a_position", "test_ranges_have_two_ends")
class ReadsOneTooFar(Ranges):
    def meant(self, after, until, last):
        return {"after": after, "until": until and until + 1, "last": last}


@killed_by("test_ranges_end_at_a_position")
class ReadsToTheNewest(Ranges):
    def meant(self, after, until, last):
        return {"after": after, "last": last}


@killed_by("test_ranges_end_at_a_position")
class TakesTheEndZeroForNone(Ranges):
    def meant(self, after, until, last):
        return {"after": after, "until": until or None, "last": last}


@killed_by("test_ranges_have_two_ends")
class ForgetsTheBeginningForTheEnd(Ranges):
    def meant(self, after, until, last):
        return {"after": after if until is None else 0, "until": until, "last": last}


@killed_by("test_the_latest_of_a_range_are_those_before_its_end")
class ForgetsTheEndForTheLatest(Ranges):
    def meant(self, after, until, last):
        return {"after": after, "until": until if last is None else None, "last": last}


@killed_by("test_the_latest_of_a_range_are_those_before_its_end")
class CutsTheLatestOfTheThread(InMemoryLog):
    def entries(self, key, *, after=0, until=None, last=None):
        found = super().entries(key, after=after, last=last)
        return [entry for entry in found if until is None or entry.position <= until]


@killed_by("test_ranges_have_two_ends")
class SwapsTheEndsOfAnEmptyRange(Ranges):
    def meant(self, after, until, last):
        if until is not None:
            after, until = sorted((after, until))
        return {"after": after, "until": until, "last": last}


@killed_by("test_the_asynchronous_twins_do_the_same")
class ReadsAsynchronouslyToTheNewest(InMemoryLog):
    async def aentries(self, key, *, after=0, until=None, last=None):
        return self.entries(key, after=after, last=last)


# -- find ---------------------------------------------------------------------------------------


class Finds(InMemoryLog):
    """A log that looks through what it holds, badly."""

    def find(self, key, message_ids):
        super().find(key, message_ids)  # refuses what it must
        return [entry for entry in self.searched(key) if self.matches(entry, message_ids)]

    def searched(self, key):
        return [entry for entry in self.entries(key) if entry.role != "control"]

    def matches(self, entry, ids):
        return entry.message_id in ids


@killed_by("test_nothing_of_other_threads_is_found")
class FindsWhatOtherThreadsHold(Finds):
    def searched(self, key):
        return self.changes(key.owner).entries


@killed_by("test_nothing_of_other_threads_is_found")
class FindsWhatOtherUsersHold(Finds):
    def searched(self, key):
        named = [one for one in self._threads if one.thread_id == key.thread_id]
        return [entry for one in named for entry in self.entries(one)]


@killed_by("test_replaced_and_retracted_messages_are_found")
class FindsWhatTheViewsShow(Finds):
    def searched(self, key):
        return find_live_entries(self.entries(key))


@killed_by("test_replaced_and_retracted_messages_are_found")
class FindsTheNewestVersion(Finds):
    def searched(self, key):
        return {entry.message_id: entry for entry in super().searched(key)}.values()


@killed_by("test_replaced_and_retracted_messages_are_found")
class FindsTheFirstVersion(Finds):
    def searched(self, key):
        return {entry.message_id: entry for entry in super().searched(key)[::-1]}.values()


@killed_by("test_replaced_and_retracted_messages_are_found")
class MissesRetractedMessages(Finds):
    def searched(self, key):
        entries = self.entries(key)
        gone = {
            name
            for entry in entries
            if entry.control is not None and entry.control.reason == "undo"
            for name in entry.control.retracts
        }
        return [entry for entry in super().searched(key) if entry.id not in gone]


@killed_by("test_messages_without_an_id_are_found_by_that_of_their_entry")
class FindsByBothIds(Finds):
    def matches(self, entry, ids):
        return entry.message_id in ids or entry.id in ids


@killed_by("test_messages_without_an_id_are_found_by_that_of_their_entry")
class FindsControlEntries(Finds):
    def searched(self, key):
        return self.entries(key)


@killed_by("test_messages_without_an_id_are_found_by_that_of_their_entry")
class FindsByOwnIdsOnly(Finds):
    def matches(self, entry, ids):
        return entry.message is not None and entry.message.id in ids


@killed_by("test_messages_without_an_id_are_found_by_that_of_their_entry")
class TakesAnEmptyIdForAnId(Finds):
    def matches(self, entry, ids):
        own = None if entry.message is None else entry.message.id
        return (entry.id if own is None else own) in ids


@killed_by("test_messages_are_found_by_their_own_ids")
class FindsInTheOrderOfTheQuestion(InMemoryLog):
    def find(self, key, message_ids):
        found = {entry.message_id: entry for entry in super().find(key, message_ids)}
        return [found[one] for one in dict.fromkeys(message_ids) if one in found]


@killed_by("test_messages_are_found_by_their_own_ids")
class FindsAsOftenAsAsked(InMemoryLog):
    def find(self, key, message_ids):
        InMemoryLog.find(self, key, message_ids)
        return [entry for one in message_ids for entry in InMemoryLog.find(self, key, [one])]


@killed_by("test_messages_are_found_by_their_own_ids", "test_ids_are_found_exactly")
class FindsSmallLettersForLarge(Finds):
    def matches(self, entry, ids):
        return entry.message_id.lower() in {one.lower() for one in ids}


@killed_by("test_ids_are_found_exactly")
class FindsWithoutTrailingBlanks(Finds):
    def matches(self, entry, ids):
        return entry.message_id.rstrip() in {one.rstrip() for one in ids}


@killed_by("test_any_number_of_messages_is_found")
class LooksForAHundredIds(InMemoryLog):
    def find(self, key, message_ids):
        super().find(key, message_ids)
        return super().find(key, list(message_ids)[:100])


@killed_by("test_one_text_is_no_collection_of_message_ids")
class TakesATextForItsLetters(InMemoryLog):
    def find(self, key, message_ids):
        return super().find(key, list(message_ids))


@killed_by("test_what_was_forgotten_is_not_found")
class FindsWhatWasForgotten(Finds):
    def searched(self, key):
        known = self.__dict__.setdefault("known", {})
        known.update((entry.id, entry) for entry in super().searched(key))
        return [entry for entry in known.values() if entry.key == key]

    def forget(self, scope, entry_ids=None):
        self.searched(scope)
        return super().forget(scope, entry_ids)


@killed_by("test_messages_are_found_by_their_own_ids")
class FindsEntriesAsTheyWereWritten(Finds):
    def append(self, key, drafts, *, durable=True):
        entries = super().append(key, drafts)
        self.__dict__.setdefault("written", []).extend(entries)
        return entries

    def searched(self, key):
        return [entry for entry in self.written if entry.key == key and entry.role != "control"]


@killed_by("test_a_closed_log_says_so")
class LooksForNothingWhenClosed(InMemoryLog):
    def find(self, key, message_ids):
        return super().find(key, message_ids) if message_ids else []


@killed_by("test_two_handles_see_each_other")
class FindsWhatThisHandleWrote(SQLiteLog):
    def append(self, key, drafts, *, durable=True):
        entries = super().append(key, drafts, durable=durable)
        self.__dict__.setdefault("mine", set()).update(entry.id for entry in entries)
        return entries

    def find(self, key, message_ids):
        mine = self.__dict__.get("mine", ())
        return [entry for entry in super().find(key, message_ids) if entry.id in mine]


@killed_by("test_the_asynchronous_twins_do_the_same")
class FindsOneAsynchronously(InMemoryLog):
    async def afind(self, key, message_ids):
        return self.find(key, message_ids)[:1]


@killed_by("test_writers_in_processes_of_their_own_lose_nothing")
class OverwritesOtherProcesses(FindsWhatThisHandleWrote):
    def append(self, key, drafts, *, durable=True):
        entries = super().append(key, drafts, durable=durable)
        foreign = [entry.id for entry in self.entries(key) if entry.id not in self.mine]
        if foreign:
            self.forget(key, foreign)
        return entries


# -- owners -------------------------------------------------------------------------------------


@killed_by("test_owners_are_those_who_have_entries")
class ListsOwnersOfDocuments(InMemoryLog):
    def owners(self):
        return list({key.owner for key in self._threads})


@killed_by("test_owners_are_those_who_have_entries", "test_owners_come_back_as_they_were_named")
class ListsUsersOnly(InMemoryLog):
    def owners(self):
        return [owner for owner in super().owners() if owner.user_id is not None]


@killed_by("test_owners_are_those_who_have_entries")
class ListsAnOwnerPerThread(InMemoryLog):
    def owners(self):
        return [key.owner for key, thread in self._threads.items() if thread.rows]


@killed_by("test_owners_are_those_who_have_entries", "test_owners_come_back_as_they_were_named")
class TakesLoneThreadsForUsers(InMemoryLog):
    def owners(self):
        return [Owner(user_id=one.user_id or one.thread_id) for one in super().owners()]


@killed_by("test_owners_are_those_who_have_entries")
class ListsForgottenOwners(InMemoryLog):
    def owners(self):
        known = self.__dict__.setdefault("known", set())
        known.update(super().owners())
        return list(known)


@killed_by("test_owners_come_back_as_they_were_named")
class ListsOwnersWithoutBlanks(InMemoryLog):
    def owners(self):
        names = [(one.user_id or "", one.thread_id or "") for one in super().owners()]
        return list({Owner(user.strip() or None, lone.strip() or None) for user, lone in names})


# -- caches -------------------------------------------------------------------------------------


class DropsCaches(InMemoryLog):
    """A log that deletes the wrong documents when entries are forgotten."""

    def forget(self, scope, entry_ids=None):
        if entry_ids is None or not isinstance(scope, ThreadKey):
            return super().forget(scope, entry_ids)
        before = {key: dict(thread.documents) for key, thread in self._threads.items()}
        receipt = super().forget(scope, entry_ids)
        for key, thread in self._threads.items():
            kept = {
                name: value
                for name, value in before[key].items()
                if not self.drops(key, name, scope, receipt)
            }
            thread.documents = kept
        return receipt

    def drops(self, key, name, scope, receipt):
        return key == scope and name.startswith("cache:")


@killed_by(
    "test_forgetting_entries_deletes_the_caches_of_their_thread",
    "test_caches_go_whatever_ids_are_forgotten",
    "test_the_asynchronous_twins_do_the_same",
)
class KeepsCaches(DropsCaches):
    def drops(self, key, name, scope, receipt):
        return False


@killed_by("test_forgetting_entries_deletes_the_caches_of_their_thread")
class DropsEveryDocument(DropsCaches):
    def drops(self, key, name, scope, receipt):
        return key == scope


@killed_by("test_forgetting_entries_deletes_the_caches_of_their_thread")
class DropsTheCachesOfTheUser(DropsCaches):
    def drops(self, key, name, scope, receipt):
        return key.owner == scope.owner and name.startswith("cache:")


@killed_by("test_forgetting_entries_deletes_the_caches_of_their_thread")
class DropsTheCachesOfThreadsOfThatName(DropsCaches):
    def drops(self, key, name, scope, receipt):
        return key.thread_id == scope.thread_id and name.startswith("cache:")


@killed_by("test_forgetting_entries_deletes_the_caches_of_their_thread")
class DropsCachesInAnyLetters(DropsCaches):
    def drops(self, key, name, scope, receipt):
        return key == scope and name.lower().startswith("cache:")


@killed_by("test_forgetting_entries_deletes_the_caches_of_their_thread")
class DropsWhatIsNamedLikeACache(DropsCaches):
    def drops(self, key, name, scope, receipt):
        return key == scope and name.startswith("cache")


@killed_by("test_forgetting_entries_deletes_the_caches_of_their_thread")
class DropsWhatHoldsTheWord(DropsCaches):
    def drops(self, key, name, scope, receipt):
        return key == scope and "cache:" in name


@killed_by("test_forgetting_entries_deletes_the_caches_of_their_thread")
class MissesLongNames(DropsCaches):
    def drops(self, key, name, scope, receipt):
        return super().drops(key, name, scope, receipt) and len(name) < 300


@killed_by("test_caches_go_whatever_ids_are_forgotten")
class DropsCachesWithEntriesOnly(DropsCaches):
    def drops(self, key, name, scope, receipt):
        return super().drops(key, name, scope, receipt) and receipt.entries > 0


@killed_by(
    "test_forgetting_entries_deletes_the_caches_of_their_thread",
    "test_caches_go_whatever_ids_are_forgotten",
)
class CountsNoCaches(InMemoryLog):
    def forget(self, scope, entry_ids=None):
        receipt = super().forget(scope, entry_ids)
        return receipt if entry_ids is None else type(receipt)(receipt.entries, at_ms=receipt.at_ms)


@killed_by("test_caches_stay_while_nothing_is_forgotten")
class DropsCachesOfWhatWasRetracted(InMemoryLog):
    def append(self, key, drafts, *, durable=True):
        if any(draft.control is not None for draft in drafts):
            self.forget(key, [])
        return super().append(key, drafts)
