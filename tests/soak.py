"""Mixed traffic over all hosts of one memory, for as long as wanted: does anything grow?

    python -m tests.soak [--seconds 600] [--seed 1]

Eight users talk at once, each through a host that changes from turn to turn: wrapped chains,
conversations, graphs, agents, MCP, the store, and the web chat over loopback; blocking, streaming,
asynchronous, streams that are left after their first piece, and models that fail. A user who has
said enough is checked against the log (all that was said stands there once, in order), forgotten,
and begins anew under the same name. One SQLite file, summaries and profile on.

Each second is measured: memory that the process holds, open files and sockets, threads. The last
third is compared with the second, memory by its median, the others by what was always there; the
first is for caches to fill.

Bars, which decide the exit code: no error that was not provoked, nothing lost, at most 5 % or 8 MB
more memory, two more open files or sockets and one more thread, as one moment has more connections
than another. What leaks grows with every turn: a run of ten minutes takes 25,000.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import random
import resource
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import uvicorn
from langchain_core.messages import AIMessage, BaseMessage
from mcp import Client

sys.path.insert(0, str(Path(__file__).parent / "support"))
from scripted_chat import ProviderError
from turn_hosts import HOSTS

from benchmarks.scripted_model import InstantModel
from langchain_convmem import ConversationMemory, SummarySettings
from langchain_convmem.integrations import ConversationStore, make_mcp_server
from langchain_convmem.offline import ExtractiveSummarizer
from langchain_convmem.records import ThreadKey
from langchain_convmem.testing import HashEmbeddings
from langchain_convmem.web.access import Access
from langchain_convmem.web.server import build_app

USERS = 8
TURNS_OF_A_LIFE = 40
THREADS = ("monday", "tuesday")
SETTINGS = SummarySettings(trigger=("tokens", 600), keep=("tokens", 200), max_summary_tokens=150)
MOST_MORE, MOST_MORE_MB = 0.05, 8.0
ROOM = {"handles": 2, "threads": 1}
_FAILS = "Fail, please."
_TOPICS = ("the bicycle", "a violin lesson", "the harbour", "my sister", "the garden", "a recipe")


class EchoModel(InstantModel):
    """Repeats what it was told last; fails when it is told to."""

    def answer(self, messages: Sequence[BaseMessage]) -> AIMessage:
        said = str(messages[-1].text).rpartition("\n")[2]
        if said.endswith(_FAILS):
            raise ProviderError(said)
        return AIMessage(f"You said: {said}")


@dataclass
class User:
    """A user's life so far.

    Attributes:
        name: Also after they were forgotten.
        said: What was said in each thread and is stored, in order.
        turns: How many turns they took in this life.
        lives: How many lives are over.
    """

    name: str
    said: dict[str, list[str]] = field(default_factory=dict)
    turns: int = 0
    lives: int = 0


class Traffic:
    """Users who talk through every host of one memory. Runs in one event loop."""

    def __init__(self, memory: ConversationMemory, address: str, seed: int) -> None:
        self.memory = memory
        self.chance = random.Random(seed)
        self.turns: Counter[str] = Counter()
        self.faults: list[str] = []
        self._client = httpx.AsyncClient(
            base_url=address,
            headers={"origin": address},
            timeout=60,
            follow_redirects=False,
            # Shorter than the server's, which else may close a connection as a request comes.
            limits=httpx.Limits(keepalive_expiry=1),
        )
        self._apps = {
            name: host.app(memory, EchoModel(), recall_tokens=200) for name, host in HOSTS.items()
        }
        self._ways: dict[str, Callable[[User, str, str], Awaitable[None]]] = {
            **{name: self._make_way(name) for name in HOSTS},
            "MCP": self._by_mcp,
            "store": self._by_store,
            "web": self._by_web,
        }

    async def run(self, user: User, until: float) -> None:
        """Take turns of a user until a time; then check what is stored."""
        while time.monotonic() < until:
            await self._take(user)
            if user.turns == TURNS_OF_A_LIFE:
                await self._end(user)
        await self._end(user)

    async def aclose(self) -> None:
        """Close what was opened."""
        await self._client.aclose()

    async def _take(self, user: User) -> None:
        user.turns += 1
        way = self.chance.choice(list(self._ways))
        thread = self.chance.choice(THREADS)
        topic = self.chance.choice(_TOPICS)
        text = f"This is number {user.turns} of {user.name}, about {topic}."
        try:
            await self._ways[way](user, thread, text)
        except Exception as error:  # noqa: BLE001 - every fault is counted and shown
            self.faults.append(f"{way}: {type(error).__name__}: {str(error)[:200]}")
        else:
            self.turns[way] += 1

    async def _end(self, user: User) -> None:
        """Compare a life with the log, and forget it."""
        for thread, said in user.said.items():
            entries = await self.memory.log.aentries(ThreadKey(user.name, thread))
            stored = [entry.contents[0] for entry in entries if entry.role == "user"]
            if stored != said:
                self.faults.append(f"lost: {user.name} {thread}: {len(stored)} of {len(said)}")
        await self.memory.aforget(user_id=user.name)
        user.said.clear()
        user.turns = 0
        user.lives += 1

    @staticmethod
    def _note(user: User, thread: str, text: str) -> None:
        user.said.setdefault(thread, []).append(text)

    def _make_way(self, name: str) -> Callable[[User, str, str], Awaitable[None]]:
        app = self._apps[name]
        kinds = ("invoke", "ainvoke", "stream", "astream", "left", "fails")

        async def take(user: User, thread: str, text: str) -> None:
            config: Any = {"configurable": {"user_id": user.name, "thread_id": thread}}
            kind = self.chance.choice(kinds)
            if kind == "fails":
                text = f"{text} {_FAILS}"
            self._note(user, thread, text)
            if kind == "invoke":
                await asyncio.to_thread(app.invoke, text, config)
            elif kind == "ainvoke":
                await app.ainvoke(text, config)
            elif kind == "stream":
                await asyncio.to_thread(lambda: list(app.stream(text, config)))
            elif kind == "astream":
                _ = [chunk async for chunk in app.astream(text, config)]
            elif kind == "left":
                async with aclosing(app.astream(text, config)) as chunks:
                    await anext(chunks)
            else:
                with suppress(ProviderError):
                    await app.ainvoke(text, config)
                    self.faults.append("a model's error did not reach its caller")

        return take

    async def _by_mcp(self, user: User, thread: str, text: str) -> None:
        self._note(user, thread, text)
        async with Client(make_mcp_server(self.memory, user_id=user.name)) as client:
            call = {"text": text, "said_by": "user", "thread_id": thread}
            assert not (await client.call_tool("remember", call)).is_error
            assert not (await client.call_tool("recall", {"query": text})).is_error
            assert not (await client.call_tool("profile", {})).is_error

    async def _by_store(self, user: User, thread: str, text: str) -> None:
        self._note(user, thread, text)
        store = ConversationStore(self.memory, user_id=user.name)
        value = {"role": "user", "content": text}
        await store.aput(("threads", thread), f"{user.lives}-{user.turns}", value)
        await store.asearch(("threads",), query=text, limit=3)

    async def _by_web(self, user: User, thread: str, text: str) -> None:
        self._note(user, thread, text)
        fields = {"user": user.name, "thread": thread, "text": text}
        answer = await self._client.post("/say", data=fields)
        assert answer.status_code == 200, f"{answer.status_code} {answer.text[:200]}"
        shown = {"user": user.name, "thread": thread}
        page = await self._client.get("/", params=shown, follow_redirects=True)
        assert page.status_code == 200, f"{page.status_code}"


def take_sample() -> dict[str, float]:
    """Return what the process holds now."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    handles = sum(1 for _ in Path("/proc/self/fd").iterdir())
    held = {"megabytes": pages * resource.getpagesize() / 1e6, "handles": handles}
    return {**held, "threads": threading.active_count()}


