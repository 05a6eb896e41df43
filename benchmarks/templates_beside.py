"""How fast this version renders chat templates, beside another version of this package.

    python -m benchmarks.templates_beside CHECKOUT [--rounds 9] [--messages 100] [--json]

A checkout is a folder that holds the other version, such as `git worktree add` makes one. Each
version runs in a process of its own and renders the same chat by the same templates: those of the
package, and those of TRL's wheel (see `tests.fuzz.chat_templates`). They take turns, so that a
machine that becomes busier slows both alike. Texts must be equal.

Figures: the processor's milliseconds of the fastest round, and what this version takes of the other
one. Bar: at most 1.2 in the median of the templates, and over all of them together.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import IO, Any, cast

BAR = 1.2
CACHE = Path("build/templates")
_OURS = Path(__file__).resolve().parent.parent


def serve(messages: int) -> None:
    """Render by each template whose source comes in; answer with the time and a digest."""
    from langchain_convmem import ChatTemplate
    from langchain_convmem.errors import ChatTemplateError

    chat = [
        {
            "role": "assistant" if number % 2 else "user",
            "content": f"Message {number} of a long chat. " + "Some words. " * 22,
        }
        for number in range(messages + 1 - messages % 2)
    ]
    made: dict[str, ChatTemplate] = {}
    for line in sys.stdin:
        source = json.loads(line)
        template = made.setdefault(source, ChatTemplate(source))
        start = time.thread_time()
        try:
            text = template.render(chat)
        except ChatTemplateError as error:
            text = error.reason
        taken = (time.thread_time() - start) * 1e3
        print(json.dumps([taken, hashlib.sha256(text.encode()).hexdigest()]), flush=True)


def measure_both(other: Path, rounds: int, messages: int) -> list[dict[str, Any]]:
    """Return what each template takes in both versions."""
    from tests.fuzz.reference_templates import builtin_templates, real_templates

    CACHE.mkdir(parents=True, exist_ok=True)
    sources = {**builtin_templates(), **real_templates(CACHE)}
    versions = [_start(folder, messages) for folder in (_OURS, other)]
    rows = []
    for name, source in sources.items():
        times: list[list[float]] = [[], []]
        digests = set()
        for _ in range(rounds):
            for version, taken in zip(versions, times, strict=True):
                milliseconds, digest = _ask(version, source)
                taken.append(milliseconds)
                digests.add(digest)
        ours, theirs = (min(taken) for taken in times)
        rows.append(
            {
                "template": name,
                "ours_ms": round(ours, 3),
                "other_ms": round(theirs, 3),
                "ratio": round(ours / theirs, 3),
                "equal": len(digests) == 1,
            }
        )
    for version in versions:
        cast(IO[str], version.stdin).close()
        version.wait()
    return rows


def _start(folder: Path, messages: int) -> subprocess.Popen[str]:
    command = [sys.executable, str(_OURS / "benchmarks" / "templates_beside.py"), str(folder)]
    command += ["--serve", "--messages", str(messages)]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)


def _ask(version: subprocess.Popen[str], source: str) -> tuple[float, str]:
    sent, answers = cast(IO[str], version.stdin), cast(IO[str], version.stdout)
    sent.write(json.dumps(source) + "\n")
    sent.flush()
    milliseconds, digest = json.loads(answers.readline())
    return milliseconds, digest


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code, which is 1 when a bar is missed."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.templates_beside",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("checkout", type=Path, help="a folder of the other version")
    parser.add_argument("--rounds", type=int, default=9, help="renders of each template")
    parser.add_argument("--messages", type=int, default=100, help="of the chat")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        serve(options.messages)
        return 0
    rows = measure_both(options.checkout.resolve(), options.rounds, options.messages)
    middle = median(row["ratio"] for row in rows)
    whole = sum(row["ours_ms"] for row in rows) / sum(row["other_ms"] for row in rows)
    report = {"rows": rows, "median": round(middle, 3), "together": round(whole, 3)}
    print(json.dumps(report, indent=2) if options.json else _table(report))
    is_equal = all(row["equal"] for row in rows)
    return 0 if is_equal and max(middle, whole) <= BAR else 1


def _table(report: dict[str, Any]) -> str:
    rows = sorted(report["rows"], key=lambda row: row["ratio"])
    lines = [f"{'template':<36}{'ours, ms':>10}{'other':>10}{'ratio':>8}"]
    for row in rows:
        note = "" if row["equal"] else "  TEXTS DIFFER"
        lines.append(
            f"{row['template']:<36}{row['ours_ms']:>10.3f}{row['other_ms']:>10.3f}"
            f"{row['ratio']:>8.3f}{note}"
        )
    lines.append(
        f"{len(rows)} templates: median {report['median']:.3f}, together {report['together']:.3f}; "
        f"bar: at most {BAR}"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
