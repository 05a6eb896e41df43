"""`DynamoDBLog` keeps the contract, on a server on a socket that speaks DynamoDB's protocol."""

from __future__ import annotations

import pytest
from dynamodb_servers import moto_server, new_client, new_table_name

from langchain_convmem.logs.dynamodb import DynamoDBLog
from langchain_convmem.testing.log_contract import MessageLogContract

pytestmark = pytest.mark.sockets


@pytest.fixture(scope="module")
def endpoint():
    with moto_server() as url:
        yield url


class TestDynamoDBLog(MessageLogContract):
    persistent = True
    several_handles = True

    @pytest.fixture(autouse=True)
    def _server(self, endpoint):
        self.endpoint = endpoint

    def make_log(self, tmp_path):
        name, client = new_table_name(), new_client(self.endpoint)
        DynamoDBLog(name, client=client).create_table()
        return lambda: DynamoDBLog(name, client=client)
