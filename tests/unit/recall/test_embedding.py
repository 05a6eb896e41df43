from __future__ import annotations

import json
import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings

from langchain_convmem.recall import EmbeddedEmbeddings
from langchain_convmem.recall.embedding import compute_fingerprint

TEXTS = [
    "I parked the car on the third floor.",
    "",
    " ",
    "naïve café, 3.5 e-mails!",
    "東京タワーに行きました",
    "🙂👍🏽 ok",
    "word " * 900,
    "tabs\tand\nnew\n\nlines",
]

_REFERENCE = """
import importlib.util, json, sys
from pathlib import Path
from safetensors.numpy import load_file
from tokenizers import Tokenizer
from wordllama.inference import WordLlamaInference

root = Path(importlib.util.find_spec("wordllama").submodule_search_locations[0])
(table,) = load_file(root / "weights/l2_supercat_256.safetensors").values()
tokenizer = Tokenizer.from_file(str(root / "tokenizers/l2_supercat_tokenizer_config.json"))
model = WordLlamaInference(table, tokenizer)
print(json.dumps(model.embed(json.loads(sys.stdin.read()), norm=False).tolist()))
"""

_QUIET = """
import logging, sys
from langchain_convmem.recall import EmbeddedEmbeddings
assert len(EmbeddedEmbeddings().embed_query("hello")) == 256
assert not [name for name in sys.modules if name.startswith("wordllama")]
assert not logging.getLogger().handlers
assert "faiss" not in sys.modules
"""


def test_vectors_equal_those_of_the_package_bit_by_bit():
    done = subprocess.run(
        [sys.executable, "-c", _REFERENCE],
        input=json.dumps(TEXTS),
        capture_output=True,
        text=True,
        check=True,
    )
    assert EmbeddedEmbeddings().embed_documents(TEXTS) == json.loads(done.stdout)


def test_embedding_runs_no_code_of_the_package_and_configures_no_logging():
    subprocess.run([sys.executable, "-c", _QUIET], check=True)


def test_a_text_without_tokens_has_the_zero_vector():
    assert EmbeddedEmbeddings().embed_query("") == [0.0] * 256


def test_a_lone_surrogate_is_embedded_as_a_question_mark():
    embeddings = EmbeddedEmbeddings()
    assert embeddings.embed_query("odd \ud800 sign") == embeddings.embed_query("odd ? sign")


@given(st.lists(st.text(max_size=40), max_size=6))
def test_a_text_has_the_same_vector_alone_and_in_a_batch(texts):
    embeddings = EmbeddedEmbeddings()
    assert embeddings.embed_documents(texts) == [embeddings.embed_query(text) for text in texts]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_a_question_as_an_array_is_its_vector(text):
    embeddings = EmbeddedEmbeddings()
    assert embeddings.embed_query_array(text).tolist() == embeddings.embed_query(text)


async def test_the_asynchronous_twin_gives_the_same_vector():
    embeddings = EmbeddedEmbeddings()
    assert await embeddings.aembed_query("hello") == embeddings.embed_query("hello")


def test_it_pickles_without_its_weights():
    embeddings = EmbeddedEmbeddings()
    embeddings.embed_query("load")
    data = pickle.dumps(embeddings)
    assert len(data) < 500
    assert pickle.loads(data) == embeddings  # noqa: S301 - our own bytes


_WITHOUT_WHEEL = """
import importlib.util
from langchain_convmem import EmbeddedEmbeddings
importlib.util.find_spec = lambda _: None
try:
    EmbeddedEmbeddings().embed_query("hello")
except ImportError as error:
    print(type(error).__name__, error)
"""


def test_a_missing_wheel_is_reported_with_the_command_that_mends_it():
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_WHEEL], check=True, capture_output=True, text=True
    )
    assert done.stdout.startswith("MissingExtraError")
    assert "pip install 'wordllama" in done.stdout


class _Paid(Embeddings):
    def __init__(self, **fields):
        self.__dict__.update(fields)

    def embed_documents(self, texts):
        return [[1.0] for _ in texts]

    def embed_query(self, text):
        return [1.0]


def test_a_fingerprint_names_class_model_and_dimension_but_no_secret():
    name = compute_fingerprint(_Paid(model="small", dimensions=512, api_key="sk-secret", timeout=3))
    assert "_Paid" in name
    assert "small" in name
    assert "512" in name
    assert "secret" not in name
    assert name == compute_fingerprint(_Paid(model="small", dimensions=512, api_key="sk-other"))


def test_another_model_or_dimension_has_another_fingerprint():
    several = [_Paid(model="small"), _Paid(model="large"), _Paid(model="small", dimensions=256)]
    several.append(DeterministicFakeEmbedding(size=3))
    several.append(DeterministicFakeEmbedding(size=4))
    assert len({compute_fingerprint(embeddings) for embeddings in several}) == 5


def test_an_embedder_that_names_its_fingerprint_is_taken_at_its_word():
    assert compute_fingerprint(_Paid(fingerprint="v7", model="small")) == "v7"
    assert compute_fingerprint(EmbeddedEmbeddings()) == EmbeddedEmbeddings().fingerprint
