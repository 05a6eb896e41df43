"""The command line, and the run after it."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.embeddings import Embeddings

import benchmarks.personal
from benchmarks.personal.data import (
    FOLDER,
    Person,
    Question,
    Thread,
    load_languages,
    load_ordinary,
    load_people,
    load_requests,
)
from benchmarks.personal.measuring import Outcome, ask_all, figures, judge, share_found
from benchmarks.personal.memories import (
    BUDGET,
    PersonalMemory,
    fill_threads,
    ways_to_ask,
    ways_within,
)
from benchmarks.personal.report import table
from benchmarks.recall.data import BadDataError
from benchmarks.recall.embedders import EMBEDDERS, load_embedders
from benchmarks.recall.parts import PARTS, settings_without
from benchmarks.terminal import make_parser, parse_positive, show_progress

__all__ = ["main", "run"]

_SIZE = 125
_LANGUAGE_ORDINARY = 60
_LANGUAGE_BUDGETS = (300, 1000)


class Data(NamedTuple):
    """All that is measured with."""

    people: Sequence[Person]
    languages: Sequence[Person]
    requests: Sequence[Question]
    ordinary: Sequence[Thread]

    def memories(self, size: int) -> list[tuple[Person, list[Thread]]] | None:
        """Return each person with the threads of a memory; None where they do not reach a size."""
        filled = []
        for person in self.people:
            threads = fill_threads(person, size, self.ordinary)
            if threads is None:
                return None
            filled.append((person, threads))
        return filled

    def memory_in_language(self, person: Person) -> list[Thread] | None:
        """Return the threads of the memory of one of `languages`, ordinary ones among them."""
        return fill_threads(person, person.exchanges + _LANGUAGE_ORDINARY, self.ordinary)


def load_data(folder: Path) -> Data:
    """Return the data of a folder.

    Raises:
        BadDataError: If a file is missing or has another form.
    """
    return Data(
        load_people(folder),
        load_languages(folder),
        load_requests(folder),
        load_ordinary(folder),
    )


# -- the run ---------------------------------------------------------------------------------


def run(
    data: Data,
    sizes: Sequence[int],
    embedders: dict[str, Embeddings],
    *,
    ablates: bool = False,
) -> dict[str, Any]:
    """Return the report: for each embedder, what was measured on it.

    Args:
        data: People, what is asked, and what fills their memories.
        sizes: User messages in a memory.
        embedders: By name.
        ablates: Whether to measure the parts of the settings.
    """
    reached, skipped = {}, {}
    for size in sizes:
        memories = data.memories(size)
        if memories is None:
            skipped[f"size {size}"] = _reason(data)
        else:
            reached[size] = memories
    report: dict[str, Any] = {"people": [person.name for person in data.people]}
    report["embedders"] = {
        name: _measure(data, reached, embeddings, name, ablates=ablates)
        for name, embeddings in embedders.items()
    }
    report["skipped"] = skipped
    return report


def _reason(data: Data) -> str:
    others = sum(thread.exchanges for thread in data.ordinary)
    least = max(person.exchanges for person in data.people)
    most = min(person.exchanges for person in data.people) + others
    return f"memories can hold {least} to {most} user messages"


def _measure(
    data: Data,
    reached: dict[int, list[tuple[Person, list[Thread]]]],
    embeddings: Embeddings,
    name: str,
    *,
    ablates: bool,
) -> dict[str, Any]:
    report: dict[str, Any] = {
        "sizes": {
            str(size): _measure_size(data, memories, embeddings, f"{name}, {size}")
            for size, memories in reached.items()
        }
    }
    first = next(iter(reached.values()), None)
    if first is not None and ablates:
        report["ablation"] = _ablate(data, first, embeddings)
    languages = [(one, data.memory_in_language(one)) for one in data.languages]
    report["languages"] = {
        person.language: _measure_language(person, threads, embeddings)
        for person, threads in languages
        if threads is not None
    }
    return report


def _measure_size(
    data: Data,
    memories: Sequence[tuple[Person, Sequence[Thread]]],
    embeddings: Embeddings,
    place: str,
) -> dict[str, Any]:
    outcomes: dict[str, list[Outcome]] = defaultdict(list)
    for person, threads in memories:
        show_progress(f"{place}, {person.name}: embedding")
        memory = PersonalMemory(person.name, threads, embeddings)
        for name, way in ways_to_ask(memory).items():
            show_progress(f"{place}, {person.name}: {name}")
            outcomes[name] += ask_all(way, (*person.questions, *data.requests))
    return {name: figures(part) for name, part in outcomes.items()}


def _ablate(
    data: Data, memories: Sequence[tuple[Person, Sequence[Thread]]], embeddings: Embeddings
) -> dict[str, Any]:
    """Return the figures of the default way, whole and without each part of the settings."""
    settings = {"all parts": None, **{f"without {part}": settings_without(part) for part in PARTS}}
    outcomes: dict[str, list[Outcome]] = defaultdict(list)
    for person, threads in memories:
        memory = PersonalMemory(person.name, threads, embeddings)
        for name, chosen in settings.items():
            show_progress(f"{person.name}: {name}")
            for question in (*person.questions, *data.requests):
                answer = memory.ask(question.text, max_tokens=BUDGET, settings=chosen)
                outcomes[name].append(judge(question, answer))
    return {name: figures(part) for name, part in outcomes.items()}


def _measure_language(
    person: Person, threads: Sequence[Thread], embeddings: Embeddings
) -> dict[str, dict[str, float]]:
    """Return what is found, by way and budget and by kind of question."""
    show_progress(f"language {person.language}")
    memory = PersonalMemory(person.name, threads, embeddings)
    found: dict[str, dict[str, float]] = {}
    for max_tokens in _LANGUAGE_BUDGETS:
        for name, way in ways_within(memory, max_tokens).items():
            outcomes = ask_all(way, person.questions)
            found[f"{name} {max_tokens}"] = {
                kind: share_found([outcome for outcome in outcomes if outcome.kind == kind])
                for kind in ("word", "other")
            }
    return found


# -- the command line ------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code, which is 1 when the data cannot be read."""
    parser = make_parser("benchmarks.personal", benchmarks.personal.__doc__)
    parser.add_argument(
        "--size",
        type=parse_positive,
        nargs="+",
        default=[_SIZE],
        metavar="N",
        help=f"user messages in a memory (default {_SIZE})",
    )
    parser.add_argument("--embedder", choices=EMBEDDERS, default="default", help="default: default")
    parser.add_argument("--ablation", action="store_true", help="each part of the settings off")
    options = parser.parse_args(arguments)
    try:
        data = load_data(FOLDER)
    except BadDataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    embedders = load_embedders(options.embedder, caches_questions=True)
    report = run(data, options.size, embedders.loaded, ablates=options.ablation)
    report["skipped"] |= embedders.skipped
    print(file=sys.stderr)
    print(json.dumps(report) if options.json else table(report))
    return 0
