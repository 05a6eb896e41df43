"""Where in a run a node stands: whose thread, which attempt, and how the run was begun."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.runnables import RunnableConfig

from langchain_convmem.errors import ConfigError
from langchain_convmem.ids import new_ulid
from langchain_convmem.records import Entry, Metadata, ThreadKey

__all__ = ["Mark", "Moment", "mark_of"]

_AUX = "langgraph_state"
"""Key in the `aux` of what a graph stored: how it was come by."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One execution of a node.

    Attributes:
        key: The thread of the log.
        task: Names the node's task: the same when it is retried or resumed, another in a new run.
        level: Names of the nodes around the graph that the node is in; empty at the top.
        step: Number of the step within that graph; grows from run to run.
        checkpoint: Id of the checkpoint that the node runs from; later ones are greater.
        since: The checkpoint that the run was told to begin from, if it was told.
        is_sent: Whether a `Send` brought the node its state.
        configurable: What the call set.
    """

    key: ThreadKey
    task: str
    level: str = ""
    step: int = 0
    checkpoint: str = ""
    since: str | None = None
    is_sent: bool = False
    configurable: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, config: RunnableConfig) -> Moment:
        """Read a node's config.

        Raises:
            ConfigError: If it names no thread.
        """
        configurable = config.get("configurable", {})
        metadata = config.get("metadata", {})
        if configurable.get("thread_id") is None:
            msg = (
                "thread_id is missing; call the graph with "
                'config={"configurable": {"thread_id": "...", "user_id": "..."}}'
            )
            raise ConfigError(msg)
        *around, own = metadata.get("langgraph_checkpoint_ns", "").split("|")
        path = metadata.get("langgraph_path") or ("",)
        checkpoints = configurable.get("checkpoint_map") or {}
        return cls(
            key=ThreadKey(_user_of(configurable), configurable["thread_id"]),
            task=own.partition(":")[2] or new_ulid(),
            level="|".join(name.partition(":")[0] for name in around),
            step=metadata.get("langgraph_step", 0),
            checkpoint=checkpoints.get("|".join(around)) or "",
            since=metadata.get("checkpoint_id"),
            is_sent=path[0] == "__pregel_push",
            configurable=configurable,
        )

    def check_known(self, entries: int) -> None:
        """Refuse to go back in a thread that the log does not know.

        Raises:
            ConfigError: If the run was told where to begin, and there is no such thread.
        """
        if self.since is not None and self.key.user_id is None and not entries:
            msg = (
                f"the log has nothing of thread {self.key.thread_id!r} without a user, where the "
                "run is to begin from a checkpoint; the config of a snapshot names no user: add "
                'user_id to its "configurable"'
            )
            raise ConfigError(msg)

    def metadata(self, unit: str, after: str | None) -> Metadata:
        """Return the metadata of an entry that this node stores.

        Args:
            unit: What entries are linked by: `message` or `turn`.
            after: The id of the one before it in the graph's state, if there is one.
        """
        mark = {
            "unit": unit,
            "after": after,
            "level": self.level,
            "step": self.step,
            "checkpoint": self.checkpoint,
        }
        return Metadata(aux={_AUX: mark})


@dataclass(frozen=True, slots=True)
class Mark:
    """How a graph came by an entry; see `Moment`."""

    unit: str
    after: str | None
    level: str
    step: int
    checkpoint: str


def mark_of(entry: Entry) -> Mark | None:
    """Return the mark of an entry that a graph stored; None for every other."""
    fields = entry.metadata.aux.get(_AUX)
    if not isinstance(fields, dict) or fields.keys() != set(Mark.__slots__):
        return None
    return Mark(**fields)


def _user_of(configurable: Mapping[str, Any]) -> Any:
    """Return the user that the call names, under `configurable` or in its context."""
    if configurable.get("user_id") is not None:
        return configurable["user_id"]
    from langgraph.runtime import get_runtime

    try:
        runtime = get_runtime()
    except (RuntimeError, KeyError):  # called outside of a graph
        return None
    context = getattr(runtime, "context", None)
    if isinstance(context, Mapping):
        return context.get("user_id")
    return getattr(context, "user_id", None)
