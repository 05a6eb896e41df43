"""Paths: a process dies at any moment of any way to write, and the next one finds what counted.

Each path writes what it can tell again: numbered texts, under ids of their own. After every kill a
fresh process opens the file, checks it from end to end, and counts.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, HumanMessage

from benchmarks.chaos.drill import (
    Acknowledge,
    DrillReport,
    Victim,
    compare,
    open_memory,
    read_texts,
    repeat,
    run_apart,
    verify,
)
from langchain_convmem import SQLiteLog
from langchain_convmem.offline import ExtractiveSummarizer, OfflineChatModel
from langchain_convmem.records import ThreadKey
from langchain_convmem.summarizing.planning import SummarySettings
from langchain_convmem.views.codec import make_draft
from langchain_convmem.views.context import build_context
from langchain_convmem.views.live import find_covers, find_live_entries, find_nodes

KEY = ThreadKey("ana", "chat")
_HERE: dict[str, Any] = {"user_id": "ana", "thread_id": "chat"}
_IMPORTED = 120
_LINES = 60
_WANTED = [f"line {n} about the garden" for n in range(_LINES)]


class WritingPath(NamedTuple):
    """One way to write.

    Attributes:
        prepare: Makes what the work needs, in a process of its own.
        work: Yields what returned until it is killed, or returns a call that tells its progress.
        judge: Returns what is wrong with what is left; may finish the work first.
    """

    prepare: Callable[[Path], object]
    work: Callable[[Path, int], Iterator[Any] | Callable[..., Any]]
    judge: Callable[[Path, Sequence[Any]], list[str]]


def run_paths(runs: int, seed: int) -> DrillReport:
    """Kill so many processes, on every writing path in turn."""
    kinds = {name: partial(_run_one, path) for name, path in PATHS.items()}
    return repeat("paths", runs, seed, kinds)


def _run_one(path: WritingPath, folder: Path, chance: random.Random) -> list[str]:
    """Prepare, kill at a moment of chance up to three times, and judge."""

    def prepare() -> list[str]:
        path.prepare(folder)
        return []

    def work(start: int, acknowledge: Acknowledge) -> None:
        made = path.work(folder, start)
        if callable(made):
            made(progress=lambda done, _: acknowledge(done))
        else:
            for done in made:
                acknowledge(done)

    def judge() -> list[str]:
        file = folder / "memory.db"
        before = verify(file) if file.exists() else []
        found = path.judge(folder, acknowledged)
        return before + found + (verify(file) if file.exists() else [])

    problems = run_apart(prepare)
    acknowledged: list[Any] = []
    for attempt in range(chance.randint(1, 3)):
        victim = Victim(partial(work, attempt * 1_000_000))
        victim.wait_for_lines(chance.choice([0, 1, 1, 2, 5]), timeout_s=5)
        time.sleep(chance.uniform(0, chance.choice([0.02, 0.06, 0.4])))
        told = victim.kill()
        problems += [one["error"] for one in told if isinstance(one, dict) and "error" in one]
        acknowledged += [one for one in told if not isinstance(one, dict)]
    return problems + run_apart(judge)


def _open_log(folder: Path) -> SQLiteLog:
    return SQLiteLog(folder / "memory.db")


def _fill(folder: Path) -> None:
    """Store a chat to work on."""
    said = [
        message
        for n, text in enumerate(_WANTED)
        for message in (HumanMessage(text, id=f"q{n}"), AIMessage(f"answer {n}", id=f"a{n}"))
    ]
    with _open_log(folder) as log:
        log.append(KEY, [make_draft(message) for message in said])


def _fill_and_index(folder: Path) -> None:
    _fill(folder)
    with open_memory(folder) as memory:
        memory.refresh(user_id="ana")


def _say(folder: Path, start: int) -> Iterator[int]:
    chain = open_memory(folder).wrap(OfflineChatModel())
    config: Any = {"configurable": _HERE}
    for n in count(start):
        if n % 2:
            chain.invoke(f"question {n}", config)
        else:
            for _ in chain.stream(f"question {n}", config):
                pass
        yield n


def _judge_turns(folder: Path, acknowledged: Sequence[Any]) -> list[str]:
    with _open_log(folder) as log:
        entries = find_live_entries(log.entries(KEY))
    asked = {one.contents[0]: one.turn_id for one in entries if one.role == "user"}
    answered = {one.turn_id for one in entries if one.role == "assistant"}
    questions = [f"question {n}" for n in acknowledged]
    lost = [f"{one} lost its answer" for one in questions if asked.get(one) not in answered]
    return compare(read_texts(entries), questions) + lost


def _edit(folder: Path, start: int) -> Iterator[tuple[str, int]]:
    history = open_memory(folder).history("chat", user_id="ana")
    for n in count(start):
        history.add_messages([HumanMessage(f"said {n}", id=f"s{n}"), AIMessage(f"told {n}")])
        if n % 2:
            history.undo()
        else:
            history.add_messages([HumanMessage(f"meant {n}", id=f"s{n}")])
        yield "undone" if n % 2 else "replaced", n


def _judge_edit(folder: Path, acknowledged: Sequence[Any]) -> list[str]:
    with _open_log(folder) as log:
        live = read_texts(find_live_entries(log.entries(KEY)))
    back = [f"{kind}, and there: {n}" for kind, n in acknowledged if f"said {n}" in live]
    return compare(live, [f"meant {n}" for kind, n in acknowledged if kind == "replaced"]) + back


def _forget(folder: Path, start: int) -> Iterator[int]:
    memory = open_memory(folder)
    for n in count(start):
        secret = HumanMessage(f"secret-{n}-secret", id=f"s{n}")
        [entry] = memory.add_messages([secret], **_HERE)
        memory.recall(secret.text, user_id="ana")
        memory.forget(**_HERE, entry_ids=[entry.id])
        yield n


def _judge_forget(folder: Path, acknowledged: Sequence[Any]) -> list[str]:
    content = b"".join(one.read_bytes() for one in folder.iterdir())
    there = [n for n in acknowledged if f"secret-{n}-secret".encode() in content]
    with _open_log(folder) as log:
        kept = [text for text in read_texts(log.entries(KEY)) if text.startswith("line")]
    return compare(kept, _WANTED) + [f"forgotten, and in the file: {n}" for n in there]


def _write_import(folder: Path) -> None:
    rows = [{"role": "user", "content": f"imported {n}"} for n in range(_IMPORTED)]
    (folder / "chat.json").write_text(json.dumps({"messages": rows}))


def _import(folder: Path, start: int) -> Callable[..., object]:
    del start
    return partial(open_memory(folder).import_file, folder / "chat.json", **_HERE)


def _judge_import(folder: Path, acknowledged: Sequence[Any]) -> list[str]:
    del acknowledged
    _import(folder, 0)()
    with _open_log(folder) as log:
        there = read_texts(log.entries(KEY))
    return compare(there, [f"imported {n}" for n in range(_IMPORTED)])


def _reindex(folder: Path, start: int) -> Callable[..., object]:
    return partial(open_memory(folder, size=24 if start else 32).reindex, user_id="ana")


def _judge_reindex(folder: Path, acknowledged: Sequence[Any]) -> list[str]:
    del acknowledged
    with open_memory(folder, size=32) as memory:
        problems = list(memory.reindex(user_id="ana"))
        found = memory.recall(_WANTED[7], user_id="ana")
        if not any(match.line.line_id == "q7" for match in found.matches):
            problems.append("a line is not found after re-indexing")
        return problems + compare(read_texts(memory.log.entries(KEY)), _WANTED)


def _compact(folder: Path, start: int) -> Iterator[int]:
    memory = open_memory(
        folder,
        summarizer=ExtractiveSummarizer(),
        summary_settings=SummarySettings(trigger=("tokens", 200), keep=("tokens", 80)),
        summarize_when="foreground",
    )
    for n in count(start):
        messages = [HumanMessage(f"said {n}", id=f"s{n}"), AIMessage(f"told {n}")]
        memory.add_messages(messages, **_HERE)
        memory.summarize("chat", user_id="ana", force=n % 3 == 0)
        yield n


def _judge_compact(folder: Path, acknowledged: Sequence[Any]) -> list[str]:
    with _open_log(folder) as log:
        entries = log.entries(KEY)
    live = find_live_entries(entries)
    covered, shown = find_covers(live, find_nodes(live)), build_context(entries).positions
    return compare(read_texts(live), [f"said {n}" for n in acknowledged]) + [
        f"entry {entry.position} is not shown or covered exactly once"
        for entry in live
        if entry.role != "summary" and (entry.id in covered) == (entry.position in shown)
    ]


def _back_up(folder: Path, start: int) -> Iterator[int]:
    with _open_log(folder) as log:
        for n in count(start):
            log.append(KEY, [make_draft(HumanMessage(f"said {n}", id=f"s{n}"))])
            log.backup(folder / f"backup-{n}.db")
            yield n


def _judge_backup(folder: Path, acknowledged: Sequence[Any]) -> list[str]:
    found = []
    for n in acknowledged:
        file = folder / f"backup-{n}.db"
        if not file.exists():
            found.append(f"backup {n} is gone")
            continue
        found += verify(file)
        with SQLiteLog(file) as log:
            if f"said {n}" not in read_texts(log.entries(KEY)):
                found.append(f"backup {n} lacks what was said before it")
    with _open_log(folder) as log:
        for left in folder.glob(".*.unfinished"):  # the next backup of that name removes it
            log.backup(folder / left.stem[1:], overwrite=True)
    names = {one.name.split(".db")[0] for one in folder.iterdir()}
    stale = [name for name in names if not name.startswith(("backup-", "memory", "last"))]
    return found + [f"a partial copy is left: {name}" for name in stale]


PATHS = {
    "turn of wrap": WritingPath(lambda _: None, _say, _judge_turns),
    "edits": WritingPath(lambda _: None, _edit, _judge_edit),
    "forget": WritingPath(_fill, _forget, _judge_forget),
    "import": WritingPath(_write_import, _import, _judge_import),
    "re-index": WritingPath(_fill_and_index, _reindex, _judge_reindex),
    "summaries": WritingPath(lambda _: None, _compact, _judge_compact),
    "backup": WritingPath(lambda _: None, _back_up, _judge_backup),
}
