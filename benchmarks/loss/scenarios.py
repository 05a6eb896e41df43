"""What happens to a chat: failures, readers who leave, turns at once, edits.

A scenario disturbs a chat of one thread and returns what the user knows to have happened.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, closing, suppress
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from benchmarks.loss.judging import Happened
from benchmarks.loss.models import ProviderError, ScriptedModel, Together
from benchmarks.loss.systems import Chat, Setup, StorageError, System
from langchain_convmem.errors import LogError

__all__ = [
    "THREAD",
    "a_batch",
    "a_fallback_model",
    "an_answer_lost_on_the_way",
    "cancelled_task",
    "edited_question",
    "failing_write_of_the_answer",
    "failing_write_of_the_question",
    "left_stream",
    "provider_error_then_another_question",
    "provider_error_then_retry",
    "provider_error_then_retry_without_id",
    "retries_inside",
    "said",
    "stream_that_breaks",
    "turns_at_once_in_tasks",
    "turns_at_once_in_threads",
    "whole_chat_sent",
    "whole_chat_sent_with_ids",
]

THREAD = "t"
_WORDS = 3
"""Words of an answer that are shown before its stream is cut."""


def said(number: int, *, has_id: bool = True) -> HumanMessage:
    """Return what the user says in a turn."""
    name = f"q{number}" if has_id else None
    return HumanMessage(f"Q{number}: and what about that?", id=name)


def _begun(system: System, **setup: Any) -> Chat:
    """Return a chat that has one turn behind it."""
    system.chat(Setup(ScriptedModel())).ask(THREAD, said(1))
    return system.chat(Setup(**{"model": ScriptedModel(), **setup}))


# -- the storage fails -----------------------------------------------------------------------


def failing_write_of_the_question(system: System) -> Happened:
    """The storage is gone when a turn begins; a user who is told asks again later."""
    chat = _begun(system)
    system.is_broken = True
    return _asked_again_if_told(system, chat)


def failing_write_of_the_answer(system: System) -> Happened:
    """The storage goes while the model answers; a user who is told asks again later."""

    def breaks() -> None:
        if not has_broken.is_set():
            has_broken.set()
            system.is_broken = True

    has_broken = threading.Event()
    return _asked_again_if_told(system, _begun(system, model=ScriptedModel(during=breaks)))


def _asked_again_if_told(system: System, chat: Chat) -> Happened:
    is_told = False
    try:
        chat.ask(THREAD, said(2))
    except (StorageError, LogError):
        is_told = True
    system.is_broken = False
    if is_told:
        chat.ask(THREAD, said(2))
    return Happened(("Q1", "A1", "Q2", "A2"), swallowed=int(not is_told))


# -- the provider fails ----------------------------------------------------------------------


def _fails_once() -> Callable[[], None]:
    failures = [ProviderError("overloaded")]

    def during() -> None:
        if failures:
            raise failures.pop()

    return during


def provider_error_then_retry(system: System) -> Happened:
    """The provider fails, and the application sends the same message again."""
    chat = _begun(system, model=ScriptedModel(during=_fails_once()))
    with suppress(ProviderError):
        chat.ask(THREAD, said(2))
    chat.ask(THREAD, said(2))
    return Happened(("Q1", "A1", "Q2", "A2"))


def provider_error_then_another_question(system: System) -> Happened:
    """The provider fails, and the user goes on with something else."""
    chat = _begun(system, model=ScriptedModel(during=_fails_once()))
    with suppress(ProviderError):
        chat.ask(THREAD, said(2))
    chat.ask(THREAD, said(3))
    return Happened(("Q1", "A1", "Q2", "Q3", "A3"), failed=("Q2",))


def provider_error_then_retry_without_id(system: System) -> Happened:
    """The provider fails, and the application sends the same text again; messages have no ids."""
    chat = _begun(system, model=ScriptedModel(during=_fails_once()))
    with suppress(ProviderError):
        chat.ask(THREAD, said(2, has_id=False))
    chat.ask(THREAD, said(2, has_id=False))
    return Happened(("Q1", "A1", "Q2", "A2"))


def retries_inside(system: System) -> Happened:
    """The provider fails, and what calls it tries again by itself."""
    chat = _begun(system, model=ScriptedModel(during=_fails_once()), attempts=2)
    chat.ask(THREAD, said(2))
    return Happened(("Q1", "A1", "Q2", "A2"))


def a_fallback_model(system: System) -> Happened:
    """The model fails, and another answers."""
    chat = _begun(system, model=ScriptedModel(during=_fails_once()), fallback=ScriptedModel())
    chat.ask(THREAD, said(2))
    return Happened(("Q1", "A1", "Q2", "A2"))


def an_answer_lost_on_the_way(system: System) -> Happened:
    """All went well, but the application never heard so, and sends the same message again."""
    chat = _begun(system)
    chat.ask(THREAD, said(2))
    chat.ask(THREAD, said(2))
    return Happened(("Q1", "A1", "Q2", "A2"))


# -- streams and tasks that end early --------------------------------------------------------


def left_stream(system: System) -> Happened:
    """The reader of a stream leaves after a few words, which they have seen."""
    chat = _begun(system, model=ScriptedModel(lingers_after=_WORDS))
    shown = ""
    with closing(chat.stream(THREAD, said(2))) as pieces:  # type: ignore[type-var]  # a generator
        for number, piece in enumerate(pieces, 1):
            shown += str(piece.text)
            if number == _WORDS:
                break
    return Happened(("Q1", "A1", "Q2", "A2"), shown={"A2": shown.strip()})


def stream_that_breaks(system: System) -> Happened:
    """The provider's connection breaks after a few words, which the user has seen."""
    chat = _begun(system, model=ScriptedModel(breaks_after=_WORDS))
    shown = ""
    with suppress(ProviderError):
        for piece in chat.stream(THREAD, said(2)):
            shown += str(piece.text)
    return Happened(("Q1", "A1", "Q2", "A2"), shown={"A2": shown.strip()}, failed=("Q2", "A2"))