async def watch(samples: list[dict[str, float]], until: float) -> None:
    """Take a sample each second."""
    while time.monotonic() < until:
        await asyncio.sleep(1.0)
        samples.append(take_sample())


def compare(samples: Sequence[dict[str, float]]) -> list[dict[str, Any]]:
    """Return what was held in the second third and in the last, and whether that is a growth."""
    third = len(samples) // 3
    rows = []
    for name in samples[0]:
        # A run that is under way has threads and sockets of its own: what stays is the least.
        pick = median if name == "megabytes" else min
        before, after = (
            pick(one[name] for one in part)
            for part in (samples[third : 2 * third], samples[2 * third :])
        )
        room = ROOM.get(name, max(MOST_MORE * before, MOST_MORE_MB))
        rows.append({"what": name, "second": before, "last": after, "ok": after - before <= room})
    return rows


@asynccontextmanager
async def serving(memory: ConversationMemory) -> Any:
    """Run the web chat on loopback, in this loop; yield its address."""
    app = build_app(memory, {"echo": EchoModel()}, access=Access())
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", lifespan="off")
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    while not server.started:  # it has no event for that  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await running


async def soak(seconds: float, seed: int) -> int:
    """Run all traffic for so long, print what became of it, and return the exit code."""
    samples: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory(prefix="convmem-soak-") as folder:
        async with AsyncExitStack() as stack:
            memory = ConversationMemory.open(
                Path(folder) / "memory.db",
                embeddings=HashEmbeddings(),
                summarizer=ExtractiveSummarizer(),
                summary_settings=SETTINGS,
                profile_tokens=150,
            )
            await stack.enter_async_context(memory)
            address = await stack.enter_async_context(serving(memory))
            traffic = Traffic(memory, address, seed)
            until = time.monotonic() + seconds
            users = [User(f"user{number}") for number in range(USERS)]
            running = (traffic.run(user, until) for user in users)
            await asyncio.gather(watch(samples, until), *running)
            await traffic.aclose()
    rows, faults = compare(samples), traffic.faults
    lives = sum(user.lives for user in users)
    print(f"{traffic.turns.total():,} turns in {seconds:,.0f} s, {lives} users forgotten")
    print("  " + ", ".join(f"{name} {count:,}" for name, count in sorted(traffic.turns.items())))
    print(f"\n{'held':<12}{'second third':>14}{'last third':>14}")
    for row in rows:
        verdict = "ok" if row["ok"] else "GROWS"
        print(f"{row['what']:<12}{row['second']:>14,.1f}{row['last']:>14,.1f}  {verdict}")
    print("\n".join(["", f"faults: {len(faults)}", *faults[:10]]))
    return 1 if faults or not all(row["ok"] for row in rows) else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and return the exit code, which is 1 when a bar fails."""
    parser = argparse.ArgumentParser(
        prog="tests.soak",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=600.0, help="how long users talk")
    parser.add_argument("--seed", type=int, default=1, help="of what they say, and how")
    options = parser.parse_args(arguments)
    if options.seconds < 6:
        parser.error("--seconds must be at least 6")
    logging.getLogger("langchain_convmem").setLevel(logging.CRITICAL)
    return asyncio.run(soak(options.seconds, options.seed))


if __name__ == "__main__":
    sys.exit(main())
