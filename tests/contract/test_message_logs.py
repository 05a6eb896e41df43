"""The logs that need no server keep the contract; and the contract cannot be cheated."""

from __future__ import annotations

from functools import partial

import pytest

from langchain_convmem.logs import InMemoryLog, SQLiteLog
from langchain_convmem.testing.log_contract import MessageLogContract


class TestInMemoryLog(MessageLogContract):
    def make_log(self, tmp_path):
        log = InMemoryLog()
        return lambda: log


class TestSQLiteLog(MessageLogContract):
    persistent = True
    several_handles = True
    several_processes = True

    def make_log(self, tmp_path):
        return partial(SQLiteLog, tmp_path / "log.db")


def test_a_backend_cannot_override_a_contract_test():
    with pytest.raises(TypeError, match="test_an_empty_batch_does_nothing"):

        class Cheating(MessageLogContract):
            def make_log(self, tmp_path):
                return InMemoryLog

            def test_an_empty_batch_does_nothing(self, log):
                """Promise less."""


def test_a_backend_must_say_how_its_log_is_opened():
    class Silent(MessageLogContract):
        pass

    with pytest.raises(TypeError, match="make_log"):
        Silent()