def cancelled_task(system: System) -> Happened:
    """A task that reads a stream is cancelled, as a server does when its client is gone."""
    system.chat(Setup(ScriptedModel())).ask(THREAD, said(1))

    async def job() -> str:
        chat = system.chat(Setup(ScriptedModel(lingers_after=_WORDS)))
        shown: list[str] = []
        has_seen = asyncio.Event()

        async def read() -> None:
            async with aclosing(chat.astream(THREAD, said(2))) as pieces:  # type: ignore[type-var]  # a generator
                async for piece in pieces:
                    shown.append(str(piece.text))
                    if len(shown) == _WORDS:
                        has_seen.set()

        task = asyncio.create_task(read())
        await has_seen.wait()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return "".join(shown)

    shown = system.arun(job)
    return Happened(("Q1", "A1", "Q2", "A2"), shown={"A2": shown.strip()})


# -- turns at once ---------------------------------------------------------------------------


def turns_at_once_in_threads(system: System) -> Happened:
    """Two threads of a process take a turn of the same chat."""
    chat = _begun(system, model=ScriptedModel(during=Together(2).wait))
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(chat.ask, THREAD, said(number)) for number in (2, 3)]:
            done.result()
    return Happened(("Q1", "A1", "Q2", "A2", "Q3", "A3"))


def turns_at_once_in_tasks(system: System) -> Happened:
    """Two tasks of an event loop take a turn of the same chat."""
    system.chat(Setup(ScriptedModel())).ask(THREAD, said(1))

    async def job() -> None:
        chat = system.chat(Setup(ScriptedModel(aduring=Together(2).await_)))
        await asyncio.gather(*(chat.aask(THREAD, said(number)) for number in (2, 3)))

    system.arun(job)
    return Happened(("Q1", "A1", "Q2", "A2", "Q3", "A3"))


def a_batch(system: System) -> Happened:
    """One call takes two turns of the same chat."""
    chat = _begun(system, model=ScriptedModel(during=Together(2).wait))
    chat.batch([(THREAD, said(2)), (THREAD, said(3))])
    return Happened(("Q1", "A1", "Q2", "A2", "Q3", "A3"))


# -- edits -----------------------------------------------------------------------------------


def edited_question(system: System) -> Happened:
    """The user puts another question in the place of the first, and the answers begin anew."""
    chat = system.chat(Setup(ScriptedModel()))
    for number in (1, 2):
        chat.ask(THREAD, said(number))
    chat.edit(THREAD, HumanMessage("Q3: this is what I mean.", id="q1"))
    return Happened(("Q3", "A3"))


# -- applications that keep the chat themselves ----------------------------------------------


def whole_chat_sent(system: System) -> Happened:
    """A chat page sends all that it shows with every question; its messages have no ids."""
    return _send_all(system, has_ids=False)


def whole_chat_sent_with_ids(system: System) -> Happened:
    """A chat page sends all that it shows with every question; its messages keep their ids."""
    return _send_all(system, has_ids=True)


def _send_all(system: System, *, has_ids: bool) -> Happened:
    chat = system.chat(Setup(ScriptedModel(), sends_all=True))
    shown: list[BaseMessage] = []
    for number in (1, 2, 3):
        shown.append(said(number, has_id=has_ids))
        reply = chat.send(THREAD, [one.model_copy() for one in shown])
        shown.append(AIMessage(str(reply.text), id=reply.id if has_ids else None))
    return Happened(("Q1", "A1", "Q2", "A2", "Q3", "A3"))
