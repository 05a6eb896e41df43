"""Reading a ranking's scores in its order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from langchain_convmem.recall.ranking import Ranking


def ordered(ranking: Ranking, column: str) -> NDArray[Any]:
    """Return a column of the segments that rank, best first."""
    rows = np.array([ranking.find_row(number) for number in ranking], dtype=np.intp)
    return getattr(ranking.columns, column)[rows]
