"""The state of a graph with a memory: what it holds, in whatever form it comes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_type_hints

from langchain_core.messages import BaseMessage, HumanMessage
from typing_extensions import TypedDict

from langchain_convmem.errors import ConfigError
from langchain_convmem.turns.messages import read_input
from langchain_convmem.turns.state_sync import NOTE_KEY, NodeContext, TurnNote
from langchain_convmem.views.codec import role_of

__all__ = [
    "MemoryState",
    "asked_in",
    "check_answerable",
    "messages_in",
    "not_to_store",
    "value_in",
    "with_note",
]

_ROLE_FIELDS = frozenset({"type", "data"})
"""Keys of a message that LangChain wrote down."""


class MemoryState(TypedDict, total=False):
    """Ids and plain values: what a checkpointer keeps of a turn when the log keeps the words.

    A pydantic model or a dataclass with these fields does as well; all of them need a default.

    Attributes:
        input: What the user says now: text, content blocks or a `HumanMessage`. `recall` takes it
            out of the state once it is in the log, and `record` where nothing of it is stored.
        turn_id: The turn that is answered, or was last.
        recalled_ids: Which lines the model is reminded of: entry ids, `id#2` for a further line.
        reply: What the model said, as JSON text, on its way into the log, and whether it is to go
            there; empty afterwards.
        answer: The text of the latest reply.
    """

    input: Any
    turn_id: str
    recalled_ids: list[str]
    reply: str
    answer: Any


def with_note(schema: type[Any]) -> Any:
    """Return what the nodes of a graph read: its state, and which turn is under way.

    A state without messages names its turn itself. Callers see nothing of the note.
    """
    keys = get_type_hints(schema, include_extras=True)
    if "messages" not in keys:
        return schema
    return TypedDict("NotedState", {**keys, NOTE_KEY: TurnNote}, total=False)  # type: ignore[operator]


def value_in(state: Any, key: str) -> Any:
    """Return a value of a state that is a mapping or an object; None if there is none."""
    return state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)


def messages_in(state: Any, key: str, context: NodeContext) -> list[BaseMessage] | None:
    """Return the messages of a state, each with an id; None if the state keeps none.

    What a `Send` carries has passed no reducer, so messages without an id get one here, in place
    and the same in every attempt.

    Raises:
        ConfigError: If what is there is no list of messages, or a message has no id.
    """
    found = value_in(state, key)
    if found is None:
        return None
    if not isinstance(found, Sequence) or not all(isinstance(one, BaseMessage) for one in found):
        msg = f"state[{key!r}] must be a list of messages, got {_describe(found)}"
        raise ConfigError(msg)
    for number, message in enumerate(found):
        if not message.id and not context.is_sent:
            msg = (
                f"message {number} of state[{key!r}] has no id, so the log could not know it "
                "again; declare the key as Annotated[list[AnyMessage], add_messages]"
            )
            raise ConfigError(msg)
        message.id = message.id or f"{context.place.task}-{number}"
    return list(found)


def asked_in(state: Any, context: NodeContext) -> HumanMessage:
    """Return what the user says in a state without messages, with an id.

    The id is the same in every attempt of this node, so that a retry stores nothing twice.

    Raises:
        ConfigError: If the state holds nothing to answer, or several messages.
        InvalidMessageError: If what it holds is no message, or a blank one.
    """
    given = value_in(state, "input") or None
    incoming = read_input(HumanMessage(given) if _is_content(given) else given)
    said = incoming.human
    if said is None:
        msg = (
            "the state holds nothing to answer: invoke the graph with {'input': ...} (text, content"
            f" blocks or a message), or give it a 'messages' key; got input={_describe(given)}"
        )
        raise ConfigError(msg)
    if len(incoming.messages) > 1:
        msg = (
            f"the state's input holds {len(incoming.messages)} messages; pass what the user says "
            "now, or take a state with a 'messages' key"
        )
        raise ConfigError(msg)
    return said if said.id else said.model_copy(update={"id": context.place.task})


def check_answerable(messages: Sequence[BaseMessage]) -> None:
    """Check that somebody says something in a state, other than instructions.

    Raises:
        ConfigError: If nobody does.
    """
    if all(role_of(message) == "system" for message in messages):
        found = "system messages alone" if messages else "no messages"
        msg = (
            f"the state holds nothing to answer: it has {found}; invoke the graph with what the "
            "user says, {'messages': [('user', ...)]}"
        )
        raise ConfigError(msg)


def _is_content(value: Any) -> bool:
    """Return whether a list is the content of one message: texts and content blocks."""
    return isinstance(value, list) and all(
        isinstance(one, str)
        or (isinstance(one, dict) and "role" not in one and not _ROLE_FIELDS.issubset(one))
        for one in value
    )


def _describe(value: Any) -> str:
    """Return what a value is, without what it says."""
    return "None" if value is None else f"a value of type {type(value).__name__}"


def not_to_store(message: BaseMessage) -> BaseMessage:
    """Return the message marked as one that is never stored."""
    marked = {**message.additional_kwargs, "remember": False}
    return message.model_copy(update={"additional_kwargs": marked})
