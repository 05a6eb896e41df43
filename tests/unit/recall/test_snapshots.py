import sqlite3
from contextlib import closing

import pytest
from langchain_core.messages import HumanMessage
from watched_embedder import WordEmbeddings

from langchain_convmem.errors import LogUnavailableError
from langchain_convmem.logs import SQLiteLog
from langchain_convmem.recall import LineRecall
from langchain_convmem.records import Owner, ThreadKey
from langchain_convmem.views.codec import make_draft

ANA = Owner(user_id="ana")
BEN = Owner(user_id="ben")
WORDS = ["car", "boat", "dog", "river", "paper", "music", "floor", "May", "Ana", "red", "été"]
TEXTS = [f"My {word} number {n} is behind the {WORDS[n % 7]}." for n, word in enumerate(WORDS * 12)]
SECRET = "the vault opens with heron sixty-two"


class Watched(SQLiteLog):
    """A log that notes what recall reads of it, which snapshots it was given, and saves."""

    def __init__(self, path, **options):
        super().__init__(path, **options)
        self.loads, self.found, self.saved = [], [], 0

    def load_segments(self, owner, fingerprint, *, after=0):
        self.loads.append(after)
        return super().load_segments(owner, fingerprint, after=after)

    def load_snapshot(self, owner, name):
        self.found.append(super().load_snapshot(owner, name))
        return self.found[-1]

    def save_snapshot(self, *saved):
        self.saved += 1
        return super().save_snapshot(*saved)


def answer(log, question="Where is my boat?", owner=ANA):
    return LineRecall(log).recall(owner, question, k=8)


def count(path):
    """Count the snapshots of a file."""
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT count(*) FROM snapshots").fetchone()[0]


def execute(path, statement):
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(statement)


def save(log, texts=TEXTS, *, thread="t", user="ana", owner=ANA):
    """Append lines and have the index of them saved; return their entries."""
    drafts = [make_draft(HumanMessage(text)) for text in texts]
    entries = log.append(ThreadKey(user, thread), drafts)
    LineRecall(log).refresh(owner)
    return entries


def test_only_what_came_later_is_read(path):
    with Watched(path) as log:
        save(log)
        texts = [f"Another boat came at {hour}." for hour in range(20)]
        later = log.append(ThreadKey("ana", "t"), [make_draft(HumanMessage(one)) for one in texts])
        log.loads.clear()
        assert answer(log, "another boat at 7").matches[0].line.text == texts[7]
        assert log.loads == [later[0].position - 1]


def test_nothing_that_was_forgotten_stays_in_the_file(path):
    with SQLiteLog(path) as log:
        *_, secret = save(log, [*TEXTS, SECRET])
        assert count(path) == 1
        log.forget(secret.key, [secret.id])
        assert count(path) == 0
        assert SECRET not in {match.line.text for match in answer(log, SECRET).matches}
    files = [one.read_bytes() for one in path.parent.iterdir()]
    assert not any(SECRET.encode() in data for data in files)


@pytest.mark.parametrize("scope", [ANA, ThreadKey("ana", "t")], ids=str)
def test_a_snapshot_goes_with_its_owner_alone(path, scope):
    with SQLiteLog(path) as log:
        save(log)
        save(log, user="ben", owner=BEN)
        log.forget(scope)
        assert count(path) == 1
        assert answer(log, owner=BEN).matches
        assert not answer(log).matches


@pytest.mark.parametrize(
    ("change", "name", "value"),
    [
        ({"attributes": ["imported"]}, "trust", "import"),
        ({"timing": {"creation": 1_700_000_000_000}}, "time_ms", 1_700_000_000_000),
    ],
)
def test_what_is_noted_of_a_line_later_is_known_to_recall(path, change, name, value):
    with SQLiteLog(path) as log:
        entry, *_ = save(log)
        log.annotate(entry.key, entry.id, **change)
        found = {match.line.entry_id: match.line for match in answer(log, TEXTS[0]).matches}
        assert getattr(found[entry.id], name) == value


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE snapshots SET data = zeroblob(length(data))",
        "UPDATE snapshots SET data = substr(data, 1, 1000)",
        "UPDATE snapshots SET data = data || x'00'",
        "UPDATE snapshots SET data = 'text'",
        "UPDATE snapshots SET checksum = x'00'",
        "UPDATE snapshots SET name = 'another'",
        "UPDATE snapshots SET generation = generation + 1",
    ],
)
def test_a_damaged_snapshot_is_none(path, damage):
    with Watched(path) as log:
        save(log)
        before = answer(log)
        execute(path, damage)
        assert answer(log) == before
        assert log.found[-1] is None


def test_who_does_not_know_the_key_writes_no_memory(path):
    with Watched(path, signing_key="0123456789abcdef") as log:
        save(log)
        before = answer(log)
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            [(data,)] = db.execute("SELECT data FROM snapshots").fetchall()
            assert b"My boat" in data
            forged = data.replace(b"My boat", b"My safe")
            db.execute("UPDATE snapshots SET data = ?", (forged,))
        assert answer(log) == before
        assert log.found[-1] is None


def test_lines_that_wait_for_their_vectors_are_not_saved(path):
    embedder = WordEmbeddings()
    embedder.failing = ConnectionError("down")
    with SQLiteLog(path) as log:
        log.append(ThreadKey("ana", "t"), [make_draft(HumanMessage(text)) for text in TEXTS])
        recall = LineRecall(log, embedder)
        assert recall.refresh(ANA)
        assert count(path) == 0
        embedder.failing = None
        assert recall.refresh(ANA) == ()
        assert count(path) == 1


@pytest.mark.parametrize(
    ("method", "said"), [("save_segments", "is full"), ("save_snapshot", "could not be stored")]
)
def test_recall_goes_on_where_no_cache_can_be_written(
    *, path, say, monkeypatch, caplog, method, said
):
    def fail(*_):
        raise LogUnavailableError("the disk is full")

    with SQLiteLog(path) as log:
        monkeypatch.setattr(log, method, fail)
        say(log, TEXTS[:80])
        recall = LineRecall(log)
        found = recall.recall(ANA, "Where is my boat?", k=8)
        recall.refresh(ANA)  # saves what the background has not come to yet
    assert found.matches
    assert said in caplog.text
    assert method == "save_snapshot" or any("is full" in problem for problem in found.problems)


def test_an_index_is_saved_seldom(path):
    with Watched(path) as log:
        recall = LineRecall(log)
        for number in range(40):
            drafts = [make_draft(HumanMessage(text)) for text in TEXTS[number : number + 10]]
            log.append(ThreadKey("ana", "t"), drafts)
            recall.recall(ANA, "boat")
            recall.refresh(ANA)
        # After 70, 140, 210, 280 and 350 lines.
        assert log.saved == 5
