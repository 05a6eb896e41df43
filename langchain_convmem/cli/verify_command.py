"""`convmem verify`."""

from __future__ import annotations

import argparse
from contextlib import closing

from langchain_convmem.cli.log_files import existing_file
from langchain_convmem.cli.terminal import Terminal
from langchain_convmem.logs.sqlite import VerifyReport

__all__ = ["run"]


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Check the file; print each problem and what was checked; exit with 1 if there are any."""
    with closing(existing_file(arguments.database)) as log, terminal.progress() as stage:
        report = log.verify(progress=stage("checking"))
    for problem in report.problems:
        terminal.line(problem)
    if report.more:
        terminal.line(f"and {report.more} more problems")
    terminal.line(f"{arguments.database}: {_sentence(report)}")
    return 0 if report.ok else 1


def _sentence(report: VerifyReport) -> str:
    found = len(report.problems) + report.more
    return (
        f"{report.entries} entries, {report.threads} threads, {report.owners} owners, "
        f"{report.documents} documents, {report.segments} index rows: "
        f"{'no problems' if report.ok else f'{found} problems'}"
    )
