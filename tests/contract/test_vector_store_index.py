import numpy as np
import pytest
from vector_stores import HashedEmbeddings, in_memory, pgvector, qdrant, said

from langchain_convmem import ConversationMemory
from langchain_convmem.integrations import VectorStoreRecall
from langchain_convmem.logs import InMemoryLog
from langchain_convmem.recall import LineRecall, RecallSettings
from langchain_convmem.records import Owner, ThreadKey

ANA, BOB = Owner(user_id="ana"), Owner(user_id="bob")
DENSE = RecallSettings(cosine_only=True, window=0)
TEXTS = [f"line {n} of what ana said" for n in range(100)]
OWN_THREAD = ThreadKey("ana", "t")
# As coarse as float32 makes the vectors of the stores.
CLOSE = 2e-5


@pytest.fixture
def embeddings():
    return HashedEmbeddings()


@pytest.fixture(params=[in_memory, qdrant, pytest.param(pgvector, marks=pytest.mark.postgres)])
def store(request, embeddings):
    return request.param(embeddings)


@pytest.fixture
def log():
    """Ana's lines, one of a hundred in a thread of its own, and as many of Bob's."""
    log = InMemoryLog()
    for number, text in enumerate(TEXTS):
        thread = "rare" if number == 7 else "t"
        log.append(ThreadKey("ana", thread), [said(text, f"a{number}")])
        log.append(ThreadKey("bob", "t"), [said(f"bob: {text}", f"b{number}")])
    return log


@pytest.fixture
def recall(log, store):
    return make_recall(log, store, candidates=len(TEXTS))


def make_recall(log, store, candidates=50, **options):
    to_cosine = {"QdrantVectorStore": float, "PGVector": lambda distance: 1 - distance}
    options["to_cosine"] = to_cosine.get(type(store).__name__)
    return VectorStoreRecall(log, store, DENSE, candidates=candidates, **options)


def cosines_to(embeddings, query, texts=TEXTS):
    lines = np.array([embeddings.vector(text) for text in texts])
    asked = np.array(embeddings.vector(query))
    return lines @ asked / np.linalg.norm(lines, axis=1) / np.linalg.norm(asked)


@pytest.mark.parametrize(
    ("scope", "texts"),
    [
        ({}, "ana in a, ana in b, bob in a, cid in c"),
        ({"filter": {"thread_id": "a"}}, "ana in a, bob in a"),
        ({"filter": {"thread_id": ["b", "c"]}}, "ana in b, cid in c"),
        ({"filter": {"user_id": "ana"}}, "ana in a, ana in b"),
        ({"filter": {"user_id": "nobody"}}, ""),
        ({"filter": {"user_id": ["ana", "bob"], "thread_id": "a"}}, "ana in a, bob in a"),
        ({"within": ThreadKey("ana", "a")}, "ana in a"),
        ({"within": ThreadKey("ana", "a"), "filter": {"thread_id": "b"}}, ""),
    ],
    ids=repr,
)
def test_users_and_threads_mean_what_they_mean_to_a_recall_in_memory(
    store, embeddings, scope, texts
):
    log = InMemoryLog()
    for user, thread in [("ana", "a"), ("ana", "b"), ("bob", "a"), ("cid", "c")]:
        log.append(ThreadKey(user, thread), [said(f"{user} in {thread}")])
    owners = [Owner(user_id=one) for one in ("ana", "bob", "cid")]
    for recall in (make_recall(log, store), LineRecall(log, embeddings, DENSE)):
        matches = recall.recall(owners, "anything", k=10, threshold=-1, **scope).matches
        assert ", ".join(sorted(match.line.text for match in matches)) == texts


def found(recall, query, k, **options):
    matches = recall.recall(ANA, query, k=k, ranking=k, **options).matches
    return [match.line.text for match in matches], [match.similarity for match in matches]


def test_the_nearest_come_first_with_the_cosine_of_an_exact_search(recall, embeddings):
    query = "what did ana say?"
    cosines = cosines_to(embeddings, query)
    numbers = (-cosines).argsort(kind="stable")[:12]
    texts, similarities = found(recall, query, 12)
    assert texts == [TEXTS[number] for number in numbers]
    np.testing.assert_allclose(similarities, cosines[numbers], atol=CLOSE)


def test_a_thread_of_one_percent_is_searched_whole_inside_the_store(log, store, embeddings):
    few = make_recall(log, store, candidates=1)
    query = "far from everything in the rare thread"
    texts, similarities = found(few, query, 1, within=ThreadKey("ana", "rare"))
    cosine = cosines_to(embeddings, query, [TEXTS[7]])
    assert texts == [TEXTS[7]]
    np.testing.assert_allclose(similarities, cosine, atol=CLOSE)


def test_another_owners_lines_are_never_found_however_near(recall):
    texts, _ = found(recall, f"bob: {TEXTS[3]}", len(TEXTS))
    assert set(texts) == set(TEXTS)


def test_an_excluded_line_makes_room_for_the_next_one(log, store, embeddings):
    few = make_recall(log, store, candidates=4)
    positions = [entry.position for entry in log.entries(OWN_THREAD)]
    numbers = [number for number in range(len(TEXTS)) if number != 7]
    exclude = {OWN_THREAD: positions[:80]}
    left = [TEXTS[7], *(TEXTS[number] for number in numbers[80:])]
    query = "what is not excluded?"
    order = (-cosines_to(embeddings, query, left)).argsort(kind="stable")[:4]
    assert found(few, query, 4, exclude=exclude)[0] == [left[number] for number in order]


def test_what_a_memory_forgets_is_gone_from_the_store(recall, log, store):
    memory = ConversationMemory(log, recall=recall)
    recall.refresh(ANA)
    assert found(recall, TEXTS[7], 1)[0] == [TEXTS[7]]
    memory.forget(user_id="ana", thread_id="rare")
    memory.forget(user_id="ana", thread_id="t", entry_ids=["a8"])
    texts = [document.page_content for document in store.similarity_search(TEXTS[7], k=500)]
    assert sorted(texts) == sorted(set(TEXTS) - {TEXTS[7], TEXTS[8]})


def test_text_that_a_store_cannot_keep_is_found_and_shown_as_it_was_said(recall, log):
    odd = "a NUL \x00, a lone \ud800 and a fox 🦊"
    log.append(ThreadKey("ana", "odd\x00 'thread'; --"), [said(odd, "odd")])
    match = recall.recall(ANA, odd.replace("\x00", " "), k=1).matches[0]
    assert (match.line.text, match.line.key.thread_id) == (odd, "odd\x00 'thread'; --")
