"""What a million turns ask of DynamoDB: a model, and the calls that it is checked against.

    python -m benchmarks.capacity [--json]

The model (`predict`) knows what a turn reads and writes, by rule: its requests, the units that the
service counts for them, and the bytes that stay. It is given nothing but how people talk: how long
they and the assistant speak, how many turns a thread has and a user has threads, between how many
servers a user moves, and how many tokens of a thread a model gets.

Each kind of traffic is then run over a table of moto's on loopback (`count`). There every item that
is put is weighed as the service does, and every call is billed by what it reads and writes: a
consistent read by 4 KB, a write by 1 KB and once more for the index. The calls of the service's own
client are counted, its retries too.

Bars, which decide the exit code: requests, read units, write units and stored bytes within 5 % of
what was counted, for each kind of traffic.

Money is an example: the prices are assumptions for an on-demand table, which `--read-price`,
`--write-price` and `--storage-price` replace.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields
from math import ceil
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda

from benchmarks.terminal import make_parser
from langchain_convmem import ConversationMemory
from langchain_convmem.logs.dynamodb import DynamoDBLog
from langchain_convmem.views.messages import count_tokens
from tests.support.dynamodb_servers import moto_server, new_client, new_table_name

BAR = 0.05
_WORDS = "we talked about the harbour and the old violin and what to cook on sunday "


@dataclass(frozen=True)
class Traffic:
    """How people talk.

    Attributes:
        name: What to call it.
        said: Characters of what the user says.
        replied: Characters of a reply.
        turns: How many turns a thread has.
        threads: How many threads a user has, one after the other.
        users: How many users there are.
        servers: Between how many servers users move, turn by turn.
        history_tokens: What a model gets of a thread at most; None is all of it.
    """

    name: str
    said: int
    replied: int
    turns: int
    threads: int
    users: int = 2
    servers: int = 1
    history_tokens: int | None = None


KINDS = (
    Traffic("support, short chats", said=120, replied=300, turns=5, threads=8, users=4),
    Traffic(
        "the same, four servers", said=120, replied=300, turns=5, threads=8, users=4, servers=4
    ),
    Traffic(
        "companion, one long thread",
        said=90,
        replied=220,
        turns=160,
        threads=1,
        history_tokens=2000,
    ),
    Traffic("long answers", said=200, replied=2600, turns=12, threads=3, servers=2),
    Traffic("one question each", said=150, replied=700, turns=1, threads=40),
)


@dataclass(frozen=True)
class Cost:
    """What traffic costs.

    Attributes:
        requests: Calls of the service.
        read_units: What it bills for reading.
        write_units: What it bills for writing, the index included.
        stored_bytes: What the table holds more, without its index.
    """

    requests: float
    read_units: float
    write_units: float
    stored_bytes: float

    def divide(self, turns: int) -> Cost:
        """Return the cost of one turn of so many."""
        return Cost(*(getattr(self, one.name) / turns for one in fields(self)))


# -- the model ------------------------------------------------------------------------------------

READ_BYTES, WRITE_BYTES = 4096, 1024
ITEM_BYTES = {"user": 405, "assistant": 422}
"""What an item takes beside the text of its message: keys, ids, times and the signature."""
NOTE_BYTES = 420
"""What the note takes that says where the view of a long thread begins."""
KEPT = 1.25
"""How many times as much as a model gets such a note keeps."""
NOTED_AFTER = 32
"""So many entries more are read before a thread gets a new one."""
CALLS = 9
"""Of a turn: its note, the thread, the end of the log (twice), two looks at what is new, the thread
again, two writes."""
_SINGLE_READS = 5
"""Of those, the ones that read one small item."""


def predict(traffic: Traffic) -> Cost:
    """Return what traffic costs, by rule; nothing is run."""
    said = traffic.said + ITEM_BYTES["user"]
    replied = traffic.replied + ITEM_BYTES["assistant"]
    units = 2 * (_count(said, WRITE_BYTES) + _count(replied, WRITE_BYTES))
    starts = _list_starts(traffic)
    read_until: dict[int, int] = {}
    requests = reads = writes = stored = 0
    for number in range(traffic.turns * traffic.threads):
        server, turn = number % traffic.servers, number % traffic.turns
        new = (number - read_until.get(server, 0)) * (said + replied) + said
        window = (turn - starts[turn]) * (said + replied)
        read_until[server] = number + 1
        requests += CALLS + (turn == 0)
        reads += _SINGLE_READS + (turn == 0)
        reads += _count(new, READ_BYTES) + _count(window, READ_BYTES)
        writes += units
        stored += said + replied
        if turn and starts[turn] != starts[turn - 1]:
            requests += 1
            writes += _count(NOTE_BYTES, WRITE_BYTES)
    users = traffic.users
    return Cost(requests * users, reads * users, writes * users, stored * users)


def _list_starts(traffic: Traffic) -> list[int]:
    """Return for each turn of a thread from which turn on the thread is read."""
    if traffic.history_tokens is None:
        return [0] * traffic.turns
    said, replied = HumanMessage(_say(traffic.said, 0)), AIMessage(_say(traffic.replied, 0))
    kept = int(KEPT * traffic.history_tokens / count_tokens([said, replied]))
    starts, start = [], 0
    for turn in range(traffic.turns):
        starts.append(start)
        if 2 * (turn - start - kept) >= NOTED_AFTER:
            start = turn - kept
    return starts


def _count(size: float, unit: int) -> int:
    return max(ceil(size / unit), 1)


# -- what is counted ------------------------------------------------------------------------------


class Meter:
    """Weighs what a client writes and reads, as the service does. Not thread-safe."""

    def __init__(self, client: Any) -> None:
        self.requests = self.read_units = self.write_units = 0
        self.sizes: dict[tuple[str, str], int] = {}
        self._params: Mapping[str, Any] = {}
        events = client.meta.events
        events.register("before-send.dynamodb", self._send)
        events.register("provide-client-params.dynamodb", self._keep)
        events.register("after-call.dynamodb", self._bill)

    def _send(self, **_: Any) -> None:
        self.requests += 1

    def _keep(self, params: Mapping[str, Any], **_: Any) -> None:
        self._params = params

    def _bill(self, model: Any, parsed: Mapping[str, Any], **_: Any) -> None:
        name = model.name
        if name == "PutItem":
            self._write(self._params["Item"])
        elif name == "GetItem":
            self.read_units += _count(self._weigh_known(self._params["Key"]), READ_BYTES)
        elif name == "Query":
            found = sum(map(self._weigh_known, parsed["Items"]))
            self.read_units += _count(found, READ_BYTES)
        else:
            msg = f"the model knows no {name}"
            raise AssertionError(msg)

    def _write(self, item: Mapping[str, Any]) -> None:
        size = weigh(item)
        self.sizes[item["pk"]["S"], item["sk"]["S"]] = size
        self.write_units += _count(size, WRITE_BYTES) * (1 + ("tp" in item))

    def _weigh_known(self, key: Mapping[str, Any]) -> int:
        """Return the size of an item, however little of it was asked for: all of it is read."""
        return self.sizes.get((key["pk"]["S"], key["sk"]["S"]), 0)


def weigh(item: Mapping[str, Any]) -> int:
    """Return the bytes of an item by the service's rules."""
    return sum(len(name.encode()) + _weigh_value(value) for name, value in item.items())


