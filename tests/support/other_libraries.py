"""Runs what pages show of other libraries: `make migration`, in an environment that has them.

A Redis in this process stands for the server that the pages read, so nothing else is needed.
"""

import os
import sys
import tempfile
import warnings
from pathlib import Path

import redis
from fakeredis import FakeRedis
from pages import OURS, THEIRS, blocks_of, run_page


def main(pages):
    """Run pages: the other libraries' blocks, then ours, each in an empty directory."""
    redis.from_url = FakeRedis.from_url
    warnings.showwarning = _ignore
    for page in [Path(name).resolve() for name in pages]:
        for language, whose in ((THEIRS, "other libraries"), (OURS, "ours")):
            count = sum(block.language == language for block in blocks_of(page))
            with tempfile.TemporaryDirectory() as folder:
                os.chdir(folder)
                run_page(page, language)
                os.chdir(page.parent)
            print(f"{page.name}: {count} blocks of {whose} print what the page shows")  # noqa: T201 - a command's result


def _ignore(*_, **__):
    """Ignore a warning: that these libraries are deprecated is what the pages are about."""


if __name__ == "__main__":
    main(sys.argv[1:])
