import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.store.base import InvalidNamespaceError, ListNamespacesOp, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore
from scripted_chat import texts

from langchain_convmem import ConversationMemory, InMemoryLog, ids
from langchain_convmem.errors import ConfigError, InvalidMessageError
from langchain_convmem.integrations import ConversationStore
from langchain_convmem.offline import OfflineChatModel


@pytest.fixture
def store(memory):
    return ConversationStore(memory, user_id="ana")


def values(items):
    return [item.value for item in items]


LABELS = st.sampled_from(["a", "b", "threads", "x y", "ü/ö", "100%"])
NAMESPACES = (
    st.lists(LABELS, min_size=1, max_size=3)
    .map(tuple)
    .filter(lambda one: not (len(one) == 2 and one[0] == "threads"))  # those are conversations
)
KEYS = st.sampled_from(["k", "l", "/notes/a.md"])
VALUES = st.dictionaries(
    st.sampled_from(["content", "n", "tags"]),
    st.one_of(st.integers(-3, 3), st.text("abc .", max_size=8), st.lists(st.integers(0, 1))),
)
FILTERS = st.one_of(
    st.none(),
    st.fixed_dictionaries({"n": st.integers(-3, 3)}),
    st.fixed_dictionaries({"content": st.fixed_dictionaries({"$ne": st.just("a")})}),
)
CHANGES = st.lists(st.tuples(NAMESPACES, KEYS, st.one_of(st.none(), VALUES)), max_size=8)


@settings(max_examples=40, deadline=None)
@given(changes=CHANGES, prefix=st.lists(LABELS, max_size=2).map(tuple), wanted=FILTERS)
def test_it_holds_what_langgraphs_own_store_holds(changes, prefix, wanted):
    ours = ConversationStore(ConversationMemory(InMemoryLog()), user_id="ana")
    theirs = InMemoryStore()
    for namespace, key, value in changes:
        for one in (ours, theirs):
            one.batch([PutOp(namespace, key, value)])
    for namespace, key, _ in changes:
        mine, other = ours.get(namespace, key), theirs.get(namespace, key)
        assert (mine and mine.value) == (other and other.value)
    found = [
        {(item.namespace, item.key, json.dumps(item.value)) for item in one.batch([search])[0]}
        for search in [SearchOp(prefix, wanted, 100, 0)]
        for one in (ours, theirs)
    ]
    assert found[0] == found[1]
    full = {item.namespace for item in theirs.batch([SearchOp((), None, 100, 0)])[0]}
    assert ours.batch([ListNamespacesOp()])[0] == sorted(full)


def test_reads_of_a_batch_come_before_its_writes(store):
    store.put(("a",), "k", {"n": 1})
    before, _ = store.batch([SearchOp(("a",)), PutOp(("a",), "k", {"n": 2})])
    assert values(before) == [{"n": 1}]
    assert store.get(("a",), "k").value == {"n": 2}


async def test_the_async_form_does_the_same(store):
    await store.aput(("a", "b"), "k", {"content": "tea"})
    assert (await store.aget(("a", "b"), "k")).value == {"content": "tea"}
    assert values(await store.asearch(("a",), query="tea")) == [{"content": "tea"}]
    assert await store.alist_namespaces(max_depth=1) == [("a",)]
    await store.adelete(("a", "b"), "k")
    assert await store.aget(("a", "b"), "k") is None


def test_search_is_recall_over_what_was_said_and_what_was_put(memory, store):
    chain = memory.wrap(OfflineChatModel())
    config = {"configurable": {"user_id": "ana", "thread_id": "chat.1"}}
    chain.invoke("My sister Noor lives in Porto.", config=config)
    store.put(("memories",), "m1", {"content": "The user's sister is a vet."})
    found = store.search((), query="Where does my sister Noor live?", limit=2)
    assert found[0].namespace == ("threads", "chat%2E1")
    assert found[0].value["content"] == "My sister Noor lives in Porto."
    assert (found[0].value["role"], found[0].value["speaker"]) == ("user", "User")
    assert found[0].score > 0
    only = store.search(("memories",), query="Where does my sister live?")
    assert values(only) == [{"content": "The user's sister is a vet."}]


