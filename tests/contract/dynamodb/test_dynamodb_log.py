import json
import re
from functools import partial
from pathlib import Path

import pytest
from dynamodb_servers import counted, items, new_client, new_table_name, open_dynamodb_log, writes
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from recall_rows_contract import RecallRowsContract

from langchain_convmem import ConversationMemory
from langchain_convmem.cli import main
from langchain_convmem.errors import ConfigError, LogError
from langchain_convmem.logs.dynamodb import DynamoDBLog
from langchain_convmem.logs.dynamodb.items import compute_number
from langchain_convmem.records import ThreadKey
from langchain_convmem.testing.log_contract import ANA, MessageLogContract, list_texts, say, say_all

pytestmark = pytest.mark.sockets


class TestDynamoDBLog(RecallRowsContract, MessageLogContract):
    persistent = True
    several_handles = True
    several_processes = True

    @pytest.fixture(autouse=True)
    def _server(self, endpoint):
        self.endpoint = endpoint

    def make_log(self, tmp_path):
        make = partial(open_dynamodb_log, new_table_name(), self.endpoint)
        make().create_table()
        return make


def test_making_a_table_twice_does_nothing(client):
    log = DynamoDBLog(new_table_name(), client=client)
    assert log.create_table()
    say(log, ANA, "Hi")
    assert not log.create_table()
    assert list_texts(log.entries(ANA)) == ["Hi"]


def test_a_table_of_another_layout_is_refused(client):
    name = new_table_name()
    client.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "SessionId", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "SessionId", "KeyType": "HASH"}],
    )
    with pytest.raises(LogError, match=rf"failed on table '{name}'.*make sure that create_table"):
        say(DynamoDBLog(name, client=client), ANA, "Hi")


def test_a_document_that_the_service_does_not_take_is_refused_with_the_limit(log):
    with pytest.raises(LogError, match="400 KB"):
        log.set_state(ANA, "note", "x" * 450_000, expected=None)
    assert log.get_state(ANA, "note") is None


def test_a_given_client_stays_the_callers(open_log, client):
    open_log().close()
    assert client.list_tables()["TableNames"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"table_name": ""}, "table_name"),
        ({"table_name": "log", "client": object(), "region_name": "eu-west-1"}, "region_name"),
        ({"table_name": "log"}, "region_name=None"),
        ({"table_name": "log", "region_name": "x", "endpoint_url": "nowhere"}, "'nowhere'"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments, said, monkeypatch, tmp_path):
    pytest.importorskip("boto3", reason="boto3 is not installed")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    with pytest.raises(ConfigError, match=said):
        DynamoDBLog(**arguments)


