"""The command line: `python -m benchmarks.recall`."""

from __future__ import annotations

from benchmarks.recall.running import main

if __name__ == "__main__":
    raise SystemExit(main())
