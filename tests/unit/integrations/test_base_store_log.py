from __future__ import annotations

import asyncio
import sys

import pytest
from langchain_core.messages import HumanMessage

from langchain_convmem.errors import ConfigError, MissingExtraError
from langchain_convmem.integrations import BaseStoreLog
from langchain_convmem.logs import InMemoryLog, SQLiteLog
from langchain_convmem.records import Owner, ThreadKey
from langchain_convmem.testing.log_contract import all_changes, say, say_all, texts
from langchain_convmem.transfer import copy_log
from langchain_convmem.views.codec import draft_of
from langchain_convmem.views.live import live_entries

memory = pytest.importorskip("langgraph.store.memory")
base = pytest.importorskip("langgraph.store.base")

ANA = ThreadKey("ana", "t1")
OTHER = ThreadKey("ana", "t2")


class DatabaseLikeStore(memory.InMemoryStore):
    """Finds namespaces as databases do: by the beginning of their text, latest change first."""

    def batch(self, ops):
        return [
            self._found(op)
            if isinstance(op, base.SearchOp)
            else super(type(self), self).batch([op])[0]
            for op in ops
        ]

    def _found(self, op):
        start = ".".join(op.namespace_prefix)
        items = [
            item
            for namespace, held in self._data.items()
            if ".".join(namespace).startswith(start)
            for item in held.values()
        ]
        items.sort(key=lambda item: item.updated_at, reverse=True)
        return items[op.offset : op.offset + op.limit]


class CountingStore(memory.InMemoryStore):
    """Notes the operations of every call."""

    def __init__(self, **options):
        super().__init__(**options)
        self.calls = []

    def batch(self, ops):
        ops = list(ops)
        self.calls.append([type(op).__name__ for op in ops])
        return super().batch(ops)


class Broken(Exception):  # noqa: N818 - as a lost connection
    pass


