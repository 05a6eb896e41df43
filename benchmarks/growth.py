"""How the time of each public operation grows with text that repeats one thing.

    python -m benchmarks.growth [--only NAME] [--characters N] [--json]

A pattern that tries again at every sign takes four times the text sixteen times as long, and
whoever sends such a text holds up everybody. Each operation gets N characters of each repeated
unit, and a quarter of them where that took a quarter of a second (below, a ratio says nothing), in
a process of its own that is ended when its processor time is used up. The command exits with 1
where four times the text took more than seven times as long, or any more than six seconds.
"""

from __future__ import annotations

import json
import math
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig

from benchmarks import ui
from benchmarks.chaos.drill import compute_apart
from langchain_convmem import ConversationMemory, ConvMemError
from langchain_convmem.offline import OfflineChatModel
from langchain_convmem.profile.statements import LONGEST_TEXT
from langchain_convmem.prompts import PromptFile
from langchain_convmem.testing import HashEmbeddings
from langchain_convmem.text.replies import read_reply
from langchain_convmem.words.facts import FactSource, find_facts, find_untold, list_points

MOST_SECONDS = 6.0
MOST_GROWTH = 7.0
LEAST_SECONDS = 0.25
CHARACTERS = 24_000
_FORMS = ("hermes", "mistral", "harmony", "pythonic")
_MOST_ADDRESS = 4_000
"""Characters of an address; a client sends no longer one, escaped."""

UNITS: list[str] = json.loads(
    (Path(__file__).parent / "data" / "growth_units.json").read_text("utf-8")
)
"""What is repeated."""


class Growth(NamedTuple):
    """How long one operation took on one repeated unit.

    Attributes:
        quarter: Seconds of processor for a quarter of the characters; 0 where it was not measured.
        whole: Seconds for all of them; infinite where it was ended.
    """

    unit: str
    quarter: float
    whole: float

    @property
    def is_fast(self) -> bool:
        """Whether it ended in time, and grew about as fast as the text."""
        return self.whole <= min(MOST_SECONDS, max(LEAST_SECONDS, MOST_GROWTH * self.quarter))


@contextmanager
def _open_memory(text: str = "") -> Iterator[ConversationMemory]:
    with (
        tempfile.TemporaryDirectory() as folder,
        ConversationMemory.open(Path(folder) / "memory.db", embeddings=HashEmbeddings()) as memory,
    ):
        said = [HumanMessage("I live in Ghent, and my sister Vera keeps bees."), AIMessage("Ah.")]
        memory.add_messages(said, thread_id="said", user_id="ana")
        if text:
            given = [HumanMessage(text), AIMessage(text)]
            memory.add_messages(given, thread_id="given", user_id="ana")
        yield memory


def _use(
    call: Callable[[ConversationMemory, str], object], most_added: int | None = 0
) -> Callable[[str], None]:
    """Return what uses a memory to which so much of the text was added, all of it for None."""

    def use(text: str) -> None:
        with _open_memory(text[:most_added]) as memory:
            call(memory, text)

    return use


_TURN: RunnableConfig = {"configurable": {"user_id": "ana", "thread_id": "turn"}}


def _list_facts(text: str) -> None:
    said = [FactSource(text, "Vera", 1)]
    find_untold(find_facts(said), text)
    list(list_points(said))


def _recall_over_mcp(text: str) -> None:
    import asyncio

    from mcp import Client

    from langchain_convmem.integrations.mcp_server import make_mcp_server

    with _open_memory() as memory:
        server = make_mcp_server(memory, user_id="ana")

        async def ask() -> None:
            async with Client(server) as client:
                await client.call_tool("recall", {"query": text})

        asyncio.run(ask())


def _send_on_page(text: str) -> None:
    from starlette.testclient import TestClient

    from langchain_convmem.web.server import build_app

    place = {"user": "ana", "thread": "given"}
    with (
        _open_memory(text) as memory,
        TestClient(build_app(memory, {"me": OfflineChatModel()}), "http://127.0.0.1") as client,
    ):
        client.post("/say", data={**place, "text": text})
        client.get("/chat", params=place)
        client.get("/search", params={"user": "ana", "q": text[:_MOST_ADDRESS]})


OPERATIONS: dict[str, Callable[[str], object]] = {
    "add": _use(lambda *_: None, None),
    "recall": _use(lambda memory, text: memory.recall(text, user_id="ana")),
    "recall added": _use(
        lambda memory, text: memory.recall(f"What do I say? {text}", user_id="ana", before=text),
        None,
    ),
    "retriever": _use(lambda memory, text: memory.retriever(user_id="ana").invoke(text)),
    "search": _use(lambda memory, text: text.isspace() or memory.search(text, user_id="ana"), None),
    # Of more it reads nothing.
    "profile": _use(lambda memory, _: memory.profile("ana").to_markdown(), LONGEST_TEXT),
    "turn": _use(lambda memory, text: memory.wrap(OfflineChatModel()).invoke(text, _TURN)),
    "facts": _list_facts,
    "prompt": lambda text: PromptFile.parse(f"__ Prompt __\n{text}\n", strict=False),
    "reply": lambda text: [read_reply(text, form) for form in _FORMS],
    "mcp": _recall_over_mcp,
    "web": _send_on_page,
}


def measure(operation: str, unit: str, characters: int = CHARACTERS) -> Growth:
    """Return how long an operation takes on a repeated unit, and how that grows."""
    whole = _time(operation, unit, characters)
    is_told = LEAST_SECONDS < whole < math.inf
    quarter = _time(operation, unit, characters // 4) if is_told else 0.0
    return Growth(unit, quarter, whole)


def _time(operation: str, unit: str, characters: int) -> float:
    """Return the seconds of processor that an operation takes in a process of its own."""
    text = (unit * (characters // len(unit) + 1))[:characters]

    def work() -> float:
        limit = math.ceil(MOST_SECONDS) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        start = time.process_time()
        with suppress(ConvMemError):  # a blank question is refused
            OPERATIONS[operation](text)
        return time.process_time() - start

    found = compute_apart(work)
    return found if isinstance(found, float) else math.inf


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code, which is 1 where something grows too fast."""
    parser = ui.make_parser("benchmarks.growth", __doc__)
    parser.add_argument("--only", action="append", choices=OPERATIONS, help="an operation")
    parser.add_argument(
        "--characters", type=ui.parse_positive, default=CHARACTERS, help="of the longest text"
    )
    options = parser.parse_args(arguments)
    slow: list[str] = []
    report: dict[str, Any] = {}
    for operation in options.only or OPERATIONS:
        OPERATIONS[operation]("a")  # imports and reads what every process needs
        grown = []
        for unit in UNITS:
            ui.show_progress(f"{operation} of {unit!r}")
            grown.append(measure(operation, unit, options.characters))
        slow += [f"{operation} of {one.unit!r}" for one in grown if not one.is_fast]
        worst = max(grown, key=lambda one: one.whole)
        growth = max((one.whole / one.quarter for one in grown if one.quarter), default=0.0)
        report[operation] = {"seconds": worst.whole, "of": repr(worst.unit), "growth": growth}

    def make_table(report: dict[str, Any]) -> list[str]:
        rows = [(name, *report[name].values()) for name in report if name in OPERATIONS]
        return [*ui.format_rows([("", "slowest, s", "of", "growth"), *rows]), *slow]

    report["bars"] = [ui.make_bar("operations that grow too fast", len(slow), 0)]
    return ui.print_report(report, make_table, as_json=options.json)


if __name__ == "__main__":
    raise SystemExit(main())