def test_a_few_are_the_first_of_many_and_no_item_comes_with_its_neighbours(memory, store):
    about = "dog-cat river soup river tea river boat dog-cat soup cat dog-tea soup dog-tea boat cat"
    said = [f"The {one} {n}" for n, one in enumerate(about.split())]
    memory.add_messages(said, thread_id="t", user_id="ana")
    for text in said:
        store.put(("a",), text, {"content": text})
    for place in (("threads", "t"), ("a",)):
        found = [values(store.search(place, query="dog", limit=limit)) for limit in range(5)]
        assert found == [found[4][:limit] for limit in range(5)]
    assert all("dog" in one["content"] for one in found[4])
    assert store.search(("a",), query=" ") == store.search(("a",))


def test_a_thread_is_read_and_continued_as_items(memory, store):
    memory.add_messages([("user", "Hi"), ("ai", "Hello")], thread_id="t", user_id="ana")
    store.put(("threads", "t"), "m3", {"role": "user", "content": "And now?"})
    said = ["Hi", "Hello", "And now?"]
    assert texts(memory) == said
    assert [item.value["content"] for item in store.search(("threads", "t"))] == said[::-1]


def test_items_are_not_trusted_as_words_of_the_user(memory, store):
    store.put(("a",), "k", {"content": "the cellar key hangs behind the door"})
    [block] = memory.recall("cellar key", user_id="ana", k=1).blocks
    assert block.lines[0].trust == "tool"


def test_a_write_hook_reaches_items(memory):
    def hide(message):
        return message.model_copy(update={"content": message.content.replace("47-11", "[pin]")})

    hooked = ConversationMemory(InMemoryLog(), before_write=hide)
    store = ConversationStore(hooked, user_id="ana")
    store.put(("a",), "k", {"content": "My PIN is 47-11."})
    store.put(("a",), "l", {"pin": "47-11", "n": 1})
    assert store.get(("a",), "k").value == {"content": "My PIN is [pin]."}
    assert store.get(("a",), "l").value == {"pin": "[pin]", "n": 1}
    assert "47-11" not in str(hooked.history("store/a", user_id="ana").entries)


@pytest.fixture
def clock(monkeypatch):
    """Let minutes pass."""
    start, passed = time.time_ns(), [0.0]
    monkeypatch.setattr(time, "time_ns", lambda: start + int(passed[0] * 60e9))
    # Ids never go back, so those of later tests must not be made by the clock of this one.
    monkeypatch.setattr(ids, "CLOCK", ids.UlidClock())

    def wait(minutes):
        passed[0] += minutes

    return wait


def test_what_has_expired_is_erased_by_a_sweep_with_all_it_said_before(memory, store, clock):
    store.put(("a",), "k", {"content": "The gate code is 1111."}, ttl=10)
    store.put(("a",), "k", {"content": "The gate code is 2222."}, ttl=10)
    store.put(("a",), "stays", {"content": "The gate is green."})
    clock(9)
    assert store.sweep_ttl() == 0
    clock(2)
    assert store.sweep_ttl() == 1
    assert store.sweep_ttl() == 0
    assert store.get(("a",), "k") is None
    assert values(store.search(("a",), query="gate code")) == [{"content": "The gate is green."}]
    assert "code" not in str(memory.history("store/a", user_id="ana").entries)


@pytest.mark.parametrize("refreshes", [True, False])
def test_a_read_starts_the_time_anew_where_it_is_to(memory, clock, refreshes):
    store = ConversationStore(memory, user_id="ana", ttl={"default_ttl": 10})
    store.put(("a",), "k", {"n": 1})
    clock(8)
    store.get(("a",), "k", refresh_ttl=refreshes)
    clock(8)
    assert store.search(("a",), refresh_ttl=refreshes)
    clock(8)
    assert store.sweep_ttl() == (0 if refreshes else 1)


