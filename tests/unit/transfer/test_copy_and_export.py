import json
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from langchain_convmem.errors import ImportFormatError
from langchain_convmem.logs import InMemoryLog, SQLiteLog
from langchain_convmem.records import Control, Cover, Draft, Metadata, Owner, ThreadKey
from langchain_convmem.testing.log_contract import ODD_TEXTS, SAMPLES, are_identical
from langchain_convmem.transfer import copy_log, export_rows, read_threads, store_thread
from langchain_convmem.transfer.imports import parse_threads
from langchain_convmem.transfer.source import Source
from langchain_convmem.views.codec import make_draft
from langchain_convmem.views.live import find_live_entries, find_live_summary, find_uncovered

ANA = ThreadKey("ana", "t1")
OTHER = ThreadKey("ana", "t2")
LONE = ThreadKey(None, "t1")
OWNERS = [ANA.owner, LONE.owner, Owner(user_id="bo")]


def say(log, key, text, *, own_id=None, turn=None, **metadata):
    message = HumanMessage(text, id=own_id)
    (entry,) = log.append(key, [make_draft(message, turn_id=turn, metadata=Metadata(**metadata))])
    return entry


def edit(log, key, *ids, reason="undo", replacement=None):
    (entry,) = log.append(key, [Draft(role="control", control=Control(ids, reason, replacement))])
    return entry


def summarise(log, key, text, covered, *, previous=()):
    ranges = ((covered[0].position, covered[-1].position),)
    known = Metadata(summary_ids=(*previous, *(entry.id for entry in covered)))
    draft = Draft(role="summary", contents=(text,), metadata=known, cover=Cover(ranges, "d", "m"))
    (entry,) = log.append(key, [draft])
    return entry


def copied(source, target, **options):
    return copy_log(source, target, owners=OWNERS, **options)


def seen(log, key):
    """Everything of a thread that does not depend on the ids and positions a log gives."""
    entries = log.entries(key)
    live = find_live_entries(entries)
    names = {entry.id: number for number, entry in enumerate(entries)}
    stored = [
        (
            entry.message and (entry.message_id, entry.message.content),
            entry.contents,
            entry.role,
            replace(entry.metadata, summary_ids=()),
            [names.get(other) for other in entry.metadata.summary_ids],
        )
        for entry in entries
    ]
    return {
        # In no order: a mark of replacement may follow its new text.
        "entries": sorted(map(repr, stored)),
        "live": [(entry.role, entry.contents) for entry in live],
        "turns": [entry.turn_id for entry in entries if entry.message is not None],
        "marks": sorted((e.control.reason, len(e.control.retracts)) for e in entries if e.control),
        "uncovered": [entry.contents for entry in find_uncovered(live)],
        "summary": getattr(find_live_summary(live), "contents", None),
    }


def assert_copied(source, target, *keys):
    for key in keys:
        assert seen(target, key) == seen(source, key)


def assert_identical(source, target):
    for before, after in zip(source.entries(ANA), target.entries(ANA), strict=True):
        expected = before.message.model_copy(update={"id": before.message.id or before.id})
        assert are_identical(after.message, expected)
        assert are_identical(after.metadata, before.metadata)
        assert after.contents == before.contents


def test_every_kind_of_message_arrives_exactly():
    source, target = InMemoryLog(), InMemoryLog()
    for message in SAMPLES:
        aux = {message.type: (1, b"\x00")}
        metadata = Metadata(attributes=("seen",), timing={"llmEnd": 5}, aux=aux)
        source.append(ANA, [make_draft(message, turn_id="turn 1", metadata=metadata)])
    copied(source, target)
    assert_identical(source, target)
    assert {entry.turn_id for entry in target.entries(ANA)} == {"turn 1"}


def test_users_and_threads_of_nobody_stay_apart():
    source, target = InMemoryLog(), InMemoryLog()
    for key in (ANA, OTHER, LONE, ThreadKey("bo", "t1"), ThreadKey("eve", "t1")):
        say(source, key, f"of {key}")
    report = copied(source, target)
    assert (report.owners, report.threads, report.entries, report.written) == (3, 4, 4, 4)
    assert report.short == ()
    assert_copied(source, target, ANA, OTHER, LONE, ThreadKey("bo", "t1"))
    assert target.threads("eve") == []
    assert {info.key for info in target.threads("ana")} == {ANA, OTHER}


