import pytest
from dynamodb_servers import THROTTLED, kinds
from langchain_core.messages import HumanMessage

from langchain_convmem.errors import LogUnavailableError
from langchain_convmem.logs.verify import verify_log
from langchain_convmem.records import ThreadKey
from langchain_convmem.testing.log_contract import ANA, ANAS_OTHER, list_texts, say, say_all

pytestmark = pytest.mark.sockets


@pytest.fixture
def in_between(client):
    """Let something happen once, just before the next write, by default a conditional one."""

    def plan(act, operation="PutItem"):
        waiting = [act]

        def act_once(**_):
            if waiting:
                waiting.pop()()

        client.meta.events.register(f"before-call.dynamodb.{operation}", act_once)

    return plan


def test_two_writers_of_one_number_both_get_through(open_log, in_between):
    slow, fast = open_log(), open_log()
    say(slow, ANA, "before")
    in_between(lambda: say_all(fast, ANA, ["fast a", "fast b"]))
    entry = say(slow, ANA, "slow")
    assert list_texts(slow.entries(ANA)) == ["before", "fast a", "fast b", "slow"]
    assert fast.entries(ANA)[-1] == entry
    assert fast.changes(ANA.owner).cursor == entry.position


def test_two_writers_of_one_message_store_it_once(client, open_log, in_between):
    slow, fast = open_log(), open_log()
    message = HumanMessage("Hi" * 100_000, id="m1")
    in_between(lambda: say(fast, ANA, message))
    assert [say(slow, ANA, message)] == fast.entries(ANA)
    assert kinds(slow, client) == ["E", "P", "P", "P"], "the slower one took its pieces back"


@pytest.mark.parametrize("scope", ["entry", "thread", "owner"])
def test_a_number_is_not_used_again_while_a_writer_holds_it(open_log, in_between, scope):
    slow, fast = open_log(), open_log()
    third = ThreadKey("ana", "t3")
    positions = [say(slow, ANA, "before").position]

    def act():
        gone = say(fast, third, "gone")
        positions.extend([gone.position, say(fast, ANAS_OTHER, "there").position])
        scopes = {"entry": (third, [gone.id]), "thread": (third,), "owner": (third.owner,)}
        fast.forget(*scopes[scope])

    in_between(act)
    positions.append(say(slow, ANA, "slow").position)
    assert positions == sorted(set(positions))
    left = ["slow"] if scope == "owner" else ["before", "there", "slow"]
    assert list_texts(fast.changes(ANA.owner).entries) == left
    assert verify_log(fast).ok


def test_a_large_write_survives_that_its_thread_is_forgotten_meanwhile(open_log, in_between):
    slow, fast = open_log(), open_log()
    say(slow, ANA, "before")
    in_between(lambda: fast.forget(ANA))
    entry = say(slow, ANA, "x" * 500_000)
    assert slow.entries(ANA) == [entry]


def test_who_has_only_written_to_a_thread_still_finds_what_was_there(open_log):
    first, second = open_log(), open_log()
    message = HumanMessage("Hi", id="m1")
    entry = say(first, ANA, message)
    say(second, ANA, "more")
    assert say(second, ANA, message) == entry
    say(first, ANA, HumanMessage("Ho", id="m2"))
    say(second, ANA, HumanMessage("Ho", id="m2"))
    assert list_texts(first.entries(ANA)) == ["Hi", "more", "Ho"]


def test_a_writer_gives_up_after_a_while(log, client, monkeypatch):
    monkeypatch.setattr("langchain_convmem.logs.dynamodb.client.choose_pause_s", lambda _: 0.0)
    writing = []

    def act(**_):
        if not writing:
            writing.append("faster")
            say(log, ANAS_OTHER, "faster")
            writing.clear()

    client.meta.events.register("before-call.dynamodb.PutItem", act)
    with pytest.raises(LogUnavailableError, match=rf"ana.*{log.table_name}") as caught:
        say(log, ANA, "Hi")
    assert caught.value.thread_id == "t1"
    assert log.entries(ANA) == []


