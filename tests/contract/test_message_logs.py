import sqlite3
from contextlib import closing
from functools import partial

import pytest
from list_log import ListLog
from recall_rows_contract import RecallRowsContract

from langchain_convmem.logs import InMemoryLog, SQLiteLog
from langchain_convmem.testing.log_contract import MessageLogContract


class TestInMemoryLog(RecallRowsContract, MessageLogContract):
    def make_log(self, tmp_path):
        log = InMemoryLog()
        return lambda: log


class TestListLog(MessageLogContract):
    """The log of the page "Your own log"."""

    def make_log(self, tmp_path):
        log = ListLog()
        return lambda: log


class TestSQLiteLog(RecallRowsContract, MessageLogContract):
    persistent = True
    several_handles = True
    several_processes = True
    removals = ("DELETE FROM entries",)
    alterations = (
        "UPDATE entries SET body = replace(body, 'secret', 'public')",
        "UPDATE entries SET body = body || ' '",
        "UPDATE entries SET body = 'no json'",
        "UPDATE entries SET body = '[]'",
        """UPDATE entries SET body = '{"v":1,"m":{"type":"human"'""",
        """UPDATE entries SET body = '{"v":1,"m":{"type":"tool"}}'""",
        "UPDATE entries SET body = CAST(x'ff' AS TEXT)",
        "UPDATE entries SET body = 7",
        "UPDATE entries SET metadata = '[1]'",
        "UPDATE entries SET turn = x''",
        "UPDATE entries SET turn = x'75' || zeroblob(16)",
        "UPDATE entries SET role = 1",
        "UPDATE entries SET role = 99",
        "UPDATE entries SET id = zeroblob(16)",
        "UPDATE entries SET id = x'00'",
        "UPDATE entries SET id = 'x'",
        "UPDATE entries SET signature = zeroblob(16)",
        "UPDATE entries SET signature = x''",
        "UPDATE entries SET signature = 7",
    )

    def make_log(self, tmp_path):
        self.path = tmp_path / "log.db"
        return partial(SQLiteLog, self.path)

    def alter(self, how, position):
        with closing(sqlite3.connect(self.path, isolation_level=None)) as db:
            db.execute(f"{how} WHERE (place & 4294967295) = ?", (position,))


def test_a_backend_cannot_override_a_contract_test():
    with pytest.raises(TypeError, match="test_a_closed_log_says_so"):

        class Cheating(MessageLogContract):
            def make_log(self, tmp_path):
                return InMemoryLog

            def test_a_closed_log_says_so(self, log):
                """Promise less."""


def test_a_backend_must_say_how_its_log_is_opened():
    class Silent(MessageLogContract):
        pass

    with pytest.raises(TypeError, match="make_log"):
        Silent()
