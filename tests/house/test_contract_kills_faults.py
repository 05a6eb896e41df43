"""The log contract bites: seeded faults are found, each by a test that sound logs pass.

How many of them were found is the last line of the run: `pytest tests/house`.
"""

from __future__ import annotations

import inspect
from functools import partial

import faulty_ids
import faulty_reading
import faulty_transactions
import pytest
from faulty_logs import FAULTS

from langchain_convmem.logs import InMemoryLog, SQLiteLog
from langchain_convmem.testing.log_contract import MessageLogContract


def run(log_class, test, tmp_path):
    """Run one test of the contract on logs of a class, as pytest would."""

    class Contract(MessageLogContract):
        persistent = several_handles = several_processes = issubclass(log_class, SQLiteLog)

        def make_log(self, tmp_path):
            if issubclass(log_class, SQLiteLog):
                return partial(log_class, tmp_path / "log.db")
            log = log_class()
            return lambda: log

    opened = []
    make = Contract().make_log(tmp_path)

    def open_log():
        opened.append(make())
        return opened[-1]

    given = {"log": open_log, "open_log": lambda: open_log, "tmp_path": lambda: tmp_path}
    wanted = list(inspect.signature(getattr(MessageLogContract, test)).parameters)[1:]
    try:
        getattr(Contract(), test)(*(given[name]() for name in wanted))
    finally:
        for log in opened:
            log.close()


def base_of(fault):
    return SQLiteLog if issubclass(fault, SQLiteLog) else InMemoryLog


def name_of(part):
    return part.__name__ if isinstance(part, type) else part


@pytest.mark.parametrize(("fault", "test"), FAULTS, ids=name_of)
def test_a_seeded_fault_is_found(fault, test, tmp_path, record_property):
    record_property("seeded fault", fault.__name__)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        run(fault, test, tmp_path)


@pytest.mark.parametrize(
    ("log_class", "test"),
    sorted({(base_of(fault), test) for fault, test in FAULTS}, key=str),
    ids=name_of,
)
def test_the_log_without_the_fault_passes_the_same_test(log_class, test, tmp_path):
    run(log_class, test, tmp_path)


def test_there_are_enough_faults():
    assert len({fault for fault, _ in FAULTS}) >= 100
    assert {fault.__module__ for fault, _ in FAULTS} == {
        "faulty_logs",
        faulty_ids.__name__,
        faulty_reading.__name__,
        faulty_transactions.__name__,
    }
    assert all(issubclass(fault, (InMemoryLog, SQLiteLog)) for fault, _ in FAULTS)
