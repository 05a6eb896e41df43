import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
from postgres_server import UNPRIVILEGED, new_schema, running_server, wait_until_it_answers

from langchain_convmem.logs.postgres import PostgresLog
from langchain_convmem.testing.log_contract import MessageLogContract

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")

pytestmark = pytest.mark.postgres

SETTINGS = """
[databases]
postgres = host={server}
[pgbouncer]
pool_mode = transaction
default_pool_size = 3
server_round_robin = 1
listen_addr =
listen_port = 5432
unix_socket_dir = {directory}
auth_type = trust
auth_file = {directory}/users
"""


@pytest.fixture(scope="module")
def pooler():
    """Yield the dsn of a PgBouncer that hands each transaction to another server connection."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("PgBouncer is not installed")
    server = running_server()
    with tempfile.TemporaryDirectory(prefix="convmem-pb-") as name:
        directory = Path(name)
        (directory / "users").write_text('"postgres" ""\n')
        settings = SETTINGS.format(server=server.directory, directory=directory)
        (directory / "settings").write_text(settings)
        account = {}
        if os.geteuid() == 0:  # it refuses to run as root
            directory.chmod(0o755)
            shutil.chown(directory, UNPRIVILEGED)
            account = {"user": UNPRIVILEGED}
        with (directory / "log").open("wb") as log:
            process = subprocess.Popen(
                [program, directory / "settings"],
                stdout=log,
                stderr=log,
                start_new_session=True,
                **account,
            )
        dsn = f"host={directory} user=postgres dbname=postgres"
        try:
            wait_until_it_answers(dsn, process, directory / "log")
            yield dsn
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)


class TestPostgresLogBehindPgBouncer(MessageLogContract):
    persistent = True
    several_handles = True

    @pytest.fixture(autouse=True)
    def _pooler(self, pooler):
        self.dsn = pooler

    def make_log(self, tmp_path):
        schema = new_schema()
        return lambda: PostgresLog(self.dsn, schema=schema)


def test_the_pooler_changes_server_connections_between_transactions(pooler):
    """Or the contract behind it would show nothing."""
    with psycopg.connect(pooler, autocommit=True, prepare_threshold=None) as connection:
        pids = {connection.execute("SELECT pg_backend_pid()").fetchone() for _ in range(12)}
        holders = [psycopg.connect(pooler, prepare_threshold=None) for _ in range(2)]
        for holder in holders:
            pids.add(holder.execute("SELECT pg_backend_pid()").fetchone())
        for holder in holders:
            holder.close()
        pids |= {connection.execute("SELECT pg_backend_pid()").fetchone() for _ in range(12)}
    assert len(pids) > 1
