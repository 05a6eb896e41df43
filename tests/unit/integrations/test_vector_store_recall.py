from __future__ import annotations

import pytest
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from scripted_chat import WAYS, ScriptedChatModel, at
from vector_stores import FlakyStore, HashedEmbeddings, said

from langchain_convmem import ConversationMemory, RecallSettings
from langchain_convmem.errors import ConfigError, LineStoreError
from langchain_convmem.integrations import VectorStoreRecall
from langchain_convmem.logs import SQLiteLog
from langchain_convmem.records import Control, Draft, Owner, ThreadKey
from langchain_convmem.testing import HashEmbeddings

ANA = Owner(user_id="ana")
HOME, WORK = ThreadKey("ana", "home"), ThreadKey("ana", "work")


@pytest.fixture
def embeddings():
    return HashedEmbeddings()


@pytest.fixture
def store(embeddings):
    return FlakyStore(embeddings)


@pytest.fixture
def recall(log, store):
    return VectorStoreRecall(log, store)


def say(log, *texts, key=HOME):
    return log.append(key, [said(text) for text in texts])


def retract(log, *entries, key=HOME, reason="undo"):
    control = Control(retracts=tuple(entry.id for entry in entries), reason=reason)
    return log.append(key, [Draft(role="control", control=control)])


def texts_in(store):
    return sorted(document["text"] for document in store.store.values())


def found(recall, query="anything", **options):
    return {match.line.text for match in recall.recall(ANA, query, **options).matches}


def test_an_undone_line_is_not_shown_and_a_redone_one_is_again(log, recall, embeddings):
    one, _ = say(log, "one", "two")
    recall.refresh(ANA)
    [undo] = retract(log, one)
    assert found(recall) == {"two"}
    retract(log, undo, reason="rewind")
    assert found(recall) == {"one", "two"}
    assert embeddings.embedded == ["one", "two"]


def test_a_store_that_failed_half_way_is_made_whole_by_the_next_attempt(log, recall, store):
    say(log, "one", "two")
    recall.refresh(ANA)
    say(log, "three")
    store.broken = {"add"}
    with pytest.raises(LineStoreError, match="FlakyStore: OSError") as caught:
        recall.refresh(ANA)
    assert caught.value.is_retryable
    store.broken = frozenset()
    recall.refresh(ANA)
    assert texts_in(store) == ["one", "three", "two"]


def test_reindex_fills_a_store_that_lost_lines_and_clears_what_the_log_forgot(log, recall, store):
    one, *_ = say(log, "one", "two")
    say(log, "of bob", key=ThreadKey("bob", "t"))
    recall.refresh([ANA, Owner(user_id="bob")])
    stale = dict(store.store)
    log.forget(HOME, [one.id])
    store.store.clear()
    store.store.update({name: row for name, row in stale.items() if row["text"] != "two"})
    assert found(recall) == set()
    recall.reindex(ANA)
    assert texts_in(store) == ["of bob", "two"]
    assert found(recall) == {"two"}


def test_what_the_store_invents_or_has_not_yet_deleted_is_dropped(log, recall, store):
    one, *_ = say(log, "one", "two")
    recall.refresh(ANA)
    kept = dict(store.store)
    log.forget(HOME, [one.id])
    recall.refresh(ANA)
    store.store.update(kept)
    document = next(iter(kept.values()))
    inventions = [{"segment": 9}, {"part": 5}, {"position": 10**6}]
    for number, fields in enumerate(inventions):
        metadata = {**document["metadata"], **fields}
        store.store[str(number)] = {**document, "metadata": metadata}
    assert found(recall) == {"two"}


def test_a_store_that_does_not_filter_is_refused_before_anything_is_shown(log, store):
    say(log, "one")
    say(log, "a secret", key=ThreadKey("bob", "t"))
    careless = VectorStoreRecall(log, store, make_filter=lambda field, labels: None)
    careless.refresh(Owner(user_id="bob"))
    with pytest.raises(ConfigError, match="pass a `make_filter`"):
        careless.recall(ANA, "one")


class _CountedLog(SQLiteLog):
    """Notes how many entries of threads were read."""

    count = 0

    def read_back(self, key, plan, **options):
        found = super().read_back(key, plan, **options)
        self.count += len(found)
        return found


def test_a_thread_is_read_around_its_hits_alone(tmp_path, store):
    with _CountedLog(tmp_path / "log.db") as log:
        texts = [f"line {number}" for number in range(600)]
        say(log, *texts[:500])
        retract(log, *say(log, "undone"))
        say(log, *texts[500:])
        recall = VectorStoreRecall(log, store, candidates=3)
        blocks = [recall.recall(ANA, text, k=1).blocks[0] for text in ("line 80", "line 500")]
        assert log.count < 400
    assert [[line.text for line in block.lines] for block in blocks] == [
        texts[78:83],
        texts[498:503],
    ]


