"""Says at the end of a run how many of the seeded faults the log contract has found."""

from __future__ import annotations

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the count: a fault is found if every test that should find it did."""
    found: dict[str, bool] = {}
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            fault = dict(report.user_properties).get("seeded fault")
            if fault is not None and report.when == "call":
                found[fault] = found.get(fault, True) and report.passed
    if found:
        line = f"log contract: {sum(found.values())} of {len(found)} seeded faults killed"
        terminalreporter.write_line(line)
