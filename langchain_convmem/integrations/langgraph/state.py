"""The state of a graph with a memory: what it holds, in whatever form it comes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_type_hints

from langchain_core.messages import BaseMessage, HumanMessage
from typing_extensions import TypedDict

from langchain_convmem.errors import ConfigError
from langchain_convmem.turns.messages import check_question
from langchain_convmem.turns.state_sync import NOTE_KEY, NodeContext, TurnNote

__all__ = ["MemoryState", "asked_in", "messages_in", "not_to_store", "value_in", "with_note"]


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
        msg = f"state[{key!r}] must be a list of messages, got {found!r:.80}"
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
        ConfigError: If the state holds nothing to answer.
        InvalidMessageError: If what the user says is blank.
    """
    said = value_in(state, "input")
    if isinstance(said, str | list) and said:
        said = HumanMessage(said)
    if not isinstance(said, HumanMessage) or not said.content:
        msg = (
            "the state holds nothing to answer: invoke the graph with {'input': ...} (text, content"
            f" blocks or a HumanMessage), or give it a 'messages' key; got input={said!r:.80}"
        )
        raise ConfigError(msg)
    check_question(said)
    return said if said.id else said.model_copy(update={"id": context.place.task})


def not_to_store(message: BaseMessage) -> BaseMessage:
    """Return the message marked as one that is never stored."""
    marked = {**message.additional_kwargs, "remember": False}
    return message.model_copy(update={"additional_kwargs": marked})
