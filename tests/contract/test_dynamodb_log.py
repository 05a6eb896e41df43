"""`DynamoDBLog` keeps the contract, on a server on a socket that speaks DynamoDB's protocol."""

from __future__ import annotations

from functools import partial

import pytest
from dynamodb_servers import moto_server, new_table_name, open_dynamodb_log
from recall_rows_contract import RecallRowsContract

from langchain_convmem.testing.log_contract import MessageLogContract

pytestmark = pytest.mark.sockets


@pytest.fixture(scope="module")
def endpoint():
    with moto_server() as url:
        yield url


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
