import re
import subprocess
import sys
from pathlib import Path

import pytest
from wrong_logs import WRONG, ListLog

from langchain_convmem.testing.log_contract import MessageLogContract

PROJECT = Path(__file__).resolve().parents[2]

MODULE = """
from langchain_convmem.testing.log_contract import MessageLogContract
from wrong_logs import WRONG, ListLog

def make_contract(wrong, method):
    def make_log(self, tmp_path):
        log = type("WrongLog", (ListLog,), {method: wrong})()
        return lambda: log
    return type("Test", (MessageLogContract,), {"make_log": make_log})

for wrong, method, _ in WRONG:
    globals()[f"Test_{wrong.__name__}"] = make_contract(wrong, method)
"""


class TestListLog(MessageLogContract):
    def make_log(self, tmp_path):
        log = ListLog()
        return lambda: log


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    """Return the tests that wrong logs fail, by what is wrong; run as a stranger runs them."""
    folder = tmp_path_factory.mktemp("wrong")
    (folder / "test_wrong.py").write_text(MODULE)
    support, examples = PROJECT / "tests" / "support", PROJECT / "examples"
    paths = f"pythonpath = {PROJECT} {support} {examples}"
    (folder / "pytest.ini").write_text(f"[pytest]\n{paths}\n")
    command = [sys.executable, "-m", "pytest", "-q", "-rf", "--tb=no", "-p", "no:cacheprovider"]
    command += [f"test_wrong.py::Test_{wrong.__name__}::test_{test}" for wrong, _, test in WRONG]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 1, run.stdout + run.stderr
    return set(re.findall(r"^FAILED \S*::Test_(\w+)::test_(\w+)", run.stdout, re.MULTILINE))


@pytest.mark.parametrize(("wrong", "method", "test"), WRONG)
def test_a_wrong_log_fails_the_test_of_what_it_does_wrong(failed, wrong, method, test):
    assert (wrong.__name__, test) in failed
