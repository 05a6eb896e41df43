"""Exports as ChatGPT and Claude deliver them, fabricated, and how long their import takes.

    python -m benchmarks.service_exports                       # 5,000 conversations of each
    python -m benchmarks.service_exports --count 500 --keep exports

Each import runs in a process of its own, into a new file: seconds, the most memory it held, and
what arrived. The conversations have titles, times, branches, tool calls, attached texts and
pictures; each word of them comes from a seeded generator.
"""

from __future__ import annotations

import json
import random
import re
import resource
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
_DAY_S = 86_400
_PER_FILE = 1_000
_ROUNDS = (2, 9)


def make_chatgpt_zip(path: Path, count: int, *, seed: int = 7) -> None:
    """Write an export of ChatGPT with `count` conversations, in files of a thousand."""
    rng = random.Random(seed)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("user.json", json.dumps({"id": "user-1", "email": "ana@example.org"}))
        archive.writestr("chat.html", "<html></html>")
        files = range(0, count, _PER_FILE)
        for number, first in enumerate(files):
            name = "conversations.json" if len(files) == 1 else f"conversations-{number:03}.json"
            indexes = range(first, min(first + _PER_FILE, count))
            archive.writestr(name, json.dumps([_make_chatgpt(rng, index) for index in indexes]))
        archive.writestr("file-note0-plan.txt", "The plan: paint the shed on Tuesday.")
        archive.writestr("file-pic0-sanitized.png", b"\x89PNG")


def make_claude_zip(path: Path, count: int, *, seed: int = 7) -> None:
    """Write an export of Claude with `count` conversations."""
    rng = random.Random(seed)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("users.json", json.dumps([{"uuid": "u1", "full_name": "Ana"}]))
        archive.writestr("projects.json", json.dumps([{"uuid": "p1", "name": "Shed", "docs": []}]))
        chats = [_make_claude(rng, index) for index in range(count)]
        archive.writestr("conversations.json", json.dumps(chats))


def _make_id(rng: random.Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def _make_text(rng: random.Random, words: int) -> str:
    return " ".join(rng.choice(_WORDS) for _ in range(words)).capitalize() + "."


def _make_chatgpt(rng: random.Random, index: int) -> dict[str, Any]:
    at = _START + index * _DAY_S / 3
    nodes: dict[str, dict[str, Any]] = {"root": {"id": "root", "parent": None, "message": None}}

    def add(parent: str, role: str, words: int, after: float) -> str:
        own_id = _make_id(rng)
        message = _make_message(own_id, role, _make_text(rng, words), at + after)
        nodes[own_id] = {"id": own_id, "parent": parent, "message": message}
        return own_id

    parent = "root"
    for number in range(rng.randint(*_ROUNDS)):
        asked = add(parent, "user", 15, number * 60)
        if number == 0 and index % 10 == 0:
            note = {"id": "file-note0", "name": "plan.txt", "mime_type": "text/plain"}
            nodes[asked]["message"]["metadata"]["attachments"] = [note]
        parent = add(asked, "assistant", 60, number * 60 + 20)
        if number == 1 and index % 7 == 0:
            add(asked, "assistant", 40, number * 60 + 30)
    for name, node in nodes.items():
        node["children"] = [key for key, one in nodes.items() if one["parent"] == name]
    return {
        "conversation_id": _make_id(rng),
        "title": _make_text(rng, 4),
        "create_time": at,
        "update_time": at + 600,
        "current_node": parent,
        "mapping": nodes,
    }


def _make_message(own_id: str, role: str, text: str, at: float) -> dict[str, Any]:
    return {
        "id": own_id,
        "author": {"role": role, "name": None, "metadata": {}},
        "create_time": at,
        "content": {"content_type": "text", "parts": [text]},
        "recipient": "all",
        "metadata": {"model_slug": "some-model"} if role == "assistant" else {},
    }


def _make_claude(rng: random.Random, index: int) -> dict[str, Any]:
    at = _START + index * _DAY_S // 3
    plan = [{"file_name": "plan.txt", "extracted_content": "Paint the shed on Tuesday."}]
    messages = []
    for number in range(2 * rng.randint(*_ROUNDS)):
        text = _make_text(rng, 60 if number % 2 else 15)
        messages.append(
            {
                "uuid": _make_id(rng),
                "sender": "assistant" if number % 2 else "human",
                "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at + number * 30)),
                "text": text,
                "content": [{"type": "text", "text": text}],
                "attachments": plan if number == 0 and index % 10 == 0 else [],
                "files": [],
            }
        )
    return {"uuid": _make_id(rng), "name": _make_text(rng, 4), "chat_messages": messages}


def _import(archive: str, target: str) -> dict[str, Any]:
    """Import in this process; return what it took."""
    before, cpu_before = time.perf_counter(), time.process_time()
    with ConversationMemory.open(target) as memory:
        report = memory.import_file(archive, user_id="ana")
        seconds = time.perf_counter() - before
        titled = sum(bool(info.title) for info in memory.threads("ana"))
    return {
        "zip, MB": round(Path(archive).stat().st_size / 2**20, 1),
        "lines": len(report),
        "threads": len(report.thread_ids),
        "titled": titled,
        "branches": report.branches,
        "unread": len(report.unread),
        "seconds": round(seconds, 1),
        "CPU s": round(time.process_time() - cpu_before, 1),
        "peak, MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def _measure(folder: Path, count: int) -> dict[str, Any]:
    rows = {}
    for name, make in (("ChatGPT", make_chatgpt_zip), ("Claude", make_claude_zip)):
        for size in (count // 10 or 1, count):
            archive = folder / f"{name.lower()}-{size}.zip"
            make(archive, size)
            target = archive.with_suffix(".db")
            target.unlink(missing_ok=True)
            words = ("--into", str(target), str(archive))
            rows[f"{name}, {size:,}"] = run_json("benchmarks.service_exports", *words)
    return rows


def _make_table(report: dict[str, Any]) -> list[str]:
    head = ("export", *next(iter(report.values())))
    return ui.format_rows([head, *((name, *row.values()) for name, row in report.items())])


def main(arguments: Sequence[str] | None = None) -> int:
    """Make exports, import them and print a table."""
    parser = ui.make_parser("benchmarks.service_exports", __doc__)
    parser.add_argument(
        "--count", type=ui.parse_positive, default=5_000, help="conversations of each"
    )
    parser.add_argument("--keep", type=Path, help="make the exports in this folder and keep them")
    parser.add_argument("--into", help="import one archive into this file, and print what it took")
    parser.add_argument("archive", nargs="?")
    options = parser.parse_args(arguments)
    if options.into:
        print(json.dumps(_import(options.archive, options.into)))
        return 0
    with tempfile.TemporaryDirectory() as made:
        if options.keep is not None:
            options.keep.mkdir(parents=True, exist_ok=True)
        report = _measure(options.keep or Path(made), options.count)
    return ui.print_report(report, _make_table, as_json=options.json)


if __name__ == "__main__":
    raise SystemExit(main())
