"""What hostile chat templates cost before they are stopped: time and memory of each.

    python -m benchmarks.templates_hostile [--seconds 2] [--megabytes 64] [--processes 1] [--json]

Each template of `benchmarks/data/hostile_templates.json` is compiled and rendered in a process of
its own, by `ChatTemplate.render` and again by the state of a conversation, under `TemplateLimits`
of so many seconds and megabytes. It must end with an error of ours, or finish. Time is the
processor's; memory is what the process holds at most beyond the most that it held before the
template came, as Linux tells it.

Bars: time at most twice the limit, memory at most the limit; no other error.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.terminal import make_parser
from langchain_convmem import ChatTemplate
from langchain_convmem.errors import ChatTemplateError
from langchain_convmem.text import TemplateLimits

DATA = Path(__file__).parent / "data" / "hostile_templates.json"
MEGABYTE = 1_000_000
_CHAT = [{"role": "user", "content": "Hi"}]
_ROOM = 4
"""How many limits of memory a process may take before the system stops it."""


def read_hostile() -> dict[str, str]:
    """Return hostile templates by name."""
    cases = json.loads(DATA.read_text("utf-8"))["templates"]
    return {case["name"]: "".join(text * times for text, times in case["parts"]) for case in cases}


def make_limits(seconds: float, megabytes: int) -> TemplateLimits:
    """Return the limits that a service sets for strangers; a few values may be in use at once."""
    return TemplateLimits(
        max_source=25_000,
        max_seconds=seconds,
        max_memory=megabytes * MEGABYTE // 4,
        max_value=megabytes * MEGABYTE // 16,
        max_output=megabytes * MEGABYTE // 16,
    )


def render_both(source: str, limits: TemplateLimits) -> list[str]:
    """Return how a template ends: rendered whole, and by the state of a conversation."""
    return [_end(source, limits, by_state=by_state) for by_state in (False, True)]


def _end(source: str, limits: TemplateLimits, *, by_state: bool) -> str:
    try:
        template = ChatTemplate(source, limits=limits)
        if by_state:
            template.start().feed(_CHAT)
        else:
            template.render(_CHAT)
    except ChatTemplateError as error:
        return error.kind
    return "finished"


def measure_one(name: str, seconds: float, megabytes: int) -> dict[str, Any]:
    """Return what one template costs, measured in this process."""
    limits = make_limits(seconds, megabytes)
    ChatTemplate("{{ messages | tojson }}").render(_CHAT)
    before = read_peak()
    slowest, ends = 0.0, []
    source = read_hostile()[name]
    for by_state in (False, True):
        start = time.process_time()
        ends.append(_end(source, limits, by_state=by_state))
        slowest = max(slowest, time.process_time() - start)
    held = (read_peak() - before) / MEGABYTE
    return {"name": name, "ends": ends, "seconds": round(slowest, 3), "megabytes": round(held, 1)}


def read_peak() -> int:
    """Return the bytes of memory that this process ever held, and no process before it.

    What `resource` tells begins with what the parent held, in which all else would vanish.
    """
    status = Path("/proc/self/status").read_text("ascii")
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def measure_all(seconds: float, megabytes: int, processes: int) -> list[dict[str, Any]]:
    """Return what each template costs, in processes of their own."""
    measure = partial(_measure_apart, seconds=seconds, megabytes=megabytes)
    with ThreadPoolExecutor(processes) as pool:
        return list(pool.map(measure, read_hostile()))


def _measure_apart(name: str, seconds: float, megabytes: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.templates_hostile", "--one", name]
    command += ["--seconds", str(seconds), "--megabytes", str(megabytes)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found: dict[str, Any]
    found = json.loads(done.stdout) if done.returncode == 0 else _report_failure(name, done)
    found["ok"] = (
        "failed" not in found["ends"]
        and found["seconds"] <= 2 * seconds
        and found["megabytes"] <= megabytes
    )
    return found


def _report_failure(name: str, done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    why = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return {"name": name, "ends": ["failed"], "seconds": 0.0, "megabytes": 0.0, "why": why}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code, which is 1 when a bar is missed."""
    parser = make_parser("benchmarks.templates_hostile", __doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="of one rendering")
    parser.add_argument("--megabytes", type=int, default=64, help="of one rendering")
    parser.add_argument("--processes", type=int, default=1, help="how many run at once")
    parser.add_argument("--one", help="measure one template in this process")
    options = parser.parse_args(arguments)
    if options.one is not None:
        most = _ROOM * options.megabytes * MEGABYTE + 1024 * MEGABYTE
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        print(json.dumps(measure_one(options.one, options.seconds, options.megabytes)))
        return 0
    rows = measure_all(options.seconds, options.megabytes, options.processes)
    print(json.dumps(rows, indent=2) if options.json else _table(rows, options))
    return 0 if all(row["ok"] for row in rows) else 1


def _table(rows: Sequence[dict[str, Any]], options: argparse.Namespace) -> str:
    lines = [f"{'template':<36}{'seconds':>9}{'MB':>8}  ends with"]
    for row in rows:
        ends = " / ".join(dict.fromkeys(row["ends"])) + f"  {row.get('why', '')}"
        verdict = "" if row["ok"] else "  MISSED"
        lines.append(
            f"{row['name']:<36}{row['seconds']:>9.3f}{row['megabytes']:>8.1f}  {ends}{verdict}"
        )
    missed = sum(not row["ok"] for row in rows)
    lines.append(
        f"{len(rows)} templates, {missed} missed; limits {options.seconds:g} s (bar: twice that), "
        f"{options.megabytes} MB; slowest {max(row['seconds'] for row in rows):.2f} s, "
        f"largest {max(row['megabytes'] for row in rows):.1f} MB"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
