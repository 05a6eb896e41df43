"""Exports as ChatGPT and Claude deliver them, fabricated, and how long their import takes.

    python -m benchmarks.service_exports                       # 5,000 conversations of each
    python -m benchmarks.service_exports --count 500 --keep exports

Each import runs in a process of its own, into a new file: seconds, the most memory it held, and
what arrived. The conversations have titles, times, branches, tool calls, attached texts and
pictures; each word of them comes from a seeded generator.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from langchain_convmem import ConversationMemory

_WORDS = [
    *("garden", "tulip", "ladder", "key", "neighbour", "Lyon", "train", "ticket", "budget"),
    *("recipe", "lemon", "invoice", "library", "backup", "server", "function", "because"),
    *("therefore", "maybe", "tomorrow", "Tuesday", "dentist", "bicycle", "contract", "holiday"),
    *("island", "harbour", "kitchen", "paint", "colour", "deep", "blue", "quarterly", "report"),
]
_START = 1_650_000_000
_DAY_S = 86_400
_PER_FILE = 1_000
_ROUNDS = (2, 9)


def make_chatgpt_zip(path: Path, count: int, *, seed: int = 7) -> None:
    """Write an export of ChatGPT with `count` conversations, in files of a thousand.

    Args:
        path: The zip to write.
        count: How many conversations.
        seed: Other seeds give other words.
    """
    rng = random.Random(seed)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("user.json", json.dumps({"id": "user-1", "email": "ana@example.org"}))
        archive.writestr("chat.html", "<html></html>")
        files = range(0, count, _PER_FILE)
        for number, first in enumerate(files):
            name = "conversations.json" if len(files) == 1 else f"conversations-{number:03}.json"
            chats = [
                _make_chatgpt(rng, index) for index in range(first, min(first + _PER_FILE, count))
            ]
            archive.writestr(name, json.dumps(chats))
        archive.writestr("file-note0-plan.txt", "The plan: paint the shed on Tuesday.")
        archive.writestr("file-pic0-sanitized.png", b"\x89PNG")


def make_claude_zip(path: Path, count: int, *, seed: int = 7) -> None:
    """Write an export of Claude with `count` conversations.

    Args:
        path: The zip to write.
        count: How many conversations.
        seed: Other seeds give other words.
    """
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
    parent = "root"
    for number in range(rng.randint(*_ROUNDS)):
        asked, answered = _make_id(rng), _make_id(rng)
        question = _make_message(asked, "user", _make_text(rng, 15), at + number * 60)
        if number == 0 and index % 10 == 0:
            kind = {"id": "file-note0", "name": "plan.txt", "mime_type": "text/plain"}
            question["metadata"]["attachments"] = [kind]
        answer = _make_message(answered, "assistant", _make_text(rng, 60), at + number * 60 + 20)
        nodes[asked] = {"id": asked, "parent": parent, "message": question}
        nodes[answered] = {"id": answered, "parent": asked, "message": answer}
        if number == 1 and index % 7 == 0:
            other = _make_id(rng)
            said = _make_message(other, "assistant", _make_text(rng, 40), at + number * 60 + 30)
            nodes[other] = {"id": other, "parent": asked, "message": said}
        parent = answered
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
    messages = []
    for number in range(2 * rng.randint(*_ROUNDS)):
        text = _make_text(rng, 15 if number % 2 == 0 else 60)
        attached = [{"file_name": "plan.txt", "extracted_content": "Paint the shed on Tuesday."}]
        messages.append(
            {
                "uuid": _make_id(rng),
                "sender": "human" if number % 2 == 0 else "assistant",
                "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at + number * 30)),
                "text": text,
                "content": [{"type": "text", "text": text}],
                "attachments": attached if number == 0 and index % 10 == 0 else [],
                "files": [],
            }
        )
    return {"uuid": _make_id(rng), "name": _make_text(rng, 4), "chat_messages": messages}


def _import(archive: str, target: str) -> None:
    """Import in this process and print what it took, as JSON."""
    before, cpu_before = time.perf_counter(), time.process_time()
    with ConversationMemory.open(target) as memory:
        report = memory.import_file(archive, user_id="ana")
        seconds = time.perf_counter() - before
        titled = sum(bool(info.title) for info in memory.threads("ana"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    row = {
        "seconds": seconds,
        "cpu": time.process_time() - cpu_before,
        "peak": peak,
        "threads": len(report.thread_ids),
        "titled": titled,
        "lines": len(report),
        "branches": report.branches,
        "unread": len(report.unread),
    }
    print(json.dumps(row))


def _measure(folder: Path, count: int) -> Iterator[str]:
    for name, make in (("ChatGPT", make_chatgpt_zip), ("Claude", make_claude_zip)):
        archive = folder / f"{name.lower()}-{count}.zip"
        make(archive, count)
        target = folder / f"{name.lower()}-{count}.db"
        target.unlink(missing_ok=True)
        words = [sys.executable, "-m", "benchmarks.service_exports", "--into", str(target)]
        done = subprocess.run([*words, str(archive)], capture_output=True, text=True, check=True)
        row = json.loads(done.stdout)
        yield (
            f"| {name} | {count:,} | {archive.stat().st_size / 2**20:.1f} | {row['lines']:,} "
            f"| {row['threads']:,} | {row['titled']:,} | {row['branches']:,} | {row['unread']} "
            f"| {row['seconds']:.1f} | {row['cpu']:.1f} | {row['peak'] / 2**20:.0f} |"
        )


def main() -> None:
    """Make exports, import them and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=5_000, help="conversations of each export")
    parser.add_argument("--keep", type=Path, help="make the exports in this folder and keep them")
    parser.add_argument("--into", help="import one archive into this file, and print what it took")
    parser.add_argument("archive", nargs="?", help="the archive for --into")
    args = parser.parse_args()
    if args.into:
        _import(args.archive, args.into)
        return
    print(
        "| export | conversations | zip, MB | lines | threads | titled | branches | unread "
        "| s | CPU s | peak, MB |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as made:
        folder = args.keep or Path(made)
        for count in (args.count // 10, args.count):
            for row in _measure(folder, count):
                print(row, flush=True)


if __name__ == "__main__":
    main()
