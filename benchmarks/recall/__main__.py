"""The command line: `python -m benchmarks.recall`."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.embeddings import Embeddings

import benchmarks.recall
from benchmarks import ui
from benchmarks.recall.data import BadDataError, Dialogue, load_dialogues
from benchmarks.recall.measuring import Outcome, count_tokens, list_figures, measure
from benchmarks.recall.systems import EMBEDDERS, CachingEmbeddings, make_systems


def _measure(
    dialogues: Sequence[Dialogue], embeddings: Embeddings, max_tokens: int
) -> dict[str, Any]:
    outcomes: dict[str, list[Outcome]] = defaultdict(list)
    unanswered: dict[str, list[float]] = defaultdict(list)
    for number, dialogue in enumerate(dialogues, start=1):
        for name, system in make_systems(dialogue, embeddings).items():
            ui.show_progress(f"{number} of {len(dialogues)}, {dialogue.name}: {name}")
            outcomes[name] += measure(system, dialogue, max_tokens)
            unanswered[name] += (
                count_tokens(system.find(one.text, max_tokens)) for one in dialogue.unanswerable
            )
    return {
        "questions": sum(len(dialogue.questions) for dialogue in dialogues),
        "unanswerable": sum(len(dialogue.unanswerable) for dialogue in dialogues),
        "systems": {key: list_figures(found, unanswered[key]) for key, found in outcomes.items()},
    }


def make_table(report: dict[str, Any]) -> list[str]:
    """Return the report for people."""
    lines: list[str] = []
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
    return lines


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
    options = parser.parse_args(arguments)
    try:
        folders = {path.resolve().name: load_dialogues(path) for path in options.data}
    except BadDataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if len(folders) < len(options.data):
        parser.error("two folders of --data have the same name")
    embeddings = CachingEmbeddings(EMBEDDERS[options.embedder]())
    found = {name: _measure(one, embeddings, options.max_tokens) for name, one in folders.items()}
    report = {"folders": found}
    return ui.print_report(report, make_table, as_json=options.json)


if __name__ == "__main__":
    raise SystemExit(main())
