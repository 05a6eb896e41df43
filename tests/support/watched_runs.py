"""What callbacks see of a chain's runs, and an embedder that asks a model of its own."""

from __future__ import annotations

import threading
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel

__all__ = ["AskingEmbeddings", "RunWatcher"]


class RunWatcher(BaseCallbackHandler):
    """Keeps every start of a run, every end of a retriever's, and every custom event."""

    run_inline = True

    def __init__(self) -> None:
        self.runs: dict[Any, dict[str, Any]] = {}
        self.found: dict[Any, list[Any]] = {}
        self.failed: dict[Any, BaseException] = {}
        self.events: list[tuple[str, Any, Any]] = []
        self._lock = threading.Lock()

    def _started(self, kind: str, run: dict[str, Any]) -> None:
        known = ("name", "parent_run_id", "tags", "metadata")
        with self._lock:
            self.runs[run["run_id"]] = {"kind": kind, **{name: run.get(name) for name in known}}

    def on_chain_start(self, serialized: Any, inputs: Any, **run: Any) -> None:
        self._started("chain", run)

    def on_chat_model_start(self, serialized: Any, messages: Any, **run: Any) -> None:
        self._started("model", run)

    def on_retriever_start(self, serialized: Any, query: str, **run: Any) -> None:
        self._started("retriever", run)
        self.runs[run["run_id"]]["query"] = query

    def on_retriever_end(self, documents: Any, **run: Any) -> None:
        self.found[run["run_id"]] = list(documents)

    def on_retriever_error(self, error: BaseException, **run: Any) -> None:
        self.failed[run["run_id"]] = error

    def on_custom_event(self, name: str, data: Any, **run: Any) -> None:
        self.events.append((name, data, run["run_id"]))

    def from_chain(self, kind: str) -> list[Any]:
        """Return the ids of the runs of a kind, in order of their start."""
        return [run_id for run_id, run in self.runs.items() if run["kind"] == kind]

    def parent(self, run_id: Any) -> Any:
        """Return the run above a run."""
        return self.runs[run_id]["parent_run_id"]


class AskingEmbeddings(Embeddings):
    """Asks a chat model before it embeds a question, as hypothetical answers are made."""

    def __init__(self, model: BaseChatModel) -> None:
        self.model = model

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[1.0, float(len(text))] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        said = "".join(str(chunk.text) for chunk in self.model.stream(f"Rewrite: {text}"))
        return [1.0, float(len(said))]
