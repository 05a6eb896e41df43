"""What hostile chat templates cost before they are stopped: time and memory of each.

    python -m benchmarks.templates_hostile [--json]

Each template of `benchmarks/data/hostile_templates.json` is compiled and rendered in a fork of the
process, by `ChatTemplate.render` and again by the state of a conversation, under the `LIMITS` of a
service. It must end with an error of ours, or finish. Time is the processor's; memory is what the
fork holds at most beyond what it held before the template came, as Linux tells it. A fork that says
nothing for a minute has failed.

Bars: 3 seconds and 64 MB each; no other error.
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import ui
from benchmarks.chaos.drill import compute_apart
from langchain_convmem import ChatTemplate
from langchain_convmem.errors import ChatTemplateError
from langchain_convmem.text import TemplateLimits

DATA = Path(__file__).parent / "data" / "hostile_templates.json"
MEGABYTE = 1_000_000
_CHAT = [{"role": "user", "content": "Hi"}]
_SECONDS, _MEGABYTES = 3.0, 64
_PATIENCE = 60
_ROOM = 1_280 * MEGABYTE
"""Memory that a process may take before the system stops it."""


def read_hostile() -> dict[str, str]:
    """Return hostile templates by name."""
    cases = json.loads(DATA.read_text("utf-8"))["templates"]
    return {case["name"]: "".join(text * times for text, times in case["parts"]) for case in cases}


LIMITS = TemplateLimits(max_source=25_000, max_output=4_000_000, max_work=16_000_000)
"""The limits that a service sets for strangers."""


def render_both(source: str) -> list[str]:
    """Return how a template ends: rendered whole, and by the state of a conversation."""
    return [_end(source, by_state=by_state) for by_state in (False, True)]


def _end(source: str, *, by_state: bool) -> str:
    try:
        template = ChatTemplate(source, limits=LIMITS)
        if by_state:
            template.start().feed(_CHAT)
        else:
            template.render(_CHAT)
    except ChatTemplateError as error:
        return error.kind
    return "finished"


def measure_apart(name: str) -> dict[str, Any]:
    """Return what one template costs in a fork of this process, which has imported all already."""

    def work() -> dict[str, Any]:
        resource.setrlimit(resource.RLIMIT_AS, (_ROOM, _ROOM))
        before = ui.read_peak()
        slowest, ends = 0.0, []
        source = read_hostile()[name]
        for by_state in (False, True):
            start = time.process_time()
            ends.append(_end(source, by_state=by_state))
            slowest = max(slowest, time.process_time() - start)
        held = (ui.read_peak() - before) / MEGABYTE
        return {"ends": ends, "seconds": round(slowest, 3), "megabytes": round(held, 1)}

    found = compute_apart(work, _PATIENCE)
    failed = {"ends": ["failed"], "seconds": 0.0, "megabytes": 0.0}
    return {"name": name, **(failed if "error" in found else found)}


def make_table(report: dict[str, Any]) -> list[str]:
    """Return the report for people."""
    rows = [
        (one["name"], one["seconds"], one["megabytes"], " / ".join(dict.fromkeys(one["ends"])))
        for one in report["hostile"]
    ]
    table = ui.format_rows([("template", "seconds", "MB", "ends with"), *rows])
    return [*table, f"{len(rows)} templates"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code, which is 1 when a bar is missed."""
    parser = ui.make_parser("benchmarks.templates_hostile", __doc__)
    options = parser.parse_args(arguments)
    ChatTemplate("{{ messages | tojson }}").render(_CHAT)
    rows = [measure_apart(name) for name in read_hostile()]
    bars = [
        ui.make_bar("templates that fail", sum("failed" in one["ends"] for one in rows), 0),
        ui.make_bar("slowest, seconds", max(one["seconds"] for one in rows), _SECONDS),
        ui.make_bar("largest, MB", max(one["megabytes"] for one in rows), _MEGABYTES),
    ]
    report = {"hostile": rows, "bars": bars}
    return ui.print_report(report, make_table, as_json=options.json)


if __name__ == "__main__":
    raise SystemExit(main())
