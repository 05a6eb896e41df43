"""Views of random threads, to be compared with stored digests, or between two checkouts.

    python -m tests.golden                 # names what differs from the digests; exit code 1 if any
    python -m tests.golden --write DIR     # writes the views themselves, a file a thread
    python -m tests.golden --digests       # stores the digests of today's views

To see what a change did: write the views of both checkouts into folders, and `diff -r` them.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.golden.views import DIGESTS, SEEDS, digest, find_differences, render


def main() -> int:
    """Do what the command line asks for; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("--write", type=Path, metavar="DIR", help="write the views into DIR")
    parser.add_argument("--digests", action="store_true", help="store the digests of today's views")
    options = parser.parse_args()
    if options.write is not None:
        options.write.mkdir(parents=True, exist_ok=True)
        for seed in SEEDS:
            text = json.dumps(render(seed), indent=1, sort_keys=True, ensure_ascii=False)
            (options.write / f"{seed:03}.json").write_text(text, encoding="utf-8")
        return 0
    if options.digests:
        stored = {seed: " ".join(map(digest, render(seed).values())) for seed in SEEDS}
        DIGESTS.write_text(json.dumps(stored, indent=0) + "\n")
        return 0
    different = [line for seed in SEEDS for line in find_differences(seed)]
    sys.stdout.writelines(f"{line}\n" for line in different)
    return bool(different)


if __name__ == "__main__":
    sys.exit(main())
