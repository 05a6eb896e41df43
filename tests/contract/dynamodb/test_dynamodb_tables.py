"""Tables, clients and arguments."""

from __future__ import annotations

import pytest
from dynamodb_servers import new_table_name

from langchain_convmem.errors import ConfigError, LogError, MissingExtraError
from langchain_convmem.logs.dynamodb import DynamoDBLog
from langchain_convmem.testing.log_contract import ANA, list_texts, say

pytestmark = pytest.mark.sockets


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


def test_without_the_driver_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "boto3", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'langchain-convmem\[aws\]'"):
        DynamoDBLog("log", region_name="eu-central-1")
