"""The index contract bites: seeded faults are found, each by a test that a sound index passes.

How many of them were found is printed at the end of the run: `pytest tests/house`.
"""

from __future__ import annotations

import pytest
from faulty_indexes import FAULTS, PlainIndex
from index_contract import LineIndexContract


def run(index_class, test):
    """Run one test of the contract, with all its parameters, on indexes of a class."""
    contract = type(
        "Contract", (LineIndexContract,), {"make_index": lambda _, dim: index_class(dim)}
    )
    bound = getattr(contract(), test)
    marks = getattr(bound, "pytestmark", [])
    cases = [case for mark in marks if mark.name == "parametrize" for case in mark.args[1]]
    for arguments in [(case,) for case in cases] or [()]:
        bound(*arguments)


def name_of(part):
    return part.__name__ if isinstance(part, type) else part


@pytest.mark.parametrize(("fault", "test"), FAULTS, ids=name_of)
def test_a_seeded_fault_is_found(fault, test, record_property):
    record_property("seeded index fault", fault.__name__)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        run(fault, test)


def test_the_index_without_a_fault_passes_every_test_of_the_contract():
    tests = {name for name in dir(LineIndexContract) if name.startswith("test_")}
    for test in tests:
        run(PlainIndex, test)
    assert {test for _, test in FAULTS} == tests


def test_there_are_enough_faults():
    assert len({fault for fault, _ in FAULTS}) >= 35
