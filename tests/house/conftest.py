"""Says at the end of a run how many of the seeded faults each contract has found."""

from __future__ import annotations

import pytest

_CONTRACTS = {"seeded fault": "log contract", "seeded index fault": "index contract"}
"""What is counted, by the property that the tests of faults record."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the counts: a fault is found if every test that should find it did."""
    for name, contract in _CONTRACTS.items():
        found: dict[str, bool] = {}
        for outcome in ("passed", "failed"):
            for report in terminalreporter.getreports(outcome):
                fault = dict(report.user_properties).get(name)
                if fault is not None and report.when == "call":
                    found[fault] = found.get(fault, True) and report.passed
        if found:
            line = f"{contract}: {sum(found.values())} of {len(found)} seeded faults killed"
            terminalreporter.write_line(line)
