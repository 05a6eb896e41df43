"""Which segments bear which label: a list of numbers for each name and value. Not thread-safe."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from langchain_convmem.records import Scalar

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Labels"]

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
