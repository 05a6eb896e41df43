"""What an installation weighs: the package, what it needs, and the extras, in a new environment.

    python -m benchmarks.install_size [--json]

Each row is a new virtual environment with this checkout installed; sizes are megabytes of the files
in it, without those of pip, and without compiled bytecode.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["main"]

ROOT = Path(__file__).parents[1]
_ROWS = {"langchain-convmem": "", "langchain-convmem[cli]": "[cli]"}
_BESIDE = {"langchain-core alone": "langchain-core>=1.7.2,<2"}


def measure() -> dict[str, Any]:
    """Return megabytes and distributions by what was installed."""
    rows = {name: f"{ROOT}{extra}" for name, extra in _ROWS.items()}
    return {name: _install(wanted) for name, wanted in (rows | _BESIDE).items()}


def _install(wanted: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory) / "env"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
        [target] = home.glob("lib/python*/site-packages")
        command = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python")]
        command += ["install", "--quiet", "--disable-pip-version-check", "--no-compile", wanted]
        subprocess.run(command, check=True)
        size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
        return {
            "megabytes": round(size / 1e6, 1),
            "distributions": len(list(target.glob("*.dist-info"))),
        }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    found = measure()
    if options.json:
        print(json.dumps(found, indent=2))
        return 0
    for name, row in found.items():
        print(f"{name:24} {row['megabytes']:8.1f} MB {row['distributions']:5} distributions")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
