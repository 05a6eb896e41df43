"""Each segment goes to the embedder once, and not before the one who pays agrees to a new one."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from langchain_convmem.errors import ConfigError, LogUnavailableError
from langchain_convmem.logs import InMemoryLog, SQLiteLog
from langchain_convmem.recall import LineRecall
from langchain_convmem.recall.index import BATCH, OwnerIndex, embed_missing
from langchain_convmem.records import Control, Draft, Owner, ThreadKey
from langchain_convmem.testing import HashEmbeddings

ANA = Owner(user_id="ana")
BEN = Owner(user_id="ben")
TEXTS = [f"{word} number {n}" for n, word in enumerate(["car", "tree", "dog", "boat", "lamp"] * 4)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.db"


@pytest.fixture
def sqlite_log(path):
    with SQLiteLog(path) as log:
        yield log


@pytest.fixture
def second(word_embeddings):
    """Return another embedder."""
    other = word_embeddings()
    other.fingerprint = "words-v2"
    return other


def best(found):
    return found.matches[0].line.text


def ranked(found):
    """What a caller sees of a ranking."""
    return [(match.line.text, round(match.relevance, 5), match.why) for match in found.matches]


# -- the same text -----------------------------------------------------------------------------


def test_equal_texts_are_sent_once_in_a_batch_and_later(log, say, embedder):
    say(log, ["ok", "car", "ok", "tree", "ok", "car"])
    recall = LineRecall(log, embedder)
    recall.recall(ANA, "car")
    say(log, ["car", "ok", "boat"], thread="later")
    found = recall.recall(ANA, "car", k=3)
    assert sorted(embedder.embedded) == ["boat", "car", "ok", "tree"]
    assert [round(match.similarity, 2) for match in found.matches if match.line.text == "car"] == [
        1.0
    ] * 3
    assert ranked(found) == ranked(LineRecall(log, embedder).recall(ANA, "car", k=3))


def test_a_text_that_was_retracted_and_is_said_again_is_not_sent_again(log, say, embedder):
    [entry] = say(log, ["car"])
    recall = LineRecall(log, embedder)
    recall.recall(ANA, "car")
    log.append(entry.key, [Draft(role="control", control=Control((entry.id,), "undo"))])
    say(log, ["car"])
    assert recall.recall(ANA, "car").matches[0].similarity > 0.9
    assert embedder.embedded == ["car"]


def test_another_users_words_are_sent_for_each(log, say, embedder):
    for user in ("ana", "ben"):
        say(log, ["car"], user=user)
        LineRecall(log, embedder).recall(Owner(user_id=user), "car")
    assert embedder.embedded == ["car", "car"]


@pytest.mark.parametrize("kind", [InMemoryLog, SQLiteLog])
def test_what_is_left_after_forgetting_is_not_sent_again(kind, path, say, embedder):
    log = kind(path) if kind is SQLiteLog else kind()
    entries = say(log, TEXTS)
    recall = LineRecall(log, embedder)
    recall.recall(ANA, "car")
    log.forget(entries[0].key, [entries[0].id])
    say(log, ["new"])
    found = recall.recall(ANA, "car number 5", k=1)
    assert best(found) == "car number 5"
    assert sorted(embedder.embedded) == sorted([*TEXTS, "new"])
    assert ranked(found) == ranked(LineRecall(log, embedder).recall(ANA, "car number 5", k=1))
    log.close()


# -- a failing embedder, a failing cache -------------------------------------------------------


def test_lines_said_while_the_embedder_fails_are_embedded_without_a_restart(log, say, embedder):
    say(log, ["car"])
    recall = LineRecall(log, embedder)
    embedder.failing = TimeoutError("slow")
    assert "TimeoutError" in recall.recall(ANA, "car").problems[0]
    say(log, ["tree"])
    assert best(recall.recall(ANA, "tree", k=1)) == "tree"
    embedder.failing = None
    assert recall.refresh(ANA) == ()
    assert recall.recall(ANA, "tree", k=1).problems == ()
    assert recall.recall(ANA, "tree", k=1).matches[0].similarity > 0.9
    assert sorted(embedder.embedded) == ["car", "tree"]


class Forgetful(SQLiteLog):
    """A log whose cache can be told to fail."""

    broken = False

    def load_segments(self, owner, fingerprint, *, after=0):
        if self.broken:
            raise LogUnavailableError("no cache today")
        return super().load_segments(owner, fingerprint, after=after)


def test_vectors_that_cannot_be_read_now_are_not_paid_for_again(path, say, embedder):
    with Forgetful(path) as log:
        say(log, TEXTS)
        LineRecall(log, embedder).recall(ANA, "car")
        log.broken, recall = True, LineRecall(log, embedder)
        found = recall.recall(ANA, "boat number 3", k=1)
        assert best(found) == "boat number 3"
        assert any("no cache today" in problem for problem in found.problems)
        log.broken = False
        say(log, ["new"])
        assert recall.recall(ANA, "boat number 3", k=1).matches[0].similarity > 0.9
        assert sorted(embedder.embedded) == sorted([*TEXTS, "new"])


# -- another embedder --------------------------------------------------------------------------


MANY = [f"line number {n}" for n in range(BATCH + 44)]


def changed(log, say, first, second, texts=TEXTS):
    """Let one embedder embed everything, and return the recall of another."""
    say(log, texts)
    LineRecall(log, first).recall(ANA, "car")
    return LineRecall(log, second)


def test_a_new_embedder_is_sent_nothing_and_the_way_out_is_named(sqlite_log, say, embedder, second):
    recall = changed(sqlite_log, say, embedder, second)
    say(sqlite_log, ["a new boat"])
    found = recall.recall(ANA, "boat number 3", k=1)
    assert best(found) == "boat number 3"
    assert (second.embedded, second.asked) == ([], [])
    [problem] = found.problems
    assert "memory.reindex(user_id='ana')" in problem
    assert "convmem reindex" in problem
    with pytest.raises(ConfigError, match="reindex") as caught:
        recall.refresh(ANA)
    assert "words-16" in str(caught.value)
    assert "words-v2" in str(caught.value)
    assert second.embedded == []


def test_a_reindex_embeds_everything_once_and_leaves_no_old_vector(
    sqlite_log, say, embedder, second
):
    recall = changed(sqlite_log, say, embedder, second)
    recall.recall(ANA, "car")
    say(sqlite_log, ["a new boat"])
    seen = []
    assert recall.reindex(ANA, lambda done, total: seen.append((done, total))) == ()
    assert sorted(second.embedded) == sorted([*TEXTS, "a new boat"])
    assert seen[-1][0] == seen[-1][1]
    assert len(sqlite_log.segment_fingerprints(ANA)) == 1
    found = recall.recall(ANA, "boat number 3", k=1)
    assert found.problems == ()
    assert ranked(found) == ranked(LineRecall(sqlite_log, second).recall(ANA, "boat number 3", k=1))
    assert recall.refresh(ANA) == ()
    assert len(second.embedded) == len(TEXTS) + 1


def test_recalls_of_the_same_lines_go_on_while_they_are_embedded_anew(
    sqlite_log, say, embedder, second, monkeypatch
):
    recall = changed(sqlite_log, say, embedder, second)
    sending, recalled = threading.Event(), threading.Event()
    embed = second.embed_documents

    def slow(texts):
        sending.set()
        assert recalled.wait(30)
        return embed(texts)

    monkeypatch.setattr(second, "embed_documents", slow)
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(recall.reindex, ANA)
        assert sending.wait(30)
        say(sqlite_log, ["a new boat"])
        found = recall.recall(ANA, "boat number 3", k=1)
        recalled.set()
        assert job.result() == ()
    assert (best(found), second.asked) == ("boat number 3", [])
    assert recall.recall(ANA, "boat number 3", k=1).problems == ()
    assert sorted(second.embedded) == sorted([*TEXTS, "a new boat"])


def test_a_reindex_whose_embedder_fails_goes_on_where_it_stopped(
    sqlite_log, say, embedder, second, monkeypatch
):
    recall = changed(sqlite_log, say, embedder, second, MANY)
    embed = second.embed_documents

    def failing(texts):
        if len(second.embedded) == BATCH:
            raise TimeoutError("slow")
        return embed(texts)

    monkeypatch.setattr(second, "embed_documents", failing)
    problems = recall.reindex(ANA)
    assert any("TimeoutError" in problem for problem in problems)
    assert len(sqlite_log.segment_fingerprints(ANA)) == 2
    monkeypatch.setattr(second, "embed_documents", embed)
    # Nothing is sent behind one's back, in this process or in another one.
    for half in (recall, LineRecall(sqlite_log, second)):
        assert any("reindex" in problem for problem in half.recall(ANA, "car").problems)
    assert len(second.embedded) == BATCH
    assert LineRecall(sqlite_log, second).reindex(ANA) == ()
    assert sorted(second.embedded) == sorted(MANY)
    assert recall.recall(ANA, "car").problems == ()
    assert sorted(second.embedded) == sorted(MANY)


KILLED = """
import os, sys
from langchain_core.embeddings import Embeddings
from langchain_convmem.logs import SQLiteLog
from langchain_convmem.recall import LineRecall
from langchain_convmem.recall.index import BATCH
from langchain_convmem.records import Owner

