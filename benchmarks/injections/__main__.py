"""Plant all attacks, and print which change the structure."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence

import benchmarks.injections as package
from benchmarks.injections.corpus import load_attacks
from benchmarks.injections.surfaces import REFUSED, find_trust, read_ours, read_usual
from benchmarks.ui import make_parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code, which is 1 when an attack on us succeeds."""
    parser = make_parser("benchmarks.injections", package.__doc__)
    parser.add_argument("--list", action="store_true", help="name the attacks that succeed")
    options = parser.parse_args(arguments)
    found: dict[str, list[str]] = {"attacks": [], "ours": [], "usual": [], "trust": []}
    categories = {attack.id: attack.category for attack in load_attacks()}
    for attack in load_attacks():
        found["attacks"].append(attack.id)
        ours = read_ours(attack, attack.text)
        if ours not in (REFUSED, read_ours(attack, attack.harmless)):
            found["ours"].append(attack.id)
        if read_usual(attack, attack.text) != read_usual(attack, attack.harmless):
            found["usual"].append(attack.id)
        if attack.trust and find_trust(attack) != attack.trust:
            found["trust"].append(attack.id)
    counts = {name: Counter(categories[one] for one in ids) for name, ids in found.items()}
    print(json.dumps({**found, "counts": counts}) if options.json else _table(counts))
    if options.list:
        print("\n".join(f"{name}: {', '.join(ids)}" for name, ids in found.items()))
    return 1 if found["ours"] or found["trust"] else 0


def _table(counts: dict[str, Counter[str]]) -> str:
    rows = [f"{'category':<16}" + "".join(f"{name:>10}" for name in counts)]
    rows += [
        f"{category:<16}" + "".join(f"{count[category]:>10}" for count in counts.values())
        for category in counts["attacks"]
    ]
    total = "".join(f"{sum(count.values()):>10}" for count in counts.values())
    return "\n".join([*rows, f"{'all':<16}{total}"])


if __name__ == "__main__":
    sys.exit(main())
