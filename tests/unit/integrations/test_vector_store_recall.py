"""Recall over a vector store: fresh whatever happened, and never in the store's own words."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.vectorstores import InMemoryVectorStore
from vector_stores import FlakyStore, HashedEmbeddings, said

from langchain_convmem.errors import ConfigError, LineStoreError, LogUnavailableError
from langchain_convmem.integrations import StoreDialect, VectorStoreRecall, vector_store_sync
from langchain_convmem.logs import InMemoryLog, SQLiteLog
from langchain_convmem.recall import DialogLineRetriever, RecallSettings
from langchain_convmem.records import Control, Draft, Owner, ThreadKey

ANA = Owner(user_id="ana")
HOME, WORK = ThreadKey("ana", "home"), ThreadKey("ana", "work")
PETS = {"topic": "pets"}


@pytest.fixture
def log():
    return InMemoryLog()


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


# -- following the log -----------------------------------------------------------------------


def test_a_line_is_embedded_once_however_often_is_recalled(log, recall, embeddings):
    say(log, "one", "two")
    found(recall)
    say(log, "three")
    found(recall)
    found(recall)
    assert embeddings.embedded == ["one", "two", "three"]


def test_another_process_goes_on_where_the_first_one_stood(log, store, recall, embeddings):
    say(log, "one")
    recall.refresh(ANA)
    say(log, "two")
    assert found(VectorStoreRecall(log, store)) == {"one", "two"}
    assert embeddings.embedded == ["one", "two"]


def test_more_lines_than_a_page_and_a_chunk_hold_are_all_there(log, recall, store):
    texts = [f"line {number}" for number in range(700)]
    say(log, *texts)
    seen = []
    recall.refresh(ANA, lambda done, total: seen.append((done, total)))
    assert texts_in(store) == sorted(texts)
    assert seen[-1] == (700, 700)


def test_a_long_line_has_a_document_per_segment_and_comes_back_verbatim(log, recall, store):
    long = " ".join(f"Sentence number {number} of a long reply." for number in range(60))
    say(log, long)
    [match] = recall.recall(ANA, "Sentence number 3").matches
    assert match.line.text == long
    assert len(store.store) > 3
    assert "".join(document["text"] for document in store.store.values()) == long


def test_an_undone_line_leaves_the_store_and_a_redone_one_returns(log, recall, store):
    one, _ = say(log, "one", "two")
    recall.refresh(ANA)
    [undo] = retract(log, one)
    recall.refresh(ANA)
    assert texts_in(store) == ["two"]
    retract(log, undo, reason="rewind")
    recall.refresh(ANA)
    assert texts_in(store) == ["one", "two"]
    assert found(recall) == {"one", "two"}


def test_a_line_that_was_said_and_undone_at_once_never_enters_the_store(log, recall, store):
    one, _ = say(log, "one", "two")
    retract(log, one)
    recall.refresh(ANA)
    assert texts_in(store) == ["two"]


def test_forgetting_deletes_from_the_store_what_the_log_erased_and_embeds_nothing_anew(
    log, recall, store, embeddings
):
    say(log, *(f"home {number}" for number in range(150)))
    say(log, "work", key=WORK)
    recall.refresh(ANA)
    embeddings.embedded.clear()
    log.forget(HOME)
    say(log, "later", key=WORK)
    recall.refresh(ANA)
    assert texts_in(store) == ["later", "work"]
    assert embeddings.embedded == ["later"]


def test_a_forgotten_user_leaves_nothing_and_may_come_back(log, recall, store):
    say(log, "one", "two")
    recall.refresh(ANA)
    log.forget(ANA)
    assert found(recall) == set()
    assert texts_in(store) == []
    say(log, "new")
    assert found(recall) == {"new"}


def test_what_was_retracted_stays_away_after_another_line_was_forgotten(log, recall, store):
    one, two, _ = say(log, "one", "two", "three")
    retract(log, one)
    recall.refresh(ANA)
    log.forget(HOME, [two.id])
    recall.refresh(ANA)
    assert texts_in(store) == ["three"]


@pytest.mark.parametrize("broken", ["add", "delete"])
def test_a_store_that_failed_half_way_is_made_whole_by_the_next_attempt(log, recall, store, broken):
    one, *_ = say(log, "one", "two")
    recall.refresh(ANA)
    retract(log, one)
    say(log, "three")
    store.broken = {broken}
    with pytest.raises(LineStoreError, match=f"OSError: {broken} is out of order") as caught:
        recall.refresh(ANA)
    assert caught.value.is_retryable
    store.broken = frozenset()
    recall.refresh(ANA)
    assert texts_in(store) == ["three", "two"]


def test_a_forget_while_the_store_was_down_is_made_good_later(log, recall, store):
    one, *_ = say(log, "one", "two", "three")
    store.broken = {"delete"}
    recall.refresh(ANA)
    log.forget(HOME, [one.id])
    with pytest.raises(LineStoreError):
        recall.refresh(ANA)
    say(log, "four")
    store.broken = frozenset()
    recall.refresh(ANA)
    assert texts_in(store) == ["four", "three", "two"]


class _StopsAfter(FlakyStore):
    """Ends the process, as it were, right behind the nth write."""

    writes_left = 99

    def add_documents(self, documents, ids=None, **kwargs):
        super().add_documents(documents, ids, **kwargs)
        self.writes_left -= 1
        if not self.writes_left:
            raise KeyboardInterrupt


def test_an_attempt_that_was_killed_behind_its_write_and_then_overtaken_by_forget_leaves_nothing(
    log, embeddings, monkeypatch
):
    now = vector_store_sync.get_now_ms()
    store = _StopsAfter(embeddings)
    one, *_ = say(log, "one", "two")
    store.writes_left = 1
    with pytest.raises(KeyboardInterrupt):
        VectorStoreRecall(log, store).refresh(ANA)
    log.forget(HOME, [one.id])
    heir = VectorStoreRecall(log, store)
    with pytest.raises(LineStoreError, match="another server is writing"):
        heir.refresh(ANA)
    monkeypatch.setattr(vector_store_sync, "get_now_ms", lambda: now + 10 * 60_000)
    heir.refresh(ANA)
    assert texts_in(store) == ["two"]


class _ForgetsMeanwhile(FlakyStore):
    """While it is written to, something else happens."""

    meanwhile = None

    def add_documents(self, documents, ids=None, **kwargs):
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        return super().add_documents(documents, ids, **kwargs)


def test_who_writes_takes_back_what_was_forgotten_meanwhile_and_others_wait(log, embeddings):
    store = _ForgetsMeanwhile(embeddings)
    slow, fast = VectorStoreRecall(log, store), VectorStoreRecall(log, store)
    say(log, "before")
    slow.refresh(ANA)
    one, *_ = say(log, "one", "two")

    def meanwhile():
        log.forget(HOME, [one.id])
        [problem] = fast.recall(ANA, "one").problems
        assert "another server is writing" in problem

    store.meanwhile = meanwhile
    slow.refresh(ANA)
    assert texts_in(store) == ["before", "two"]


async def test_many_recalls_at_once_embed_nothing_twice(log, recall, embeddings):
    say(log, "one", "two")
    answers = await asyncio.gather(*(recall.arecall(ANA, "anything") for _ in range(8)))
    assert {len(answer.matches) for answer in answers} == {2}
    assert sorted(embeddings.embedded) == ["one", "two"]


def test_a_durable_log_keeps_the_notes_over_a_restart(tmp_path, store, embeddings):
    with SQLiteLog(tmp_path / "log.db") as log:
        say(log, "one")
        VectorStoreRecall(log, store).refresh(ANA)
    with SQLiteLog(tmp_path / "log.db") as log:
        assert found(VectorStoreRecall(log, store)) == {"one"}
        assert [info.key for info in log.threads(None)] == []
    assert embeddings.embedded == ["one"]


def test_a_store_that_lost_everything_is_named_and_filled_again_on_request(log, recall, store):
    say(log, "one", "two")
    recall.refresh(ANA)
    store.store.clear()
    [problem] = recall.recall(ANA, "anything").problems
    assert "rebuild(owner)" in problem
    recall.rebuild(ANA)
    assert found(recall) == {"one", "two"}


# -- whose words -----------------------------------------------------------------------------


def test_the_text_comes_from_the_log_whatever_the_store_says(log, recall, store):
    say(log, "the truth")
    recall.refresh(ANA)
    for document in store.store.values():
        document["text"] = "a lie"
    assert found(recall) == {"the truth"}


def test_what_the_store_invents_or_has_not_yet_deleted_is_dropped(log, recall, store):
    one, *_ = say(log, "one", "two")
    recall.refresh(ANA)
    kept = dict(store.store)
    log.forget(HOME, [one.id])
    recall.refresh(ANA)
    store.store.update(kept)
    document = next(iter(kept.values()))
    inventions = [{"segment": 9}, {"part": 5}, {"position": 10**6}, {"entry_id": "x"}, {"part": ""}]
    for number, fields in enumerate(inventions):
        metadata = {**document["metadata"], **fields}
        store.store[str(number)] = {**document, "metadata": metadata}
    assert found(recall) == {"two"}


def test_a_store_that_does_not_filter_is_refused_before_anything_is_shown(log, store):
    say(log, "one")
    say(log, "a secret", key=ThreadKey("bob", "t"))
    careless = VectorStoreRecall(log, store, dialect=StoreDialect(filtered=lambda equal: {}))
    careless.refresh(Owner(user_id="bob"))
    with pytest.raises(ConfigError, match="pass a StoreDialect"):
        careless.recall(ANA, "one")


def test_users_whose_ids_look_alike_never_meet(log, recall):
    owners = [Owner(user_id="t"), Owner(thread_id="t"), Owner(user_id="T"), Owner(user_id="t\x00")]
    for number, owner in enumerate(owners):
        key = ThreadKey(owner.user_id, owner.thread_id or "a")
        log.append(key, [said(f"said by {number}")])
    for number, owner in enumerate(owners):
        texts = [match.line.text for match in recall.recall(owner, "said").matches]
        assert texts == [f"said by {number}"]


# -- answers ---------------------------------------------------------------------------------


def test_a_hit_comes_with_the_lines_around_it_and_no_others(log, store):
    say(log, *(f"line {number}" for number in range(400)))
    recall = VectorStoreRecall(log, store, candidates=1)
    [block] = recall.recall(ANA, "line 127", k=1).blocks
    assert [line.text for line in block.lines] == [f"line {number}" for number in range(125, 130)]


def test_lines_that_were_not_read_never_make_neighbours_of_those_that_were(log, store):
    say(log, *(f"line {number}" for number in range(60)))
    settings = RecallSettings(lexical_weight=0.0, kernel=(1.0,), session_prior=0.0, window=1)
    recall = VectorStoreRecall(log, store, settings, candidates=6)
    for block in recall.recall(ANA, "line 30", k=6).blocks:
        numbers = [int(line.text.split()[1]) for line in block.lines]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_a_window_passes_over_other_threads_and_over_what_was_undone(log, store):
    first, *_ = say(log, "before")
    undone = say(log, "undone")
    say(log, *(f"elsewhere {number}" for number in range(100)), key=WORK)
    say(log, "hit")
    retract(log, *undone)
    recall = VectorStoreRecall(log, store, candidates=1)
    [block] = recall.recall(ANA, "hit", k=1).blocks
    assert [line.text for line in block.lines] == ["before", "hit"]
    assert block.lines[0].entry_id == first.id


def test_words_decide_among_what_the_store_proposes(log, recall):
    say(log, *(f"Nothing much on day {number}." for number in range(20)), "Rex barked at Miriam.")
    [best] = recall.recall(ANA, "Who barked?", k=1, ranking=1).matches
    assert best.line.text == "Rex barked at Miriam."
    assert "words: barked" in best.why


def test_the_retriever_of_the_package_works_over_it(log, recall):
    say(log, "I parked on level C.", "Fine.")
    retriever = DialogLineRetriever(recall=recall, user_id="ana", k=1)
    [document] = retriever.invoke("I parked on level C.")
    assert document.page_content.endswith("User: I parked on level C.\nUser: Fine.")
    assert document.metadata["similarity"] == pytest.approx(1.0, abs=1e-5)


def test_a_line_whose_cosine_equals_the_threshold_is_no_hit(log, store):
    say(log, "one")
    for score, hits in ((0.5, set()), (0.51, {"one"})):
        dialect = StoreDialect(
            lambda equal: {"filter": lambda d: d.metadata["owner"] == "user:ana"},
            cosine=lambda _, score=score: score,
        )
        recall = VectorStoreRecall(log, store, dialect=dialect)
        assert found(recall, threshold=0.5, k=1) == hits


def test_scores_that_are_no_cosines_order_the_answer_and_are_not_shown(log, store):
    say(log, "one", "two", "three")
    dialect = StoreDialect(lambda equal: {"filter": lambda d: d.metadata["owner"] == "user:ana"})
    recall = VectorStoreRecall(log, store, dialect=dialect)
    matches = recall.recall(ANA, "two", k=3).matches
    assert matches[0].line.text == "two"
    assert {match.similarity for match in matches} == {0.0}
    with pytest.raises(ConfigError, match="threshold"):
        recall.recall(ANA, "two", threshold=0.5)


EQUALITY = StoreDialect(
    lambda equal: {"filter": lambda d: equal.items() <= d.metadata.items()}, lambda score: score
)


@pytest.mark.parametrize(
    ("owner", "scope", "named"),
    [
        ([ANA, Owner(user_id="bo")], {}, "several owners"),
        (ANA, {"filter": {"speaker": ["Ana", "Ben"]}}, "several values in filter"),
        (ANA, {"since": 0}, "since"),
        (ANA, {"until": 0, "since": 0}, "since, until"),
    ],
)
def test_a_scope_that_the_store_cannot_filter_by_is_refused_by_name(
    log, store, owner, scope, named
):
    recall = VectorStoreRecall(log, store, dialect=EQUALITY)
    with pytest.raises(ConfigError, match=f"cannot filter by {named}: pass a StoreDialect"):
        recall.recall(owner, "barked", **scope)


def test_a_store_that_knows_equality_alone_serves_a_filter_on_one_value(log, store):
    log.append(HOME, [said("a", additional_kwargs=PETS), said("b"), said("c")])
    recall = VectorStoreRecall(log, store, dialect=EQUALITY)
    assert found(recall, filter={"session": None}) == {"a", "b", "c"}
    assert found(recall, filter={"topic": "pets"}) == {"a"}


def test_an_operator_that_no_search_asks_for_is_refused():
    with pytest.raises(ConfigError, match=r"\$gte, \$in, \$lt, got \$near"):
        StoreDialect(operators={"$in", "$near"})


def test_what_a_store_lets_through_beside_the_scope_is_left_out_by_the_log(log, recall, store):
    log.append(HOME, [said("a", additional_kwargs=PETS), said("b")])
    recall.refresh(ANA)
    for document in store.store.values():
        document["metadata"]["tag_topic"] = "pets"
    assert found(recall, filter={"topic": "pets"}) == {"a"}


def test_each_owner_whose_lines_cannot_be_written_is_searched_all_the_same(log, recall, store):
    say(log, "one")
    say(log, "two", key=ThreadKey("bob", "t"))
    owners = [ANA, Owner(user_id="bob")]
    recall.refresh(owners)
    say(log, "three")
    store.broken = {"add"}
    answer = recall.recall(owners, "anything")
    assert {match.line.text for match in answer.matches} >= {"one", "two"}
    assert len(answer.problems) == 1


def test_lines_of_two_owners_at_the_same_places_are_not_taken_for_each_other(log, recall):
    bob = Owner(user_id="bob")
    say(log, "ana was here")
    say(log, "bob was here", key=ThreadKey("bob", "home"))
    blocks = recall.recall([ANA, bob], "ana was here", k=2).blocks
    assert [[(line.key.user_id, line.text) for line in block.lines] for block in blocks] == [
        [("ana", "ana was here")],
        [("bob", "bob was here")],
    ]


def test_a_store_that_lost_several_owners_is_filled_again_at_once(log, recall, store):
    owners = [ANA, Owner(user_id="bob")]
    say(log, "one")
    say(log, "two", key=ThreadKey("bob", "t"))
    recall.refresh(owners)
    store.store.clear()
    [problem] = recall.recall(owners, "anything").problems
    assert "rebuild(owner)" in problem
    recall.rebuild(owners)
    assert texts_in(store) == ["one", "two"]


# -- errors ----------------------------------------------------------------------------------


def test_a_store_that_cannot_be_written_to_is_searched_all_the_same_and_says_so(log, recall, store):
    say(log, "one")
    recall.refresh(ANA)
    say(log, "two")
    store.broken = {"add"}
    answer = recall.recall(ANA, "one")
    assert answer.matches[0].line.text == "one"
    assert "the newest lines may be missing" in answer.problems[0]


def test_a_retracted_line_stays_away_while_the_store_cannot_delete_it(log, recall, store):
    one, *_ = say(log, "one", "two")
    recall.refresh(ANA)
    retract(log, one)
    store.broken = {"delete"}
    assert found(recall) == {"two"}


async def test_a_store_that_cannot_be_searched_is_an_error_of_ours(log, recall, store):
    say(log, "one")
    store.broken = {"search"}
    with pytest.raises(LineStoreError, match="FlakyStore: OSError: search is out of order"):
        await recall.arecall(ANA, "one")
    with pytest.raises(ConnectionError):
        recall.recall(ANA, "one")


def test_an_unreachable_log_is_its_own_error(log, recall, monkeypatch):
    def unreachable(*_args, **_kwargs):
        raise LogUnavailableError("down")

    say(log, "one")
    monkeypatch.setattr(log, "changes", unreachable)
    with pytest.raises(LogUnavailableError):
        recall.recall(ANA, "one")


def test_vectors_of_another_embedder_are_refused_by_both_names(log, store, recall):
    say(log, "one")
    recall.refresh(ANA)
    other = InMemoryVectorStore(HashedEmbeddings(model="newer"))
    with pytest.raises(ConfigError, match=r"hashed-16.*newer-16.*another `name`"):
        VectorStoreRecall(log, other).refresh(ANA)
    assert VectorStoreRecall(log, other, name="newer").refresh(ANA) == ()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"candidates": 0}, "candidates"),
        ({"settings": RecallSettings(index="numpy")}, "leave index out"),
        ({"settings": RecallSettings(vector_bits=8)}, "leave vector_bits out"),
        ({"store": "a store"}, "VectorStore"),
        ({"log": object()}, "ThreadState"),
    ],
    ids=["candidates", "index", "bits", "store", "log"],
)
def test_a_recall_of_impossible_parts_is_refused(log, store, arguments, named):
    with pytest.raises(ConfigError, match=named):
        VectorStoreRecall(**{"log": log, "store": store, **arguments})


def test_a_relevance_buffer_is_refused_and_not_forgotten_silently(recall):
    with pytest.raises(ConfigError, match="buffer_size=0"):
        recall.recall(ANA, "one", buffer=HOME, settings=RecallSettings(buffer_size=3))