class FailingStore(memory.InMemoryStore):
    """Writes only some operations of its n-th call, then breaks."""

    def __init__(self):
        super().__init__()
        self.left = -1

    def batch(self, ops):
        ops = list(ops)
        if self.left == 0:
            super().batch(ops[: len(ops) // 2])
            self.left = -1
            raise Broken
        self.left -= 1
        return super().batch(ops)


def values(store):
    return [item.value for held in store._data.values() for item in held.values()]


def test_langgraph_is_needed_and_a_store_of_it(monkeypatch):
    with pytest.raises(ConfigError, match="BaseStore"):
        BaseStoreLog({})
    monkeypatch.setitem(sys.modules, "langgraph.store", None)
    with pytest.raises(MissingExtraError, match=r"langchain-convmem\[langgraph\]"):
        BaseStoreLog(memory.InMemoryStore())


def test_a_long_thread_is_read_over_its_pages():
    log = BaseStoreLog(memory.InMemoryStore())
    said = [f"line {number}" for number in range(300)]
    for start in range(0, 300, 7):
        say_all(log, ANA, said[start : start + 7])
        say(log, OTHER, "between")
    entries = log.entries(ANA)
    assert texts(entries) == said
    for last in (0, 1, 63, 64, 65, 128, 299, 300, 301):
        assert log.entries(ANA, last=last) == entries[len(entries) - min(last, 300) :]
    assert log.entries(ANA, after=entries[150].position) == entries[151:]
    for end in (0, 62, 63, 64, 127, 128, 299):
        until = entries[end].position
        assert log.entries(ANA, until=until) == entries[: end + 1]
        for last in (1, 64, 65, 300):
            kept = entries[max(0, end + 1 - last) : end + 1]
            assert log.entries(ANA, until=until, last=last) == kept
    log.forget(ANA, [entry.id for entry in entries[10:200]])
    kept = entries[:10] + entries[200:]
    assert log.entries(ANA) == kept
    assert log.entries(ANA, last=105) == kept[5:]
    say(log, ANA, "more")
    assert texts(log.entries(ANA)) == [*texts(kept), "more"]
    assert log.threads("ana")[0].entries == 111
    assert len(all_changes(log, ANA.owner, limit=50)) == 111 + len(log.entries(OTHER))


def test_an_append_and_the_latest_entries_cost_the_same_in_a_long_thread():
    store = CountingStore()
    log = BaseStoreLog(store)
    costs = []
    for size in (64, 640):
        say_all(log, ANA, [f"line {number}" for number in range(size)])
        store.calls.clear()
        say(log, ANA, "one more")
        log.entries(ANA, last=3)
        log.changes(ANA.owner, log.entries(ANA, last=1)[0].position)
        costs.append([len(call) for call in store.calls])
    assert costs[0] == costs[1]
    assert store.calls[:3] == [["GetOp"], ["PutOp"], ["PutOp"]]


def test_a_store_that_matches_beginnings_and_sorts_by_change_misleads_nobody():
    store = DatabaseLikeStore()
    log = BaseStoreLog(store)
    names = [f"t{number}" for number in range(120)] + ["t", "T1", "t1.x", "t_", "t%"]
    for name in names:
        say(log, ThreadKey(None, name), f"of {name}")
    say(BaseStoreLog(store, namespace=("convmem", "lone")), ThreadKey(None, "else"), "hidden")
    say(log, ThreadKey("ana", "t1"), "of ana")
    listed = log.threads(None)
    assert [info.key.thread_id for info in listed] == names[::-1]
    assert len(log.owners()) == len(names) + 1
    assert Owner(user_id="ana") in log.owners()


def test_a_thread_is_read_once_to_find_messages_in_it():
    store = CountingStore()
    log = BaseStoreLog(store)
    said = [HumanMessage(f"line {number}", id=f"m{number}") for number in range(200)]
    entries = say_all(BaseStoreLog(store), ANA, said)
    assert log.find(ANA, ["m7", "m199"]) == [entries[7], entries[199]]
    say_all(BaseStoreLog(store), ANA, [HumanMessage("line 7!", id="m7")])
    store.calls.clear()
    assert texts(log.find(ANA, ["m7"])) == ["line 7", "line 7!"]
    assert sum(map(len, store.calls)) <= 6, "the record, a page, what is new, and what was found"
    store.calls.clear()
    assert log.find(ANA, ["unknown"]) == []
    assert sum(map(len, store.calls)) <= 2


def test_tasks_that_look_for_messages_while_others_write_find_all():
    class SlowStore(memory.InMemoryStore):
        async def abatch(self, ops):
            await asyncio.sleep(0)
            return await super().abatch(ops)

    async def scenario():
        log = BaseStoreLog(SlowStore())

        async def write(number):
            [entry] = await log.aappend(ANA, [draft_of(HumanMessage("x", id=f"m{number}"))])
            assert await log.afind(ANA, [f"m{number}"]) == [entry]

        await asyncio.gather(*(write(number) for number in range(20)))
        return await log.afind(ANA, [f"m{number}" for number in range(20)])

    assert len(asyncio.run(scenario())) == 20


def test_logs_of_two_namespaces_do_not_meet():
    store = memory.InMemoryStore()
    first, second = (BaseStoreLog(store, namespace=("app", name)) for name in ("one", "two"))
    say(first, ANA, "one")
    assert second.entries(ANA) == []
    second.forget(ANA.owner)
    assert texts(first.entries(ANA)) == ["one"]


def test_nothing_is_embedded():
    def embed(texts):
        raise AssertionError(texts)

    log = BaseStoreLog(memory.InMemoryStore(index={"dims": 2, "embed": embed}))
    say(log, ANA, "private")
    assert texts(log.entries(ANA)) == ["private"]


def test_forgetting_leaves_no_trace_in_the_store():
    store = memory.InMemoryStore()
    log = BaseStoreLog(store)
    say_all(log, ThreadKey("ana.maria@example.org", "Private"), [f"line {n}" for n in range(150)])
    log.set_state(ThreadKey("ana.maria@example.org", "Private"), "buffer", 1, expected=None)
    log.forget(Owner(user_id="ana.maria@example.org"))
    assert [list(value) for value in values(store)] == [["epoch"]]


@pytest.mark.parametrize("call", [1, 2])
def test_a_broken_append_counts_for_nothing_and_is_overwritten(call):
    store = FailingStore()
    log = BaseStoreLog(store)
    before = say(log, ANA, HumanMessage("before", id="m0"))
    store.left = call
    with pytest.raises(Broken):
        say_all(log, ANA, [HumanMessage(f"lost {number}", id=f"m{number}") for number in range(6)])
    assert log.entries(ANA) == [before]
    assert log.changes(ANA.owner).entries == (before,)
    say(log, OTHER, "elsewhere")
    say_all(log, ANA, [HumanMessage(f"kept {number}", id=f"m{number}") for number in range(4)])
    assert texts(live_entries(log.entries(ANA))) == [f"kept {number}" for number in range(4)]
    assert texts(BaseStoreLog(store).entries(OTHER)) == ["elsewhere"]


def test_forgetting_takes_what_a_broken_append_left():
    store = FailingStore()
    log = BaseStoreLog(store)
    say(log, ANA, "before")
    store.left = 1
    with pytest.raises(Broken):
        say_all(log, ANA, [f"secret {number}" for number in range(150)])
    assert "secret" in str(values(store))
    log.forget(OTHER)
    assert "secret" not in str(values(store))
    assert texts(log.entries(ANA)) == ["before"]


def test_a_broken_forget_can_be_done_again():
    for broken_at in range(12):
        store = FailingStore()
        log = BaseStoreLog(store)
        entries = say_all(log, ANA, [f"secret {number}" for number in range(70)])
        say(log, ANA, "kept")
        log.set_state(ANA, "cache:window", "secret", expected=None)
        log.set_state(ANA, "buffer", "kept", expected=None)
        store.left = broken_at
        try:
            log.forget(ANA, [entry.id for entry in entries])
        except Broken:
            log.forget(ANA, [entry.id for entry in entries])
        store.left = -1
        assert log.get_state(ANA, "buffer").value == "kept"
        assert texts(log.entries(ANA)) == ["kept"], broken_at
        assert log.threads("ana")[0].entries == 1
        assert "secret" not in str(values(store))
        say(log, ANA, "more")
        assert texts(log.entries(ANA)) == ["kept", "more"]


def test_the_asynchronous_twins_need_no_synchronous_store():
    class AsyncStore(memory.InMemoryStore):
        def batch(self, ops):
            raise AssertionError("a synchronous call")

        async def abatch(self, ops):
            await asyncio.sleep(0)
            return await super().abatch(ops)

    async def scenario():
        log = BaseStoreLog(AsyncStore())
        await asyncio.gather(
            *(log.aappend(ANA, [draft_of(HumanMessage(f"{n}"))]) for n in range(20))
        )
        assert len(await log.aentries(ANA)) == 20
        assert await log.aowners() == [ANA.owner]
        await log.aforget(ANA.owner)
        assert await log.athreads("ana") == []

    asyncio.run(scenario())


def test_two_logs_on_one_store_share_their_turns():
    class SlowStore(memory.InMemoryStore):
        async def abatch(self, ops):
            await asyncio.sleep(0)
            return await super().abatch(ops)

    async def scenario():
        store = SlowStore()
        logs = [BaseStoreLog(store) for _ in range(4)]
        await asyncio.gather(
            *(log.aappend(ANA, [draft_of(HumanMessage("x"))]) for log in logs for _ in range(10))
        )
        return await logs[0].aentries(ANA)

    entries = asyncio.run(scenario())
    assert len({entry.position for entry in entries}) == 40


def test_a_log_is_copied_into_a_store_and_out_of_it(tmp_path):
    middle, back = BaseStoreLog(memory.InMemoryStore()), InMemoryLog()
    with SQLiteLog(tmp_path / "log.db") as source:
        say_all(source, ANA, [f"line {number}" for number in range(70)])
        say(source, ANA, HumanMessage("frist", id="m"))
        say(source, ThreadKey(None, "t1"), "alone")
        say(source, ANA, HumanMessage("first", id="m"))
        owners = [ANA.owner, Owner(thread_id="t1")]
        copy_log(source, middle, source_name="a", owners=owners)
        report = copy_log(middle, back, source_name="b")
        assert (report.owners, report.short) == (2, ())
        assert texts(live_entries(back.entries(ANA))) == texts(live_entries(source.entries(ANA)))
