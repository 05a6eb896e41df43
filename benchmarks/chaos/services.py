"""A DynamoDB that throttles, fails, and answers nothing or half after the write was done.

The service is moto on loopback, behind a server that fails as it is told. Whoever writes repeats a
call that failed, as applications do, with messages that have ids of their own.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from langchain_core.messages import HumanMessage

from benchmarks.chaos.drill import (
    DrillReport,
    compare,
    measure,
    read_texts,
    run_apart,
    show_drill,
)
from langchain_convmem.errors import LogUnavailableError
from langchain_convmem.records import ThreadKey
from langchain_convmem.views.codec import make_draft

KEY = ThreadKey("ana", "chat")
_WRITES = 12
_CALLS = ("PutItem", "Query", "BatchWriteItem")
_FAULTS = (
    "ProvisionedThroughputExceededException",
    "ThrottlingException",
    "InternalServerError",
    "lost",
    "cut",
    "empty",
)
_MOST_REPEATS = 60


def run_services(runs: int, seed: int) -> DrillReport:
    """Write through a failing service so many times, a dozen writes in each."""
    with measure("services") as report:
        for first in range(0, runs, 25):
            numbers = range(first, min(first + 25, runs))
            # One server for several runs: it takes longer to start than they do.
            found = run_apart(partial(_run_together, seed, numbers))
            for number in numbers:
                mine = [one for one in found if one.startswith(f"[{number}] ")]
                report.note("faults", number, mine)
            report.findings += [one for one in found if not one.startswith("[")]
            show_drill("services", numbers[-1] + 1, runs)
    return report


def _run_together(seed: int, numbers: range) -> list[str]:
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))
    from dynamodb_servers import (  # type: ignore[import-not-found]
        FaultyServer,
        moto_server,
        new_client,
        once_only,
    )

    found = []
    no_pause = mock.patch("langchain_convmem.logs.dynamodb.client.choose_pause_s", return_value=0)
    with moto_server() as endpoint, FaultyServer(endpoint) as server, no_pause:
        plain = new_client(endpoint)
        client = new_client(server.url, config=once_only())
        for number in numbers:
            chance = random.Random(seed * 1_000_003 + number)
            problems = _write_through(server, client, plain, f"log-{number}", chance)
            found += [f"[{number}] {problem}" for problem in problems]
    return found


def _write_through(
    server: Any, client: Any, plain: Any, table: str, chance: random.Random
) -> list[str]:
    from langchain_convmem.logs.dynamodb import DynamoDBLog

    sound = DynamoDBLog(table, client=plain)
    sound.create_table()
    log = DynamoDBLog(table, client=client)
    said: list[str] = []
    for n in range(_WRITES):
        server.faults = {
            name: [chance.choice(_FAULTS) for _ in range(chance.randint(0, 2))] for name in _CALLS
        }
        text = f"said {n}" + "x" * (400_000 if chance.random() < 0.1 else 0)
        draft = make_draft(HumanMessage(text, id=f"m{n}"))
        [entry] = _repeat(partial(log.append, KEY, [draft]))
        said.append(text)
        if chance.random() < 0.4:
            _repeat(partial(log.annotate, KEY, entry.id, attributes=[f"mark {n}"]))
        if chance.random() < 0.2:
            _repeat(partial(log.forget, KEY, [entry.id]))
            said.remove(text)
    server.faults = {}
    entries = sound.entries(KEY)
    texts = read_texts(entries)
    found = [one[:20] for one in compare(texts, said)]
    found += [f"forgotten, and there: {text[:20]!r}" for text in texts if text not in said]
    return found + [f"damaged at {one.position}" for one in entries if one.damage]


def _repeat(call: Callable[[], Any]) -> Any:
    for attempt in range(_MOST_REPEATS):
        try:
            return call()
        except LogUnavailableError:
            if attempt == _MOST_REPEATS - 1:
                raise
    return None
