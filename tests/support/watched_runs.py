"""What callbacks see of a chain's runs, and an embedder that asks a model of its own."""

import threading

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.embeddings import Embeddings


class RunWatcher(BaseCallbackHandler):
    """Keeps every start of a run, every end of a retriever's, and every custom event."""

    run_inline = True

    def __init__(self):
        self.runs = {}
        self.found = {}
        self.failed = {}
        self.events = []
        self._lock = threading.Lock()

    def _started(self, kind, run):
        known = ("name", "parent_run_id", "tags", "metadata")
        with self._lock:
            self.runs[run["run_id"]] = {"kind": kind, **{name: run.get(name) for name in known}}

    def on_chain_start(self, serialized, inputs, **run):
        self._started("chain", run)

    def on_chat_model_start(self, serialized, messages, **run):
        self._started("model", run)

    def on_retriever_start(self, serialized, query, **run):
        self._started("retriever", run)
        self.runs[run["run_id"]]["query"] = query

    def on_retriever_end(self, documents, **run):
        self.found[run["run_id"]] = list(documents)

    def on_retriever_error(self, error, **run):
        self.failed[run["run_id"]] = error

    def on_custom_event(self, name, data, **run):
        self.events.append((name, data, run["run_id"]))

    def from_chain(self, kind):
        """Return the ids of the runs of a kind, in order of their start."""
        return [run_id for run_id, run in self.runs.items() if run["kind"] == kind]

    def parent(self, run_id):
        """Return the run above a run."""
        return self.runs[run_id]["parent_run_id"]


class AskingEmbeddings(Embeddings):
    """Asks a chat model before it embeds a question, as hypothetical answers are made."""

    def __init__(self, model):
        self.model = model

    def embed_documents(self, texts):
        return [[1.0, float(len(text))] for text in texts]

    def embed_query(self, text):
        said = "".join(str(chunk.text) for chunk in self.model.stream(f"Rewrite: {text}"))
        return [1.0, float(len(said))]
