"""Promises of `RecallSettings.index`: by any name the same answers, and FAISS when it is named."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from forked_processes import ForkedProcess
from hypothesis import assume, given
from hypothesis import strategies as st

from langchain_convmem.errors import ConfigError
from langchain_convmem.logs import InMemoryLog
from langchain_convmem.recall import LineRecall, RecallSettings
from langchain_convmem.recall.vectors import ExactIndex, FaissIndex
from langchain_convmem.records import Owner

ANA = Owner(user_id="ana")
NAMES = ["auto", "faiss", "numpy"]
DIM = 24
CLOSE = 2e-6


def whole_rows(count, seed):
    """Return rows that 8 and 16 bits hold exactly, some of them zero and some equal."""
    random = np.random.default_rng(seed)
    rows = random.integers(-127, 128, size=(count, DIM)).astype(np.float32)
    # The highest component is the one that bytes are scaled by.
    rows[np.arange(count), random.integers(0, DIM, size=count)] = 127
    rows[random.random(count) < 0.1] = 0
    rows[random.random(count) < 0.2] = rows[0]
    return rows * np.exp2(random.integers(-9, 0, size=(count, 1))).astype(np.float32)


def true_cosines(rows, query):
    exact = rows.astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1) * np.linalg.norm(query.astype(np.float64))
    return np.divide(exact @ query, lengths, out=np.zeros(len(rows)), where=lengths > 0)


@given(
    seed=st.integers(0, 2**31),
    count=st.integers(1, 30),
    cut=st.integers(0, 30),
    removed=st.sets(st.integers(0, 29)),
    replaced=st.lists(st.integers(0, 29), max_size=4),
    share=st.sampled_from([None, 0.0, 0.2, 0.9]),
    k=st.integers(0, 31),
)
def test_all_indexes_find_the_same_numbers_in_the_same_order(
    *, seed, count, cut, removed, replaced, share, k
):
    rows, late, query = (
        whole_rows(count, seed),
        whole_rows(30, seed + 1),
        whole_rows(1, seed + 2)[0],
    )
    indexes = [ExactIndex(DIM), FaissIndex(DIM), FaissIndex(DIM, bits=8)]
    for index in indexes:
        index.add(rows[:cut])
        index.remove(number for number in removed if number < len(index))
        index.add(rows[cut:])
        index.remove(number for number in removed if number < count)
        for number in replaced:
            if number < count:
                index.replace(number, late[number])
    now = rows.copy()
    held = [number for number in replaced if number < count]
    now[held] = late[held]
    cosines = true_cosines(now, query)
    # Of two that differ by less than rounding adds, either may come first.
    steps = np.diff(np.unique(np.round(cosines, 9)))
    assume(not len(steps) or steps.min() > CLOSE)
    allowed = None if share is None else np.random.default_rng(seed).random(count) < share
    some = np.random.default_rng(seed).integers(0, count, size=9)
    answers = [index.search(query, k, allowed=allowed) for index in indexes]
    for index, (numbers, similarities) in zip(indexes, answers, strict=True):
        assert numbers.tolist() == answers[0][0].tolist()
        np.testing.assert_allclose(similarities, cosines[numbers], atol=CLOSE)
        np.testing.assert_allclose(index.similarities(query), cosines, atol=CLOSE)
        np.testing.assert_allclose(index.similarities(query, some), cosines[some], atol=CLOSE)


def test_a_recall_answers_alike_under_every_name(say, embedder):
    log = InMemoryLog()
    say(log, ["The tractor is in the barn.", "Rain again.", "We sold the old car.", "Good night!"])
    answers = [
        LineRecall(log, embedder, RecallSettings(index=name)).recall(ANA, "the car", k=3)
        for name in NAMES
    ]
    for answer in answers:
        assert [block.lines for block in answer.blocks] == [b.lines for b in answers[0].blocks]
        assert [match.similarity for match in answer.matches] == pytest.approx(
            [match.similarity for match in answers[0].matches], abs=CLOSE
        )


@pytest.mark.parametrize("name", ["FAISS", "", None])
def test_another_name_is_refused(name):
    with pytest.raises(ConfigError, match="index must be"):
        RecallSettings(index=name)


# -- processes of their own --------------------------------------------------------------------

_LOADED = """
import json, sys, warnings
# Old releases of FAISS warn when they are imported.
warnings.simplefilter("ignore", DeprecationWarning)
import numpy as np
from langchain_convmem.recall import vectors
name, bits, plain_rows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
vectors._PLAIN_ROWS = plain_rows
stored = vectors.SegmentVectors(index=name, bits=bits)
stored.extend([np.ones(8, dtype=np.float16)])
stored.similarities(np.ones(8, dtype=np.float32))
print(json.dumps("faiss" in sys.modules))
"""


@pytest.mark.parametrize(
    ("name", "bits", "plain_rows", "is_loaded"),
    [
        ("auto", 16, 5_000, False),
        ("auto", 16, 0, True),
        ("auto", 8, 5_000, True),
        ("faiss", 16, 5_000, True),
        ("numpy", 16, 0, False),
        ("numpy", 8, 0, False),
    ],
)
def test_faiss_is_loaded_only_to_search(name, bits, plain_rows, is_loaded):
    with ForkedProcess(_LOADED, name, bits, plain_rows) as process:
        assert json.loads(process.finish()) is is_loaded


_FORKED = """
import os, signal, sys, warnings
from pathlib import Path
# Old releases of FAISS warn when they are imported, Python 3.12 of any fork beside threads.
warnings.simplefilter("ignore", DeprecationWarning)
import faiss
import numpy as np
from langchain_convmem.recall.vectors import FaissIndex

bits = int(sys.argv[1])
threads = lambda: len(list(Path("/proc/self/task").iterdir()))
faiss.omp_set_num_threads(4)
rows = np.eye(64, dtype=np.float32)

def use(index):
    index.reserve(200)
    index.add(rows)
    index.add(rows.astype(np.float16))
    index.replace(3, rows[5])
    index.remove([5])
    allowed = np.arange(len(index)) < 64
    index.get_row(0)
    return [index.search(rows[5], 2, allowed=allowed)[0].tolist(), len(index.similarities(rows[1]))]

before = threads()
first = use(FaissIndex(64, bits=bits))
assert threads() == before, "our use of FAISS started threads"
assert faiss.omp_get_max_threads() == 4
# What an application may do with FAISS beside us.
theirs = faiss.IndexScalarQuantizer(64, faiss.ScalarQuantizer.QT_fp16)
theirs.add(rows)
theirs.search(rows, 3)
assert threads() > before
index = FaissIndex(64, bits=bits)
index.add(rows)
child = os.fork()
if not child:
    # It would wait forever for threads that were not forked.
    signal.alarm(60)
    index.search(rows[1], 3)
    os._exit(0 if use(FaissIndex(64, bits=bits)) == first else 1)
print(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
@pytest.mark.parametrize("bits", [16, 8])
def test_an_index_starts_no_threads_and_survives_a_fork(bits):
    with ForkedProcess(_FORKED, bits) as process:
        assert process.finish().strip() == "0"
