"""The command line: `python -m benchmarks.personal`."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from langchain_core.embeddings import Embeddings

import benchmarks.personal
from benchmarks import ui
from benchmarks.personal.data import Data, Person, Thread, load_data
from benchmarks.personal.memories import (
    BUDGETS,
    Outcome,
    PersonalMemory,
    Way,
    ask_all,
    fill_threads,
    list_figures,
    list_ways,
)
from benchmarks.recall.__main__ import format_span
from benchmarks.recall.data import BadDataError
from benchmarks.recall.measuring import find_mean
from benchmarks.recall.systems import EMBEDDERS, CachingEmbeddings

_SIZE = 125
"""User messages in a memory."""
_LANGUAGE_ORDINARY = 60
_HIDDEN = ("verdicts", "interval_95")
_SPANS = ("word", "other", "replies", "new_first", "several", "off_topic")


def measure(data: Data, embeddings: Embeddings) -> dict[str, Any]:
    """Return the report of what memories are embedded with."""
    outcomes: dict[str, list[Outcome]] = defaultdict(list)
    for person in data.people:
        ui.show_progress(f"{person.name}: embedding")
        threads = fill_threads(person, _SIZE, data.ordinary)
        memory = PersonalMemory(person.name, threads, embeddings)
        ways: dict[str, Way] = list_ways(memory, BUDGETS[-1])
        ways[f"default, {BUDGETS[0]}"] = list_ways(memory, BUDGETS[0])["default"]
        for name, way in ways.items():
            ui.show_progress(f"{person.name}: {name}")
            outcomes[name] += ask_all(way, (*person.questions, *data.requests))
    return {
        "size": _SIZE,
        "ways": {name: list_figures(found) for name, found in outcomes.items()},
        "languages": {
            one.language: _measure_language(one, data.ordinary, embeddings)
            for one in data.languages
        },
    }


def _measure_language(
    person: Person, ordinary: Sequence[Thread], embeddings: Embeddings
) -> dict[str, float | None]:
    """Return what is found, by way, budget and kind of question."""
    ui.show_progress(f"language {person.language}")
    threads = fill_threads(person, person.exchanges + _LANGUAGE_ORDINARY, ordinary)
    memory = PersonalMemory(person.name, threads, embeddings)
    found: dict[str, float | None] = {}
    for budget in BUDGETS:
        ways = list_ways(memory, budget)
        for name in ("default", "bm25_lines"):
            outcomes = ask_all(ways[name], person.questions)
            for kind in ("word", "other"):
                shares = [one.found for one in outcomes if one.kind == kind]
                found[f"{name} {budget}, {kind}"] = find_mean(shares)
    return found


def make_table(report: dict[str, Any]) -> list[str]:
    """Return the report for people."""
    lines: list[str] = []
    for name, found in report["embedders"].items():
        ways = found["ways"]
        columns = [one for one in ways["default"] if one not in _HIDDEN]
        rows = [[way, *(row[one] for one in columns)] for way, row in ways.items()]
        spans = [
            [way, *(format_span(row["interval_95"][one]) for one in _SPANS)]
            for way, row in ways.items()
        ]
        verdicts = ways["default"]["verdicts"].items()
        head = list(next(iter(found["languages"].values()), ()))
        languages = [[one, *row.values()] for one, row in found["languages"].items()]
        for title, body in (
            (f"{name}, {found['size']} user messages", [["", *columns], *rows]),
            ("95 % intervals", [["", *_SPANS], *spans]),
            ("verdicts", [(kind, str(counts)) for kind, counts in verdicts]),
            ("languages", [["", *head], *languages]),
        ):
            lines += [title, *ui.format_rows(body), ""]
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code, which is 1 when the data cannot be read."""
    parser = ui.make_parser("benchmarks.personal", benchmarks.personal.__doc__)
    parser.add_argument("--embedder", choices=EMBEDDERS, default="default")
    options = parser.parse_args(arguments)
    try:
        data = load_data()
        embeddings = CachingEmbeddings(EMBEDDERS[options.embedder]())
        report = {"embedders": {options.embedder: measure(data, embeddings)}}
    except (BadDataError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return ui.print_report(report, make_table, as_json=options.json)


if __name__ == "__main__":
    raise SystemExit(main())
