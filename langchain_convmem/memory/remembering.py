"""The part of a memory that keeps threads and what is said in them."""

from __future__ import annotations

from langchain_convmem.history import ConversationHistory, fork_steps
from langchain_convmem.memory.memory_part import MemoryPart
from langchain_convmem.records import Draft, Entry, ThreadInfo, ThreadKey, Turn
from langchain_convmem.steps import arun, run
from langchain_convmem.views.coercion import MessagesInput, read_messages

__all__ = ["RememberingMemory"]


class RememberingMemory(MemoryPart):
    """Threads: their histories, forks of them, and messages by the batch."""

    def history(self, thread_id: str, *, user_id: str | None = None) -> ConversationHistory:
        """Return the history of a thread, which need not exist yet."""
        hook = self.drafting.hook
        return ConversationHistory(self.log, thread_id, user_id=user_id, before_write=hook)

    def threads(self, user_id: str | None = None) -> list[ThreadInfo]:
        """Return a user's threads, latest first; None lists the threads of no user."""
        return self.log.threads(user_id)

    async def athreads(self, user_id: str | None = None) -> list[ThreadInfo]:
        """Return a user's threads, latest first; see `threads`."""
        return await self.log.athreads(user_id)

    def fork(
        self,
        thread_id: str,
        *,
        at: str | Turn | None = None,
        new_thread_id: str | None = None,
        user_id: str | None = None,
    ) -> ConversationHistory:
        """Return a new thread with copies of what another shows: messages, ids and summaries.

        Args:
            thread_id: The thread to go on from.
            at: The last message to copy, by its id, or the last turn; None copies all.
            new_thread_id: A thread that is not in use; None makes up an id.
            user_id: The user of both threads.

        Raises:
            ConfigError: If the thread shows no such message, or the new one is in use.
        """
        fork = run(fork_steps(self.log, ThreadKey(user_id, thread_id), at, new_thread_id))
        return self.history(fork.thread_id, user_id=user_id)

    async def afork(
        self,
        thread_id: str,
        *,
        at: str | Turn | None = None,
        new_thread_id: str | None = None,
        user_id: str | None = None,
    ) -> ConversationHistory:
        """Return a new thread that goes on from a point of another; see `fork`."""
        fork = await arun(fork_steps(self.log, ThreadKey(user_id, thread_id), at, new_thread_id))
        return self.history(fork.thread_id, user_id=user_id)

    def add_messages(
        self,
        messages: MessagesInput,
        *,
        thread_id: str,
        user_id: str | None = None,
        turn_id: str | None = None,
        relaxed: bool = False,
    ) -> list[Entry]:
        """Store messages verbatim in a thread, all or none.

        Args:
            messages: Messages, or any of the forms that a chain takes. `name` is the speaker,
                `additional_kwargs["timestamp"]` the time (ISO 8601 or milliseconds since the
                epoch), `additional_kwargs["session"]` the sitting.
            thread_id: The thread.
            user_id: Its user.
            turn_id: The turn they belong to, a ULID: what is asked and what answers it stand
                together in every view. None makes each message a turn of its own.
            relaxed: For imports that can be repeated: survive a crash of the process only.

        Returns:
            One entry per message, in order; for a message the thread already has, the entry that is
            there. There is none for a message that is marked
            `additional_kwargs={"remember": False}`, nor for one of which the write hook stores
            nothing.

        Raises:
            InvalidMessageError: If one of them cannot be stored; nothing is written.
        """
        key, drafts = ThreadKey(user_id, thread_id), self._drafts(messages, turn_id)
        entries = self.log.append(key, drafts, relaxed=relaxed)
        self._note_stored(key.owner)
        return entries

    async def aadd_messages(
        self,
        messages: MessagesInput,
        *,
        thread_id: str,
        user_id: str | None = None,
        turn_id: str | None = None,
        relaxed: bool = False,
    ) -> list[Entry]:
        """Store messages verbatim in a thread; see `add_messages`."""
        key, drafts = ThreadKey(user_id, thread_id), self._drafts(messages, turn_id)
        entries = await self.log.aappend(key, drafts, relaxed=relaxed)
        self._note_stored(key.owner)
        return entries

    def _drafts(self, messages: MessagesInput, turn_id: str | None) -> list[Draft]:
        return self.drafting.drafts(read_messages(messages), turn_id=turn_id)
