"""Whatever happened in whatever order, a store ends up with what the log holds, and recall too."""

from __future__ import annotations

import random
import threading

import pytest
from vector_stores import HashedEmbeddings, InMemoryVectorStore, said

from langchain_convmem.errors import LineStoreError
from langchain_convmem.integrations import VectorStoreRecall, vector_store_sync
from langchain_convmem.logs import InMemoryLog
from langchain_convmem.recall import LineRecall
from langchain_convmem.records import Control, Draft, Owner, ThreadKey

ANA = Owner(user_id="ana")


class Unreliable(InMemoryVectorStore):
    """Fails at every eighth call or so, before its work is done or behind it."""

    def __init__(self, seed: int, failure: type[BaseException]) -> None:
        super().__init__(HashedEmbeddings())
        self.failure = failure
        self.dice = random.Random(seed)
        self.lock = threading.Lock()

    def _stumble(self) -> None:
        if self.dice.random() < 1 / 8:
            raise self.failure

    def add_documents(self, documents, ids=None, **kwargs):
        self._stumble()
        with self.lock:
            super().add_documents(documents, ids, **kwargs)
        self._stumble()

    def delete(self, ids=None, **kwargs):
        self._stumble()
        with self.lock:
            super().delete(ids, **kwargs)
        self._stumble()


class Life:
    """A user's log in which lines are said, undone, redone and forgotten at random."""

    def __init__(self, seed: int) -> None:
        self.log = InMemoryLog()
        self.dice = random.Random(seed)
        self.said: list[tuple[ThreadKey, str]] = []
        self.texts = 0

    def go_on(self) -> None:
        kind = self.dice.random()
        if kind < 0.75 or not self.said:
            self.say()
        elif kind < 0.9:
            self.retract(*self.dice.choice(self.said))
        elif kind < 0.97:
            key, entry_id = self.said.pop(self.dice.randrange(len(self.said)))
            self.log.forget(key, [entry_id])
        else:
            gone = self.dice.choice(self.said)[0]
            self.log.forget(gone)
            self.said = [one for one in self.said if one[0] != gone]

    def say(self) -> None:
        key = ThreadKey("ana", self.dice.choice("ab"))
        count = self.dice.randint(1, 5)
        drafts = [said(f"line {self.texts + n}") for n in range(count)]
        self.texts += count
        self.said += [(key, entry.id) for entry in self.log.append(key, drafts)]

    def retract(self, key: ThreadKey, entry_id: str) -> None:
        # Of an entry, which is an undo, or of an undo, which is a redo.
        control = Control(retracts=(entry_id,), reason="undo")
        [entry] = self.log.append(key, [Draft(role="control", control=control)])
        self.said.append((key, entry.id))

    def lines(self) -> set[str]:
        recall = LineRecall(self.log, HashedEmbeddings())
        everything = recall.recall(ANA, "anything", ranking=9999, threshold=-1)
        return {match.line.text for match in everything.matches}


def follow(recall: VectorStoreRecall, failures: tuple[type[BaseException], ...]) -> bool:
    """Follow the log once; return whether nothing came in between."""
    try:
        recall.refresh(ANA)
    except failures:
        return False
    return True


def assert_whole(life: Life, store: Unreliable) -> None:
    recall = VectorStoreRecall(life.log, store, candidates=9999)
    while not follow(recall, (LineStoreError, KeyboardInterrupt)):
        pass
    assert {document["text"] for document in store.store.values()} == life.lines()
    found = recall.recall(ANA, "anything", ranking=9999)
    assert {match.line.text for match in found.matches} == life.lines()


@pytest.mark.parametrize("failure", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_store_that_fails_and_processes_that_are_killed_leave_nothing_wrong(
    seed, failure, monkeypatch
):
    # No process waits until the one before it, which was killed, is taken for dead.
    monkeypatch.setattr(vector_store_sync, "_LEASE_MS", 0)
    life, store = Life(seed), Unreliable(seed, failure)
    for number in range(100):
        life.go_on()
        if number % 3 == 0:
            # Every attempt is another process: nothing but log and store is left of the last.
            follow(VectorStoreRecall(life.log, store), (LineStoreError, KeyboardInterrupt))
    assert_whole(life, store)


def test_servers_that_follow_one_user_at_once_agree_in_the_end():
    life, store = Life(4), Unreliable(4, OSError)
    over = threading.Event()

    def serve() -> None:
        recall = VectorStoreRecall(life.log, store)
        while not over.is_set():
            follow(recall, (LineStoreError,))

    servers = [threading.Thread(target=serve) for _ in range(2)]
    for server in servers:
        server.start()
    for _ in range(100):
        life.go_on()
    over.set()
    for server in servers:
        server.join()
    assert_whole(life, store)
