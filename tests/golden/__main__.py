"""Views of random threads, to be compared with stored digests, or between two checkouts.

    python -m tests.golden                 # names what differs from the digests; exit code 1 if any
    python -m tests.golden --write DIR     # writes the views themselves, a file a thread
    python -m tests.golden --digests       # stores the digests of today's views

To see what a change did: write the views of both checkouts into folders, and `diff -r` them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.golden.views import DIGESTS, SEEDS, digest, find_differences, render

match sys.argv[1:]:
    case ["--write", folder]:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for seed in SEEDS:
            text = json.dumps(render(seed), indent=1, sort_keys=True, ensure_ascii=False)
            Path(folder, f"{seed:03}.json").write_text(text, "utf-8", "backslashreplace")
    case ["--digests"]:
        stored = {seed: " ".join(map(digest, render(seed).values())) for seed in SEEDS}
        DIGESTS.write_text(json.dumps(stored, indent=0) + "\n")
    case []:
        different = [line for seed in SEEDS for line in find_differences(seed)]
        sys.exit("\n".join(different) or 0)
    case _:
        sys.exit(__doc__)
