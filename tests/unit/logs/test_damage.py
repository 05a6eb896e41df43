import contextlib
import json
import random

import pytest
from histories import KEY
from langchain_core.messages import HumanMessage
from sqlite_files import damage, plain

from langchain_convmem.errors import ConvMemError, LogError
from langchain_convmem.logs import SQLiteLog
from langchain_convmem.logs.base import Signer
from langchain_convmem.logs.sql_log import read_row
from langchain_convmem.records import StoredSegment, ThreadKey
from langchain_convmem.testing.log_contract import list_texts, say, say_all

CHANGED = "it does not match its checksum"
BEN = ThreadKey("ben", "t1")


def list_damages(entries):
    return [(entry.position, entry.damage) for entry in entries if entry.damage]


MOVED = [
    "UPDATE entries SET thread = CAST('t2' AS BLOB) WHERE {at} = 2",
    "UPDATE entries SET body = (SELECT body FROM entries WHERE {at} = 3) WHERE {at} = 2",
]


@pytest.mark.parametrize("script", MOVED)
def test_an_entry_in_the_place_of_another_shows(path, log, script):
    for text in ("one", "pay 1000 euros", "three"):
        say(log, KEY, text)
    say(log, BEN, "of another")
    damage(path, script)
    everybodys = list_texts(log.entries(KEY) + log.entries(BEN))
    assert everybodys == ["one", "three", "of another"]
    assert [line.text for line in log.line_changes(KEY.owner).lines] == ["one", "three"]
    [finding] = log.verify().damaged
    assert (finding.position, finding.user_id) == (2, "ana")
    assert "euros" not in str(log.verify())


def test_an_altered_character_anywhere_is_named_and_takes_no_other_thread_down(path, log):
    keys = [ThreadKey("ana", f"t{number}") for number in range(4)]
    for key in keys:
        say_all(log, key, [f"{key.thread_id} says {number}" for number in range(10)])
    sound = {key: list_texts(log.entries(key)) for key in keys}
    chance = random.Random(7)
    with plain(path) as db:
        rows = db.execute("SELECT place, thread, body FROM entries").fetchall()
        for _ in range(60):
            place, thread, body = chance.choice(rows)
            at = chance.randrange(len(body))
            altered = f"{body[:at]}{chr(ord(body[at]) ^ 1)}{body[at + 1 :]}"
            db.execute("UPDATE entries SET body = ? WHERE place = ?", (altered, place))
            hit = ThreadKey("ana", thread.decode())
            for key in keys:
                read = log.entries(key)
                assert len(read) == 10
                assert len(list_damages(read)) == (key == hit)
                assert set(list_texts(read)) <= set(sound[key])
            db.execute("UPDATE entries SET body = ? WHERE place = ?", (body, place))
    assert log.verify().ok


def test_nothing_is_added_to_a_damaged_entry(path, log):
    entry = say(log, KEY, "Hi")
    damage(path, "UPDATE entries SET metadata = '[1]'")
    assert list_damages(log.entries(KEY)) == [(1, f"its metadata {CHANGED[3:]}")]
    with pytest.raises(LogError, match=entry.id) as caught:
        log.annotate(KEY, entry.id, attributes=["seen"])
    assert (caught.value.position, caught.value.thread_id) == (1, "t1")


def test_who_lacks_the_key_cannot_sign_what_was_altered(path):
    with SQLiteLog(path, signing_key="correct horse battery") as log:
        entry = say(log, KEY, "one")
        with plain(path) as db:
            db.text_factory = bytes
            columns = "thread, place, id, turn, role, body, metadata, signature"
            altered = read_row(db.execute(f"SELECT {columns} FROM entries").fetchone())
            altered.body = altered.body.replace("one", "two")
            query = "UPDATE entries SET body = ?, signature = ?"
            db.execute(query, (altered.body, Signer().sign(KEY, altered)))
        assert list_damages(log.entries(KEY)) == [(entry.position, CHANGED)]


def test_every_missing_entry_is_counted(path, log):
    for key in (KEY, BEN, ThreadKey(None, "lone")):
        say_all(log, key, [f"line {number}" for number in range(40)])
    log.forget(KEY, [entry.id for entry in log.entries(KEY)[:5]])
    log.forget(BEN)
    say(log, BEN, "again")
    assert log.verify().missing == 0
    damage(path, "DELETE FROM entries WHERE {at} IN (3, 7, 11, 41)")
    report = log.verify()
    assert (report.missing, report.ok) == (6, False)
    assert report.problems == (
        "user 'ana': 2 of 35 entries missing",
        "thread 'lone': 3 of 40 entries missing",
        "user 'ben': 1 of 1 entries missing",
    )
    assert report.missing == 6


OF_ANA = "DELETE FROM entries WHERE place >> 32 = 1;"
NO_OWNER = "DELETE FROM owners WHERE owner = 1;"


@pytest.mark.parametrize(
    ("script", "problems"),
    [
        (OF_ANA, ("user 'ana': 2 of 2 entries missing",)),
        (NO_OWNER, ("entries of no known owner: 2",)),
        (OF_ANA + NO_OWNER, ()),  # that leaves no trace
    ],
)
def test_what_is_left_of_an_owner_who_is_gone_is_named(path, log, script, problems):
    say_all(log, KEY, ["one", "two"])
    say(log, BEN, "one")
    damage(path, script)
    assert log.owners() == [BEN.owner]
    assert log.verify().problems == problems


