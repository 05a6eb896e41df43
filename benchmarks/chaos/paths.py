"""Paths: a process dies at any moment of any way to write, and the next one finds what counted.

Each path writes what it can tell again: numbered texts, under ids of their own. After every kill a
fresh process opens the file, checks it from end to end, and counts.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from langchain_core.embeddings import DeterministicFakeEmbedding
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
from langchain_convmem import ConversationMemory, SQLiteLog
from langchain_convmem.offline import ExtractiveSummarizer, OfflineChatModel
from langchain_convmem.records import ThreadKey
from langchain_convmem.summarizing.planning import SummarySettings
from langchain_convmem.transfer.copy import copy_log
from langchain_convmem.views.codec import make_draft
from langchain_convmem.views.context import build_context
from langchain_convmem.views.live import find_covers, find_live_entries, find_nodes

KEY = ThreadKey("ana", "chat")
_IMPORTED = 120
_LINES = 60


@dataclass(frozen=True, slots=True)
class WritingPath:
    """One way to write.

    Attributes:
        name: What it is called in reports.
        prepare: Makes what the work needs, in a process of its own.
        work: Writes until it is killed, or is done; acknowledges what returned.
        judge: Returns what is wrong with what is left; may finish the work first.
    """

    name: str
    prepare: Callable[[Path], None]
    work: Callable[[Path, int, Acknowledge], None]
    judge: Callable[[Path, Sequence[Any]], list[str]]


def run_paths(runs: int, seed: int) -> DrillReport:
    """Kill so many processes, on every writing path in turn."""
    return repeat("paths", runs, seed, {path.name: partial(_run_one, path) for path in PATHS})


def _run_one(path: WritingPath, folder: Path, chance: random.Random) -> list[str]:
    """Prepare, kill at a moment of chance up to three times, and judge."""
    problems = run_apart(partial(_prepare, path, folder))
    acknowledged: list[Any] = []
    for attempt in range(chance.randint(1, 3)):
        start = attempt * 1_000_000
        victim = Victim(partial(path.work, folder, start))
        victim.wait_for_lines(chance.choice([0, 1, 1, 2, 5]), timeout_s=5)
        time.sleep(chance.uniform(0, chance.choice([0.02, 0.06, 0.4])))
        told = victim.kill()
        problems += [one["error"] for one in told if isinstance(one, dict) and "error" in one]
        acknowledged += [one for one in told if not isinstance(one, dict)]
    return problems + run_apart(partial(_judge, path, folder, acknowledged))


def _prepare(path: WritingPath, folder: Path) -> list[str]:
    path.prepare(folder)
    return []


def _judge(path: WritingPath, folder: Path, acknowledged: Sequence[Any]) -> list[str]:
    file = folder / "memory.db"
    found = verify(file) if file.exists() else []
    found += path.judge(folder, acknowledged)
    return found + (verify(file) if file.exists() else [])


# -- what the paths share -------------------------------------------------------------------------


def _open_log(folder: Path) -> SQLiteLog:
    return SQLiteLog(folder / "memory.db")


def _do_nothing(folder: Path) -> None:
    del folder


def _fill(folder: Path) -> None:
    """Store a chat to work on."""
    with _open_log(folder) as log:
        said = [
            message
            for n in range(_LINES)
            for message in (
                HumanMessage(f"line {n} about the garden", id=f"q{n}"),
                AIMessage(f"answer {n}", id=f"a{n}"),
            )
        ]
        log.append(KEY, [make_draft(message) for message in said])


# -- turns -----------------------------------------------------------------------------------------


def _say(folder: Path, start: int, acknowledge: Acknowledge) -> None:
    memory = open_memory(folder)
    chain = memory.wrap(OfflineChatModel())
    config: Any = {"configurable": {"user_id": "ana", "thread_id": "chat"}}
    for n in range(start, start + 100_000):
        if n % 2:
            chain.invoke(f"question {n}", config)
        else:
            for _ in chain.stream(f"question {n}", config):
                pass
        acknowledge(n)


def _converse(folder: Path, start: int, acknowledge: Acknowledge) -> None:
    memory = open_memory(folder)
    with memory.conversation(OfflineChatModel(), thread_id="chat", user_id="ana") as talk:
        for n in range(start, start + 100_000):
            talk.send_message(f"question {n}")
            acknowledge(n)


def _judge_turns(folder: Path, acknowledged: Sequence[Any]) -> list[str]:
    with _open_log(folder) as log:
        entries = find_live_entries(log.entries(KEY))
    found = compare(read_texts(entries), [f"question {n}" for n in acknowledged])
    answered = {one.turn_id for one in entries if one.role == "assistant"}
    asked = {one.contents[0]: one.turn_id for one in entries if one.role == "user"}
    return found + [
        f"question {n} lost its answer"
        for n in acknowledged
        if asked.get(f"question {n}") not in answered
    ]


# -- changes --------------------------------------------------------------------------------------


def _annotate(folder: Path, start: int, acknowledge: Acknowledge) -> None:
    with _open_log(folder) as log:
        first = log.entries(KEY, last=1)[0]
        for n in range(start, start + 100_000):
            log.annotate(KEY, first.id, attributes=[f"mark {n}"])
            acknowledge(n)


def _judge_annotate(folder: Path, acknowledged: Sequence[Any]) -> list[str]:
    with _open_log(folder) as log:
        marks = log.entries(KEY, last=1)[0].metadata.attributes
    return compare(marks, [f"mark {n}" for n in acknowledged])


def _count_up(folder: Path, start: int, acknowledge: Acknowledge) -> None:
    del start
    with _open_log(folder) as log:
        for _ in range(100_000):
            found = log.get_state(KEY, "count")
            count = 1 if found is None else found.value + 1
            log.set_state(KEY, "count", count, expected=None if found is None else found.version)
            acknowledge(count)


def _judge_count(folder: Path, acknowledged: Sequence[Any]) -> list[str]:
    with _open_log(folder) as log:
        found = log.get_state(KEY, "count")
    count, least = (0 if found is None else found.value), max(acknowledged, default=0)
    return [] if count >= least else [f"lost counts: {count} after {least}"]


def _edit(folder: Path, start: int, acknowledge: Acknowledge) -> None:
    memory = open_memory(folder)
    history = memory.history("chat", user_id="ana")
    for n in range(start, start + 100_000):
        history.add_messages([HumanMessage(f"said {n}", id=f"s{n}"), AIMessage(f"told {n}")])
        if n % 2:
            history.undo()
            acknowledge(["undone", n])
        else:
            history.add_messages([HumanMessage(f"meant {n}", id=f"s{n}")])
            acknowledge(["replaced", n])


def _judge_edit(folder: Path, acknowledged: Sequence[Any]) -> list[str]:
    with _open_log(folder) as log:
        live = read_texts(find_live_entries(log.entries(KEY)))
    replaced = [f"meant {n}" for kind, n in acknowledged if kind == "replaced"]
    back = [
        f"undone, and back: {n}"
        for kind, n in acknowledged
        if kind == "undone" and f"said {n}" in live
    ]
    old = [
        f"replaced, and there: {n}"
        for kind, n in acknowledged
        if kind == "replaced" and f"said {n}" in live
    ]
    return compare(live, replaced) + back + old


def _forget(folder: Path, start: int, acknowledge: Acknowledge) -> None:
    memory = open_memory(folder)
    for n in range(start, start + 100_000):
        [entry] = memory.add_messages(
            [HumanMessage(f"secret-{n}-secret", id=f"s{n}")], thread_id="chat", user_id="ana"
        )
        memory.recall(f"secret-{n}-secret", user_id="ana")
        memory.forget(thread_id="chat", user_id="ana", entry_ids=[entry.id])
        acknowledge(n)


def _judge_forget(folder: Path, acknowledged: Sequence[Any]) -> list[str]:
    content = b"".join(one.read_bytes() for one in folder.iterdir())
    found = [
        f"forgotten, and in the file: {n}"
        for n in acknowledged
        if f"secret-{n}-secret".encode() in content
    ]
    with _open_log(folder) as log:
        kept = read_texts(log.entries(KEY))
    return found + compare(
        [text for text in kept if text.startswith("line")],
        [f"line {n} about the garden" for n in range(_LINES)],
    )


# -- whole files ----------------------------------------------------------------------------------


def _write_import(folder: Path) -> None:
    rows = [{"role": "user", "content": f"imported {n}"} for n in range(_IMPORTED)]
    (folder / "chat.json").write_text(json.dumps({"messages": rows}))


def _import(folder: Path, start: int, acknowledge: Acknowledge) -> None:
    del start
    memory = open_memory(folder)
    memory.import_file(
        folder / "chat.json",
        user_id="ana",
        thread_id="chat",
        progress=lambda done, _: acknowledge(done),
    )


def _judge_import(folder: Path, acknowledged: Sequence[Any]) -> list[str]:
    del acknowledged
    _import(folder, 0, lambda _: None)
    with _open_log(folder) as log:
        there = read_texts(log.entries(KEY))
    return compare(there, [f"imported {n}" for n in range(_IMPORTED)])


def _reindex(folder: Path, start: int, acknowledge: Acknowledge) -> None:
    size = 24 if start else 32
    memory = ConversationMemory.open(
        folder / "memory.db", embeddings=DeterministicFakeEmbedding(size=size)
    )
    memory.reindex(user_id="ana", progress=lambda done, _: acknowledge(done))


def _fill_and_index(folder: Path) -> None:
    _fill(folder)
    memory = open_memory(folder)
    memory.refresh(user_id="ana")
    memory.close()


def _judge_reindex(folder: Path, acknowledged: Sequence[Any]) -> list[str]:
    del acknowledged
    memory = ConversationMemory.open(
        folder / "memory.db", embeddings=DeterministicFakeEmbedding(size=32)
    )
    problems = list(memory.reindex(user_id="ana"))
    found = memory.recall("line 7 about the garden", user_id="ana")
    if not any(match.line.line_id == "q7" for match in found.matches):
        problems.append("a line is not found after re-indexing")
    there = read_texts(memory.log.entries(KEY))
    memory.close()
    return problems + compare(there, [f"line {n} about the garden" for n in range(_LINES)])


def _compact(folder: Path, start: int, acknowledge: Acknowledge) -> None:
    memory = open_memory(
        folder,
        summarizer=ExtractiveSummarizer(),
        summary_settings=SummarySettings(trigger=("tokens", 200), keep=("tokens", 80)),
        summarize_when="foreground",
    )
    for n in range(start, start + 100_000):
        memory.add_messages(
            [HumanMessage(f"said {n}", id=f"s{n}"), AIMessage(f"told {n}")],
            thread_id="chat",
            user_id="ana",
        )
        memory.summarize("chat", user_id="ana", force=n % 3 == 0)
        acknowledge(n)


def _judge_compact(folder: Path, acknowledged: Sequence[Any]) -> list[str]:
    with _open_log(folder) as log:
        entries = log.entries(KEY)
    live = find_live_entries(entries)
    covered = find_covers(live, find_nodes(live))
    shown = build_context(entries).positions
    found = compare(read_texts(live), [f"said {n}" for n in acknowledged])
    for entry in live:
        if entry.role != "summary" and (entry.id in covered) == (entry.position in shown):
            found.append(f"entry {entry.position} is not shown or covered exactly once")
    return found


def _copy(folder: Path, start: int, acknowledge: Acknowledge) -> None:
    del start
    with _open_log(folder) as source, SQLiteLog(folder / "copy.db") as target:
        copy_log(source, target, source_name="source", progress=lambda done, _: acknowledge(done))


def _judge_copy(folder: Path, acknowledged: Sequence[Any]) -> list[str]:
    _copy(folder, 0, lambda _: None)
    del acknowledged
    with _open_log(folder) as source, SQLiteLog(folder / "copy.db") as target:
        there, wanted = read_texts(target.entries(KEY)), read_texts(source.entries(KEY))
    return compare(there, wanted) + verify(folder / "copy.db")


def _back_up(folder: Path, start: int, acknowledge: Acknowledge) -> None:
    with _open_log(folder) as log:
        for n in range(start, start + 100_000):
            log.append(KEY, [make_draft(HumanMessage(f"said {n}", id=f"s{n}"))])
            log.backup(folder / f"backup-{n}.db")
            acknowledge(n)


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


PATHS: tuple[WritingPath, ...] = (
    WritingPath("turn of wrap", _do_nothing, _say, _judge_turns),
    WritingPath("conversation", _do_nothing, _converse, _judge_turns),
    WritingPath("annotate", _fill, _annotate, _judge_annotate),
    WritingPath("documents", _do_nothing, _count_up, _judge_count),
    WritingPath("edits", _do_nothing, _edit, _judge_edit),
    WritingPath("forget", _fill, _forget, _judge_forget),
    WritingPath("import", _write_import, _import, _judge_import),
    WritingPath("re-index", _fill_and_index, _reindex, _judge_reindex),
    WritingPath("summaries", _do_nothing, _compact, _judge_compact),
    WritingPath("copy", _fill, _copy, _judge_copy),
    WritingPath("backup", _fill, _back_up, _judge_backup),
)
