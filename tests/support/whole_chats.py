"""Callers of one thread: who sends what is new, and who sends what a page of a chat shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langgraph.graph import MessagesState
from scripted_agents import agent_with
from scripted_chat import ScriptedChatModel, at

from langchain_convmem import ConversationMemory, InMemoryLog
from langchain_convmem.integrations.langgraph import create_memory_graph
from langchain_convmem.views.live import find_live_entries

__all__ = [
    "DOORS",
    "News",
    "Page",
    "kept_by",
    "log_of",
    "make_model",
    "make_words",
    "run",
    "seen_by",
    "view_of",
]

Send = Callable[[Sequence[BaseMessage]], str]
"""Sends messages to a host, and returns its answer."""


def make_model() -> ScriptedChatModel:
    """Return a model whose replies differ from each other and, here and there, repeat."""
    count = 0

    def reply(_messages: Any) -> str:
        nonlocal count
        count += 1
        return "Fine." if count % 7 == 0 else f"Reply {count}."

    return ScriptedChatModel(replies=[reply])


def make_words(number: int) -> str:
    """Return a text that resembles no other one."""
    return chr(0x4E00 + number) * 12


# -- doors ----------------------------------------------------------------------------------------


def _wrap(memory: ConversationMemory, model: Any) -> Send:
    chain = memory.wrap(model, recall=False)
    return lambda messages: chain.invoke(messages, at()).text


def _sender_to(app: Any) -> Send:
    return lambda messages: app.invoke({"messages": messages}, at())["messages"][-1].text


def _graph(memory: ConversationMemory, model: Any) -> Send:
    return _sender_to(create_memory_graph(memory, model, state_schema=MessagesState, recall=False))


def _agent(memory: ConversationMemory, model: Any) -> Send:
    return _sender_to(agent_with(memory, model, tools=()))


def _conversation(memory: ConversationMemory, model: Any) -> Send:
    talk = memory.conversation(model, thread_id="t", user_id="ana", recall=False)
    return lambda messages: talk.send_message(list(messages)).text


DOORS = {"wrap": _wrap, "conversation": _conversation, "graph": _graph, "agent": _agent}
"""Hosts that take lists of messages, graphs and agents without a checkpointer."""


# -- callers --------------------------------------------------------------------------------------


class News:
    """Sends only what is new, and edits through the history."""

    def __init__(self, door: str, *, with_ids: bool) -> None:
        self.door = door
        self.memory = ConversationMemory(InMemoryLog())
        self.model = make_model()
        self.send = DOORS[door](self.memory, self.model)
        self.with_ids = with_ids

    def _human(self, text: str, number: int) -> HumanMessage:
        return HumanMessage(text, id=f"u{number}" if self.with_ids else None)

    def _last(self, back: int) -> BaseMessage:
        history = self.memory.history("t", user_id="ana")
        return [one for one in history.messages if one.type == "human"][-1 - back]

    def say(self, text: str, number: int, system: list[SystemMessage], tab: int = 0) -> None:
        """Say something."""
        self.send([*system, self._human(text, number)])

    def edit(self, back: int, text: str, system: list[SystemMessage], tab: int = 0) -> None:
        """Say an earlier thing otherwise."""
        old = self._last(back)
        self.memory.history("t", user_id="ana").replace(str(old.id), text)
        self.send([*system, HumanMessage(text, id=old.id)])

    def again(self, system: list[SystemMessage], tab: int = 0) -> None:
        """Ask for another answer."""
        self.send([*system, self._last(0)])


@dataclass
class _Tab:
    """What a page shows."""

    shown: list[BaseMessage] = field(default_factory=list)


class Page(News):
    """Sends what its page shows, or the last messages of it; its replies have no ids."""

    def __init__(
        self, door: str, *, with_ids: bool, most: int | None = None, tabs: int = 1
    ) -> None:
        super().__init__(door, with_ids=with_ids)
        self.most = most
        self.tabs = [_Tab() for _ in range(tabs)]

    def _show(self, tab: int, messages: list[BaseMessage], system: list[SystemMessage]) -> None:
        sent = messages if self.most is None else messages[-self.most :]
        # Copies: LangGraph writes the ids that it makes up into the messages it is given.
        reply = self.send([*system, *(message.model_copy() for message in sent)])
        self.tabs[tab].shown = [*messages, AIMessage(reply)]

    def say(self, text: str, number: int, system: list[SystemMessage], tab: int = 0) -> None:
        """Say something."""
        self._show(tab, [*self.tabs[tab].shown, self._human(text, number)], system)

    def edit(self, back: int, text: str, system: list[SystemMessage], tab: int = 0) -> None:
        """Say an earlier thing otherwise."""
        shown = self.tabs[tab].shown
        asked = [n for n, one in enumerate(shown) if one.type == "human"][-1 - back]
        self._show(tab, [*shown[:asked], HumanMessage(text, id=shown[asked].id)], system)

    def again(self, system: list[SystemMessage], tab: int = 0) -> None:
        """Ask for another answer."""
        self._show(tab, self.tabs[tab].shown[:-1], system)


def run(caller: News, actions: Sequence[str], *, dated: bool) -> News:
    """Let a caller do one thing after the other; its first four say something.

    Args:
        caller: Who.
        actions: `say`, `yes`, `again`, `edit` or `edit earlier`. Without ids, an edit resembles
            what it replaces.
        dated: Whether each call brings a system message of its own.
    """
    said: list[str] = []
    for number, action in enumerate(actions):
        system = [SystemMessage(f"Day {number}.")] if dated else []
        if action in ("say", "yes") or len(said) < 4:
            said.append("yes" if action == "yes" and said else make_words(number))
            caller.say(said[-1], number, system)
        elif action == "again":
            caller.again(system)
        else:
            said = said[: len(said) - (action == "edit earlier")]
            said[-1] = (
                f"{make_words(number)} {number}" if caller.with_ids else f"{said[-1]}{number % 10}"
            )
            caller.edit(action == "edit earlier", said[-1], system)
    return caller


# -- what came of it ------------------------------------------------------------------------------


def log_of(memory: ConversationMemory) -> list[tuple[str, str, bool]]:
    """Return all that was ever stored, and whether it still counts."""
    history = memory.history("t", user_id="ana")
    live = {message.id for message in history.messages}
    return [
        (entry.role, str(entry.message.text), entry.message_id in live)
        for entry in history.entries
        if entry.message is not None
    ]


def kept_by(memory: ConversationMemory) -> list[tuple[str, str]]:
    """Return what still counts of all that was stored."""
    entries = find_live_entries(memory.history("t", user_id="ana").entries)
    return [(one.role, str(one.message.text)) for one in entries if one.message is not None]


def view_of(memory: ConversationMemory) -> list[tuple[str, str]]:
    """Return what a model would see of the thread."""
    history = memory.history("t", user_id="ana")
    return [(one.type, str(one.text)) for one in history.messages]


def seen_by(model: ScriptedChatModel) -> list[list[tuple[str, str]]]:
    """Return what a model saw, call by call."""
    return [[(one.type, str(one.text)) for one in messages] for messages in model.seen]
