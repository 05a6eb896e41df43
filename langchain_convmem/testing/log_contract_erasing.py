"""The log contract: `forget` erases what it names with all derived from it, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_convmem.errors import ConfigError
from langchain_convmem.ids import new_ulid, now_ms
from langchain_convmem.protocols import SegmentCache
from langchain_convmem.records import Entry, ForgetReceipt, Owner, StoredSegment, ThreadKey
from langchain_convmem.testing.log_contract_base import (
    ANA,
    LONE,
    ContractLog,
    ContractPart,
    OpenLog,
    live_texts,
    retract,
    say,
    say_all,
    texts,
)
from langchain_convmem.testing.log_samples import ODD_IDS

__all__ = ["ErasingPart"]

ANAS_OTHER = ThreadKey("ana", "t2")
BO = ThreadKey("bo", "t1")
CACHES = ("cache:window", "cache:", "cache:Zoë 🦊 #%\\ ", "cache:cache:", f"cache:{'long' * 200}")
NO_CACHES = (
    "buffer",
    "cache",
    "cache;",
    "caches:",
    "Cache:window",
    "CACHE:",
    " cache:window",
    "my cache:window",
    "cach_:",
    f"{'long' * 200} cache:",
)
EVERY_KEY = (ANA, ANAS_OTHER, BO, LONE, ThreadKey(None, "ana"), ThreadKey("t1", "t1"))


def _filled(log: ContractLog) -> None:
    for key in EVERY_KEY:
        say_all(log, key, [f"{key} one", f"{key} two"])
        log.set_state(key, "buffer", [1], expected=None)


def _remaining(log: ContractLog) -> set[ThreadKey]:
    """Return the threads of which everything is left; fails where one is left in part."""
    whole = set()
    for key in EVERY_KEY:
        parts = (len(log.entries(key)), log.get_state(key, "buffer") is not None)
        assert parts in ((2, True), (0, False)), key
        if parts == (2, True):
            whole.add(key)
    return whole


def _counts(receipt: ForgetReceipt) -> tuple[int, int, int]:
    return receipt.entries, receipt.threads, receipt.documents


def _cache(log: ContractLog) -> SegmentCache:
    if not isinstance(log, SegmentCache):
        pytest.skip("declared: keeps no segments")
    return log


def _segment(entry: Entry, *, part: int = 0, vector: bytes | None = b"\x00<") -> StoredSegment:
    return StoredSegment(entry.position, part, 0, "park harbour", vector)


class ErasingPart(ContractPart):
    """`forget`, and the cache of segments."""

    def test_forgetting_a_thread_leaves_the_others(self, log: ContractLog) -> None:
        _filled(log)
        retract(log, ANAS_OTHER, log.entries(ANAS_OTHER)[0].id)
        before = now_ms()
        receipt = log.forget(ANAS_OTHER)
        assert _counts(receipt) == (3, 1, 1)
        assert before <= receipt.at_ms <= now_ms()
        assert _remaining(log) == set(EVERY_KEY) - {ANAS_OTHER}
        assert [info.key for info in log.threads("ana")] == [ANA]
        assert _counts(log.forget(ANAS_OTHER)) == (0, 0, 0)

    def test_forgetting_a_user_leaves_the_others(self, log: ContractLog) -> None:
        _filled(log)
        assert _counts(log.forget(Owner(user_id="ana"))) == (4, 2, 2)
        assert _remaining(log) == set(EVERY_KEY) - {ANA, ANAS_OTHER}
        assert log.threads("ana") == []
        assert log.changes(Owner(user_id="ana")).entries == ()
        assert _counts(log.forget(Owner(user_id="ana"))) == (0, 0, 0)

    def test_forgetting_a_lone_thread_leaves_the_others(self, log: ContractLog) -> None:
        _filled(log)
        assert _counts(log.forget(Owner(thread_id="t1"))) == (2, 1, 1)
        assert _remaining(log) == set(EVERY_KEY) - {LONE}
        assert _counts(log.forget(ThreadKey(None, "ana"))) == (2, 1, 1)
        assert _remaining(log) == set(EVERY_KEY) - {LONE, ThreadKey(None, "ana")}

    def test_forgetting_odd_ids_erases_just_these(self, log: ContractLog) -> None:
        for odd in ODD_IDS:
            say(log, ThreadKey("ana", odd), "thread")
            say(log, ThreadKey(odd, "t1"), "user")
        for number, odd in enumerate(ODD_IDS, start=1):
            assert log.forget(ThreadKey("ana", odd)).entries == 1, odd
            assert log.forget(Owner(user_id=odd)).entries == 1, odd
            assert len(log.changes(ANA.owner).entries) == len(ODD_IDS) - number
        assert _counts(log.forget(Owner(user_id="nobody"))) == (0, 0, 0)

    def test_forgetting_entries_leaves_the_rest_of_the_thread(self, log: ContractLog) -> None:
        entries = say_all(log, ANA, ["zero", "one", "two", HumanMessage("three", id="m3"), "four"])
        say(log, ANAS_OTHER, HumanMessage("three", id="m3"))
        receipt = log.forget(ANA, [entries[1].id, "m3", "m4", new_ulid(), "", "%"])
        assert (receipt.entries, receipt.threads) == (2, 0)
        assert log.entries(ANA) == [entries[0], entries[2], entries[4]]
        assert texts(log.entries(ANAS_OTHER)) == ["three"]
        assert log.forget(ANA, [entries[1].id, "m3"]).entries == 0
        assert log.forget(ANA, []).entries == 0
        assert say(log, ANA, "five").position > entries[4].position

    def test_forgetting_a_message_erases_every_version(self, log: ContractLog) -> None:
        for text in ("one", "two", "three"):
            say(log, ANA, HumanMessage(text, id="m1"))
        other = say(log, ANA, "other")
        assert log.forget(ANA, ["m1"]).entries == 3
        assert texts(log.entries(ANA)) == ["other"]
        assert say(log, ANA, HumanMessage("three", id="m1")).position > other.position
        assert live_texts(log, ANA) == ["other", "three"]

    def test_forgetting_an_old_version_leaves_the_new_one_in_its_place(
        self, log: ContractLog
    ) -> None:
        say(log, ANA, "before")
        say_all(log, ANA, [HumanMessage("secret", id="m1"), AIMessage("reply")], turn="turn")
        say(log, ANA, "after")
        say(log, ANA, HumanMessage("harmless", id="m1"))
        assert log.forget(ANA, [log.entries(ANA)[1].id]).entries == 1
        assert live_texts(log, ANA) == ["before", "harmless", "reply", "after"]

    def test_a_forgotten_message_can_be_said_anew(self, log: ContractLog) -> None:
        old = say(log, ANA, HumanMessage("Hi", id="m1"))
        log.forget(ANA)
        new = say(log, ANA, HumanMessage("Hi", id="m1"))
        assert log.entries(ANA) == [new]
        assert new.id != old.id
        assert new.position > old.position

    def test_forgetting_entries_deletes_the_caches_of_their_thread(self, log: ContractLog) -> None:
        keys = (ANA, ANAS_OTHER, BO, LONE)
        for key in keys:
            say(log, key, "one")
            for name in (*CACHES, *NO_CACHES):
                log.set_state(key, name, [name], expected=None)
        receipt = log.forget(ANA, [log.entries(ANA)[0].id])
        assert _counts(receipt) == (1, 0, len(CACHES))
        assert [name for name in CACHES if log.get_state(ANA, name) is not None] == []
        for key in keys:
            for name in (*NO_CACHES, *(CACHES if key != ANA else ())):
                document = log.get_state(key, name)
                assert document is not None, (key, name)
                assert document.value == [name]
        assert _counts(log.forget(ANA)) == (0, 1, len(NO_CACHES))
        assert _counts(log.forget(ANAS_OTHER)) == (1, 1, len(CACHES) + len(NO_CACHES))

    def test_caches_go_whatever_ids_are_forgotten(self, log: ContractLog) -> None:
        entry = say(log, ANA, HumanMessage("one", id="m1"))
        for ids in ([], ["unknown"], [new_ulid(), "m2"]):
            old = log.set_state(ANA, "cache:window", 1, expected=None)
            assert old is not None
            assert _counts(log.forget(ANA, ids)) == (0, 0, 1)
            assert log.get_state(ANA, "cache:window") is None
            assert log.set_state(ANA, "cache:window", 2, expected=old.version) is None
        assert log.entries(ANA) == [entry]
        log.set_state(ANAS_OTHER, "cache:window", 1, expected=None)
        assert _counts(log.forget(ANAS_OTHER, ["m1"])) == (0, 0, 1)
        assert _counts(log.forget(ThreadKey("nobody", "t1"), ["m1"])) == (0, 0, 0)

    def test_caches_stay_while_nothing_is_forgotten(self, log: ContractLog) -> None:
        document = log.set_state(ANA, "cache:window", 1, expected=None)
        entry = say(log, ANA, HumanMessage("frist", id="m1"))
        log.annotate(ANA, entry.id, attributes=["seen"])
        say(log, ANA, HumanMessage("first", id="m1"))
        retract(log, ANA, entry.id, reason="cleared")
        log.delete_state(ANA, "buffer")
        assert log.get_state(ANA, "cache:window") == document

    def test_entry_ids_need_their_thread(self, log: ContractLog) -> None:
        entry = say(log, ANA, "Hi")
        with pytest.raises(ConfigError):
            log.forget(ANA.owner, [entry.id])
        with pytest.raises(ConfigError):
            log.forget(ANA, entry.id)  # one text is no collection of ids
        assert log.entries(ANA) == [entry]

    def test_every_forget_raises_the_generation(self, log: ContractLog) -> None:
        seen = [log.changes(ANA.owner).generation]
        entry = say(log, ANA, "one")
        for scope, ids in ((ANA, [entry.id]), (ANAS_OTHER, None), (ANA.owner, None), (ANA, None)):
            say_all(log, ANA, ["one", "two"])
            say(log, ANAS_OTHER, "three")
            before = log.changes(ANA.owner).generation
            assert before == log.changes(ANA.owner).generation
            log.forget(scope, ids)
            seen.append(before)
            assert log.changes(ANA.owner).generation not in seen

    def test_an_owner_who_starts_again_is_not_taken_for_the_one_before(
        self, log: ContractLog
    ) -> None:
        say_all(log, ANA, ["one", "two"])
        before = log.changes(ANA.owner)
        log.forget(ANA.owner)
        say(log, ANA, "anew")
        after = log.changes(ANA.owner)
        assert after.generation != before.generation
        assert texts(after.entries) == ["anew"]
        assert texts(log.changes(ANA.owner, before.cursor).entries) == ["anew"]

    def test_another_handle_sees_what_was_forgotten(self, open_log: OpenLog) -> None:
        if not self.several_handles:
            pytest.skip("declared: one handle only")
        here, there = open_log(), open_log()
        entries = say_all(here, ANA, ["one", "two"])
        here.set_state(ANA, "buffer", 1, expected=None)
        assert there.entries(ANA) == entries
        before = there.changes(ANA.owner)
        assert before.entries == tuple(entries)
        here.forget(ANA, [entries[0].id])
        assert there.entries(ANA) == [entries[1]]
        between = there.changes(ANA.owner)
        assert between.generation != before.generation
        there.forget(ANA)
        assert here.entries(ANA) == []
        assert here.get_state(ANA, "buffer") is None
        assert here.changes(ANA.owner).generation not in (before.generation, between.generation)

    # -- segments -------------------------------------------------------------------------------

    def test_segments_are_kept_by_owner_and_fingerprint(self, log: ContractLog) -> None:
        cache = _cache(log)
        entries = say_all(log, ANA, ["one", "two"])
        [alone] = say_all(log, LONE, ["three"])
        rows = [_segment(entries[0]), _segment(entries[1]), _segment(entries[1], part=1)]
        cache.save_segments(ANA.owner, "model a", list(reversed(rows)))
        cache.save_segments(ANA.owner, "model b", rows[:1])
        cache.save_segments(LONE.owner, "model a", [_segment(alone)])
        assert cache.load_segments(ANA.owner, "model a") == rows
        assert cache.load_segments(ANA.owner, "model a", after=entries[0].position) == rows[1:]
        assert cache.load_segments(ANA.owner, "model b") == rows[:1]
        assert cache.load_segments(LONE.owner, "model a") == [_segment(alone)]
        assert cache.load_segments(ANA.owner, "model c") == []
        assert cache.load_segments(Owner(user_id="nobody"), "model a") == []

    def test_rows_are_overwritten_but_no_vector_is_lost(self, log: ContractLog) -> None:
        cache = _cache(log)
        entry = say(log, ANA, "one")
        cache.save_segments(ANA.owner, "model", [_segment(entry, vector=None)])
        assert cache.load_segments(ANA.owner, "model") == [_segment(entry, vector=None)]
        analysed_anew = replace(_segment(entry), terms="parks harbours", analysis=7)
        cache.save_segments(ANA.owner, "model", [analysed_anew])
        assert cache.load_segments(ANA.owner, "model") == [analysed_anew]
        cache.save_segments(ANA.owner, "model", [replace(analysed_anew, vector=None)])
        assert cache.load_segments(ANA.owner, "model") == [analysed_anew]

    def test_segments_of_others_or_of_nothing_are_left_out(self, log: ContractLog) -> None:
        cache = _cache(log)
        mine, foreign = say(log, ANA, "one"), say(log, BO, "two")
        nothing = StoredSegment(foreign.position + 99, 0, 0, "words", None)
        rows = [_segment(foreign), nothing, _segment(mine)]
        cache.save_segments(ANA.owner, "model", rows)
        assert cache.load_segments(ANA.owner, "model") == [_segment(mine)]
        assert cache.load_segments(BO.owner, "model") == []
        cache.save_segments(Owner(user_id="nobody"), "model", rows)
        assert cache.load_segments(ANA.owner, "model") == [_segment(mine)]

    def test_rows_of_a_fingerprint_are_deleted_and_no_others(self, log: ContractLog) -> None:
        cache = _cache(log)
        one, two = say_all(log, ANA, ["one", "two"])
        bos = say(log, BO, "three")
        rows = [_segment(one), _segment(two, vector=None)]
        for fingerprint in ("model b", "model a"):
            cache.save_segments(ANA.owner, fingerprint, rows)
        cache.save_segments(ANA.owner, "words alone", [_segment(one, vector=None)])
        cache.save_segments(BO.owner, "model a", [_segment(bos)])
        assert cache.segment_fingerprints(ANA.owner) == ["model a", "model b"]
        assert cache.delete_segments(ANA.owner, "model a") == len(rows)
        assert cache.delete_segments(ANA.owner, "model a") == 0
        assert cache.delete_segments(Owner(user_id="nobody"), "model b") == 0
        assert cache.segment_fingerprints(ANA.owner) == ["model b"]
        assert cache.segment_fingerprints(Owner(user_id="nobody")) == []
        assert cache.load_segments(ANA.owner, "model a") == []
        assert cache.load_segments(ANA.owner, "model b") == rows
        assert cache.load_segments(ANA.owner, "words alone") == [_segment(one, vector=None)]
        assert cache.load_segments(BO.owner, "model a") == [_segment(bos)]

    def test_forgetting_erases_segments(self, log: ContractLog) -> None:
        cache = _cache(log)
        one, two = say_all(log, ANA, ["one", "two"])
        three = say(log, ANAS_OTHER, "three")
        for fingerprint in ("model a", "model b"):
            rows = [_segment(entry, part=part) for entry in (one, two, three) for part in (0, 1)]
            cache.save_segments(ANA.owner, fingerprint, rows)
        assert log.forget(ANA, [one.id]).segments == 4
        left = cache.load_segments(ANA.owner, "model a")
        assert [row.position for row in left] == [two.position] * 2 + [three.position] * 2
        assert log.forget(ANAS_OTHER).segments == 4
        assert log.forget(ANA.owner).segments == 4
        say(log, ANA, "anew")
        assert cache.load_segments(ANA.owner, "model a") == []