def _weigh_value(value: Mapping[str, Any]) -> int:
    [(kind, held)] = value.items()
    if kind == "S":
        return len(held.encode())
    if kind == "B":
        return len(held)
    if kind == "N":
        return len(held) // 2 + 2
    if kind == "L":
        return 3 + sum(1 + _weigh_value(one) for one in held)
    if kind == "M":
        return 3 + sum(1 + len(name.encode()) + _weigh_value(one) for name, one in held.items())
    return 1


def _say(length: int, number: int) -> str:
    text = f"Number {number}: " + _WORDS * (length // len(_WORDS) + 1)
    return text[:length]


def count(traffic: Traffic) -> Cost:
    """Return what traffic costs, by running it over a table on loopback."""
    with moto_server() as url, ExitStack() as stack:
        client = new_client(url)
        table = new_table_name()  # moto's tables outlive their server
        DynamoDBLog(table, client=client).create_table()
        meter = Meter(client)
        chains = []
        for _ in range(traffic.servers):
            log = DynamoDBLog(table, client=client)
            memory = stack.enter_context(ConversationMemory(log))
            reply: RunnableLambda[Any, AIMessage] = RunnableLambda(
                lambda _: AIMessage(_say(traffic.replied, 0))
            )
            chains.append(memory.wrap(reply, history_tokens=traffic.history_tokens))
        for user in range(traffic.users):
            for number in range(traffic.turns * traffic.threads):
                place = {"thread_id": f"t{number // traffic.turns}", "user_id": f"u{user}"}
                chain = chains[number % traffic.servers]
                chain.invoke(_say(traffic.said, number), {"configurable": place})
        return Cost(meter.requests, meter.read_units, meter.write_units, sum(meter.sizes.values()))


# -- the report -----------------------------------------------------------------------------------


def compare(traffic: Traffic) -> dict[str, Any]:
    """Return what was predicted and counted of a turn, and how far they are apart."""
    turns = traffic.turns * traffic.threads * traffic.users
    said, found = predict(traffic).divide(turns), count(traffic).divide(turns)
    rows = [
        {
            "what": one.name,
            "predicted": round(getattr(said, one.name), 3),
            "counted": round(getattr(found, one.name), 3),
            "off": round(getattr(said, one.name) / getattr(found, one.name) - 1, 4),
        }
        for one in fields(Cost)
    ]
    return {
        "traffic": asdict(traffic),
        "turns": turns,
        "rows": rows,
        "ok": all(abs(row["off"]) <= BAR for row in rows),
    }


def _price(rows: Sequence[Mapping[str, Any]], prices: Mapping[str, float]) -> float:
    """Return dollars for a million turns, storage for a month included."""
    by_name = {row["what"]: row["predicted"] for row in rows}
    stored_gb = 2 * by_name["stored_bytes"] * 1e6 / 1e9
    return float(
        by_name["read_units"] * prices["read"]
        + by_name["write_units"] * prices["write"]
        + stored_gb * prices["storage"]
    )


def describe(found: Sequence[Mapping[str, Any]]) -> str:
    """Return a table to read."""
    names = [one.name for one in fields(Cost)]
    lines = [
        f"{'of a turn: predicted (off)':<30}"
        + "".join(f"{name:>22}" for name in names)
        + f"{'$ a million':>14}"
    ]
    for one in found:
        cells = [f"{row['predicted']:,.2f} ({row['off']:+.1%})" for row in one["rows"]]
        lines.append(
            f"{one['traffic']['name']:<30}"
            + "".join(f"{cell:>22}" for cell in cells)
            + f"{one['dollars']:>14,.2f}"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare and print; return the exit code, which is 1 when a bar fails."""
    parser = make_parser("benchmarks.capacity", __doc__)
    parser.add_argument("--read-price", type=float, default=0.125, help="$ a million read units")
    parser.add_argument("--write-price", type=float, default=0.625, help="$ a million write units")
    parser.add_argument("--storage-price", type=float, default=0.25, help="$ a GB and month")
    options = parser.parse_args(arguments)
    prices = {
        "read": options.read_price,
        "write": options.write_price,
        "storage": options.storage_price,
    }
    found = [compare(one) for one in KINDS]
    for one in found:
        one["dollars"] = round(_price(one["rows"], prices), 2)
    print(
        json.dumps({"prices": prices, "kinds": found}, indent=2)
        if options.json
        else describe(found)
    )
    return 0 if all(one["ok"] for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
