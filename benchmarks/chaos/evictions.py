"""Users with hostile names share an index cache that is far too small: nobody sees another's lines.

Names that are equal after trimming, folding, normalising or splitting; that hold separators,
quotes, wildcards, control characters, or look like a thread of nobody.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import HumanMessage

from benchmarks.chaos.drill import DrillReport, repeat
from langchain_convmem import SQLiteLog
from langchain_convmem.recall.recall import LineRecall
from langchain_convmem.records import Owner, ThreadKey
from langchain_convmem.views.codec import make_draft
from langchain_convmem.views.shown import LineMatch

HOSTILE = [
    "ana", "Ana", "ANA", " ana", "ana ", "ana\n", "ana\t", "a\u0301na", "\u00e1na", "ana\u200b",
    "ana%", "an_", "%", "_", "*", "ana'--", 'ana"', "ana;drop", "ana\\", "ana/", "ana#1", "ana#2",
    "ana|chat", "ana:chat", "ana,chat", "None", "null", "0", "00", "1", "1.0", "True", "-", "--",
    "\u202eana", "\ufeffana", "\uff41\uff4e\uff41", "a" * 1000, "a" * 999, "../ana", "ana\x00",
    "U#ana", "T#ana", "ana%23", "ana$", "{ana}", "${ana}", "<ana>", "&ana;", "\U0001f600",
]  # fmt: skip
_OPERATIONS = 100


def run_evictions(runs: int, seed: int) -> DrillReport:
    """Write and recall for so many hundreds of operations; count what comes back to whom."""
    return repeat("evictions", runs, seed, {f"{_OPERATIONS} operations": _write_and_recall})


def _write_and_recall(folder: Path, chance: random.Random) -> list[str]:
    found: list[str] = []
    said: dict[ThreadKey, int] = {}
    with SQLiteLog(folder / "memory.db") as log:
        recall = LineRecall(log, DeterministicFakeEmbedding(size=8), max_owners=3, max_segments=20)
        for n in range(_OPERATIONS):
            user = chance.choice([None, *HOSTILE])
            key = ThreadKey(user, chance.choice(HOSTILE))
            what = chance.random()
            if what < 0.5:
                text = f"the code of number {n} is {_mark(key)}"
                log.append(key, [make_draft(HumanMessage(text, id=f"m{n}"))])
                said[key] = said.get(key, 0) + 1
            elif what < 0.55:
                log.forget(key)
                said.pop(key, None)
            else:
                answer = recall.recall(key.owner, "the code of number", k=50)
                found += _judge(answer.matches, key.owner)
        for key, count in said.items():
            if len(log.entries(key)) != count:
                found.append(f"{key!r} has {len(log.entries(key))} entries, said {count}")
    return found


def _judge(matches: Iterable[LineMatch], owner: Owner) -> list[str]:
    return [
        f"a line of {match.line.key!r} came back to {owner!r}"
        for match in matches
        if match.line.key.owner != owner or _mark(match.line.key) not in match.line.text
    ]


def _mark(key: ThreadKey) -> str:
    return repr((key.user_id, key.thread_id)).encode().hex()