def test_a_table_is_verified_by_its_address(log, endpoint, monkeypatch, client, capsys):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "none")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "none")
    address = f"dynamodb://{log.table_name}?region=eu-central-1&endpoint={endpoint}"
    first = say(log, ANA, "one")
    say(log, ANA, "two")
    assert main(["db", "verify", "--db", address]) == 0
    assert capsys.readouterr().out.endswith("2 entries, 1 thread, 1 owner: no problems\n")
    number = f"{compute_number(first.position):012d}"
    [item] = [item for key, item in items(log, client).items() if key[1].endswith(number)]
    item["rows"]["S"] += " "
    client.put_item(TableName=log.table_name, Item=item)
    assert main(["db", "verify", "--db", address, "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    [found] = report["damaged"]
    assert (found["entry_id"], found["what"]) == (first.id, "it does not match its checksum")
    assert (report["ok"], len(report["problems"])) == (False, 1)


ANAS_OTHER = ThreadKey("ana", "t2")
DOCS = Path(__file__).parents[3] / "docs" / "how_to" / "dynamodb.md"


@pytest.mark.parametrize("recall", [True, False])
def test_a_turn_costs_two_writes(open_log, client, recall):
    log = open_log()
    memory = ConversationMemory(log=log, embeddings=DeterministicFakeEmbedding(size=8))
    chain = memory.wrap(
        RunnableLambda(lambda _: AIMessage("On level three.", id=None)), recall=recall
    )
    calls = counted(client)
    for number in range(3):
        before = writes(calls)
        config = {"configurable": {"user_id": "ana", "thread_id": "t1"}}
        chain.invoke(f"Where did I park on day {number}?", config)
        assert writes(calls) - before == 2
    assert len(log.entries(ANA)) == 6


def test_a_batch_of_any_number_of_entries_is_one_write(log, client):
    calls = counted(client)
    say_all(log, ANA, [f"line {number}" for number in range(400)])
    assert writes(calls) == 1
    assert len(log.entries(ANA)) == 400


def test_an_append_costs_the_same_however_long_the_thread(log, client):
    calls, costs = counted(client), []
    for length in (5, 200):
        say_all(log, ANA, [HumanMessage("x", id=f"{length}-{n}") for n in range(length)])
        say(log, ANAS_OTHER, "elsewhere")
        calls.clear()
        say(log, ANA, AIMessage("reply", id=f"reply to {length}"))
        costs.append(dict(calls))
    assert costs[0] == costs[1] == {"Query": 2, "PutItem": 1}


def test_only_the_newest_batches_are_read_for_the_last_entries(log, client):
    for number in range(30):
        say_all(log, ANA, [f"{number} a", f"{number} b"])
    found = []
    client.meta.events.register(
        "after-call.dynamodb.Query", lambda parsed, **_: found.append(parsed["Count"])
    )
    assert list_texts(log.entries(ANA, last=3)) == ["28 b", "29 a", "29 b"]
    assert sum(found) <= 3


def test_what_is_not_in_a_thread_is_found_out_without_reading_it(open_log, client):
    log = open_log()
    entries = say_all(log, ANA, [HumanMessage("x" * 500, id=f"m{number}") for number in range(50)])
    say(log, ANAS_OTHER, HumanMessage("elsewhere", id="elsewhere"))
    calls, found = counted(client), []
    client.meta.events.register(
        "after-call.dynamodb.Query", lambda parsed, **_: found.append(parsed["ScannedCount"])
    )
    assert log.find(ANA, ["unknown", "elsewhere"]) == []
    assert (dict(calls), sum(found)) == ({"Query": 2}, 1), "the newest number, and what is new"
    calls.clear()
    assert log.find(ANA, ["m7", "m3"]) == [entries[3], entries[7]]
    assert dict(calls) == {"Query": 2}
    calls.clear()
    assert log.find(ANA, []) == []
    assert dict(calls) == {}
    assert open_log().find(ANA, ["m49"]) == [entries[49]]


def test_the_documented_rights_are_those_that_are_used(endpoint):
    client = new_client(endpoint)
    calls = counted(client)
    log = DynamoDBLog(new_table_name(), client=client)
    log.create_table()
    made = set(calls)
    calls.clear()
    entry, _ = say_all(log, ANA, ["Hi", "x" * 500_000])
    log.annotate(ANA, entry.id, attributes=["seen"])
    log.changes(ANA.owner)
    log.threads(None)
    log.owners()
    log.find(ANA, [entry.id])
    log.set_state(ANA, "buffer", 1, expected=None)
    log.get_state(ANA, "buffer")
    log.delete_state(ANA, "buffer")
    log.forget(ANA, [entry.id])
    log.forget(ANA)
    log.forget(ANA.owner)
    [policy] = re.findall(r"```json\n(.*?)```", DOCS.read_text(), re.DOTALL)
    rights = {
        statement["Sid"]: {action.removeprefix("dynamodb:") for action in statement["Action"]}
        for statement in json.loads(policy)["Statement"]
    }
    assert rights == {"UseTheLog": set(calls), "MakeTheTable": made}
    for action in rights["UseTheLog"] | rights["MakeTheTable"]:
        assert action in DynamoDBLog.__doc__
