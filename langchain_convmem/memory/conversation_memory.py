"""`ConversationMemory`: a log and what is remembered of it, for any number of threads and users."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Self, Unpack

from pydantic import SecretStr

from langchain_convmem.errors import ConfigError
from langchain_convmem.logs import InMemoryLog
from langchain_convmem.logs.addresses import open_log
from langchain_convmem.memory.conversing import ConversingMemory
from langchain_convmem.memory.counting import CountingMemory
from langchain_convmem.memory.forgetting import ForgettingMemory
from langchain_convmem.memory.importing import ImportingMemory
from langchain_convmem.memory.memory_options import MemoryOptions
from langchain_convmem.memory.portable_address import portable_address
from langchain_convmem.memory.reindexing import ReindexingMemory
from langchain_convmem.memory.remembering import RememberingMemory
from langchain_convmem.protocols import MessageLog
from langchain_convmem.turns.options import TurnOptions
from langchain_convmem.views.drafting import Drafting
from langchain_convmem.views.profiles import Profile, resolved

if TYPE_CHECKING:
    from langchain_core.runnables.base import RunnableLike

    from langchain_convmem.memory.wrapping import RememberingRunnable

__all__ = ["ConversationMemory"]


class ConversationMemory(
    RememberingMemory,
    ConversingMemory,
    ReindexingMemory,
    CountingMemory,
    ImportingMemory,
    ForgettingMemory,
):
    """Remembers conversations: what was said, verbatim, in this thread and in earlier ones.

    Thread-safe; one object serves a whole application. Several processes may share a log.
    """

    def __init__(self, log: MessageLog, **options: Unpack[MemoryOptions]) -> None:
        """Compose a memory from its parts.

        Args:
            log: Where entries are kept; stays the caller's to close.
            **options: Embedder, recall, write hook and summaries; see `MemoryOptions`.

        Raises:
            ConfigError: If there is no such option, or one fits nothing; the message names it.
        """
        _check_options(options)
        self.log = log
        self.drafting = Drafting(options.get("before_write"))
        self._options = options
        self._owns_log = False
        self._address: str | None = None
        self._set_up_recall(options)
        self._set_up_summaries(options)

    @classmethod
    def open(cls, path: str | os.PathLike[str], **options: Unpack[MemoryOptions]) -> Self:
        """Open or create a memory in a SQLite file, on a server, or in memory with `":memory:"`.

        Args:
            path: Path of the file; or `dynamodb://TABLE?region=NAME&endpoint=URL` (extra `aws`),
                or `postgresql://USER@HOST/DATABASE?schema=NAME` (extra `postgres`).
            **options: Embedder, recall, write hook and summaries; see `MemoryOptions`.

        Raises:
            ConfigError: If the path names no file in an existing directory and no known log, or
                an option fits nothing.
            MissingExtraError: If the log's driver is not installed.
        """
        cls(InMemoryLog(), **options)  # options are refused before anything is opened
        place = os.fspath(path)
        log = InMemoryLog() if place == ":memory:" else open_log(place)
        memory = cls(log, **options)
        memory._owns_log = True
        memory._address = place
        return memory

    def __repr__(self) -> str:
        return f"ConversationMemory({self.log!r})"

    def __copy__(self) -> Self:
        """Return itself: copies of a chain share its memory."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return itself, as `__copy__`."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Let pickle write down how the memory is opened again; the entries stay where they are.

        Raises:
            ConfigError: If it was not opened by an address that may be written down.
        """
        address = portable_address(self._address)
        return _reopened, (type(self), address, self._options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def close(self) -> None:
        """Finish the summary in the making, and release what this memory opened. Idempotent.

        Lines that wait to be embedded wait for another process, or another recall, unless they are
        few. A log that was passed in stays open.
        """
        self._stop_summaries()
        self._stop_recall()
        if self._owns_log:
            self.log.close()

    async def aclose(self) -> None:
        """Release what this memory opened; see `close`."""
        await self._astop_summaries()
        await self._astop_recall()
        if self._owns_log:
            await self.log.aclose()

    def wrap(
        self,
        inner: RunnableLike[Any, Any],
        *,
        recall: bool = True,
        recall_tokens: int | None = None,
        recall_k: int | None = None,
        history_tokens: int | None = None,
        context_tokens: int | None = None,
        reserved_tokens: int = 0,
        remember: bool = True,
        queue_timeout_s: float = 300.0,
        profile: Profile | None = None,
        user_id_key: str | None = None,
        input_key: str | None = None,
        history_key: str | None = None,
        output_key: str | None = None,
    ) -> RememberingRunnable:
        """Return `inner` with a memory: a Runnable that takes what the user says, in any form.

        Call it with `config={"configurable": {"thread_id": ..., "user_id": ...}}`; `thread_id` is
        required, and may be called `session_id`. A call may set options for itself, by the same
        names: `config={"configurable": {..., "memory": {"recall": False}}}`.

        Args:
            inner: A chat model, or a chain that begins with one, which gets messages; or any
                other Runnable or function, which gets a dict with `history`, `input` and
                `recalled` (message lists), `summary` (text) and `messages` (the whole). What it
                returns is returned as it is; the log keeps the messages in it, or the one it was
                read from.
            recall: Whether to recall lines of earlier conversations.
            recall_tokens: Budget of the recalled text (characters / 4).
            recall_k: Recall exactly so many blocks instead. Neither: what the settings say, which
                is a budget of 1,000 by default.
            history_tokens: Budget of what was said in the thread before; None is all of it. The
                oldest exchanges are left out whole; the new message does not count.
            context_tokens: One budget for all that the model gets: system messages, summary,
                recalled lines, what was said before and the new message. First comes what cannot
                be cut, then recalled lines, then as many of the latest exchanges as fit.
            reserved_tokens: Of these, so many are left for what stands outside the messages, such
                as the prompt's own words and the descriptions of tools.
            remember: Whether turns are stored.
            queue_timeout_s: How long a turn waits for earlier turns of its thread.
            profile: Whose rules the messages keep, as in `history.context`; None goes by the chat
                models found inside, and where these differ or cannot be seen, by `"strict"`.
            user_id_key: If set, the metadata of runs names the user by a hash under this key, so
                that traces can be told apart by user without naming anybody.
            input_key: Key of what the user says, in a dict that is passed and in the dict that
                `inner` gets; `input` by default.
            history_key: Key of what was said before, in both; `history` by default.
            output_key: Key of the answer in a dict that `inner` returns; `output` by default, or
                `messages`.

        Raises:
            ConfigError: If `inner` is not a chain, there is no such profile, or a budget leaves no
                room for messages, or none for as many as are said before they are summarised.
        """
        from langchain_convmem.memory.wrapping import RememberingRunnable
        from langchain_convmem.turns.chain_shape import read_chain

        if profile is not None:
            resolved(profile)
        options = TurnOptions(
            recall=recall,
            recall_tokens=recall_tokens,
            recall_k=recall_k,
            history_tokens=history_tokens,
            context_tokens=context_tokens,
            reserved_tokens=reserved_tokens,
            remember=remember,
        )
        self.check_options(options)
        return RememberingRunnable(
            memory=self,
            inner=read_chain(inner),
            **asdict(options),
            queue_timeout_s=queue_timeout_s,
            profile=profile,
            user_id_key=None if user_id_key is None else SecretStr(user_id_key),
            input_key=input_key,
            history_key=history_key,
            output_key=output_key,
        )


def _check_options(options: Mapping[str, object]) -> None:
    known = MemoryOptions.__annotations__
    for name in options:
        if name not in known:
            raise ConfigError(f"a memory has no option {name!r}; it has {', '.join(known)}")


def _reopened(
    kind: type[ConversationMemory], address: str, options: MemoryOptions
) -> ConversationMemory:
    return kind.open(address, **options)
