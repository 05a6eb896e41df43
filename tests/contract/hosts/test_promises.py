"""The contract is whole: each promise, and each difference, is run, and the page tells them all."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from host_promises import HOST_NAMES, PROMISES, write_tables
from turn_hosts import HOSTS

HERE = Path(__file__).parent
PAGE = HERE.parents[2] / "docs" / "reference" / "hosts.md"


def _decorators() -> Iterator[tuple[str, list[str]]]:
    """Yield the decorators of all tests of the contract: name and arguments."""
    for path in HERE.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                for one in node.decorator_list:
                    if isinstance(one, ast.Call) and isinstance(one.func, ast.Name):
                        yield one.func.id, [ast.literal_eval(arg) for arg in one.args]


def test_every_host_of_the_page_has_a_driver():
    assert tuple(HOSTS) == HOST_NAMES


def test_every_promise_is_run():
    run = [args[0] for name, args in _decorators() if name == "kept_by_all"]
    assert set(run) == PROMISES.keys()


def test_every_difference_is_run():
    run = {
        (args[0], host)
        for name, args in _decorators()
        if name == "differs"
        for host in (args[1:] or PROMISES[args[0]].differs)
    }
    assert run == {(name, host) for name, one in PROMISES.items() for host in one.differs}


def test_every_exception_is_one_of_a_host_and_has_a_reason():
    for promise in PROMISES.values():
        exceptions = {**promise.differs, **promise.meaningless}
        assert exceptions.keys() <= set(HOST_NAMES)
        assert len(exceptions) == len(promise.differs) + len(promise.meaningless)
        assert all(len(reason.split()) > 5 for reason in exceptions.values())


def test_the_page_is_what_the_contract_says():
    page = PAGE.read_text(encoding="utf-8")
    assert page == write_tables(page), "run `make hosts`"
