"""What finds vectors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["LineIndex"]


class LineIndex(Protocol):
    """Vectors by consecutive number, searched by cosine similarity. Not thread-safe."""

    dim: int
    """Components of a vector."""

    def __len__(self) -> int:
        """Return how many vectors were added, removed ones included."""
        ...

    def add(self, vectors: NDArray[np.float32]) -> None:
        """Append vectors; their numbers continue the earlier ones.

        Args:
            vectors: Shape (n, dim). Need not be unit length; a zero vector is similar to nothing.

        Raises:
            DimensionMismatchError: If the second axis is not `dim`.
        """
        ...

    def replace(self, number: int, vector: NDArray[np.float32]) -> None:
        """Put another vector at `number` (an embedding that had been pending)."""
        ...

    def remove(self, numbers: Iterable[int]) -> None:
        """Take vectors out of every later search; the numbers of others stay."""
        ...

    def search(
        self, query: NDArray[np.float32], k: int, *, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return the numbers and cosine similarities of the k nearest, nearest first.

        Args:
            query: Shape (dim,), any length.
            k: Fewer come back when fewer are searchable.
            allowed: Shape (len(self),); only numbers that are True are searched.

        Returns:
            Two arrays of equal length; ties in ascending number.

        Raises:
            DimensionMismatchError: If `query` does not have `dim` components.
        """
        ...

    def similarities(
        self, query: NDArray[np.float32], numbers: NDArray[np.int64] | None = None
    ) -> NDArray[np.float32]:
        """Return the exact cosine similarity of the given numbers (None: of all), in order."""
        ...