class Dying(Embeddings):
    fingerprint = "words-v2"
    sent = 0

    def embed_query(self, text):
        raise NotImplementedError

    def embed_documents(self, texts):
        if self.sent == BATCH:
            os._exit(7)
        self.sent += len(texts)
        return [[1.0, 0.0] + [0.0] * 14 for _ in texts]

LineRecall(SQLiteLog(sys.argv[1]), Dying()).reindex(Owner(user_id="ana"))
"""


def test_a_killed_reindex_goes_on_where_it_stopped(path, sqlite_log, say, embedder, second):
    changed(sqlite_log, say, embedder, second, MANY)
    done = subprocess.run([sys.executable, "-c", KILLED, os.fspath(path)], check=False)
    assert done.returncode == 7
    assert LineRecall(sqlite_log, second).reindex(ANA) == ()
    assert second.embedded == MANY[:44][::-1]
    [fingerprint] = sqlite_log.segment_fingerprints(ANA)
    assert len(sqlite_log.load_segments(ANA, fingerprint)) == len(MANY)


def test_vectors_that_could_not_be_stored_do_not_cost_the_old_ones(
    sqlite_log, say, embedder, second, monkeypatch
):
    recall = changed(sqlite_log, say, embedder, second)

    def full(*_):
        raise LogUnavailableError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(sqlite_log, "save_segments", full)
        assert any("disk is full" in problem for problem in recall.reindex(ANA))
    assert any("words-16" in name for name in sqlite_log.segment_fingerprints(ANA))
    assert recall.reindex(ANA) == ()
    assert sorted(second.embedded) == sorted(TEXTS)


def test_another_processs_reindex_is_taken_over_without_sending_anything(
    sqlite_log, say, embedder, second, word_embeddings
):
    waiting = changed(sqlite_log, say, embedder, second)
    assert waiting.recall(ANA, "car").problems
    other = word_embeddings()
    other.fingerprint = second.fingerprint
    LineRecall(sqlite_log, other).reindex(ANA)
    say(sqlite_log, ["a new boat"])
    found = waiting.recall(ANA, "boat number 3", k=1)
    assert (found.problems, second.embedded) == ((), ["a new boat"])
    assert found.matches[0].similarity > 0.9


def test_a_reindex_that_ends_between_two_readings_is_taken_over(path, say, embedder, second):
    class Raced(SQLiteLog):
        meanwhile = staticmethod(lambda: None)

        def segment_fingerprints(self, owner):
            run, self.meanwhile = self.meanwhile, lambda: None
            run()
            return super().segment_fingerprints(owner)

    with Raced(path) as log:
        waiting = changed(log, say, embedder, second)
        other = type(second)()
        other.fingerprint = second.fingerprint
        log.meanwhile = lambda: LineRecall(log, other).reindex(ANA)
        assert waiting.recall(ANA, "boat number 3", k=1).problems == ()
        assert second.embedded == []


def test_an_embedder_of_this_package_rebuilds_by_itself_and_throws_nothing_away(
    sqlite_log, say, embedder
):
    say(sqlite_log, TEXTS)
    LineRecall(sqlite_log, embedder).recall(ANA, "car")
    visitor = LineRecall(sqlite_log)
    say(sqlite_log, ["a new boat"])
    found = visitor.recall(ANA, "boat number 3", k=1)
    assert found.problems == ()
    assert found.matches[0].similarity > 0.9
    assert visitor.refresh(ANA) == ()
    # The embedder that is paid for keeps its vectors: it needs no more than what is new.
    assert LineRecall(sqlite_log, embedder).reindex(ANA) == ()
    assert sorted(embedder.embedded) == sorted([*TEXTS, "a new boat"])
    assert LineRecall(sqlite_log, HashEmbeddings()).reindex(ANA) == ()
    [fingerprint] = sqlite_log.segment_fingerprints(ANA)
    assert HashEmbeddings.fingerprint in fingerprint


def test_who_began_with_the_default_embedder_is_asked_before_lines_are_sent_away(
    sqlite_log, say, second
):
    say(sqlite_log, TEXTS)
    LineRecall(sqlite_log).recall(ANA, "car")
    assert LineRecall(sqlite_log, second).recall(ANA, "car").problems
    assert second.embedded == []


def test_each_user_changes_alone(sqlite_log, say, embedder, second):
    say(sqlite_log, ["boat"], user="ben")
    recall = changed(sqlite_log, say, embedder, second)
    assert recall.recall(BEN, "boat").problems == ()
    assert second.embedded == ["boat"]


# -- crashes and forgetting --------------------------------------------------------------------


def test_an_index_in_memory_drops_what_is_forgotten_and_sends_nothing(log, say, embedder):
    entries = say(log, TEXTS)
    recall = LineRecall(log, embedder)
    recall.recall(ANA, "car")
    say(log, ["pending"])
    log.forget(ThreadKey("ana", "t"), [entry.id for entry in entries[:5]])
    recall.drop_forgotten(ANA)
    assert sorted(embedder.embedded) == sorted(TEXTS)
    found = recall.recall(ANA, "number", k=99).matches
    assert {match.line.text for match in found} <= {*TEXTS[5:], "pending"}


# -- several owners ----------------------------------------------------------------------------


def test_owners_searched_together_share_what_is_stored(sqlite_log, say, embedder):
    for user, word in (("ana", "car"), ("ben", "boat")):
        say(sqlite_log, [f"{word} one", f"{word} two"], user=user)
        LineRecall(sqlite_log, embedder).recall(Owner(user_id=user), word)
    sent = list(embedder.embedded)
    both = OwnerIndex(sqlite_log, (ANA, BEN), embedder)
    both.catch_up()
    assert embedder.embedded == sent
    assert not both.vectors.missing
    say(sqlite_log, ["car three"], user="ana")
    embed_missing(both)
    assert embedder.embedded == [*sent, "car three"]
    alone = LineRecall(sqlite_log, embedder)
    alone.recall(ANA, "car")
    assert embedder.embedded == [*sent, "car three"]


def test_a_generation_of_one_owner_rebuilds_the_index_of_all(log, say, embedder):
    ours = say(log, ["car one", "car two"], user="ana")
    say(log, ["boat one"], user="ben")
    both = OwnerIndex(log, (ANA, BEN), embedder)
    embed_missing(both)
    log.forget(ours[0].key, [ours[0].id])
    both.catch_up()
    assert [both.table.get_text(n) for n in range(len(both.table))] == ["car two", "boat one"]
    assert sorted(embedder.embedded) == ["boat one", "car one", "car two"]