def test_the_defaults_are_langgraphs(memory, clock):
    config = {"default_ttl": 10, "refresh_on_read": False, "omit_expired": True}
    store = ConversationStore(memory, user_id="ana", ttl=config)
    store.put(("a",), "k", {"n": 1})
    store.put(("a",), "forever", {"n": 2}, ttl=None)
    clock(8)
    assert store.get(("a",), "k").value == {"n": 1}
    clock(3)
    assert store.get(("a",), "k") is None
    assert values(store.search(("a",))) == [{"n": 2}]
    assert store.sweep_ttl() == 1


def test_the_label_of_a_namespace_names_the_user(memory):
    store = ConversationStore(memory, user_at=1)
    store.put(("memories", "ana"), "k", {"content": "Ana likes tea."})
    store.put(("memories", "bo"), "k", {"content": "Bo likes coffee."})
    found = store.search(("memories", "ana"), query="What is liked?")
    assert values(found) == [{"content": "Ana likes tea."}]
    assert store.list_namespaces(prefix=("memories", "bo")) == [("memories", "bo")]
    assert [info.key.user_id for info in memory.threads(user_id="bo")] == ["bo"]
    for call in (
        lambda: store.search(("memories",)),
        lambda: store.search(("memories", "*")),
        store.list_namespaces,
        lambda: store.put(("memories",), "k", {"n": 1}),
    ):
        with pytest.raises((ConfigError, InvalidNamespaceError)):
            call()


@pytest.mark.parametrize("label", ["ana@example%2Eorg", "ana:1", "Zoë", "100%", "a/b c"])
def test_a_user_is_found_again_by_the_label_that_named_it(memory, label):
    store = ConversationStore(memory, user_at=1)
    namespace = ("memories", label)
    store.put(namespace, "k", {"content": "tea"}, ttl=5)
    assert [item.namespace for item in store.search(namespace)] == [namespace]
    assert store.list_namespaces(prefix=namespace) == [namespace]
    [thread] = memory.threads(label.replace("%2E", "."))
    assert thread.key.user_id == label.replace("%2E", ".")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"user_id": "a", "user_at": 0},
        {"user_id": ""},
        {"user_at": "1"},
        {"user_id": "a", "ttl": {"sweep_interval_minutes": 5}},
    ],
)
def test_a_store_of_nobody_is_refused(memory, options):
    with pytest.raises(ConfigError):
        ConversationStore(memory, **options)


def test_what_cannot_be_kept_is_refused_and_nothing_of_the_batch_is_written(memory, store):
    for wrong in ({"n": object()}, [1]):
        with pytest.raises(InvalidMessageError, match="JSON"):
            store.batch([PutOp(("a",), "k", {"n": 1}), PutOp(("a",), "l", wrong)])
    with pytest.raises(ConfigError, match="must not be empty"):
        store.put(("a",), "", {"n": 1})
    with pytest.raises(ConfigError, match="number of minutes"):
        store.put(("a",), "k", {"n": 1}, ttl="10")
    with pytest.raises(ConfigError, match="fields"):
        store.put(("a",), "k", {"n": 1}, index=["n"])
    store.put(("a",), "k", {"n": 1})
    with pytest.raises(ConfigError, match="no such operator"):
        store.search(("a",), filter={"n": {"$in": [1]}})
    assert store.get(("a",), "l") is None


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what langmem imports
def test_langmems_tools_write_and_search_the_log(memory, store):
    from langmem import create_manage_memory_tool, create_search_memory_tool

    manage = create_manage_memory_tool(namespace=("memories",), store=store)
    search = create_search_memory_tool(namespace=("memories",), store=store)
    manage.invoke({"content": "The user is allergic to penicillin.", "action": "create"})
    assert "penicillin" in str(search.invoke({"query": "Which allergies does the user have?"}))
    assert memory.recall("penicillin", user_id="ana").verdict == "answered"
