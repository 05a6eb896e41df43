"""Plant all attacks, and print which change the structure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import benchmarks.injections as package
from benchmarks import ui
from benchmarks.injections.corpus import load_attacks
from benchmarks.injections.surfaces import REFUSED, find_trust, read_ours, read_usual


def _make_table(report: dict[str, Any]) -> list[str]:
    counts = report["counts"]
    rows = [
        [category, *(count[category] for count in counts.values())]
        for category in counts["attacks"]
    ]
    total = ["all", *(sum(count.values()) for count in counts.values())]
    named = [f"{name}: {', '.join(ids)}" for name, ids in report["succeed"].items() if ids]
    return [*ui.format_rows([["category", *counts], *rows, total]), *named]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code, which is 1 when an attack on us succeeds."""
    options = ui.make_parser("benchmarks.injections", package.__doc__).parse_args(arguments)
    attacks = load_attacks()
    found = {
        "attacks": list(attacks),
        "ours": [
            one
            for one in attacks
            if read_ours(one, one.text) not in (REFUSED, read_ours(one, one.harmless))
        ],
        "usual": [
            one for one in attacks if read_usual(one, one.text) != read_usual(one, one.harmless)
        ],
        "trust": [one for one in attacks if one.trust and find_trust(one) != one.trust],
    }
    counts = {name: Counter(one.category for one in some) for name, some in found.items()}
    wrong = len(found["ours"]) + len(found["trust"])
    succeed = {name: [one.id for one in found[name]] for name in ("ours", "trust")}
    bars = [ui.make_bar("attacks on ours that succeed", wrong, 0)]
    report = {"counts": counts, "succeed": succeed, "bars": bars}
    return ui.print_report(report, _make_table, as_json=options.json)


if __name__ == "__main__":
    raise SystemExit(main())