def test_throttled_calls_are_repeated_with_growing_pauses(faulty):
    faulty.server.faults = {"PutItem": [THROTTLED] * 4, "Query": [THROTTLED] * 2}
    entry = say(faulty.log, ANA, "Hi")
    assert faulty.log.entries(ANA) == [entry]
    assert len(faulty.pauses) == 6
    assert faulty.server.seen["PutItem"] == 5


@pytest.mark.parametrize("name", [THROTTLED, "ThrottlingException", "InternalServerError"])
def test_what_stays_throttled_is_raised_and_can_be_repeated(faulty, name):
    faulty.server.faults["PutItem"] = [name] * 50
    with pytest.raises(LogUnavailableError) as caught:
        say(faulty.log, ANA, "Hi")
    assert caught.value.is_retryable
    assert isinstance(caught.value, ConnectionError)
    for said in ("put_item", repr(faulty.log.table_name), "'U#", "'E#000000000001'", name):
        assert said in str(caught.value)
    assert 2 <= faulty.server.seen["PutItem"] <= 20
    faulty.server.faults.clear()
    assert faulty.log.entries(ANA) == []
    say(faulty.log, ANA, "Hi")
    assert list_texts(faulty.log.entries(ANA)) == ["Hi"]


def test_writes_that_were_left_undone_are_done(faulty):
    faulty.server.faults["BatchWriteItem"] = ["half"] * 4
    large = "".join(map(str, range(600_000)))
    say(faulty.log, ANA, large)
    assert list_texts(faulty.log.entries(ANA)) == [large]
    assert faulty.server.seen["BatchWriteItem"] == 5
    assert len(faulty.pauses) == 4


@pytest.mark.parametrize("times", [1, 50])
def test_what_is_written_is_written_once_where_its_answer_is_lost(faulty, times):
    log = faulty.log

    def losing(call):
        faulty.server.faults["PutItem"] = ["lost"] * times
        found = call()
        faulty.server.faults.clear()
        return found

    first = losing(lambda: say(log, ANA, "Yes"))
    second = say(log, ANA, "Yes")
    assert log.entries(ANA) == [first, second]
    losing(lambda: log.annotate(ANA, first.id, attributes=["seen"]))
    assert [one.metadata.attributes for one in log.entries(ANA)] == [("seen",), ()]
    document = losing(lambda: log.set_state(ANA, "lease", "mine", expected=None))
    assert document == log.get_state(ANA, "lease")
    assert document is not None


def test_forgetting_goes_on_where_it_broke_off(faulty):
    for number in range(40):
        say(faulty.log, ANA, f"line {number}")
    before = faulty.log.changes(ANA.owner).generation
    faulty.server.faults["BatchWriteItem"] = ["half", *["ThrottlingException"] * 50]
    with pytest.raises(LogUnavailableError):
        faulty.log.forget(ANA)
    faulty.server.faults.clear()
    faulty.log.forget(ANA)
    assert faulty.log.entries(ANA) == []
    assert faulty.log.changes(ANA.owner).generation != before


@pytest.mark.parametrize("fault", ["cut", "empty"])
@pytest.mark.parametrize("operation", ["Query", "Scan", "BatchWriteItem", "DescribeTable"])
def test_an_answer_that_is_cut_is_no_answer(faulty, operation, fault):
    log, entry = faulty.log, say(faulty.log, ANA, HumanMessage("Hi", id="m1"))
    calls = {
        "Query": [
            lambda: log.entries(ANA),
            lambda: log.changes(ANA.owner),
            lambda: log.find(ANA, ["m1"]),
            lambda: log.threads("ana"),
            lambda: log.get_state(ANA, "note"),
            lambda: log.annotate(ANA, entry.id, attributes=["seen"]),
            lambda: log.forget(ANA),
            lambda: say(log, ANA, "more"),
        ],
        "Scan": [log.owners, lambda: log.threads(None)],
        "BatchWriteItem": [
            lambda: say(log, ANA, "x" * 500_000),
            lambda: log.delete_state(ANA, "note"),
        ],
        "DescribeTable": [log.create_table],
    }
    for call in calls[operation]:
        faulty.server.faults = {operation: [fault]}
        with pytest.raises(LogUnavailableError, match=log.table_name):
            call()
    faulty.server.faults.clear()
    assert log.entries(ANA) == [entry]
