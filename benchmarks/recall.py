"""How much of the evidence for a question comes back within a budget, beside simpler systems.

    python -m benchmarks.recall --data DIR --max-tokens 1000 [--json]

DIR holds dialogues, one JSON file each: `{conversation_id, lines: [{id, session, time, speaker,
text}], questions: [{question, evidence: [line ids], category}]}`. Each dialogue is one user.

Systems, all on the same embedded embedder and the same budget:
    convmem       the default settings, through `DialogLineRetriever.invoke`
    spec          plain dialog-line memory: cosine alone, 3 lines on each side, without threshold
    chunks_dense  whole lines packed into chunks of 1,000 characters, ranked by cosine

Figures:
    evidence_recall  share of a question's evidence lines whose whole text was returned under
                     their own speaker label; mean over the questions that have evidence
    full_evidence    share of questions with all of it
    recall_at_20     share of evidence among the first 20 lines of the ranking
    mean_tokens      characters / 4 of what was returned, headers included
    p50_ms, p95_ms   time of one retrieval with a warm index
    by_category      evidence_recall by the questions' own categories
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from langchain_core.embeddings import Embeddings
from langchain_core.messages import HumanMessage

from langchain_convmem.logs import InMemoryLog
from langchain_convmem.moving.times import parse_time
from langchain_convmem.protocols import MessageLog
from langchain_convmem.recall import (
    DialogLineRetriever,
    EmbeddedEmbeddings,
    ExactIndex,
    LineRecall,
    RecallSettings,
)
from langchain_convmem.records import Owner, ThreadKey
from langchain_convmem.views.codec import draft_of

CHARS_PER_TOKEN = 4
CHUNK_CHARS = 1000
RANKED_LINES = 20


class BadDataError(Exception):
    """A folder or file is not what the benchmark reads; the message is for people."""


# -- data ------------------------------------------------------------------------------------


class Line(NamedTuple):
    id: str
    session: str
    time: str
    speaker: str
    text: str

    @property
    def labelled(self) -> str:
        return f"{self.speaker}: {self.text}"


class Question(NamedTuple):
    text: str
    evidence: tuple[str, ...]
    category: str


@dataclass(frozen=True)
class Dialogue:
    name: str
    lines: dict[str, Line]
    questions: tuple[Question, ...]


def load_dialogues(folder: Path) -> list[Dialogue]:
    if not folder.is_dir():
        msg = f"{folder} is not a folder; --data takes a folder of dialogue JSON files"
        raise BadDataError(msg)
    files = sorted(folder.glob("*.json"))
    if not files:
        msg = f"{folder} holds no .json file; --data takes a folder of dialogue JSON files"
        raise BadDataError(msg)
    dialogues = [_load_dialogue(file) for file in files]
    if not any(dialogue.questions for dialogue in dialogues):
        msg = f"no dialogue in {folder} has a question with evidence"
        raise BadDataError(msg)
    return dialogues


def _load_dialogue(file: Path) -> Dialogue:
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        msg = f"{file} cannot be read as JSON: {error}"
        raise BadDataError(msg) from error
    try:
        return _dialogue(value, file.stem)
    except KeyError as error:
        msg = f"{file}: the field {error} is missing somewhere"
        raise BadDataError(msg) from error
    except (TypeError, ValueError, AttributeError) as error:
        msg = f"{file} is no dialogue of the expected form: {error}"
        raise BadDataError(msg) from error


def _dialogue(value: dict[str, Any], stem: str) -> Dialogue:
    lines = {
        item["id"]: Line(
            item["id"],
            str(item["session"]),
            parse_time(item["time"]).isoformat(),
            item["speaker"],
            item["text"],
        )
        for item in value["lines"]
    }
    questions = tuple(
        Question(item["question"], tuple(item["evidence"]), str(item["category"]))
        for item in value["questions"]
        if item["evidence"]
    )
    unknown = {line for question in questions for line in question.evidence} - lines.keys()
    if unknown:
        msg = f"evidence names lines that do not exist: {', '.join(sorted(unknown))}"
        raise ValueError(msg)
    return Dialogue(value.get("conversation_id", stem), lines, questions)


def log_of(dialogue: Dialogue) -> InMemoryLog:
    log = InMemoryLog()
    drafts = [
        draft_of(
            HumanMessage(
                content=line.text,
                id=line.id,
                name=line.speaker,
                additional_kwargs={"session": line.session, "timestamp": line.time},
            )
        )
        for line in dialogue.lines.values()
    ]
    log.append(ThreadKey(dialogue.name, "dialogue"), drafts)
    return log


# -- systems ---------------------------------------------------------------------------------


class System(Protocol):
    def retrieve(self, question: str, max_tokens: int) -> list[str]:
        """Return the texts that a model would read."""
        ...

    def ranked_lines(self, question: str) -> list[str]:
        """Return the ids of the best lines, best first."""
        ...


class RetrieverSystem:
    """A `DialogLineRetriever` with the given settings."""

    def __init__(
        self, dialogue: Dialogue, log: MessageLog, embeddings: Embeddings, settings: RecallSettings
    ) -> None:
        self._owner = Owner(user_id=dialogue.name)
        self._recall = LineRecall(log, embeddings, settings)
        self._recall.refresh(self._owner)
        self._retriever = DialogLineRetriever(recall=self._recall, user_id=dialogue.name)

    def retrieve(self, question: str, max_tokens: int) -> list[str]:
        found = self._retriever.invoke(question, max_tokens=max_tokens)
        return [document.page_content for document in found]

    def ranked_lines(self, question: str) -> list[str]:
        found = self._recall.recall(self._owner, question, ranking=RANKED_LINES)
        return [match.line.line_id for match in found.matches]


class ChunkSystem:
    """Chunks of whole lines, ranked by cosine: the usual way to search documents."""

    def __init__(self, dialogue: Dialogue, embeddings: Embeddings) -> None:
        self._chunks = _chunks(list(dialogue.lines.values()))
        self._texts = ["\n".join(line.labelled for line in chunk) for chunk in self._chunks]
        self._embeddings = embeddings
        vectors = np.array(embeddings.embed_documents(self._texts), dtype=np.float32)
        self._index = ExactIndex(vectors.shape[1])
        self._index.add(vectors)

    def _ranking(self, question: str) -> list[int]:
        query = np.array(self._embeddings.embed_query(question), dtype=np.float32)
        numbers, _ = self._index.search(query, len(self._chunks))
        return [int(number) for number in numbers]

    def retrieve(self, question: str, max_tokens: int) -> list[str]:
        room = max_tokens * CHARS_PER_TOKEN
        texts: list[str] = []
        for number in self._ranking(question):
            # The chunk at the edge of the budget is cut behind a whole line.
            text = _head(self._texts[number], room)
            texts += [text] if text else []
            room -= len(text)
            if text != self._texts[number]:
                break
        return texts

    def ranked_lines(self, question: str) -> list[str]:
        ranked = [line.id for number in self._ranking(question) for line in self._chunks[number]]
        return ranked[:RANKED_LINES]


def _head(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room + 1].rpartition("\n")[0]


def _chunks(lines: Sequence[Line]) -> list[list[Line]]:
    chunks: list[list[Line]] = []
    size = 0
    for line in lines:
        added = len(line.labelled) + 1
        if not chunks or size + added > CHUNK_CHARS + 1:
            chunks.append([])
            size = 0
        chunks[-1].append(line)
        size += added
    return chunks


def systems_for(dialogue: Dialogue, embeddings: Embeddings) -> dict[str, System]:
    log = log_of(dialogue)
    spec = replace(RecallSettings.spec(), threshold=None)
    return {
        "convmem": RetrieverSystem(dialogue, log, embeddings, RecallSettings()),
        "spec": RetrieverSystem(dialogue, log, embeddings, spec),
        "chunks_dense": ChunkSystem(dialogue, embeddings),
    }


# -- measuring -------------------------------------------------------------------------------


class Outcome(NamedTuple):
    recall: float
    at_20: float
    tokens: float
    ms: float
    category: str


def measure(system: System, dialogue: Dialogue, question: Question, max_tokens: int) -> Outcome:
    start = time.perf_counter()
    texts = system.retrieve(question.text, max_tokens)
    elapsed_ms = (time.perf_counter() - start) * 1000
    # Whole lines only: an answer of "Yes" must not count as found in "Yes, of course".
    returned = "\n" + "\n".join(texts) + "\n"
    evidence = [dialogue.lines[line] for line in question.evidence]
    found = [f"\n{line.labelled}\n" in returned for line in evidence]
    ranked = set(system.ranked_lines(question.text))
    return Outcome(
        recall=sum(found) / len(found),
        at_20=sum(line.id in ranked for line in evidence) / len(evidence),
        tokens=sum(map(len, texts)) / CHARS_PER_TOKEN,
        ms=elapsed_ms,
        category=question.category,
    )


def figures(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    by_category: dict[str, list[float]] = defaultdict(list)
    for outcome in outcomes:
        by_category[outcome.category].append(outcome.recall)
    times = [outcome.ms for outcome in outcomes]
    return {
        "evidence_recall": _mean([outcome.recall for outcome in outcomes]),
        "full_evidence": _mean([outcome.recall == 1.0 for outcome in outcomes]),
        "recall_at_20": _mean([outcome.at_20 for outcome in outcomes]),
        "mean_tokens": round(float(np.mean([outcome.tokens for outcome in outcomes])), 1),
        "p50_ms": round(float(np.percentile(times, 50)), 2),
        "p95_ms": round(float(np.percentile(times, 95)), 2),
        "by_category": {name: _mean(by_category[name]) for name in sorted(by_category)},
    }


def _mean(values: Sequence[float]) -> float:
    return round(float(np.mean(values)), 4)


def run(folder: Path, max_tokens: int) -> dict[str, Any]:
    dialogues = load_dialogues(folder)
    embeddings = EmbeddedEmbeddings()
    outcomes: dict[str, list[Outcome]] = defaultdict(list)
    for number, dialogue in enumerate(dialogues, start=1):
        for name, system in systems_for(dialogue, embeddings).items():
            progress = f"{number}/{len(dialogues)} {dialogue.name}: {name}"
            print(f"\r{progress:<72}", end="", file=sys.stderr, flush=True)
            outcomes[name] += [
                measure(system, dialogue, question, max_tokens) for question in dialogue.questions
            ]
    print(file=sys.stderr)
    return {
        "dataset": folder.resolve().name,
        "questions": sum(len(dialogue.questions) for dialogue in dialogues),
        "systems": {name: figures(found) for name, found in outcomes.items()},
    }


# -- printing --------------------------------------------------------------------------------


def table(report: dict[str, Any]) -> str:
    columns = (
        "evidence_recall",
        "full_evidence",
        "recall_at_20",
        "mean_tokens",
        "p50_ms",
        "p95_ms",
    )
    rows = [f"{report['dataset']}: {report['questions']} questions with evidence", ""]
    rows.append(f"{'system':<14}" + "".join(f"{column:>17}" for column in columns))
    for name, row in report["systems"].items():
        rows.append(f"{name:<14}" + "".join(f"{row[column]:>17}" for column in columns))
    rows += ["", "evidence_recall by category"]
    for name, row in report["systems"].items():
        parts = "  ".join(f"{key}: {value:.3f}" for key, value in row["by_category"].items())
        rows.append(f"{name:<14}{parts}")
    return "\n".join(rows)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        msg = f"must be at least 1, got {value}"
        raise argparse.ArgumentTypeError(msg)
    return value


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.recall", description="Evidence recall.")
    parser.add_argument("--data", type=Path, required=True, help="folder of dialogue JSON files")
    parser.add_argument("--max-tokens", type=_positive, default=1000, help="budget per question")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    try:
        report = run(options.data, options.max_tokens)
    except BadDataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(json.dumps(report) if options.json else table(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
