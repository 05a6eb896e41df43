"""Where in the run of a graph a node stands, and how an entry that it stores says so."""

from __future__ import annotations

from collections.abc import Collection
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
        step: The checkpoint of the outermost graph that its step began with.
        task: What LangGraph calls this execution, with the nodes around it: the same when it is
            retried or resumed, and another in a new run.
        since: The checkpoint that the run starts from, if one was given.
        is_sent: Whether a `Send` brought the node its state.
        is_stateless: Whether no checkpointer keeps the state: it holds what this run was sent.
        run: A number that is the same in all nodes of a run, and another in the next one of the
            same state; None if LangGraph does not provide it.
    """

    key: ThreadKey
    step: str
    task: str
    since: str | None = None
    is_sent: bool = False
    is_stateless: bool = False
    run: int | None = None

    @classmethod
    def read(cls, config: RunnableConfig, key: ThreadKey) -> NodeContext:
        """Read a node's config."""
        configurable = config.get("configurable", {})
        metadata = config.get("metadata", {})
        return cls(
            key=key,
            step=(configurable.get("checkpoint_map") or {}).get("") or "",
            task=metadata.get("langgraph_checkpoint_ns") or make_ulid(),
            since=metadata.get("checkpoint_id"),
            is_sent=(metadata.get("langgraph_path") or ("",))[0] == "__pregel_push",
            is_stateless=configurable.get(_CHECKPOINTER, ...) is None,
            run=getattr(configurable.get(_SCRATCHPAD), "stop", None),
        )

    @property
    def is_nested(self) -> bool:
        """Whether the graph runs within a node of another one."""
        return "|" in self.task

    def replaces(self, entry: Entry) -> bool:
        """Return whether an entry of the turn that the state lacks is of an earlier attempt.

        What a branch beside this one says in the same step is not.
        """
        step, task = entry.metadata.aux.get(_AUX, (self.step, ""))
        return bool(task == self.task or step != self.step)

    def make_metadata(self) -> Metadata:
        """Return the metadata of an entry that this node stores."""
        return Metadata(aux={_AUX: [self.step, self.task]})

    def retract(self, ids: Collection[str], reason: RetractReason) -> list[Draft]:
        """Return the control entry that takes entries out of the views; nothing for none."""
        control = Control(tuple(ids), reason)
        draft = Draft(role="control", control=control, metadata=self.make_metadata())
        return [draft] if ids else []


def is_of_a_state(entry: Entry) -> bool:
    """Return whether an entry was stored for a state."""
    return _AUX in entry.metadata.aux
