"""Where in the run of a graph a node stands, and how an entry that it stores says so."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from langchain_core.runnables import RunnableConfig

from langchain_convmem.ids import make_ulid
from langchain_convmem.records import Control, Draft, Entry, Metadata, RetractReason, ThreadKey

_AUX = "provenance"
_CHECKPOINTER = "__pregel_checkpointer"
"""Under which LangGraph tells a node what keeps its state from run to run."""
_SCRATCHPAD = "__pregel_scratchpad"
"""Under which LangGraph tells a node at which step its run stops at the latest."""


@dataclass(frozen=True, slots=True)
class NodeContext:
    """One execution of a node of a graph.

    Attributes:
        key: The thread of the log.
        path: Where in the run it is: checkpoint, node and task (`node:task`) of each level of a
            graph, outermost first. A task is the same when it is retried or resumed, and another in
            a new run.
        since: The checkpoint that the run starts from, if one was given.
        is_sent: Whether a `Send` brought the node its state.
        is_stateless: Whether no checkpointer keeps the state: it holds what this run was sent.
        run: A number that is the same in all nodes of a run, and another in the next one of the
            same state; None if LangGraph does not provide it.
    """

    key: ThreadKey
    path: list[list[str]]
    since: str | None = None
    is_sent: bool = False
    is_stateless: bool = False
    run: int | None = None

    @classmethod
    def read(cls, config: RunnableConfig, key: ThreadKey) -> NodeContext:
        """Read a node's config."""
        configurable = config.get("configurable", {})
        metadata = config.get("metadata", {})
        checkpoints = configurable.get("checkpoint_map") or {}
        names = metadata.get("langgraph_checkpoint_ns", "").split("|")
        return cls(
            key=key,
            path=[
                [checkpoints.get("|".join(names[:depth])) or "", name or f":{make_ulid()}"]
                for depth, name in enumerate(names)
            ],
            since=metadata.get("checkpoint_id"),
            is_sent=(metadata.get("langgraph_path") or ("",))[0] == "__pregel_push",
            is_stateless=configurable.get(_CHECKPOINTER, ...) is None,
            run=getattr(configurable.get(_SCRATCHPAD), "stop", None),
        )

    def replaces(self, entry: Entry) -> bool:
        """Return whether an entry of the turn that the state lacks is of an earlier attempt.

        What a branch beside this one says is not, nor what a graph within a node does.
        """
        path = entry.metadata.aux.get(_AUX)
        if not path or _name_graphs(path) != _name_graphs(self.path):
            return False
        for (checkpoint, task), (other, other_task) in zip(self.path, path, strict=True):
            if task != other_task:
                return bool(checkpoint != other)
        return True

    def make_metadata(
        self, timing: Mapping[str, int] | None = None, attributes: tuple[str, ...] = ()
    ) -> Metadata:
        """Return the metadata of an entry that this node stores."""
        return Metadata(attributes, timing or {}, aux={_AUX: self.path})

    def retract(self, ids: Collection[str], reason: RetractReason) -> list[Draft]:
        """Return the control entry that takes entries out of the views; nothing for none."""
        if not ids:
            return []
        control = Control(tuple(ids), reason)
        return [Draft(role="control", control=control, metadata=self.make_metadata())]


def is_of_a_state(entry: Entry) -> bool:
    """Return whether an entry was stored for a state."""
    return _AUX in entry.metadata.aux


def _name_graphs(path: list[list[str]]) -> list[str]:
    """Return the names of the nodes around the graph that a node is in; none at the top."""
    return [task.partition(":")[0] for _, task in path[:-1]]
