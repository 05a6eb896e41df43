"""What a check of claims notices: restatements that change their source, and correct ones.

    python -m benchmarks.claims [--held-out | --tuned] [--fresh] [--list]

Caught are wrong restatements with a finding, alarms are correct ones with a finding: by language,
by kind, for the check of claims and for the check of facts alone (names, numbers, dates and ids as
they are written). Every third case of a file was held out until the rules first stood; `--fresh`
tries twenty sets that were written later, each before the rules had seen it. The data and its
form
are described in `benchmarks/data/README.md`, with what each fresh set showed at first.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from langchain_convmem.claims.comparison import compare_claims
from langchain_convmem.claims.findings import SourceSentence
from langchain_convmem.views.facts import FactSource, find_facts, find_untold

DATA = Path(__file__).parent / "data" / "summaries"
_HELD_OUT = 3


@dataclass(frozen=True)
class Case:
    """A restatement, and what it restates."""

    id: str
    language: str
    kind: str
    source: tuple[SourceSentence, ...]
    restatement: str

    @property
    def is_held_out(self) -> bool:
        """Whether the rules were first written without it."""
        return int(self.id[1:]) % _HELD_OUT == 0


def load_cases(name: str) -> list[Case]:
    """Return the cases of a file: "corruptions" or "paraphrases"."""
    rows = json.loads((DATA / f"{name}.json").read_text("utf-8"))
    return [
        Case(
            row["id"],
            row["language"],
            row["kind"],
            tuple(SourceSentence(line["text"], line["speaker"]) for line in row["source"]),
            row["restatement"],
        )
        for row in rows
    ]


def find_by_claims(case: Case) -> bool:
    """Return whether the check of claims has a finding."""
    return not compare_claims(case.source, case.restatement).agrees


def find_by_facts(case: Case) -> bool:
    """Return whether the check of facts misses a fact of the source."""
    said = [FactSource(line.text, line.speaker) for line in case.source]
    return bool(find_untold(find_facts(said), case.restatement))


def count_found(cases: Iterable[Case], find: Callable[[Case], bool]) -> Counter[tuple[str, str]]:
    """Return how many cases have a finding, by ("language" or "kind", which)."""
    found: Counter[tuple[str, str]] = Counter()
    for case in cases:
        if find(case):
            found.update([("all", ""), ("language", case.language), ("kind", case.kind)])
    return found


def print_table(title: str, cases: Sequence[Case]) -> None:
    """Print how many of the cases each check notices."""
    claims, facts = count_found(cases, find_by_claims), count_found(cases, find_by_facts)
    total = Counter([("all", "")] * len(cases))
    total.update(("language", case.language) for case in cases)
    total.update(("kind", case.kind) for case in cases)
    print(f"\n{title:28} {'of':>5} {'claims':>7} {'facts':>7}")
    for key in total:
        print(f"{key[0]:9} {key[1]:18} {total[key]:5} {claims[key]:7} {facts[key]:7}")


def measure_speed() -> float:
    """Return the milliseconds that a long summary beside 200 lines takes, when nothing is known."""
    cases = [*load_cases("corruptions"), *load_cases("paraphrases")]
    lines = [line for case in cases for line in case.source][:200]
    text = " ".join(case.restatement for case in cases[:60])
    start = time.process_time()
    compare_claims(lines, text)
    return (time.process_time() - start) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--held-out", action="store_true", help="only what was held out")
    parser.add_argument("--tuned", action="store_true", help="only what was not held out")
    parser.add_argument("--fresh", action="store_true", help="the sets that were written later")
    parser.add_argument("--list", action="store_true", help="name what was judged wrongly")
    options = parser.parse_args()
    for name, title in (("corruptions", "caught"), ("paraphrases", "alarms")):
        cases = [
            case
            for case in load_cases(f"fresh_{name}" if options.fresh else name)
            if not (options.held_out and not case.is_held_out)
            and not (options.tuned and case.is_held_out)
        ]
        print_table(title, cases)
        if options.list:
            wrong = [c for c in cases if find_by_claims(c) is (name == "paraphrases")]
            for case in wrong:
                print(f"  {case.id} {case.language} {case.kind}: {case.restatement}")
    print(f"\n200 lines and a summary of 60 sentences: {measure_speed():.0f} ms")


if __name__ == "__main__":
    main()
