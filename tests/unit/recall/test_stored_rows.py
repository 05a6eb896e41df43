from __future__ import annotations

import numpy as np
import pytest

from langchain_convmem.logs import SQLiteLog
from langchain_convmem.recall import LineRecall
from langchain_convmem.recall.segments import read_complete
from langchain_convmem.records import Owner, StoredSegment
from langchain_convmem.words.analysis import ANALYSIS_VERSION

ANA = Owner(user_id="ana")
TEXTS = ["car one", "tree two. " * 90, "dog three", "boat four", "lamp five"]


class Gappy(SQLiteLog):
    """Has lost some of what was stored."""

    lost = slice(0, 0)

    def load_segments(self, owner, fingerprint, *, after=0):
        rows = super().load_segments(owner, fingerprint, after=after)
        del rows[self.lost]
        return rows


def row(*, vector=b"\0\0\0\0", **changes):
    return StoredSegment(1, 0, 0, "a b", vector, **{"analysis": ANALYSIS_VERSION, **changes})


@pytest.mark.parametrize(
    "lost", [slice(0, 1), slice(2, 4), slice(None, None, 2), slice(-1, None), slice(None)]
)
def test_only_what_is_no_longer_stored_is_made_again(tmp_path, say, embedder, lost):
    log = Gappy(tmp_path / "log.db")
    say(log, TEXTS)
    whole = LineRecall(log, embedder).recall(ANA, "dog", k=5)
    sent = list(embedder.embedded)
    assert len(sent) > len(TEXTS)
    embedder.embedded.clear()
    log.lost = lost
    assert LineRecall(log, embedder).recall(ANA, "dog", k=5) == whole
    assert embedder.embedded == sent[lost]
    log.close()


@pytest.mark.parametrize(
    ("rows", "dim"),
    [
        ([], None),
        ([None], None),
        ([row(), row(vector=None)], None),
        ([row(), row(vector=b"\0\0")], None),
        ([row(analysis=-1)], None),
        ([row()], 3),
    ],
    ids=["none", "no row", "no vector", "two lengths", "an old analysis", "another length"],
)
def test_rows_that_lack_anything_are_not_read_at_once(rows, dim):
    assert read_complete(rows, dim) is None


def test_rows_that_lack_nothing_are_read_at_once():
    vectors = np.array([[1, 2], [3, 4]], dtype="<f2")
    rows = [row(vector=one.tobytes()) for one in vectors]
    found = read_complete(rows, None)
    assert found is not None
    assert found[0] == [["a", "b"], ["a", "b"]]
    assert found[1].tolist() == vectors.tolist()
