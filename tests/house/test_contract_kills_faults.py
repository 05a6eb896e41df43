"""The log contract bites: seeded faults are found, each by a test that sound logs pass."""

from __future__ import annotations

import inspect

import pytest
from faulty_logs import FAULTS

from langchain_convmem.logs import InMemoryLog, SQLiteLog
from langchain_convmem.testing.log_contract import MessageLogContract


def run(log_class, test, tmp_path):
    """Run one test of the contract on logs of a class, as pytest would."""

    class Contract(MessageLogContract):
        persistent = several_handles = issubclass(log_class, SQLiteLog)

        def make_log(self, tmp_path):
            if issubclass(log_class, SQLiteLog):
                return lambda: log_class(tmp_path / "log.db")
            log = log_class()
            return lambda: log

    opened = []
    make = Contract().make_log(tmp_path)

    def open_log():
        opened.append(make())
        return opened[-1]

    wanted = inspect.signature(getattr(MessageLogContract, test)).parameters
    try:
        getattr(Contract(), test)(open_log() if "log" in wanted else open_log)
    finally:
        for log in opened:
            log.close()


def base_of(fault):
    return SQLiteLog if issubclass(fault, SQLiteLog) else InMemoryLog


def name_of(part):
    return part.__name__ if isinstance(part, type) else part


@pytest.mark.parametrize(("fault", "test"), FAULTS, ids=name_of)
def test_a_seeded_fault_is_found(fault, test, tmp_path):
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
    assert len({fault for fault, _ in FAULTS}) >= 20
    assert all(issubclass(fault, (InMemoryLog, SQLiteLog)) for fault, _ in FAULTS)
