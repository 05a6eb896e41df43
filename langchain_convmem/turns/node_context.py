"""Where in the run of a graph a node stands, and how an entry that it stores says so."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias
from uuid import UUID

from langchain_core.runnables import RunnableConfig

from langchain_convmem.ids import make_ulid
from langchain_convmem.records import Control, Draft, Entry, Metadata, RetractReason, ThreadKey

_AUX = "provenance"
_CHECKPOINTER = "__pregel_checkpointer"
"""Under which LangGraph tells a node what keeps its state from run to run."""
_SCRATCHPAD = "__pregel_scratchpad"
"""Under which LangGraph tells a node at which step its run stops at the latest."""
Path: TypeAlias = tuple[tuple[str, str], ...]
"""Checkpoint, node and task (`node:task`) of each level of a graph, outermost first. A task is the
same when it is retried or resumed, and another in a new run."""


@dataclass(frozen=True, slots=True)
class NodeContext:
    """One execution of a node of a graph.

    Attributes:
        key: The thread of the log.
        path: Where in the run it is.
        since: The checkpoint that the run starts from, if one was given.
        is_sent: Whether a `Send` brought the node its state.
        is_stateless: Whether no checkpointer keeps the state: it holds what this run was sent.
        run: A number that is the same in all nodes of a run, and another in the next one of the
            same state; None if LangGraph does not provide it.
    """

    key: ThreadKey
    path: Path
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
            path=tuple(
                (checkpoints.get("|".join(names[:depth])) or "", name or f":{make_ulid()}")
                for depth, name in enumerate(names)
            ),
            since=metadata.get("checkpoint_id"),
            is_sent=(metadata.get("langgraph_path") or ("",))[0] == "__pregel_push",
            is_stateless=configurable.get(_CHECKPOINTER, ...) is None,
            run=getattr(configurable.get(_SCRATCHPAD), "stop", None),
        )

    @property
    def level(self) -> list[str]:
        """Names of the nodes around the graph that the node is in; empty at the top."""
        return _read_level(self.path)

    @property
    def task(self) -> str:
        """What this execution of the node is called."""
        return self.path[-1][1].rpartition(":")[2]

    def is_beside(self, path: Path) -> bool:
        """Return whether something came from another branch of the same step."""
        for (checkpoint, task), (others, other_task) in zip(self.path, path, strict=False):
            if task != other_task:
                return checkpoint == others
        return False

    def make_metadata(
        self,
        after: str | None = None,
        timing: Mapping[str, int] | None = None,
        attributes: tuple[str, ...] = (),
    ) -> Metadata:
        """Return the metadata of an entry that this node stores, `after` another message."""
        mark = {"after": after, "path": [list(level) for level in self.path]}
        return Metadata(attributes, timing or {}, aux={_AUX: mark})

    def retract(self, ids: Collection[str], reason: RetractReason) -> list[Draft]:
        """Return the control entry that takes entries out of the views; nothing for none."""
        if not ids:
            return []
        control = Control(tuple(ids), reason)
        return [Draft(role="control", control=control, metadata=self.make_metadata())]


class Mark(NamedTuple):
    """How an entry came into the log: after which message of the state, and where in a run."""

    after: str | None
    path: Path

    @property
    def level(self) -> list[str]:
        """Names of the nodes around the graph."""
        return _read_level(self.path)


def read_mark(entry: Entry) -> Mark | None:
    """Return how an entry came into the log; None if it was not stored for a state."""
    mark = entry.metadata.aux.get(_AUX)
    if not isinstance(mark, dict) or mark.keys() != {"after", "path"}:
        return None
    path = tuple((str(checkpoint), str(task)) for checkpoint, task in mark["path"])
    return Mark(mark["after"], path) if path else None


def read_step(path: Path) -> int:
    """Return at which step of the outermost graph something happened.

    LangGraph writes it into the ids of checkpoints; 0 for an id of another kind.
    """
    try:
        return UUID(path[0][0]).clock_seq
    except ValueError:
        return 0


def _read_level(path: Path) -> list[str]:
    return [name.partition(":")[0] for _, name in path[:-1]]
