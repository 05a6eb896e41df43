"""Exports as ChatGPT and Claude deliver them, fabricated, and how long their import takes.

    python -m benchmarks.service_exports                       # 5,000 conversations of each
    python -m benchmarks.service_exports --count 500

Each import runs in a process of its own, into a new file: seconds, the most memory it held, and
what arrived; 5,000 conversations may take ten seconds of the processor and 250 MB. The
conversations have titles, times, branches, attached texts and a picture; each word of them comes
from a seeded generator.
"""

from __future__ import annotations

import json
import random
import re
import tempfile
import time
import uuid
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import ui
from benchmarks.rounds import run_json
from langchain_convmem import ConversationMemory

_WORDS = re.findall(
    r"\w+",
    "garden tulip ladder key neighbour Lyon train ticket budget recipe lemon invoice library "
    "backup server function because therefore maybe tomorrow Tuesday dentist bicycle contract "
    "holiday island harbour kitchen paint colour deep blue quarterly report",
)
_START = 1_650_000_000
_PER_FILE = 1_000
_PLAN = "The plan: paint the shed on Tuesday."


class _Chances(random.Random):
    """What differs from conversation to conversation."""

    def make_id(self) -> str:
        return str(uuid.UUID(int=self.getrandbits(128), version=4))

    def make_text(self, words: int) -> str:
        return " ".join(self.choices(_WORDS, k=words)).capitalize() + "."


def make_chatgpt(count: int) -> dict[str, Any]:
    """Return the files of an export of ChatGPT, its conversations in files of a thousand."""
    chances = _Chances(7)
    chats = [_make_tree(chances, index) for index in range(count)]
    parts = [chats[first : first + _PER_FILE] for first in range(0, count, _PER_FILE)]
    names = [f"conversations-{number:03}.json" for number in range(len(parts))]
    files: dict[str, Any] = dict(
        zip(names if len(parts) > 1 else ["conversations.json"], parts, strict=True)
    )
    files |= {"user.json": {"id": "user-1"}, "chat.html": "<html></html>"}
    return {**files, "file-note0-plan.txt": _PLAN, "file-pic0-sanitized.png": "\x89PNG"}


def _make_tree(chances: _Chances, index: int) -> dict[str, Any]:
    at = _START + index * 28_800
    nodes: dict[str, dict[str, Any]] = {"root": {"id": "root", "parent": None, "message": None}}

    def add(parent: str, role: str, words: int, after: float, **metadata: Any) -> str:
        own_id = chances.make_id()
        message = {
            "id": own_id,
            "author": {"role": role, "name": None, "metadata": {}},
            "create_time": at + after,
            "content": {"content_type": "text", "parts": [chances.make_text(words)]},
            "recipient": "all",
            "metadata": metadata,
        }
        nodes[own_id] = {"id": own_id, "parent": parent, "message": message}
        return own_id

    parent = "root"
    note = {"id": "file-note0", "name": "plan.txt", "mime_type": "text/plain"}
    for number in range(chances.randint(2, 9)):
        more = {"attachments": [note]} if number == 0 and index % 10 == 0 else {}
        asked = add(parent, "user", 15, number * 60, **more)
        parent = add(asked, "assistant", 60, number * 60 + 20, model_slug="some-model")
        if number == 1 and index % 7 == 0:
            add(asked, "assistant", 40, number * 60 + 30, model_slug="some-model")
    for name, node in nodes.items():
        node["children"] = [key for key, one in nodes.items() if one["parent"] == name]
    named = {"conversation_id": chances.make_id(), "title": chances.make_text(4)}
    return {**named, "create_time": at, "current_node": parent, "mapping": nodes}


def make_claude(count: int) -> dict[str, Any]:
    """Return the files of an export of Claude."""
    chances = _Chances(7)
    chats = [_make_list(chances, index) for index in range(count)]
    return {"users.json": [{"uuid": "u1", "full_name": "Ana"}], "conversations.json": chats}


def _make_list(chances: _Chances, index: int) -> dict[str, Any]:
    messages = []
    for number in range(2 * chances.randint(2, 9)):
        text = chances.make_text(60 if number % 2 else 15)
        at = time.gmtime(_START + index * 28_800 + number * 30)
        plan = [{"file_name": "plan.txt", "extracted_content": _PLAN}]
        message = {
            "uuid": chances.make_id(),
            "sender": "assistant" if number % 2 else "human",
            "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", at),
            "text": text,
            "content": [{"type": "text", "text": text}],
            "attachments": plan if number == 0 and index % 10 == 0 else [],
            "files": [],
        }
        messages.append(message)
    named = {"uuid": chances.make_id(), "name": chances.make_text(4)}
    return {**named, "chat_messages": messages}


def _import(archive: Path) -> dict[str, Any]:
    """Import in this process; return what it took."""
    before, cpu_before = time.perf_counter(), time.process_time()
    with ConversationMemory.open(archive.with_suffix(".db")) as memory:
        report = memory.import_file(archive, user_id="ana")
        seconds = time.perf_counter() - before
        titled = sum(bool(info.title) for info in memory.threads("ana"))
    return {
        "zip, MB": round(archive.stat().st_size / 2**20, 1),
        "lines": len(report),
        "threads": len(report.thread_ids),
        "titled": titled,
        "branches": report.branches,
        "unread": len(report.unread),
        "seconds": round(seconds, 1),
        "CPU s": round(time.process_time() - cpu_before, 1),
        "peak, MB": ui.read_peak() // 2**20,
    }


def _measure(folder: Path, count: int) -> dict[str, Any]:
    rows, bars = {}, []
    for name, make in (("ChatGPT", make_chatgpt), ("Claude", make_claude)):
        for size in (count // 10 or 1, count):
            path = folder / f"{name.lower()}-{size}.zip"
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                for file, content in make(size).items():
                    is_text = isinstance(content, str)
                    archive.writestr(file, content if is_text else json.dumps(content))
            row = run_json("benchmarks.service_exports", "--archive", str(path))
            rows[f"{name}, {size:,}"] = row
        bound = 10 * count / 5_000
        bars.append(ui.make_bar(f"CPU s for {count:,} of {name}", row["CPU s"], bound))
        bars.append(ui.make_bar(f"peak of {name}, MB", row["peak, MB"], 250))
    return {"imports": rows, "bars": bars}


def _make_table(report: dict[str, Any]) -> list[str]:
    rows = report["imports"]
    head = ("export", *next(iter(rows.values())))
    return ui.format_rows([head, *((name, *row.values()) for name, row in rows.items())])


def main(arguments: Sequence[str] | None = None) -> int:
    """Make exports, import them and print a table."""
    parser = ui.make_parser("benchmarks.service_exports", __doc__)
    parser.add_argument("--count", type=ui.parse_positive, default=5_000, help="of each service")
    parser.add_argument("--archive", type=Path, help="import this beside it; print what it took")
    options = parser.parse_args(arguments)
    if options.archive:
        print(json.dumps(_import(options.archive)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        report = _measure(Path(folder), options.count)
    return ui.print_report(report, _make_table, as_json=options.json)


if __name__ == "__main__":
    raise SystemExit(main())
