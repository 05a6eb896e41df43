"""Replies under way: each is written by a task of its own, and as many pages as wish follow it.

A page that is left or reloaded does not stop a reply; only its stop button does. What has come is
written down every second as a cache beside the thread, so that a server that is killed loses at
most that second: whoever opens the thread next gets it as an interrupted reply.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from langchain_convmem.errors import ConvMemError
from langchain_convmem.ids import get_now_ms
from langchain_convmem.message_log import CACHE_PREFIX
from langchain_convmem.records import StateDocument, ThreadKey
from langchain_convmem.views.edits import INTERRUPTED
from langchain_convmem.views.live import find_live_entries
from langchain_convmem.web.threads import select_options

if TYPE_CHECKING:
    from langchain_core.runnables import Runnable, RunnableConfig

    from langchain_convmem.memory import ConversationMemory

State = Literal["waiting", "done", "stopped", "failed"]
DRAFT_DOCUMENT = f"{CACHE_PREFIX}reply_draft"
"""Name of the document that keeps what a reply has brought: `{"question", "text", "at_ms"}`."""
_SAVE_EVERY_S = 1.0
_ABANDONED_MS = 4_000
"""A draft that nobody has written to for so long belongs to a server that is gone."""


class ReplyEvent(NamedTuple):
    """What a page learns of a reply: `text`, then one of `done`, `stopped`, `failed`."""

    name: str
    data: Mapping[str, Any]


@dataclass(eq=False)
class LiveReply:
    """A reply that is being written. Belongs to one event loop.

    Attributes:
        key: Its thread.
        question: What it answers, with its id.
        state: What has become of it.
        failure: Why it failed, for people; empty otherwise.
        pieces: What has come, in order.
    """

    key: ThreadKey
    question: HumanMessage
    state: State = "waiting"
    failure: str = ""
    pieces: list[str] = field(default_factory=list)
    task: asyncio.Task[None] | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, text: str) -> None:
        """Take in what came."""
        if text:
            self.pieces.append(text)
            self._wake()

    def finish(self, task: asyncio.Task[None]) -> None:
        """Take in how the task that wrote it ended."""
        error = None if task.cancelled() else task.exception()
        if task.cancelled():
            self.state = "stopped"
        elif error is None:
            self.state = "done"
        else:
            self.state, self.failure = "failed", describe_failure(error)
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def follow(self) -> AsyncIterator[ReplyEvent]:
        """Yield all that has come and that comes, in as few pieces as the reader can take."""
        seen = 0
        while True:
            changed = self._changed
            if seen < len(self.pieces):
                text = "".join(self.pieces[seen:])
                seen = len(self.pieces)
                yield ReplyEvent("text", {"text": text})
            elif self.state != "waiting":
                yield ReplyEvent(
                    self.state, {"question": self.question.id, "failure": self.failure}
                )
                return
            else:
                await changed.wait()


def describe_failure(error: BaseException) -> str:
    """Return an error as a sentence for the person whose reply it cost."""
    if isinstance(error, ConvMemError):
        return str(error)
    said = " ".join(str(error).split())[:300]
    return f"The model failed: {type(error).__name__}{': ' if said else ''}{said}"


class LiveReplies:
    """The replies under way on this server. Belongs to one event loop."""

    def __init__(
        self, memory: ConversationMemory, chains: Mapping[str, Runnable[Any, Any]]
    ) -> None:
        """Write replies with chains that `memory.wrap` made, by the names of their models."""
        self._memory = memory
        self._chains = chains
        self._running: dict[ThreadKey, list[LiveReply]] = {}
        self._aside: set[asyncio.Task[Any]] = set()

    def start(
        self, key: ThreadKey, question: HumanMessage, settings: Mapping[str, Any]
    ) -> LiveReply:
        """Begin to answer a question; those of one thread are answered one after the other.

        Args:
            key: The thread.
            question: What the user says. Under the id of an earlier message it takes the place of
                that one and of all after it; with the same text it is answered anew.
            settings: What the thread sets, by name: options of the turn, `instructions`, `model`.
                A model that is not there any more gives way to the first.
        """
        reply = LiveReply(key, question)
        config: RunnableConfig = {
            "configurable": {
                "user_id": key.user_id,
                "thread_id": key.thread_id,
                "memory": select_options(settings),
            }
        }
        instructions = settings.get("instructions")
        said = [*([SystemMessage(instructions)] if instructions else []), question]
        chain = self._chains.get(settings.get("model", "")) or next(iter(self._chains.values()))
        writing = self._write(reply, chain.astream(said, config))
        reply.task = asyncio.create_task(writing, name="convmem reply")
        self._running.setdefault(key, []).append(reply)
        reply.task.add_done_callback(self._make_end(reply))
        return reply

    def _make_end(self, reply: LiveReply) -> Callable[[asyncio.Task[None]], None]:
        def end(task: asyncio.Task[None]) -> None:
            left = self._running.get(reply.key, [])
            if reply in left:
                left.remove(reply)
            if not left:
                self._running.pop(reply.key, None)
            reply.finish(task)

        return end

    def find(self, key: ThreadKey) -> LiveReply | None:
        """Return the reply that is under way in a thread, the earliest of several."""
        return next(iter(self._running.get(key, ())), None)

    def stop(self, key: ThreadKey) -> int:
        """Stop all that is under way in a thread; what came is kept. Return how many there were."""
        running = list(self._running.get(key, ()))
        for reply in running:
            if reply.task is not None:
                reply.task.cancel()
        return len(running)

    def stop_all(self) -> None:
        """Stop everything, before the server ends."""
        for key in list(self._running):
            self.stop(key)

    def run_aside(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run what nobody waits for, and whose failure the next turn meets again."""
        task = asyncio.create_task(work, name="convmem aside")
        self._aside.add(task)
        task.add_done_callback(self._end_aside)

    def _end_aside(self, task: asyncio.Task[Any]) -> None:
        self._aside.discard(task)
        if not task.cancelled():
            task.exception()  # seen, and met again by whoever needs the lines

    async def aclose(self) -> None:
        """Stop everything, and wait until what came is stored."""
        self.stop_all()
        tasks = [one.task for left in self._running.values() for one in left if one.task]
        tasks += self._aside
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _write(self, reply: LiveReply, stream: Any) -> None:
        draft = _ReplyDraft(self._memory, reply)
        saving = asyncio.create_task(draft.keep_saving(), name="convmem reply draft")
        try:
            async with aclosing(stream) as chunks:
                async for chunk in chunks:
                    reply.add(chunk.text)
        finally:
            saving.cancel()
            # Here the log has the reply, whole or cut: a draft would say it twice.
            await asyncio.shield(draft.drop(saving))

    async def recover(self, key: ThreadKey) -> bool:
        """Store what a server that was killed had of a reply; return whether there was any.

        The reply is stored as interrupted, once, unless the question was answered or taken back
        since.
        """
        log = self._memory.log
        if self.find(key) is not None:
            return False
        draft = await log.aget_state(key, DRAFT_DOCUMENT)
        if draft is None or get_now_ms() - draft.value["at_ms"] < _ABANDONED_MS:
            return False
        # Of two pages that are opened at once, one gets the document, and stores the reply.
        mark = {**draft.value, "at_ms": get_now_ms()}
        if await log.aset_state(key, DRAFT_DOCUMENT, mark, expected=draft.version) is None:
            return False
        is_stored = await self._store_draft(key, draft)
        await log.adelete_state(key, DRAFT_DOCUMENT)
        return is_stored

    async def _store_draft(self, key: ThreadKey, draft: StateDocument) -> bool:
        live = find_live_entries(await self._memory.log.aentries(key, last=60))
        said = [entry for entry in live if entry.role != "summary"]
        if not said or said[-1].message_id != draft.value["question"]:
            return False
        message = AIMessage(draft.value["text"], response_metadata={INTERRUPTED: True})
        [entry] = await self._memory.aadd_messages(
            [message], thread_id=key.thread_id, user_id=key.user_id, turn_id=said[-1].turn_id
        )
        await self._memory.log.aannotate(key, entry.id, attributes=[INTERRUPTED])
        return True


class _ReplyDraft:
    """What has come of a reply, written down every second."""

    def __init__(self, memory: ConversationMemory, reply: LiveReply) -> None:
        self._state = memory.log
        self._reply = reply
        self._is_written = False

    async def keep_saving(self) -> None:
        """Write down what has come, until this is cancelled."""
        state, reply, seen = self._state, self._reply, 0
        while True:
            await asyncio.sleep(_SAVE_EVERY_S)
            if not reply.pieces:
                continue
            if seen < len(reply.pieces):
                seen = len(reply.pieces)
                text = "".join(reply.pieces)
            value = {"question": reply.question.id, "text": text, "at_ms": get_now_ms()}
            there = await state.aget_state(reply.key, DRAFT_DOCUMENT)
            version = None if there is None else there.version
            self._is_written = True
            await state.aset_state(reply.key, DRAFT_DOCUMENT, value, expected=version)

    async def drop(self, saving: asyncio.Task[None]) -> None:
        """Delete what was written down, once nothing is being written any more."""
        await asyncio.wait([saving])
        if self._state is not None and self._is_written:
            await self._state.adelete_state(self._reply.key, DRAFT_DOCUMENT)
