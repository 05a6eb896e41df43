"""What the default turn injects for unrelated questions, and what holding back costs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from langchain_core.embeddings import Embeddings

from benchmarks.recall.data import BadDataError, Dialogue
from benchmarks.recall.measuring import mean, measure
from benchmarks.recall.systems import CHARS_PER_TOKEN, Recaller, recall_of

__all__ = ["load_off_topic", "off_topic"]


def load_off_topic(file: Path) -> list[str]:
    """Return the questions of a file `{questions: [...]}`.

    Raises:
        BadDataError: If it is no such file.
    """
    try:
        questions = json.loads(file.read_text(encoding="utf-8"))["questions"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        msg = f"{file} is no JSON object with a list of questions: {error!r}"
        raise BadDataError(msg) from error
    return [str(question) for question in questions]


def off_topic(
    dialogues: Sequence[Dialogue],
    embeddings: Embeddings,
    questions: Sequence[str],
    max_tokens: int,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Return what unrelated questions inject, and what it costs to hold back.

    Args:
        dialogues: Who is asked.
        embeddings: What embeds lines and questions.
        questions: `{speaker}` stands for somebody who speaks in the dialogue.
        max_tokens: The budget of each question.
        say: Told what goes on.

    Returns:
        `questions`; and of all dialogues, and of each one under `by_dialogue`: `injected`, the
        share of unrelated questions for which anything comes back, `tokens`, how much on average,
        `evidence_recall` of the dialogue's own questions, and `cost`, what the plain ranking would
        have found beyond that.
    """
    asked: dict[str, dict[str, list[float]]] = {}
    for dialogue in dialogues:
        say(f"{dialogue.name}: off topic")
        asked[dialogue.name] = _ask(dialogue, embeddings, questions, max_tokens)
    together = {
        key: [value for part in asked.values() for value in part[key]]
        for key in ("tokens", "recall", "plain")
    }
    return {
        "questions": len(questions) * len(dialogues),
        **_judged(together),
        "by_dialogue": {name: _judged(part) for name, part in asked.items()},
    }


def _judged(found: dict[str, list[float]]) -> dict[str, float]:
    return {
        "injected": mean([tokens > 0 for tokens in found["tokens"]]),
        "tokens": mean(found["tokens"]),
        "evidence_recall": mean(found["recall"]),
        "cost": round(mean(found["plain"]) - mean(found["recall"]), 4),
    }


def _ask(
    dialogue: Dialogue, embeddings: Embeddings, questions: Sequence[str], max_tokens: int
) -> dict[str, list[float]]:
    warm = recall_of(dialogue, embeddings)
    default = Recaller(warm, threshold=None)
    speakers = list(dict.fromkeys(line.speaker for line in dialogue.lines.values()))
    tokens = [
        sum(map(len, default.find(_put(question, speakers, at), max_tokens).texts))
        / CHARS_PER_TOKEN
        for at, question in enumerate(questions)
    ]
    return {
        "tokens": tokens,
        "recall": [one.recall for one in measure(default, dialogue, max_tokens)],
        "plain": [one.recall for one in measure(Recaller(warm), dialogue, max_tokens)],
    }


def _put(question: str, speakers: Sequence[str], at: int) -> str:
    return question.replace("{speaker}", speakers[at % len(speakers)])
