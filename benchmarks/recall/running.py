"""The command line, and the run behind it."""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.embeddings import Embeddings

import benchmarks.recall
from benchmarks.recall.data import BadDataError, Dialogue, load_dialogues
from benchmarks.recall.embedders import EMBEDDERS, Embedders, load_embedders
from benchmarks.recall.measuring import (
    Outcome,
    Unanswered,
    figures,
    measure,
    measure_unanswerable,
)
from benchmarks.recall.off_topic import load_off_topic, off_topic
from benchmarks.recall.report import table
from benchmarks.recall.studies import (
    Tried,
    ablation,
    cross_validation,
    cross_validation_of_kinds,
    try_grid,
)
from benchmarks.recall.systems import System, recall_of, recallers_for, systems_for
from benchmarks.terminal import make_parser, parse_positive, show_progress

__all__ = ["main"]


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Return the report that the options ask for.

    Of one folder it is that folder's report; of several, `folders` holds one for each.

    Raises:
        BadDataError: If the data are not what the benchmark reads.
    """
    loaded = _load_folders(options.data)
    _check_folds(loaded, options)
    questions = None if options.off_topic is None else load_off_topic(options.off_topic)
    embedders = load_embedders(options.embedder)
    # Studies are of the settings, which are the same for every embedder.
    studied = next(iter(embedders.loaded.values()), None)
    folders: dict[str, dict[str, Any]] = {}
    tried: dict[str, Tried] = {}
    for name, dialogues in loaded.items():
        report = _measure_folder(name, dialogues, embedders, options.max_tokens)
        folders[name] = report
        if studied is None:
            continue
        arguments = (dialogues, studied, options.max_tokens, show_progress)
        if options.ablation:
            report["ablation"] = ablation(*arguments)
        if options.cross_validate:
            tried[name] = try_grid(*arguments)
            if len(dialogues) > 1:
                report["cross_validation"] = cross_validation(tried[name])
        if questions is not None:
            report["off_topic"] = off_topic(
                dialogues, studied, questions, options.max_tokens, show_progress
            )
    print(file=sys.stderr)
    if len(folders) == 1:
        return next(iter(folders.values()))
    kinds = {"cross_validation_of_kinds": cross_validation_of_kinds(tried)} if tried else {}
    return {"folders": folders, **kinds}


def _load_folders(paths: Sequence[Path]) -> dict[str, list[Dialogue]]:
    loaded = {path.resolve().name: load_dialogues(path) for path in paths}
    if len(loaded) < len(paths):
        msg = "two folders of --data have the same name, by which the report tells them apart"
        raise BadDataError(msg)
    return loaded


def _check_folds(loaded: dict[str, list[Dialogue]], options: argparse.Namespace) -> None:
    if options.cross_validate and sum(map(len, loaded.values())) < 2:
        msg = f"--cross-validate needs two dialogues, {options.data[0]} holds one"
        raise BadDataError(msg)


def _measure_folder(
    name: str, dialogues: Sequence[Dialogue], embedders: Embedders, max_tokens: int
) -> dict[str, Any]:
    # Without marked parts nothing is asked that cutting long lines could find or lose.
    parts = any(item.part for d in dialogues for asked in d.questions for item in asked.evidence)
    outcomes: dict[str, list[Outcome]] = defaultdict(list)
    unanswered: dict[str, list[Unanswered]] = defaultdict(list)
    for number, dialogue in enumerate(dialogues, start=1):
        systems = _systems(dialogue, embedders.loaded, unsegmented=parts)
        for system_name, system in systems.items():
            show_progress(f"{number}/{len(dialogues)} {dialogue.name}: {system_name}")
            outcomes[system_name] += measure(system, dialogue, max_tokens)
            unanswered[system_name] += measure_unanswerable(system, dialogue, max_tokens)
    return {
        "dataset": name,
        "questions": sum(len(dialogue.questions) for dialogue in dialogues),
        "unanswerable": sum(len(dialogue.unanswerable) for dialogue in dialogues),
        "systems": {key: figures(found, unanswered[key]) for key, found in outcomes.items()},
        "skipped": {f"convmem_{key}": why for key, why in embedders.skipped.items()},
    }


def _systems(
    dialogue: Dialogue, embedders: dict[str, Embeddings], *, unsegmented: bool
) -> dict[str, System]:
    systems: dict[str, System] = {}
    if "default" in embedders:
        systems |= systems_for(dialogue, embedders["default"], unsegmented=unsegmented)
    if "minilm" in embedders:
        systems |= recallers_for(recall_of(dialogue, embedders["minilm"]), "_minilm")
    return systems


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code, which is 1 when the data cannot be read."""
    parser = make_parser("benchmarks.recall", benchmarks.recall.__doc__)
    parser.add_argument(
        "--data",
        type=Path,
        action="append",
        required=True,
        metavar="DIR",
        help="folder of dialogue JSON files; may be given several times",
    )
    parser.add_argument(
        "--max-tokens", type=parse_positive, default=1000, help="budget per question"
    )
    parser.add_argument(
        "--embedder", choices=EMBEDDERS, default="both", help="which rows of ours are measured"
    )
    parser.add_argument("--ablation", action="store_true", help="each part alone and left out")
    parser.add_argument(
        "--cross-validate",
        action="store_true",
        help="settings chosen on the other dialogues; of several folders, on the others, too",
    )
    parser.add_argument(
        "--off-topic", type=Path, metavar="FILE", help="questions that no dialogue answers"
    )
    options = parser.parse_args(arguments)
    try:
        report = run(options)
    except BadDataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(json.dumps(report) if options.json else table(report))
    return 0
