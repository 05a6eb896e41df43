"""Where in a run a node stands, and how an entry that it stored came into the log."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from langchain_core.runnables import RunnableConfig

from langchain_convmem.errors import ConfigError
from langchain_convmem.ids import make_ulid
from langchain_convmem.records import Control, Draft, Entry, Metadata, RetractReason, ThreadKey

_AUX = "provenance"
_CHECKPOINTER = "__pregel_checkpointer"
"""Under which LangGraph tells a node what keeps its state from run to run."""
_SCRATCHPAD = "__pregel_scratchpad"
"""Under which LangGraph tells a node at which step its run stops at the latest."""
Unit: TypeAlias = Literal["message", "turn", "control"]
"""What entries are linked by: the messages of a state, or its turns; nothing if they retract."""


@dataclass(frozen=True, slots=True)
class NodeContext:
    """One execution of a node of a graph; see `Provenance` for what it leaves in the log.

    Attributes:
        key: The thread of the log.
        place: Where in the run it is.
        since: The checkpoint that the run starts from, if one was given.
        is_sent: Whether a `Send` brought the node its state.
        is_stateless: Whether no checkpointer keeps the state: it holds what this run was sent.
        run: A number that is the same in all nodes of a run, and another in the next one of the
            same state; None if LangGraph does not provide it.
        configurable: What the call set.
    """

    key: ThreadKey
    place: Place
    since: str | None = None
    is_sent: bool = False
    is_stateless: bool = False
    run: int | None = None
    configurable: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, config: RunnableConfig, key: ThreadKey) -> NodeContext:
        """Read a node's config."""
        configurable = config.get("configurable", {})
        metadata = config.get("metadata", {})
        checkpoints = configurable.get("checkpoint_map") or {}
        names = metadata.get("langgraph_checkpoint_ns", "").split("|")
        path = [
            (checkpoints.get("|".join(names[:depth])) or "", name.partition(":")[2] or make_ulid())
            for depth, name in enumerate(names)
        ]
        level = "|".join(name.partition(":")[0] for name in names[:-1])
        return cls(
            key=key,
            place=Place(level, metadata.get("langgraph_step", 0), tuple(path)),
            since=metadata.get("checkpoint_id"),
            is_sent=(metadata.get("langgraph_path") or ("",))[0] == "__pregel_push",
            is_stateless=configurable.get(_CHECKPOINTER, ...) is None,
            run=getattr(configurable.get(_SCRATCHPAD), "stop", None),
            configurable=configurable,
        )

    def check_known(self, entries: int) -> None:
        """Refuse to go back in a thread that the log does not know.

        Raises:
            ConfigError: If the run starts from a checkpoint and the thread does not exist.
        """
        if self.since is not None and self.key.user_id is None and not entries:
            msg = (
                f"the log has nothing of thread {self.key.thread_id!r} without a user, where the "
                "run is to begin from a checkpoint; the config of a snapshot names no user: add "
                'user_id to its "configurable"'
            )
            raise ConfigError(msg)

    def make_metadata(
        self,
        unit: Unit,
        after: str | None = None,
        timing: Mapping[str, int] | None = None,
        attributes: tuple[str, ...] = (),
    ) -> Metadata:
        """Return the metadata of an entry that this node stores, `after` another of its unit."""
        place = self.place
        path = [list(level) for level in place.path]
        mark = {
            "unit": unit,
            "after": after,
            "level": place.level,
            "step": place.step,
            "path": path,
        }
        return Metadata(attributes, timing or {}, aux={_AUX: mark})

    def retract(self, ids: Collection[str], reason: RetractReason) -> list[Draft]:
        """Return the control entry that takes entries out of the views; nothing for none."""
        if not ids:
            return []
        control = Control(tuple(ids), reason)
        return [Draft(role="control", control=control, metadata=self.make_metadata("control"))]


@dataclass(frozen=True, slots=True)
class Provenance:
    """How something came into the log: from where in a run, and after what of its unit."""

    unit: Unit
    after: str | None
    place: Place

    @classmethod
    def read(cls, entry: Entry) -> Provenance | None:
        """Return how an entry came into the log; None if it was not stored for a state."""
        mark = entry.metadata.aux.get(_AUX)
        if not isinstance(mark, dict) or mark.keys() != {"unit", "after", "level", "step", "path"}:
            return None
        path = tuple((str(checkpoint), str(task)) for checkpoint, task in mark["path"])
        return cls(mark["unit"], mark["after"], Place(mark["level"], mark["step"], path))


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a run of a graph a node stands.

    Attributes:
        level: Names of the nodes around the graph that the node is in; empty at the top.
        step: Number of the step within that graph; grows from run to run.
        path: Checkpoint and task of each level, outermost first. A task is the same when it is
            retried or resumed, and another in a new run.
    """

    level: str
    step: int
    path: tuple[tuple[str, str], ...]

    @property
    def task(self) -> str:
        """What this execution of the node is called."""
        return self.path[-1][1]

    @property
    def checkpoint(self) -> str:
        """The checkpoint that the node runs from; later ones are greater."""
        return self.path[-1][0]

    def is_parallel(self, other: Place) -> bool:
        """Return whether it is in another branch of the same step."""
        for (checkpoint, task), (others, other_task) in zip(self.path, other.path, strict=False):
            if task != other_task:
                return checkpoint == others
        return False

    def is_over(self, now: Place) -> bool:
        """Return whether the run that stood here had ended when another one began.

        A run that began later counts on from the last step that was kept, with two more steps for
        its input. So the step of a node whose run was left before it ended does not count. Where
        a checkpointer was lost, or there is none, runs begin at the first step again. A run beside
        it may count on from a third one's step: so ask this of what has an answer only.
        """
        at_top = not self.level and not now.level
        return at_top and bool(self.checkpoint) and now.step >= self.step + 3
