"""The part of a memory that changes its embedder."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from langchain_convmem.errors import ConfigError
from langchain_convmem.memory.memory_part import owner_of
from langchain_convmem.memory.recalling import RecallingMemory
from langchain_convmem.protocols import OwnerListing
from langchain_convmem.records import Owner
from langchain_convmem.steps import Steps, arun, run, step

__all__ = ["ReindexingMemory"]


class ReindexingMemory(RecallingMemory):
    """Has lines embedded anew that another embedder has embedded."""

    def reindex(
        self,
        *,
        user_id: str | None = None,
        thread_id: str | None = None,
        everything: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> tuple[str, ...]:
        """Embed lines anew after a change of the embedder, and delete the old vectors then.

        Until then nothing is sent to the new embedder: lines are found by their words, and
        `Recall.problems` says so. Each batch is stored before the next one is sent, so after a
        failure or a kill another call goes on where this one stopped. Run it when no process works
        with the old embedder any more.

        Args:
            user_id: Whose lines; or
            thread_id: the thread of no user; or
            everything: those of everybody, one after the other.
            progress: Called with (done, total) segments of one user.

        Returns:
            Problems, one sentence each; empty when every line is indexed whole.

        Raises:
            ConfigError: If the call names nobody, or everybody of a log that cannot list them.
            LogError: If the log cannot be read.
        """
        return run(self._reindex_steps(user_id, thread_id, everything, progress))

    async def areindex(
        self,
        *,
        user_id: str | None = None,
        thread_id: str | None = None,
        everything: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> tuple[str, ...]:
        """Embed lines anew; see `reindex`. `progress` is called in a worker."""
        return await arun(self._reindex_steps(user_id, thread_id, everything, progress))

    def _reindex_steps(
        self,
        user_id: str | None,
        thread_id: str | None,
        everything: bool,
        progress: Callable[[int, int], None] | None,
    ) -> Steps[tuple[str, ...]]:
        if everything:
            owners = yield from self._everybody(user_id, thread_id)
        else:
            owners = [owner_of(user_id, thread_id)]
        problems: dict[str, None] = {}
        for owner in owners:
            found = yield step(self.line_recall, "reindex", owner, progress)
            problems |= dict.fromkeys(found)
        return tuple(problems)

    def _everybody(self, user_id: str | None, thread_id: str | None) -> Steps[Sequence[Owner]]:
        if user_id is not None or thread_id is not None:
            raise ConfigError("pass user_id or thread_id, or everything=True, not both")
        if not isinstance(self.log, OwnerListing):
            msg = f"{type(self.log).__name__} cannot list whose lines it has; name each user"
            raise ConfigError(msg)
        owners: Sequence[Owner] = yield step(self.log, "owners")
        return owners
