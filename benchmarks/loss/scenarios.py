"""What happens to a chat: failures, readers who leave, turns at once, edits, tools, objects.

A scenario disturbs a chat of one thread and returns what the user knows to have happened.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, closing, suppress
from functools import partial
from itertools import islice
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    ToolMessage,
)
from langchain_core.tools import tool

from benchmarks.loss.judging import Happened
from benchmarks.loss.models import (
    GRACE_S,
    Advice,
    ProviderError,
    ScriptedModel,
    Together,
    call_tool,
    state,
)
from benchmarks.loss.systems import Setup, StorageError, System, UnsupportedError
from langchain_convmem.errors import LogError

THREAD = "t"
_WORDS = 3
"""Words of an answer that are shown before its stream is cut."""
_START_S = 60.0
Scenario: TypeAlias = Callable[[System], Happened]
SCENARIOS: dict[str, Scenario] = {}
"""By name, in the order of the table."""


def _named(name: str) -> Callable[[Scenario], Scenario]:
    def add(scenario: Scenario) -> Scenario:
        SCENARIOS[name] = scenario
        return scenario

    return add


def _say(number: int, *, has_id: bool = True) -> HumanMessage:
    """Return what the user says in a turn."""
    name = f"q{number}" if has_id else None
    return HumanMessage(f"Q{number}: and what about that?", id=name)


def _whole(*numbers: int, **more: Any) -> Happened:
    """Return that these turns were asked and answered, in this order."""
    return Happened([f"{letter}{number}" for number in numbers for letter in "QA"], **more)


def _begin(system: System, **setup: Any) -> Any:
    """Return a chat that has one turn behind it."""
    system.chat(Setup(ScriptedModel())).ask(THREAD, _say(1))
    return system.chat(Setup(**{"model": ScriptedModel(), **setup}))


# -- the storage fails -----------------------------------------------------------------------


@_named("failing-log-question")
def _fail_to_write_the_question(system: System) -> Happened:
    """The storage is gone when a turn begins; a user who is told asks again later."""
    chat = _begin(system)
    system.is_broken = True
    return _ask_again_if_told(system, chat)


@_named("failing-log-answer")
def _fail_to_write_the_answer(system: System) -> Happened:
    """The storage goes while the model answers; a user who is told asks again later."""
    failures = [True]

    def fail() -> None:
        if failures:
            system.is_broken = failures.pop()

    return _ask_again_if_told(system, _begin(system, model=ScriptedModel(during=fail)))


def _ask_again_if_told(system: System, chat: Any) -> Happened:
    is_told = False
    try:
        chat.ask(THREAD, _say(2))
    except (StorageError, LogError):
        is_told = True
    system.is_broken = False
    if is_told:
        chat.ask(THREAD, _say(2))
    return _whole(1, 2, swallowed=int(not is_told))


# -- the provider fails, or all goes well and nobody hears of it ------------------------------


class _Asking(NamedTuple):
    """A chat with one turn behind it, of which messages are sent, whatever fails on the way.

    Attributes:
        what: What happens.
        asks: The turns that are asked.
        fails: Whether the provider fails once.
        has_ids: Whether the user's messages have ids.
        setup: What the chat is made of beside.
        lost: Whether what was asked first is said to have failed.
    """

    what: str
    asks: tuple[int, ...]
    fails: bool = True
    has_ids: bool = True
    setup: Callable[[], dict[str, Any]] = dict
    lost: bool = False

    def play(self, system: System) -> Happened:
        failures = [ProviderError("overloaded")] if self.fails else []

        def fail() -> None:
            if failures:
                raise failures.pop()

        chat = _begin(system, model=ScriptedModel(during=fail), **self.setup())
        for number in self.asks:
            with suppress(ProviderError):
                chat.ask(THREAD, _say(number, has_id=self.has_ids))
        if self.lost:
            return Happened(("Q1", "A1", "Q2", "Q3", "A3"), failed=("Q2",))
        return _whole(1, 2)


_ASKINGS = {
    "provider-error-retry": _Asking(
        "The provider fails, and the application sends the same message again.", (2, 2)
    ),
    "retry-without-id": _Asking(
        "The provider fails, and the same text is sent again, without ids.", (2, 2), has_ids=False
    ),
    "provider-error-goes-on": _Asking(
        "The provider fails, and the user goes on with something else.", (2, 3), lost=True
    ),
    "retry-inside": _Asking(
        "The provider fails, and what calls it tries again by itself.",
        (2,),
        setup=lambda: {"attempts": 2},
    ),
    "fallback-model": _Asking(
        "The model fails, and another answers.", (2,), setup=lambda: {"fallback": ScriptedModel()}
    ),
    "answer-lost-sent-again": _Asking(
        "All went well, but the application never heard so, and sends the same message again.",
        (2, 2),
        fails=False,
    ),
}
SCENARIOS |= {name: asking.play for name, asking in _ASKINGS.items()}


# -- streams and tasks that end early --------------------------------------------------------


def _read_some_words(system: System, failed: tuple[str, ...] = (), **model: Any) -> Happened:
    """The reader of a stream leaves, or it breaks, after a few words, which the user has seen."""
    chat = _begin(system, model=ScriptedModel(**model))
    shown = ""
    with suppress(ProviderError), closing(chat.stream(THREAD, _say(2))) as pieces:
        for piece in islice(pieces, _WORDS if "lingers_after" in model else None):
            shown += str(piece.text)
    return _whole(1, 2, shown={"A2": shown.strip()}, failed=failed)


SCENARIOS["abandoned-stream"] = partial(_read_some_words, lingers_after=_WORDS)
SCENARIOS["broken-stream"] = partial(_read_some_words, breaks_after=_WORDS, failed=("Q2", "A2"))


@_named("cancelled-task")
def _cancel_a_task(system: System) -> Happened:
    """A task that reads a stream is cancelled, as a server does when its client is gone."""
    _begin(system)
    shown: list[str] = []

    async def run() -> None:
        chat = system.chat(Setup(ScriptedModel(lingers_after=_WORDS)))
        has_seen = asyncio.Event()

        async def read() -> None:
            async with aclosing(chat.astream(THREAD, _say(2))) as pieces:
                async for piece in pieces:
                    shown.append(str(piece.text))
                    if len(shown) == _WORDS:
                        has_seen.set()

        task = asyncio.create_task(read())
        await has_seen.wait()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    system.arun(run)
    return _whole(1, 2, shown={"A2": "".join(shown).strip()})


# -- turns at once ---------------------------------------------------------------------------


@_named("two-turns-threads")
def _take_turns_in_threads(system: System) -> Happened:
    """Two threads of a process take a turn of the same chat."""
    chat = _begin(system, model=ScriptedModel(during=Together().wait))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda number: chat.ask(THREAD, _say(number)), (2, 3)))
    return _whole(1, 2, 3)


@_named("two-turns-tasks")
def _take_turns_in_tasks(system: System) -> Happened:
    """Two tasks of an event loop take a turn of the same chat."""
    _begin(system)

    async def run() -> None:
        chat = system.chat(
            Setup(ScriptedModel(aduring=partial(asyncio.to_thread, Together().wait)))
        )
        await asyncio.gather(*(chat.aask(THREAD, _say(number)) for number in (2, 3)))

    system.arun(run)
    return _whole(1, 2, 3)


@_named("two-turns-processes")
def _take_turns_in_processes(system: System) -> Happened:
    """Two processes take a turn of the same chat."""
    _begin(system)
    context = multiprocessing.get_context("spawn")
    barriers = context.Barrier(2), context.Barrier(2)
    shared = type(system), system.folder
    workers = [context.Process(target=_take_turn, args=(*shared, n, *barriers)) for n in (2, 3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(2 * _START_S)
    failed = [worker.exitcode for worker in workers if worker.exitcode]
    if failed:
        raise RuntimeError(f"a process ended with exit code {failed[0]}")
    return _whole(1, 2, 3)


def _take_turn(
    system: type[System], folder: Path, number: int, both_started: Barrier, both_asked: Barrier
) -> None:
    def wait() -> None:
        with suppress(threading.BrokenBarrierError):
            both_asked.wait(GRACE_S)

    with system(folder) as opened:
        chat = opened.chat(Setup(ScriptedModel(during=wait)))
        both_started.wait(_START_S)
        chat.ask(THREAD, _say(number))


@_named("batch")
def _take_a_batch(system: System) -> Happened:
    """One call takes two turns of the same chat."""
    chat = _begin(system, model=ScriptedModel(during=Together().wait))
    chat.batch([(THREAD, _say(2)), (THREAD, _say(3))])
    return _whole(1, 2, 3)


# -- tools, run by the chain or by the application ---------------------------------------------


@tool
def look() -> str:
    """Look."""
    return "a bicycle"


class _ToolError(Exception):
    """What a tool raises."""


@_named("tool-loop")
def _call_tools(system: System) -> Happened:
    """The model calls a tool and answers; nothing is in the way."""
    chat = system.chat(Setup(ScriptedModel(reply=call_tool), tools=[look]))
    for number in (1, 2):
        chat.ask(THREAD, _say(number))
    return _whole(1, 2)


@_named("tool-loop-cut-short")
def _cut_a_tool_loop_short(system: System) -> Happened:
    """A tool breaks down after the model has called it; the user goes on."""

    @tool("look")
    def fail() -> str:
        """Look."""
        raise _ToolError("the door is locked")

    chat = system.chat(Setup(ScriptedModel(reply=call_tool), tools=[fail]))
    try:
        chat.ask(THREAD, _say(1))
    except _ToolError:
        return Happened(("Q1",), failed=("Q1",))
    return _whole(1)  # the model was told, and answered


@_named("tool-loop-of-caller")
def _run_tools_oneself(system: System) -> Happened:
    """The model calls a tool, the application runs it and sends the result, twice."""
    chat = system.chat(Setup(ScriptedModel(reply=call_tool), tools=[look], by_caller=True))
    for number in (1, 2):
        _send_results(chat, chat.send(THREAD, [_say(number)]).tool_calls)
    return _whole(1, 2)


def _send_results(chat: Any, calls: list[Any]) -> None:
    if not calls:
        raise UnsupportedError("it runs its tools itself")
    results = [
        ToolMessage(str(look.invoke(call["args"])), tool_call_id=str(call["id"])) for call in calls
    ]
    chat.send(THREAD, results)


@_named("calls-without-end")
def _stream_calls_without_an_end(system: System) -> Happened:
    """A stream of a tool call alone ends without saying why; the application sends the result."""
    model = ScriptedModel(reply=call_tool, has_end=False)
    chat = system.chat(Setup(model, tools=[look], by_caller=True))
    pieces = [piece for piece in chat.stream(THREAD, _say(1)) if isinstance(piece, AIMessageChunk)]
    if not any(piece.text for piece in pieces):  # an agent has answered by itself
        _send_results(chat, [call for piece in pieces for call in piece.tool_calls])
    return _whole(1)


@_named("calls-broken-off")
def _break_a_stream_of_calls(system: System) -> Happened:
    """The connection breaks behind a tool call and before a word; the user goes on."""
    model = ScriptedModel(reply=call_tool, breaks_after=1)
    chat = system.chat(Setup(model, tools=[look], by_caller=True))
    with suppress(ProviderError):
        for _ in chat.stream(THREAD, _say(1)):
            pass
    system.chat(Setup(ScriptedModel())).ask(THREAD, _say(2))
    return Happened(("Q1", "Q2", "A2"), failed=("Q1",))


@_named("structured-output")
def _make_an_object(system: System) -> Happened:
    """The model makes an object, which the application shows; then the user goes on."""
    chat = system.chat(Setup(ScriptedModel(reply=state), schema=Advice))
    for number in (1, 2):
        found = chat.send(THREAD, [_say(number)])
        if found != Advice(text=f"A{number}, as far as I know."):
            raise RuntimeError(f"the application got {found!r}")
    return _whole(1, 2)


@_named("checkpoint-resume")
def _resume_after_a_restart(system: System) -> Happened:
    """A tool waits for somebody's decision, which comes after the process was started anew."""

    @tool("look")
    def ask_first() -> str:
        """Look, if one may."""
        from langgraph.types import interrupt

        return f"allowed: {interrupt('May I look?')}"

    if not system.can_pause:
        raise UnsupportedError("a chain cannot pause")
    _begin(system)
    setup = Setup(ScriptedModel(reply=call_tool), tools=[ask_first])
    system.chat(setup).ask(THREAD, _say(2))
    system.reopen()
    system.chat(setup).resume(THREAD, "yes")
    return _whole(1, 2)


# -- edits, and applications that keep the chat themselves -------------------------------------


@_named("edit-then-regenerate")
def _edit_a_question(system: System) -> Happened:
    """The user puts another question in the place of the first, and the answers begin anew."""
    chat = system.chat(Setup(ScriptedModel()))
    for number in (1, 2):
        chat.ask(THREAD, _say(number))
    chat.edit(THREAD, HumanMessage("Q3: this is what I mean.", id="q1"))
    return _whole(3)


def _send_all(system: System, *, has_ids: bool) -> Happened:
    """A chat page sends all that it shows with every question, with ids of messages or without."""
    chat = system.chat(Setup(ScriptedModel(), sends_all=True))
    shown: list[BaseMessage] = []
    for number in (1, 2, 3):
        shown.append(_say(number, has_id=has_ids))
        reply = chat.send(THREAD, [one.model_copy() for one in shown])
        shown.append(AIMessage(str(reply.text), id=reply.id if has_ids else None))
    return _whole(1, 2, 3)


SCENARIOS["whole-chat-sent"] = partial(_send_all, has_ids=False)
SCENARIOS["whole-chat-with-ids"] = partial(_send_all, has_ids=True)
