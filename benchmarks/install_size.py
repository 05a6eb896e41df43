"""What an installation weighs: the package, what it needs, and the extras, in a new environment.

    python -m benchmarks.install_size [--json]

Each row is a new virtual environment with this checkout installed; sizes are megabytes of the files
in it, without those of pip, and without compiled bytecode.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.ui import format_rows, make_parser, print_report

ROOT = Path(__file__).parents[1]
_INSTALLED = {
    "langchain-convmem": str(ROOT),
    "langchain-convmem[cli]": f"{ROOT}[cli]",
    "langchain-core alone": "langchain-core>=1.7.2,<2",
}


def _install(wanted: str) -> dict[str, float]:
    """Return the megabytes and the distributions of an environment with what is wanted."""
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory) / "env"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
        [target] = home.glob("lib/python*/site-packages")
        command = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python")]
        command += ["install", "--quiet", "--disable-pip-version-check", "--no-compile", wanted]
        subprocess.run(command, check=True)
        size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
        distributions = len(list(target.glob("*.dist-info")))
        return {"megabytes": round(size / 1e6, 1), "distributions": distributions}


def _make_table(report: dict[str, Any]) -> list[str]:
    rows = [(name, *row.values()) for name, row in report.items()]
    return format_rows([("", "MB", "distributions"), *rows])


def main(arguments: Sequence[str] | None = None) -> int:
    """Install, weigh and print."""
    options = make_parser("benchmarks.install_size", __doc__).parse_args(arguments)
    report = {name: _install(wanted) for name, wanted in _INSTALLED.items()}
    return print_report(report, _make_table, as_json=options.json)


if __name__ == "__main__":
    raise SystemExit(main())
