"""The command line `convmem`: parses, prints, exits; nothing else. Needs the extra `cli`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec

from langchain_convmem.errors import MissingExtraError

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; see `app.main`.

    Args:
        argv: The words after the program's name; None takes those of the process.
    """
    if find_spec("click") is None:
        error = MissingExtraError.build("the command line convmem", "cli")
        print(f"convmem: {error}", file=sys.stderr)
        return 1
    from langchain_convmem.cli.app import main as run

    return run(argv)
