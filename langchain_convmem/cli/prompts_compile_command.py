"""`convmem prompts compile`."""

from __future__ import annotations

import argparse
from pathlib import Path

from langchain_convmem.cli.prompts_reading import ReadPrompt, fails, finding_lines, read_prompt
from langchain_convmem.cli.prompts_writing import SUFFIXES, is_other_file, write_compiled
from langchain_convmem.cli.terminal import Terminal
from langchain_convmem.errors import ConfigError

__all__ = ["run"]


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Compile each file beside its source; where one has errors, nothing is written at all.

    Raises:
        ConfigError: If something else is where a compiled file belongs, or cannot be written.
    """
    forms = list(SUFFIXES) if arguments.form == "both" else [arguments.form]
    read = [read_prompt(path, arguments.functions) for path in arguments.files]
    findings = [finding for one in read for finding in one.findings]
    terminal.lines(finding_lines(findings))
    if fails(findings, strict=arguments.strict):
        terminal.note("nothing was compiled")
        return 1
    jobs = [(one, _targets(one, forms)) for one in read]
    for one, targets in jobs:
        if one.prompt is not None:
            write_compiled(one.prompt, targets)
        for target in targets:
            terminal.line(f"{target}: compiled from {one.path}")
    return 0


def _targets(read: ReadPrompt, forms: list[str]) -> list[Path]:
    targets = [Path(read.path).with_suffix(SUFFIXES[form]) for form in forms]
    for target in targets:
        if target == Path(read.path):
            raise ConfigError(f"{target} is a compiled prompt; name its source")
        if is_other_file(target):
            raise ConfigError(f"{target} is there already and no compiled prompt; move it away")
    return targets
