"""`convmem copy`."""

from __future__ import annotations

import argparse
from contextlib import closing

from langchain_convmem.cli.terminal import Terminal
from langchain_convmem.errors import ConfigError
from langchain_convmem.logs.addresses import log_name, open_log
from langchain_convmem.moving import CopyReport, copy_log
from langchain_convmem.protocols import MessageLog
from langchain_convmem.records import Owner

__all__ = ["run"]


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Copy from log to log; exit with 1 where the other log holds less in the end."""
    source_name, target_name = log_name(arguments.source), log_name(arguments.target)
    if source_name == target_name:
        raise ConfigError(f"{source_name} cannot be copied into itself")
    with (
        closing(open_log(arguments.source, must_exist=True)) as source,
        closing(open_log(arguments.target)) as target,
        terminal.progress() as stage,
    ):
        report = copy_log(
            source,
            target,
            source_name=source_name,
            owners=_owners(source, arguments.users),
            progress=stage("copying"),
        )
    terminal.line(_sentence(report, target_name))
    for short in report.short:
        where = f"thread {short.key.thread_id!r} of user {short.key.user_id!r}"
        terminal.line(f"{where}: {short.expected} entries, but {short.found} in {target_name}")
    return 1 if report.short else 0


def _owners(source: MessageLog, users: list[str] | None) -> list[Owner] | None:
    """Return the owners that were named; None for everybody."""
    if users is None:
        return None
    unknown = [user for user in users if not source.threads(user)]
    if unknown:
        raise ConfigError(f"nothing is known of the user {unknown[0]!r}; check --user")
    return [Owner(user_id=user) for user in dict.fromkeys(users)]


def _sentence(report: CopyReport, target_name: str) -> str:
    return (
        f"{report.entries} entries, {report.threads} threads, {report.owners} users: "
        f"{report.written} new in {target_name}"
    )
