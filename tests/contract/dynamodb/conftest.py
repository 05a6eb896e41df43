from types import SimpleNamespace

import pytest
from dynamodb_servers import FaultyServer, moto_server, new_client, new_table_name

from langchain_convmem.logs.dynamodb import DynamoDBLog


@pytest.fixture(scope="session")
def endpoint():
    """Address of a server."""
    with moto_server() as url:
        yield url


@pytest.fixture
def client(endpoint):
    """A client of the server."""
    return new_client(endpoint)


@pytest.fixture
def open_log(client):
    """Open handles on one new table, all with the same client."""
    name = new_table_name()
    DynamoDBLog(name, client=client).create_table()
    return lambda **options: DynamoDBLog(name, client=client, **options)


@pytest.fixture
def log(open_log):
    """A log that holds nothing."""
    return open_log()


@pytest.fixture
def faulty(endpoint, monkeypatch, open_log):
    """A log with a client of its own, behind a server that fails as it is told; nobody sleeps."""
    name = open_log().table_name
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "none")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "none")
    pauses = []
    monkeypatch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=pauses.append))

    def choose_none(attempt):
        pauses.append(attempt)
        return 0.0

    monkeypatch.setattr("langchain_convmem.logs.dynamodb.client.choose_pause_s", choose_none)
    with (
        FaultyServer(endpoint) as server,
        DynamoDBLog(name, region_name="eu-central-1", endpoint_url=server.url) as log,
    ):
        yield SimpleNamespace(log=log, server=server, pauses=pauses)