class _UnknownStore(VectorStore):
    """A store that nobody knows: it filters by `$in`, and gives distances."""

    from_texts = similarity_search = None  # which nothing calls

    def __init__(self, embeddings):
        self.inner = InMemoryVectorStore(embeddings)
        self.add_documents, self.get_by_ids = self.inner.add_documents, self.inner.get_by_ids

    @property
    def embeddings(self):
        return self.inner.embeddings

    def similarity_search_with_score(self, query, k=4, filter=None, **kwargs):  # noqa: A002
        [(field, condition)] = filter.items()
        found = self.inner.similarity_search_with_score(
            query, k, filter=lambda document: document.metadata[field] in condition["$in"]
        )
        return [(document, 7 * (1 - score)) for document, score in found]


def test_scores_that_are_no_cosines_order_the_answer_and_are_not_shown(log, embeddings):
    say(log, "one", "two", "three")
    say(log, "of bob", key=ThreadKey("bob", "t"))
    recall = VectorStoreRecall(log, _UnknownStore(embeddings))
    matches = recall.recall([ANA, Owner(user_id="bob")], "two", k=4, ranking=4).matches
    assert matches[0].line.text == "two"
    assert {match.line.text for match in matches} == {"one", "two", "three", "of bob"}
    assert {match.similarity for match in matches} == {0.0}
    with pytest.raises(ConfigError, match=r"threshold=0\.5"):
        recall.recall(ANA, "two", threshold=0.5)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"filter": {"speaker": "Ana", "user_id": "ana"}}, "speaker"),
        ({"since": 0}, "since"),
        ({"until": 0}, "until"),
        ({"threshold": "auto"}, "threshold='auto'"),
        ({"buffer": HOME, "settings": RecallSettings(buffer_size=3)}, "buffer_size=0"),
    ],
    ids=["speaker", "since", "until", "auto", "buffer"],
)
def test_what_the_store_cannot_do_is_refused_by_name(recall, options, named):
    with pytest.raises(ConfigError, match=named):
        recall.recall(ANA, "barked", **options)


async def test_a_store_that_cannot_be_searched_is_an_error_of_ours(log, recall, store):
    say(log, "one")
    store.broken = {"search"}
    with pytest.raises(LineStoreError, match="searched: FlakyStore: OSError"):
        await recall.arecall(ANA, "one")
    with pytest.raises(ConnectionError):
        recall.recall(ANA, "one")


KEY = "The spare key is with Teresa upstairs."


@pytest.fixture
def in_memory():
    return InMemoryVectorStore(HashEmbeddings())


@pytest.fixture
def over_store(log, in_memory):
    memory = ConversationMemory(log, recall=VectorStoreRecall(log, in_memory))
    memory.history("monday", user_id="ana").add("user", KEY)
    memory.history("monday", user_id="ben").add("user", "The spare key is under the mat.")
    return memory


@pytest.mark.parametrize("way", ["invoke", "astream"])
def test_a_wrapped_chain_recalls_from_the_store(over_store, in_memory, way):
    model = ScriptedChatModel(replies=["With Teresa."])
    WAYS[way](over_store.wrap(model), "Who has the spare key?", at("tuesday"))
    asked = str(model.seen[0][-1].content)
    assert KEY in asked
    assert "under the mat" not in asked
    over_store.refresh(user_id="ana")
    texts = {row["text"] for row in in_memory.store.values()}
    assert texts == {KEY, "Who has the spare key?", "With Teresa."}


def test_forgetting_holds_though_the_store_is_away(over_store, in_memory, monkeypatch, caplog):
    over_store.refresh(user_id="ana")

    def away(*_, **__):
        raise OSError("no route to the in_memory")

    with monkeypatch.context() as patch:
        patch.setattr(in_memory, "delete", away)
        assert over_store.forget(user_id="ana").entries == 1
    assert "InMemoryVectorStore: OSError" in caplog.text
    assert over_store.recall("spare key", user_id="ana").blocks == ()
    assert len(in_memory.store) == 1
    over_store.reindex(user_id="ana")
    assert not in_memory.store


def test_what_is_no_store_or_finds_nothing_is_refused(log, store):
    with pytest.raises(ConfigError, match="a LangChain VectorStore, got HashEmbeddings"):
        VectorStoreRecall(log, HashEmbeddings())
    with pytest.raises(ConfigError, match="at least 1, got 0"):
        VectorStoreRecall(log, store, candidates=0)
    with pytest.raises(ConfigError, match="buffer_size=0"):
        VectorStoreRecall(log, store, RecallSettings.spec())
