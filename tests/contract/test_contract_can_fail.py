"""The contract of logs is one that a stranger can use, and one that a wrong log does not keep."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from toy_log import FAULTS, ToyLog

from langchain_convmem.testing.log_contract import MessageLogContract

PROJECT = Path(__file__).resolve().parents[2]

MODULE = """
from langchain_convmem.testing.log_contract import MessageLogContract
from toy_log import FAULTS

def make_contract(kind):
    def make_log(self, tmp_path):
        log = kind()
        return lambda: log
    return type(f"Test{kind.__name__}", (MessageLogContract,), {"make_log": make_log})

for kind in FAULTS:
    globals()[f"Test{kind.__name__}"] = make_contract(kind)
"""


class TestToyLog(MessageLogContract):
    def make_log(self, tmp_path):
        log = ToyLog()
        return lambda: log


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    """Return the tests that wrong logs fail, by class; run as a stranger runs them."""
    folder = tmp_path_factory.mktemp("wrong")
    (folder / "test_wrong.py").write_text(MODULE)
    paths = f"pythonpath = {PROJECT} {PROJECT / 'tests' / 'support'}"
    (folder / "pytest.ini").write_text(f"[pytest]\n{paths}\n")
    command = [sys.executable, "-m", "pytest", "-q", "-rf", "--tb=no", "--assert=plain"]
    command += [f"test_wrong.py::Test{kind.__name__}::{test}" for kind, test in FAULTS.items()]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 1, run.stdout + run.stderr
    return set(re.findall(r"^FAILED \S*::Test(\w+)::(\w+)", run.stdout, re.MULTILINE))


@pytest.mark.parametrize(("kind", "test"), FAULTS.items())
def test_a_wrong_log_fails_the_test_of_what_it_does_wrong(failed, kind, test):
    assert (kind.__name__, test) in failed