@pytest.mark.parametrize(
    "what", ["last = 1", "erased = 1", "generation = 7", "checksum = x''", "last = 'x'"]
)
def test_counts_that_were_altered_are_named_and_not_signed_again(path, log, what):
    say_all(log, KEY, ["one", "two"])
    damage(path, f"UPDATE owners SET {what}")
    for _ in range(2):
        report = log.verify()
        assert "was altered" in report.problems[0]
        assert not report.ok
        say(log, KEY, "more")
    assert [entry.position for entry in log.entries(KEY)] == [1, 2, 3, 4]


NO_NAMES = ["x''", "'t1'", "CAST(x'74ff' AS TEXT)", "7"]


@pytest.mark.parametrize("name", NO_NAMES)
def test_a_threads_name_that_cannot_be_read_takes_no_other_thread_down(path, log, name):
    beside = ThreadKey(KEY.user_id, "t2")
    for key in (KEY, beside):
        say(log, key, f"in {key.thread_id}")
    damage(path, f"UPDATE entries SET thread = {name} WHERE {{at}} = 1")
    assert list_texts(log.entries(beside)) == ["in t2"]
    assert "in t2" in list_texts(log.changes(KEY.owner).entries)
    assert beside in [info.key for info in log.threads(KEY.user_id)]
    assert log.verify().ok is (name == "'t1'")


@pytest.mark.parametrize("name", NO_NAMES)
def test_an_owners_name_that_cannot_be_read_takes_no_other_owner_down(path, log, name):
    for key in (KEY, BEN):
        say(log, key, f"of {key.user_id}")
    damage(path, f"UPDATE owners SET name = {name} WHERE owner = 1")
    assert BEN.owner in log.owners()
    assert list_texts(log.entries(BEN)) == ["of ben"]
    assert not log.verify().ok


def test_a_damaged_cache_is_absent_and_another_document_is_an_error_without_text(path, log):
    say(log, KEY, "one")
    log.set_state(KEY, "cache:x", ["secret"], expected=None)
    log.set_state(KEY, "notes", ["secret"], expected=None)
    damage(path, "UPDATE documents SET value = replace(value, 'secret', 'secreT')")
    assert log.get_state(KEY, "cache:x") is None
    assert log.set_state(KEY, "cache:x", ["new"], expected=None).value == ["new"]
    with pytest.raises(LogError, match="'notes' of thread 't1' is damaged") as caught:
        log.get_state(KEY, "notes")
    assert "secre" not in str(caught.value)
    assert log.verify().problems == ("user 'ana': document 'notes' of thread 't1' was altered",)


def test_bodies_are_plain_json_that_others_can_read(path, log):
    say(log, KEY, HumanMessage("Grüße", name="Ana"))
    with plain(path) as db:
        [(body,)] = db.execute("SELECT body FROM entries").fetchall()
    assert json.loads(body)["m"] == {"content": "Grüße", "name": "Ana", "type": "human"}
    assert "Grüße" in body


@pytest.fixture
def sound(path):
    """The bytes of a file with some of everything."""
    with SQLiteLog(path) as log:
        for key in (KEY, BEN):
            entries = say_all(log, key, [f"said {number} " * 20 for number in range(60)])
            rows = [StoredSegment(entry.position, 0, 0, "said", b"12") for entry in entries]
            log.save_segments(key.owner, "model", rows)
            log.set_state(key, "buffer", ["x" * 500], expected=None)
        log.annotate(KEY, log.entries(KEY)[0].id, attributes=["seen"])
    return path.read_bytes()


def use(path):
    """Read all that can be read; return the texts, and whether `verify` finds anything."""
    texts = []
    try:
        with SQLiteLog(path) as log:
            for key in (KEY, BEN):
                with contextlib.suppress(LogError):
                    texts += list_texts(log.entries(key))
                with contextlib.suppress(LogError):
                    log.changes(key.owner)
                    log.load_segments(key.owner, "model")
                with contextlib.suppress(LogError):
                    say(log, key, "more")
            return texts, not log.verify().ok
    except ConvMemError:
        return texts, True


def test_a_page_of_garbage_is_found_and_never_an_error_of_sqlite(path, sound):
    said = {f"said {number} " * 20 for number in range(60)}
    chance, page = random.Random(3), 4096
    for start in range(0, len(sound), page):
        for garbage in (bytes(page), chance.randbytes(page)):
            path.write_bytes(sound[:start] + garbage + sound[start + page :])
            texts, is_found = use(path)
            assert set(texts) <= said
            assert is_found, start // page
            for left in path.parent.iterdir():
                left.unlink()


@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_found(path, sound, share):
    path.write_bytes(sound[: int(len(sound) * share)])
    texts, is_found = use(path)
    assert set(texts) <= {f"said {number} " * 20 for number in range(60)}
    assert is_found is (share > 0)


@pytest.mark.parametrize("words", [b"TABLE/tABLE", b"INTEGER P/INTEGFR P", b"metadata/metadatb"])
def test_a_schema_that_says_something_else_is_refused(path, sound, words):
    path.write_bytes(sound.replace(*words.split(b"/"), 1))
    with pytest.raises(LogError, match="damaged"):
        SQLiteLog(path)
