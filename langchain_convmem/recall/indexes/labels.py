"""Which segments bear which label: a list of numbers for each name and value. Not thread-safe."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from langchain_convmem.records import Scalar

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Labels", "holds_one", "numbers_of"]

_Label: TypeAlias = "tuple[str, bool, Scalar]"


class Labels:
    """Segments by label, so that a filter costs what it finds and not what there is."""

    def __init__(self) -> None:
        """Create it without any label."""
        self._numbers: dict[_Label, array[int]] = {}

    def add(self, name: str, value: Scalar, numbers: Iterable[int]) -> None:
        """Label segments; their numbers ascend from call to call."""
        self._numbers.setdefault(_label(name, value), array("q")).extend(numbers)

    def having(self, name: str, values: Iterable[Scalar]) -> NDArray[np.int64]:
        """Return the numbers of the segments that bear one of the values, in any order."""
        found = (self._numbers.get(_label(name, value)) for value in values)
        # Copies: an array that is looked at cannot grow.
        return np.concatenate(
            [np.empty(0, np.int64), *(np.array(one) for one in found if one is not None)]
        )


def _label(name: str, value: Scalar) -> _Label:
    # True equals 1, and yet means something else.
    return name, isinstance(value, bool), value


def numbers_of(known: Mapping[str, int], values: Iterable[Scalar]) -> list[int]:
    """Return the numbers of those names that are known."""
    return [known[value] for value in values if isinstance(value, str) and value in known]


def holds_one(column: NDArray[Any], numbers: Sequence[int]) -> NDArray[np.bool_]:
    """Return where a column of small numbers holds one of these."""
    found: NDArray[np.bool_]
    if len(numbers) == 1:
        found = column == numbers[0]
        return found
    wanted = np.zeros(int(column.max(initial=0)) + 1, dtype=np.bool_)
    wanted[list(numbers)] = True
    found = wanted[column]
    return found
