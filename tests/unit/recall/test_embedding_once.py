import io
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from watched_embedder import WordEmbeddings

from langchain_convmem.errors import ConfigError, LogUnavailableError
from langchain_convmem.recall import LineRecall
from langchain_convmem.recall.index import BATCH, show_progress
from langchain_convmem.records import Owner
from langchain_convmem.testing import HashEmbeddings

ANA = Owner(user_id="ana")
BEN = Owner(user_id="ben")
TEXTS = [f"{word} number {n}" for n, word in enumerate(["car", "tree", "dog", "boat", "lamp"] * 4)]


@pytest.fixture
def second():
    """Return another embedder."""
    other = WordEmbeddings()
    other.fingerprint = "words-v2"
    return other


def best(found):
    return found.matches[0].line.text


def ranked(found):
    """What a caller sees of a ranking."""
    return [(match.line.text, round(match.relevance, 5), match.why) for match in found.matches]


def test_equal_texts_are_sent_once_in_a_batch(log, say, embedder):
    say(log, ["ok", "car", "ok", "tree", "ok", "car"])
    recall = LineRecall(log, embedder)
    recall.recall(ANA, "car")
    found = recall.recall(ANA, "car", k=3)
    assert sorted(embedder.embedded) == ["car", "ok", "tree"]
    assert ranked(found) == ranked(LineRecall(log, embedder).recall(ANA, "car", k=3))


def test_another_users_words_are_sent_for_each(log, say, embedder):
    for user in ("ana", "ben"):
        say(log, ["car"], user=user)
        LineRecall(log, embedder).recall(Owner(user_id=user), "car")
    assert embedder.embedded == ["car", "car"]


def test_what_is_left_after_forgetting_is_not_sent_again(log, say, embedder):
    entries = say(log, TEXTS)
    recall = LineRecall(log, embedder)
    recall.recall(ANA, "car")
    log.forget(entries[0].key, [entries[0].id])
    say(log, ["new"])
    found = recall.recall(ANA, "car number 5", k=1)
    assert best(found) == "car number 5"
    assert sorted(embedder.embedded) == sorted([*TEXTS, "new"])
    assert ranked(found) == ranked(LineRecall(log, embedder).recall(ANA, "car number 5", k=1))


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


def test_a_reindex_that_ends_between_two_readings_is_taken_over(
    sqlite_log, say, embedder, second, monkeypatch
):
    waiting = changed(sqlite_log, say, embedder, second)
    other = type(second)()
    other.fingerprint = second.fingerprint
    meanwhile = [lambda: LineRecall(sqlite_log, other).reindex(ANA)]
    read = sqlite_log.segment_fingerprints

    def read_later(owner):
        while meanwhile:
            meanwhile.pop()()
        return read(owner)

    monkeypatch.setattr(sqlite_log, "segment_fingerprints", read_later)
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


def test_each_user_changes_alone(sqlite_log, say, embedder, second):
    say(sqlite_log, ["boat"], user="ben")
    recall = changed(sqlite_log, say, embedder, second)
    assert recall.recall(BEN, "boat").problems == ()
    assert second.embedded == ["boat"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch, stream, quiet_s=0.0):
    monkeypatch.setattr(sys, "stderr", stream)
    with show_progress(quiet_s) as note:
        note(20, 40)
        during = stream.getvalue()
    return during, stream.getvalue()


def test_a_terminal_shows_how_many_are_done_and_is_clean_afterwards(monkeypatch):
    during, after = shown(monkeypatch, Terminal())
    assert "20 of 40" in during
    assert after.endswith(" \r")


def test_a_notebook_shows_it_and_a_server_and_what_is_quick_show_nothing(monkeypatch):
    assert shown(monkeypatch, io.StringIO()) == shown(monkeypatch, Terminal(), 3600.0) == ("", "")
    notebook = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    assert "20 of 40" in shown(monkeypatch, io.StringIO())[0]