def test_what_the_copy_lacks_is_reported():
    class Losing(InMemoryLog):
        def append(self, key, drafts, **options):
            entries = super().append(key, drafts, **options)
            self.forget(key, [entries[-1].id])
            return entries

    source = InMemoryLog()
    say(source, ANA, "one")
    say(source, ANA, "two")
    (short,) = copied(source, Losing()).short
    assert short == (ANA, 2, 1)


def test_what_is_damaged_is_named_and_left_out_until_it_is_sound_again(tmp_path):
    def alter(old, new):
        with closing(sqlite3.connect(tmp_path / "log.db")) as db, db:
            db.execute("UPDATE entries SET body = replace(body, ?, ?)", (old, new))

    target = InMemoryLog()
    with SQLiteLog(tmp_path / "log.db") as source:
        entries = [say(source, ANA, text) for text in ("one", "two", "three")]
        say(source, OTHER, "other")
        alter("two", "six")
        report = copied(source, target)
        [found] = report.damaged
        assert (found.key, found.position, found.id) == (ANA, 2, entries[1].id)
        assert found.damage == "it does not match its checksum"
        assert (report.written, report.short) == (3, ())
        assert [entry.contents for entry in target.entries(ANA)] == [("one",), ("three",)]
        assert [entry.contents for entry in target.entries(OTHER)] == [("other",)]
        assert copied(source, target).damaged == report.damaged
        alter("six", "two")
        mended = copied(source, target)
        assert (mended.written, mended.damaged, mended.short) == (1, (), ())


class Interrupted(Exception):  # noqa: N818 - as a process that was killed
    pass


def breaking_off(name):
    """Return a write that breaks off before or right after it is made."""

    def write(log, *args, **kwargs):
        log.writes += 1
        failing = log.writes == log.fail_at
        if failing and not log.late:
            raise Interrupted
        result = getattr(InMemoryLog, name)(log, *args, **kwargs)
        if failing:
            raise Interrupted
        return result

    return write


class FailingLog(InMemoryLog):
    append, set_state, annotate = map(breaking_off, ("append", "set_state", "annotate"))

    def __init__(self, fail_at=None, *, late=False):
        super().__init__()
        self.fail_at, self.late, self.writes = fail_at, late, 0


def eventful():
    """A log in which everything happened."""
    log = InMemoryLog()
    entries = [say(log, ANA, f"line {number}") for number in range(3)]
    named = say(log, ANA, "frist", own_id="m")
    undo = edit(log, ANA, entries[0].id)
    say(log, OTHER, "elsewhere")
    summarise(log, ANA, "Lines.", entries[1:])
    say(log, ANA, "first", own_id="m")
    edit(log, ANA, undo.id, reason="rewind")
    edit(log, ANA, entries[2].id)
    edit(log, ANA, entries[2].id)
    gone = say(log, ANA, "secret", own_id="s")
    say(log, ANA, "harmless", own_id="s")
    log.forget(ANA, [gone.id])
    log.annotate(ANA, named.id, attributes=["seen"])
    return log


@pytest.mark.parametrize("late", [False, True])
def test_an_interrupted_copy_goes_on_and_doubles_nothing(late):
    source = eventful()
    whole = FailingLog()
    copied(source, whole)
    assert_copied(source, whole, ANA, OTHER)
    assert whole.writes > 8
    for fail_at in range(1, whole.writes + 1):
        target = FailingLog(fail_at, late=late)
        with pytest.raises(Interrupted):
            copied(source, target)
        report = copied(source, target)
        assert report.short == ()
        assert_copied(source, target, ANA, OTHER)
        assert len(target.entries(ANA)) == len(source.entries(ANA))


NAMES = st.sampled_from(["say", "say as", "undo", "cover", "annotate", "forget"])
STEPS = st.lists(st.tuples(NAMES, st.integers(0, 5), st.sampled_from([ANA, OTHER])), max_size=25)


