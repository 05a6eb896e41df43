"""The command line: `python -m benchmarks.recall`."""

from __future__ import annotations

import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.embeddings import Embeddings

import benchmarks.recall
from benchmarks import ui
from benchmarks.recall.data import BadDataError, Dialogue, load_dialogues
from benchmarks.recall.measuring import Outcome, list_figures, measure, measure_costs
from benchmarks.recall.systems import EMBEDDERS, PACKAGES, SYSTEMS, CachingEmbeddings, list_missing
from benchmarks.rounds import run_json


def _measure(
    dialogues: Sequence[Dialogue], names: Sequence[str], embeddings: Embeddings, max_tokens: int
) -> dict[str, Any]:
    outcomes: dict[str, list[Outcome]] = defaultdict(list)
    for number, dialogue in enumerate(dialogues, start=1):
        for name in names:
            ui.show_progress(f"{number} of {len(dialogues)}, {dialogue.name}: {name}")
            with tempfile.TemporaryDirectory(prefix="benchmark-recall-") as folder:
                system = SYSTEMS[name].make(embeddings, Path(folder))
                system.write(list(dialogue.lines.values()))
                outcomes[name] += measure(system, dialogue, max_tokens)
    return {
        "questions": sum(len(dialogue.questions) for dialogue in dialogues),
        "unanswerable": sum(len(dialogue.unanswerable) for dialogue in dialogues),
        "systems": {name: list_figures(found) for name, found in outcomes.items()},
    }


def _measure_costs(name: str, dialogue: Dialogue, embeddings: Embeddings) -> dict[str, float]:
    embeddings.embed_query("The model is loaded before.")
    with tempfile.TemporaryDirectory(prefix="benchmark-recall-") as folder:
        system = SYSTEMS[name].make(embeddings, Path(folder))
        return measure_costs(SYSTEMS[name], system, dialogue)


def _run_costs(names: Sequence[str], words: Sequence[str], rounds: int) -> dict[str, Any]:
    """Return the least of each figure, out of some processes of each system that take turns."""
    runs = [
        {one: run_json("benchmarks.recall", *words, one) for one in names} for _ in range(rounds)
    ]
    return {one: {key: min(run[one][key] for run in runs) for key in runs[0][one]} for one in names}


def make_table(report: dict[str, Any]) -> list[str]:
    """Return the report for people."""
    lines = ["costs, on one dialogue", ""]
    rows = [(name, *row.values()) for name, row in report["costs"].items()]
    lines += [*ui.format_rows([("", "write_ms", "query_ms", "mb"), *rows]), ""]
    for name, folder in report["folders"].items():
        asked = f"{folder['questions']} questions with evidence, {folder['unanswerable']} without"
        first = next(iter(folder["systems"].values()))
        columns = [column for column in first if column != "interval_95"]
        spans = list(first["interval_95"])
        rows = [
            (
                *(system, *(row[column] for column in columns)),
                *(format_span(row["interval_95"][column]) for column in spans),
            )
            for system, row in folder["systems"].items()
        ]
        head = ("", *columns, *(f"{column}, 95 %" for column in spans))
        lines += [f"{name}: {asked}", "", *ui.format_rows([head, *rows]), ""]
    lines += [f"{name}: not installed" for name in report["missing"]]
    if packages := {one for names in report["missing"].values() for one in names}:
        lines.append(f"pip install {' '.join(sorted(packages))}")
    return [*lines, ui.format_machine(report["machine"] | report["versions"])]


def format_span(interval: Sequence[float] | None) -> str:
    """Return an interval as text, a dash where there is none."""
    return "-" if interval is None else f"{interval[0]:.3f} - {interval[1]:.3f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code, which is 1 when the data cannot be read."""
    parser = ui.make_parser("benchmarks.recall", benchmarks.recall.__doc__)
    parser.add_argument(
        "--data",
        type=Path,
        action="append",
        required=True,
        metavar="DIR",
        help="folder of dialogue JSON files; may be given several times",
    )
    parser.add_argument(
        "--max-tokens", type=ui.parse_positive, default=1000, help="budget per question"
    )
    parser.add_argument("--embedder", choices=EMBEDDERS, default="default")
    parser.add_argument("--rounds", type=ui.parse_positive, default=3, help="of times and memory")
    parser.add_argument("--costs-of", choices=(*SYSTEMS, "all"), help="no more than its costs")
    options = parser.parse_args(arguments)
    try:
        folders = {path.resolve().name: load_dialogues(path) for path in options.data}
    except BadDataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if len(folders) < len(options.data):
        parser.error("two folders of --data have the same name")
    embeddings = EMBEDDERS[options.embedder]()
    first = next(iter(folders.values()))[0]
    if options.costs_of in SYSTEMS:
        print(json.dumps(_measure_costs(options.costs_of, first, embeddings)))
        return 0
    missing = {name: lacks for name, one in SYSTEMS.items() if (lacks := list_missing(one))}
    names = [name for name in SYSTEMS if name not in missing]
    words = ("--data", str(options.data[0]), "--embedder", options.embedder, "--costs-of")
    if options.costs_of:
        print(json.dumps(_run_costs(names, words, options.rounds), indent=2))
        return 0
    cached = CachingEmbeddings(embeddings)
    found = {
        folder: _measure(dialogues, names, cached, options.max_tokens)
        for folder, dialogues in folders.items()
    }
    costs = _run_costs(names, words, options.rounds)
    versions = ui.describe_machine(*PACKAGES)
    machine = {key: versions.pop(key) for key in ui.describe_machine()}
    report = {"machine": machine, "versions": versions, "missing": missing, "costs": costs}
    report["folders"] = found
    return ui.print_report(report, make_table, as_json=options.json)


if __name__ == "__main__":
    raise SystemExit(main())
