"""What people use instead, given the same chat, the same summariser and the same room."""

from __future__ import annotations

import shutil
import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib.util import find_spec
from tempfile import mkdtemp
from typing import Any, ClassVar, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.tools import tool

from benchmarks.long_chat.summarisers import Meter, ScriptedSummarizer, Style
from benchmarks.scripted_model import AnsweringModel


class Room(NamedTuple):
    """The room that every system has, in tokens.

    Attributes:
        context: All that the model gets.
        high: So much that no summary covers yet makes a summary due.
        low: So much of it stays as it was said.
        summary: How long a summary may be, in the place where ours has its summary and its list.
    """

    context: int
    high: int
    low: int
    summary: int


class Peer(ABC):
    """A chat that something else keeps short. Not thread-safe."""

    name: ClassVar[str]
    needs: ClassVar[str]
    """The package that it comes from."""

    def __init__(self, room: Room, style: Style) -> None:
        self.room = room
        self.summarizer = ScriptedSummarizer(style=style, max_tokens=room.summary)

    @property
    def meter(self) -> Meter:
        """What its summariser read and wrote."""
        return self.summarizer.meter

    @abstractmethod
    def take(self, human: HumanMessage, replies: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Take a turn with the replies of the model and its tools; return the model's context."""


class Middleware(Peer):
    """`create_agent` with LangChain's `SummarizationMiddleware`, told to trim nothing."""

    name = "middleware"
    needs = "langchain"

    def __init__(self, room: Room, style: Style) -> None:
        super().__init__(room, style)
        from langchain.agents import create_agent
        from langgraph.checkpoint.memory import InMemorySaver

        middleware = self.make_middleware(
            model=self.summarizer,
            # Its mark counts the summary, too.
            trigger=("tokens", room.high + room.summary),
            keep=("tokens", room.low),
            trim_tokens_to_summarize=None,
        )
        self._results: dict[str, str] = {}
        self._script: list[AIMessage] = []
        self._seen: list[list[BaseMessage]] = []
        self._model = AnsweringModel(reply=self._answer)
        self._agent: Any = create_agent(
            self._model,
            [self._tool("look_up"), self._tool("search")],
            middleware=[middleware],
            checkpointer=InMemorySaver(),
        )

    def make_middleware(self, **options: Any) -> Any:
        """Return what summarises."""
        from langchain.agents.middleware import SummarizationMiddleware

        return SummarizationMiddleware(**options)

    def _answer(self, messages: Sequence[BaseMessage]) -> AIMessage:
        self._seen.append(list(messages))
        return self._script.pop(0)

    def _tool(self, name: str) -> Any:
        def run(topic: str) -> str:
            return self._results[f"{name} {topic}"]

        run.__doc__ = "Return what is known about a topic."
        return tool(name)(run)

    def take(self, human: HumanMessage, replies: Sequence[BaseMessage]) -> list[BaseMessage]:
        spoken = [one.model_copy() for one in replies if isinstance(one, AIMessage)]
        calls = {call["id"]: call for one in spoken for call in one.tool_calls}
        for one in replies:
            if one.type == "tool":
                call = calls[one.tool_call_id]  # type: ignore[attr-defined]
                self._results[f"{call['name']} {call['args']['topic']}"] = str(one.text)
        self._script, self._seen = spoken, []
        self._agent.invoke({"messages": [human]}, {"configurable": {"thread_id": "t"}})
        return self._seen[0]


class DeepAgents(Middleware):
    """The same agent with the middleware of deepagents, which keeps in files what it summarised."""

    name = "deepagents"
    needs = "deepagents"

    def make_middleware(self, **options: Any) -> Any:
        from deepagents.backends import FilesystemBackend
        from deepagents.middleware.summarization import SummarizationMiddleware

        folder = mkdtemp(prefix="benchmark-long-chat-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        files = FilesystemBackend(root_dir=folder, virtual_mode=True)
        return SummarizationMiddleware(backend=files, **options)


class Langmem(Peer):
    """langmem's `summarize_messages` before the model, as in its guide."""

    name = "langmem"
    needs = "langmem"

    def __init__(self, room: Room, style: Style) -> None:
        super().__init__(room, style)
        self._messages: list[BaseMessage] = []
        self._running: Any = None

    def take(self, human: HumanMessage, replies: Sequence[BaseMessage]) -> list[BaseMessage]:
        from langmem.short_term import summarize_messages

        self._messages.append(human)
        result = summarize_messages(
            self._messages,
            running_summary=self._running,
            model=self.summarizer,
            max_tokens=self.room.context,
            max_tokens_before_summary=self.room.high,
            max_summary_tokens=self.room.summary,
        )
        if result.running_summary is not None:
            self._running = result.running_summary
        got = list(result.messages)
        self._messages.extend(replies)
        return got


PEERS: tuple[type[Peer], ...] = (Middleware, DeepAgents, Langmem)


def open_peers(room: Room, style: Style) -> list[Peer]:
    """Return the peers that are installed, each at the beginning of a chat."""
    return [kind(room, style) for kind in PEERS if find_spec(kind.needs) is not None]
