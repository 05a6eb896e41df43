"""`DynamoDBLog` keeps the contract on dynalite too, whose checks are stricter than moto's.

It needs node and dynalite: `npm install --no-save --prefix build/node dynalite@4`.
"""

import shutil
import socket
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("boto3", reason="boto3 is not installed")

from dynamodb_servers import new_client, new_table_name  # behind the check that boto3 is there

from langchain_convmem.logs.dynamodb import DynamoDBLog
from langchain_convmem.testing.log_contract import MessageLogContract

INSTALLED = Path(__file__).parents[2] / "build/node/node_modules/.bin/dynalite"
DYNALITE = shutil.which("dynalite") or (str(INSTALLED) if INSTALLED.exists() else None)

pytestmark = [
    pytest.mark.node,
    pytest.mark.sockets,
    pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed"),
    pytest.mark.skipif(
        DYNALITE is None,
        reason="dynalite is missing: npm install --no-save --prefix build/node dynalite@4",
    ),
]


@pytest.fixture(scope="module")
def endpoint():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [DYNALITE, "--host", "127.0.0.1", "--port", str(port), "--createTableMs", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert "listening" in server.stdout.readline()
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


class TestDynamoDBLogOnDynalite(MessageLogContract):
    persistent = True
    several_handles = True

    @pytest.fixture(autouse=True)
    def _server(self, endpoint):
        self.endpoint = endpoint

    def make_log(self, tmp_path):
        name, client = new_table_name(), new_client(self.endpoint)
        DynamoDBLog(name, client=client).create_table()
        return lambda: DynamoDBLog(name, client=client)