def perform(log, name, number, key):
    entries = log.entries(key)
    spoken = [entry for entry in entries if entry.message is not None]
    if name == "say":
        say(log, key, f"line {number}", turn=f"turn {number}" if number > 3 else None)
    elif name == "say as":
        say(log, key, f"text {len(entries)}", own_id=f"m{number % 2}")
    elif name == "undo" and entries:
        edit(log, key, entries[number % len(entries)].id)
    elif name == "cover" and spoken:
        summarise(log, key, f"up to {number}", spoken[: number + 1])
    elif name == "annotate" and entries:
        log.annotate(key, entries[number % len(entries)].id, aux={"n": number})
    elif name == "forget" and spoken:
        log.forget(key, [spoken[number % len(spoken)].id])


@given(STEPS)
def test_a_copy_shows_what_the_log_shows_after_any_history(steps):
    source, target = InMemoryLog(), InMemoryLog()
    for name, number, key in steps:
        if name != "forget":
            perform(source, name, number, key)
    middle = len(steps) // 2
    copied(source, target)
    for name, number, key in steps[:middle]:
        if name not in ("forget", "annotate"):
            perform(source, name, number, key)
    report = copied(source, target)
    assert report.short == ()
    assert_copied(source, target, ANA, OTHER)
    assert copied(source, target).written == 0


def exported(log, owner=ANA.owner, **options):
    return "\n".join(export_rows(log, owner, **options)) + "\n"


def test_an_export_is_read_back_as_it_was(tmp_path):
    source = eventful()
    path = tmp_path / "ana.jsonl"
    path.write_text(exported(source), encoding="utf-8")
    with SQLiteLog(tmp_path / "log.db") as target:
        threads = read_threads(path)
        assert [thread.thread_id for thread in threads] == ["t1", "t2"]
        written = [store_thread(target, thread, user_id="ana") for thread in threads]
        assert written == [len(source.entries(ANA)), 1]
        assert_copied(source, target, ANA, OTHER)
        assert [store_thread(target, thread, user_id="ana") for thread in threads] == [0, 0]


def test_every_kind_of_message_and_text_survives_an_export():
    source, target = InMemoryLog(), InMemoryLog()
    for message in SAMPLES:
        source.append(ANA, [make_draft(message)])
    for text in ODD_TEXTS:
        source.append(ANA, [make_draft(AIMessage(text), metadata=Metadata(aux={"said": text}))])
    text = exported(source)
    text.encode()
    assert len(text.splitlines()) == len(source.entries(ANA)), "no reader of lines is misled"
    for thread in parse_threads(Source("export.jsonl", text)):
        store_thread(target, thread, user_id="ana")
    assert_identical(source, target)


def row(**changes):
    log = InMemoryLog()
    say(log, ANA, "one")
    return {**json.loads(exported(log)), **changes}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"position": 0}, "position"),
        ({"role": "robot"}, "role"),
        ({"id": ""}, "id"),
        ({"codec": 99}, "99"),
        ({"message": {"type": "robot"}}, "robot"),
        ({"message": {"type": "human", "content": 7}}, "content"),
        ({"contents": [1]}, "contents"),
        ({"role": "control", "control": {"retracts": "abc", "reason": "undo"}}, "retracts"),
        ({"role": "control", "control": {"retracts": [], "reason": "whim"}}, "reason"),
        ({"control": {"retracts": [], "reason": "undo"}}, "control"),
        ({"role": "control"}, "control"),
        ({"message": None}, "message"),
        ({"cover": {"ranges": [[1]], "digest": "", "model": "", "prompt_version": ""}}, "ranges"),
        ({"metadata": {"timing": {"llmEnd": "soon"}}}, "timing"),
        ({"metadata": {"attributes": "abc"}}, "attributes"),
        ({"metadata": {"aux": []}}, "aux"),
        ({"metadata": {"aux": {"x": {"$bytes": 7}}}}, "exported entry"),
        ({"user_id": "bo"}, "line 1"),
        ({"position": 1}, "ascending"),
    ],
)
def test_a_bad_row_is_refused_with_its_place(changes, says):
    text = "\n".join(map(json.dumps, [row(), row(id="01", position=2) | changes]))
    with pytest.raises(ImportFormatError, match=says):
        parse_threads(Source("export.jsonl", text))
