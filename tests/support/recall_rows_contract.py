"""What a log promises of the rows that recall keeps in it: lines, and segments of them.

Mix `RecallRowsContract` into the tests of a log, beside `MessageLogContract`.
"""

from dataclasses import replace
from itertools import product

import pytest

from langchain_convmem.message_log import MessageLog
from langchain_convmem.records import LineChanges, Owner, StoredSegment, ThreadKey
from langchain_convmem.testing.log_contract import (
    ANA,
    ANAS_OTHER,
    BO,
    NOBODY,
    SAMPLES,
    ReadingPlan,
    retract,
    say,
    say_all,
    talk,
)
from langchain_convmem.views.lines import make_dialog_lines


def make_segment(entry, *, part=0, vector=b"\x00<"):
    return StoredSegment(entry.position, part, 0, "park", vector)


def require_segments(log):
    if type(log).save_segments is MessageLog.save_segments:
        pytest.skip("declared: keeps no segments")
    return log


class RecallRowsContract:
    def test_lines_are_those_of_the_changes(self, log):
        entries = say_all(log, ANA, SAMPLES)
        log.annotate(ANA, entries[0].id, timing={"creation": 7})
        for key in (ANAS_OTHER, BO):
            say(log, key, "elsewhere")
        retract(log, ANA, entries[1].id)
        for limit in (1, 7, None):
            cursor, is_last = 0, False
            while not is_last:
                page = log.changes(ANA.owner, cursor, limit=limit)
                found = log.line_changes(ANA.owner, cursor, limit=limit)
                lines = tuple(line for entry in page.entries for line in make_dialog_lines(entry))
                controls = tuple(entry for entry in page.entries if entry.control is not None)
                cursor, is_last = page.cursor, found.is_last
                expected = LineChanges(lines, controls, cursor, page.generation, is_last)
                assert repr(found) == repr(expected)
            assert log.changes(ANA.owner, cursor).entries == ()

    def test_an_altered_entry_has_no_lines(self, log):
        if not self.alterations:
            pytest.skip("declared: shows no alterations")
        for how in self.alterations:
            said = say_all(log, ANA, talk("one secret three"))
            self.alter(how, said[1].position)
            entries, found = log.entries(ANA), log.line_changes(ANA.owner)
            assert [line.text for line in found.lines] == ["one", "three"], how
            assert [entry.damage for entry in found.controls] == [entries[1].damage]
            assert log.read_back(ANA, ReadingPlan([(0, None)], 99)) == entries
            log.forget(ANA)

    def test_segments_are_kept_by_owner_and_fingerprint(self, log):
        cache = require_segments(log)
        one, two = say_all(log, ANA, talk("one two"))
        foreign = say(log, BO, "three")
        rows = [make_segment(one), make_segment(two), make_segment(two, part=1)]
        nothing = StoredSegment(foreign.position + 99, 0, 0, "words", None)
        saved = {
            (ANA, "b"): rows,
            (ANA, "a"): rows[:1],
            (ANA, "words"): [make_segment(one, vector=None)],
            (BO, "b"): [make_segment(foreign)],
        }
        for (key, fingerprint), kept in saved.items():
            cache.save_segments(key.owner, fingerprint, list(reversed(kept)))
        cache.save_segments(ANA.owner, "b", [make_segment(foreign), nothing])
        cache.save_segments(NOBODY.owner, "b", rows)
        assert cache.load_segments(ANA.owner, "b", after=one.position) == rows[1:]
        for deleted, left in ((3, ["a", "b"]), (0, ["a"])):
            for user, name in product(("ana", "bo", "nobody"), ("a", "b", "words", "no")):
                found = cache.load_segments(Owner(user), name)
                assert found == saved.get((ThreadKey(user, "t1"), name), [])
            assert cache.segment_fingerprints(ANA.owner) == left
            assert cache.delete_segments(ANA.owner, "b") == deleted
            saved[ANA, "b"] = []
        assert cache.delete_segments(NOBODY.owner, "a") == 0
        assert cache.segment_fingerprints(NOBODY.owner) == []

    def test_segments_are_overwritten_but_no_vector_is_lost(self, log):
        cache = require_segments(log)
        entry = say(log, ANA, "one")
        bare, whole = make_segment(entry, vector=None), make_segment(entry)
        anew = replace(whole, terms="parks harbours", analysis=7)
        checked = replace(anew, vector_check=2**32 - 1, terms_check=7)
        pending = replace(checked, terms="other", terms_check=5, vector=None, vector_check=None)
        for saved, found in (
            (bare, bare),
            (whole, whole),
            (anew, anew),
            (replace(anew, vector=None), anew),
            (checked, checked),
            (pending, replace(checked, terms="other", terms_check=5)),
        ):
            cache.save_segments(ANA.owner, "model", [saved])
            assert cache.load_segments(ANA.owner, "model") == [found]

    def test_forgetting_erases_segments(self, log):
        cache = require_segments(log)
        one, two = say_all(log, ANA, talk("one two"))
        rows = [make_segment(entry) for entry in (one, two, say(log, ANAS_OTHER, "three"))]
        for fingerprint in ("a", "b"):
            cache.save_segments(ANA.owner, fingerprint, rows)
        for scope, ids, left in (
            (ANA, [one.id], rows[1:]),
            (ANAS_OTHER, None, rows[1:2]),
            (ANA.owner, None, []),
        ):
            assert log.forget(scope, ids).segments == 2
            assert cache.load_segments(ANA.owner, "a") == left
        say(log, ANA, "anew")
        assert cache.load_segments(ANA.owner, "a") == []
