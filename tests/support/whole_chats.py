"""Callers of one thread: who sends what is new, and who sends what a page of a chat shows."""

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.graph import MessagesState
from scripted_agents import agent_with
from scripted_chat import ScriptedChatModel, at

from langchain_convmem import ConversationMemory, InMemoryLog
from langchain_convmem.integrations.langgraph import create_memory_graph
from langchain_convmem.views.live import find_live_entries


def make_model():
    """Return a model whose replies differ from each other and, here and there, repeat."""
    count = 0

    def reply(_messages):
        nonlocal count
        count += 1
        return "Fine." if count % 7 == 0 else f"Reply {count}."

    return ScriptedChatModel(replies=[reply])


def make_words(number):
    """Return a text that resembles no other one."""
    return chr(0x4E00 + number) * 12


def _sender_to(app):
    return lambda messages: app.invoke({"messages": messages}, at())["messages"][-1].text


def _conversation(memory, model):
    talk = memory.conversation(model, thread_id="t", user_id="ana", recall=False)
    return lambda messages: talk.send_message(list(messages)).text


def _wrap(memory, model):
    chain = memory.wrap(model, recall=False)
    return lambda messages: chain.invoke(messages, at()).text


DOORS = {
    "wrap": _wrap,
    "conversation": _conversation,
    "graph": lambda memory, model: _sender_to(
        create_memory_graph(memory, model, state_schema=MessagesState, recall=False)
    ),
    "agent": lambda memory, model: _sender_to(agent_with(memory, model, tools=())),
}
"""Hosts that take lists of messages, graphs and agents without a checkpointer."""


class News:
    """Sends only what is new, and edits through the history."""

    def __init__(self, door, *, with_ids):
        self.door = door
        self.memory = ConversationMemory(InMemoryLog())
        self.model = make_model()
        self.send = DOORS[door](self.memory, self.model)
        self.with_ids = with_ids

    def _human(self, text, number):
        return HumanMessage(text, id=f"u{number}" if self.with_ids else None)

    def _last(self, back):
        history = self.memory.history("t", user_id="ana")
        return [one for one in history.messages if one.type == "human"][-1 - back]

    def say(self, text, number, system, tab=0):
        """Say something."""
        self.send([*system, self._human(text, number)])

    def edit(self, back, text, system, tab=0):
        """Say an earlier thing otherwise."""
        old = self._last(back)
        self.memory.history("t", user_id="ana").replace(str(old.id), text)
        self.send([*system, HumanMessage(text, id=old.id)])

    def again(self, system, tab=0):
        """Ask for another answer."""
        self.send([*system, self._last(0)])


class Page(News):
    """Sends what its page shows, or the last messages of it; its replies have no ids."""

    def __init__(self, door, *, with_ids, most=None, tabs=1):
        super().__init__(door, with_ids=with_ids)
        self.most = most
        self.tabs = [[] for _ in range(tabs)]

    def _show(self, tab, messages, system):
        sent = messages if self.most is None else messages[-self.most :]
        # Copies: LangGraph writes the ids that it makes up into the messages it is given.
        reply = self.send([*system, *(message.model_copy() for message in sent)])
        self.tabs[tab] = [*messages, AIMessage(reply)]

    def say(self, text, number, system, tab=0):
        """Say something."""
        self._show(tab, [*self.tabs[tab], self._human(text, number)], system)

    def edit(self, back, text, system, tab=0):
        """Say an earlier thing otherwise."""
        shown = self.tabs[tab]
        asked = [n for n, one in enumerate(shown) if one.type == "human"][-1 - back]
        self._show(tab, [*shown[:asked], HumanMessage(text, id=shown[asked].id)], system)

    def again(self, system, tab=0):
        """Ask for another answer."""
        self._show(tab, self.tabs[tab][:-1], system)


def run(caller, actions, *, dated):
    """Let a caller do one thing after the other; its first four say something.

    Args:
        caller: Who.
        actions: `say`, `yes`, `again`, `edit` or `edit earlier`. Without ids, an edit resembles
            what it replaces.
        dated: Whether each call brings a system message of its own.
    """
    said = []
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


def log_of(memory):
    """Return all that was ever stored, and whether it still counts."""
    history = memory.history("t", user_id="ana")
    live = {message.id for message in history.messages}
    return [
        (entry.role, str(entry.message.text), entry.message_id in live)
        for entry in history.entries
        if entry.message is not None
    ]


def kept_by(memory):
    """Return what still counts of all that was stored."""
    entries = find_live_entries(memory.history("t", user_id="ana").entries)
    return [(one.role, str(one.message.text)) for one in entries if one.message is not None]


def view_of(memory):
    """Return what a model would see of the thread."""
    history = memory.history("t", user_id="ana")
    return [(one.type, str(one.text)) for one in history.messages]


def seen_by(model):
    """Return what a model saw, call by call."""
    return [[(one.type, str(one.text)) for one in messages] for messages in model.seen]
