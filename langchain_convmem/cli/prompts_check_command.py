"""`convmem prompts check`."""

from __future__ import annotations

import argparse

from langchain_convmem.cli.prompts_dialogue import run_dialogue
from langchain_convmem.cli.prompts_reading import (
    fails,
    finding_data,
    finding_lines,
    read_prompt,
    verdict,
)
from langchain_convmem.cli.terminal import Terminal
from langchain_convmem.errors import ConfigError

__all__ = ["run"]


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Print all findings of the files; exit with 1 if there are errors."""
    if arguments.interactive:
        return run_dialogue(arguments, terminal)
    if not arguments.files:
        raise ConfigError("name a prompt file, or pass --interactive to be asked for one")
    read = [read_prompt(path, arguments.functions) for path in arguments.files]
    findings = [finding for one in read for finding in one.findings]
    if arguments.json:
        terminal.data(finding_data(findings))
    else:
        terminal.lines(finding_lines(findings))
        what = arguments.files[0] if len(read) == 1 else f"{len(read)} files"
        terminal.line(verdict(what, findings))
    return int(fails(findings, strict=arguments.strict))
