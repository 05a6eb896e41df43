"""The command line: `python -m benchmarks.personal`."""

from __future__ import annotations

from benchmarks.personal.running import main

if __name__ == "__main__":
    raise SystemExit(main())
