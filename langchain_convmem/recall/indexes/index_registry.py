"""The indexes of a process: one for each set of owners who are searched together."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Literal

from langchain_convmem.errors import ConfigError
from langchain_convmem.protocols import MessageLog
from langchain_convmem.recall.embedder_choice import Chosen, EmbedderChoice
from langchain_convmem.recall.indexes.owner_index import OwnerIndex
from langchain_convmem.recall.settings import IndexName
from langchain_convmem.records import Owner

__all__ = ["IndexRegistry"]


class IndexRegistry:
    """Makes indexes and keeps the latest used ones. Thread-safe."""

    def __init__(
        self,
        log: MessageLog,
        choice: EmbedderChoice,
        *,
        index: IndexName = "auto",
        vector_bits: Literal[8, 16] = 16,
        max_owners: int,
        max_segments: int,
    ) -> None:
        """Create an empty registry.

        Args:
            log: Where the lines stand.
            choice: What embeds them.
            index: See `RecallSettings.index`.
            vector_bits: See `RecallSettings.vector_bits`.
            max_owners: How many indexes stay in memory; the least recently used leave.
            max_segments: How many segments they hold together, but for the one in use.

        Raises:
            ConfigError: If a limit is not positive.
        """
        for name, limit in (("max_owners", max_owners), ("max_segments", max_segments)):
            if limit < 1:
                msg = f"{name} must be at least 1, got {limit!r}"
                raise ConfigError(msg)
        self._log = log
        self._choice = choice
        self._index: IndexName = index
        self._vector_bits: Literal[8, 16] = vector_bits
        self._max_owners = max_owners
        self._max_segments = max_segments
        self._indexes: OrderedDict[tuple[Owner, ...], OwnerIndex] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def indexes(self) -> list[OwnerIndex]:
        """The indexes in memory."""
        with self._lock:
            return list(self._indexes.values())

    @property
    def held(self) -> list[tuple[Owner, ...]]:
        """Whose indexes are in memory, least recently used first."""
        with self._lock:
            return list(self._indexes)

    def involving(self, owner: Owner) -> list[OwnerIndex]:
        """Return the indexes in memory that hold lines of this owner."""
        with self._lock:
            return [index for owners, index in self._indexes.items() if owner in owners]

    def kept(self, owners: tuple[Owner, ...]) -> OwnerIndex | None:
        """Return the index over these owners if it is in memory, as the latest used."""
        with self._lock:
            index = self._indexes.get(owners)
            if index is not None:
                self._indexes.move_to_end(owners)
                self._make_room()
            return index

    def of(self, owners: tuple[Owner, ...]) -> OwnerIndex:
        """Return the index over these owners, in memory or made anew; it may have read nothing.

        For one that is made the log is asked who embedded its lines.
        """
        index = self.kept(owners)
        if index is not None:
            return index
        chosen = self._choice.of(owners)
        made = self._made(owners, chosen)
        if not chosen.is_final:
            return made
        with self._lock:
            # Somebody else may have been faster.
            index = self._indexes.setdefault(owners, made)
            self._make_room()
            return index

    def made_anew(self, owners: tuple[Owner, ...]) -> OwnerIndex:
        """Return a new index over these owners that nobody else has, whatever is stored."""
        return self._made(owners, Chosen(self._choice.default))

    def _made(self, owners: tuple[Owner, ...], chosen: Chosen) -> OwnerIndex:
        return OwnerIndex(
            self._log,
            owners,
            chosen.embeddings,
            index=self._index,
            vector_bits=self._vector_bits,
            problem=chosen.problem,
        )

    def adopt(self, owners: tuple[Owner, ...], index: OwnerIndex) -> None:
        """Put an index in the place of the one over these owners."""
        with self._lock:
            self._indexes.pop(owners, None)
            self._indexes[owners] = index
            self._make_room()

    def _make_room(self) -> None:
        """Let the least recently used leave; what an index in use grows by counts next time."""
        while len(self._indexes) > 1 and (
            len(self._indexes) > self._max_owners
            or sum(len(index.table) for index in self._indexes.values()) > self._max_segments
        ):
            self._indexes.popitem(last=False)
