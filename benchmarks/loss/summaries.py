"""Conversations that grow too long: the memories that summarise them, and what is tried on them.

Everything that is said bears a mark, such as `m017`. The summariser is a scripted model that notes
every mark it reads, so a mark that is neither in what the model is called with nor in the summary
there never reached a summariser, or was dropped behind it.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig

from benchmarks.loss.judging import COMMAND, Talk, judge_summary, marks_in
from benchmarks.loss.models import GRACE_S, ProviderError, ScriptedModel
from benchmarks.loss.systems import Opened, UnsupportedError, open_saver
from langchain_convmem import ConversationMemory, SummarizingMemory
from langchain_convmem.summarizing import SummarySettings

_HERE: RunnableConfig = {"configurable": {"thread_id": "t", "user_id": "ana"}}


class Marks(NamedTuple):
    """When to summarise, and what to keep, in tokens."""

    high: int = 4000
    low: int = 1000

    def to_settings(self) -> SummarySettings:
        return SummarySettings(
            trigger=("tokens", self.high),
            keep=("tokens", self.low),
            max_summary_tokens=2000,
            first_pause_s=0.001,
        )


class Summarising(Opened):
    """A chat over files in a folder, with a summariser. A context manager."""

    name: ClassVar[str]
    keeps_threads = True
    """Whether it stores threads itself, so that two may write to one."""

    def __init__(self, folder: Path, marks: Marks, summarizer: ScriptedModel) -> None:
        self.folder, self.marks, self.summarizer = folder, marks, summarizer
        self.model = ScriptedModel(reply=lambda _: AIMessage("Fine."))
        self.open()

    @abstractmethod
    def go_on(self, messages: Sequence[BaseMessage]) -> None:
        """Say messages, summarise if that is due, and call the model with what comes of it."""

    def reopen(self) -> None:
        self._check_that_it_keeps_threads()
        super().reopen()

    def make_another(self) -> Summarising:
        """Return the same chat in the hands of another writer; whoever takes it closes it."""
        self._check_that_it_keeps_threads()
        return type(self)(self.folder, self.marks, self.summarizer)

    def _check_that_it_keeps_threads(self) -> None:
        if not self.keeps_threads:
            raise UnsupportedError(f"{self.name} stores nothing")


class Wrapped(Summarising):
    """`memory.wrap(model)` with a summariser.

    What happened before the latest message is added to the thread and summarised where that is due,
    as a worker does; then the user's message goes through the wrapped model. In the middle of a
    tool loop the model gets `history.messages`, as in a node of a graph.
    """

    name = "convmem"

    def open(self) -> None:
        self.memory = ConversationMemory.open(
            self.folder / "memory.db",
            summarizer=self.summarizer,
            summary_settings=self.marks.to_settings(),
            summarize_when="foreground",
        )
        self._chain = self.memory.wrap(self.model, recall=False)

    def close(self) -> None:
        self.memory.close()

    def go_on(self, messages: Sequence[BaseMessage]) -> None:
        is_asked = isinstance(messages[-1], HumanMessage)
        added = list(messages[:-1] if is_asked else messages)
        if added:
            self.memory.add_messages(added, thread_id="t", user_id="ana")
            self.memory.summarize("t", user_id="ana")
        if is_asked:
            self._chain.invoke(messages[-1], _HERE)
        else:
            self.model.invoke(self.memory.history("t", user_id="ana").messages)


class Step(Summarising):
    """`SummarizingMemory() | model`; the application passes the whole conversation each time."""

    name = "convmem-step"
    keeps_threads = False

    def open(self) -> None:
        step = SummarizingMemory(summarizer=self.summarizer, settings=self.marks.to_settings())
        self._chain: Runnable[Any, Any] = step | self.model
        self._said: list[BaseMessage] = []

    def close(self) -> None:
        """Do nothing: there are no files."""

    def go_on(self, messages: Sequence[BaseMessage]) -> None:
        known = {one.id for one in self._said}
        self._said += [one for one in messages if one.id not in known]
        self._said.append(self._chain.invoke(list(self._said)))


class _Graph(Summarising):
    """An agent or graph with LangGraph's SQLite checkpointer."""

    def open(self) -> None:
        self._saver = open_saver(self.folder)
        self._graph = self.make_graph(self._saver)

    def close(self) -> None:
        self._saver.conn.close()

    @abstractmethod
    def make_graph(self, saver: Any) -> Any:
        """Return the graph that answers."""

    def list_options(self) -> dict[str, Any]:
        """Return what differs from the defaults."""
        return {}

    def go_on(self, messages: Sequence[BaseMessage]) -> None:
        self._graph.invoke({"messages": list(messages)}, _HERE, durability="sync")


class Middleware(_Graph):
    """`create_agent` with `SummarizationMiddleware`; all but the trigger as it comes."""

    name = "middleware"

    def make_graph(self, saver: Any) -> Any:
        from langchain.agents import create_agent
        from langchain.agents.middleware import SummarizationMiddleware

        middleware: Any = SummarizationMiddleware(
            model=self.summarizer, trigger=("tokens", self.marks.high), **self.list_options()
        )
        return create_agent(self.model, [], middleware=[middleware], checkpointer=saver)


class BestMiddleware(Middleware):
    """The same, told to keep tokens and to trim nothing before the summary."""

    name = "middleware-best"

    def list_options(self) -> dict[str, Any]:
        return {"keep": ("tokens", self.marks.low), "trim_tokens_to_summarize": None}


class Langmem(_Graph):
    """langmem's `SummarizationNode` before the model, with one budget, as in its example."""

    name = "langmem"

    def make_graph(self, saver: Any) -> Any:
        from langgraph.graph import START, MessagesState, StateGraph
        from langmem.short_term import SummarizationNode

        class State(MessagesState):
            context: dict[str, Any]
            summarized_messages: list[Any]

        def answer(state: State) -> dict[str, Any]:
            return {"messages": [self.model.invoke(state["summarized_messages"])]}

        node = SummarizationNode(model=self.summarizer, **self.list_options())
        graph: Any = StateGraph(State).add_node("summarize", node).add_node("answer", answer)
        graph.add_edge(START, "summarize").add_edge("summarize", "answer")
        return graph.compile(checkpointer=saver)

    def list_options(self) -> dict[str, Any]:
        return {"max_tokens": self.marks.high}


class BestLangmem(Langmem):
    """The same, with a window in which every conversation here fits at once."""

    name = "langmem-best"

    def list_options(self) -> dict[str, Any]:
        return {"max_tokens": 100_000, "max_tokens_before_summary": self.marks.high}


SYSTEMS: dict[str, type[Summarising]] = {
    kind.name: kind for kind in (Wrapped, Step, Middleware, BestMiddleware, Langmem, BestLangmem)
}


# -- the stage -------------------------------------------------------------------------------

_FILLING = "and so it went on for a while with this and that and nothing much besides"


class Script:
    """Makes messages, each with a mark and an id of its own."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def _mark(self, text: str, words: int) -> dict[str, Any]:
        mark = f"m{next(self._numbers):03}"
        filling = (f"{_FILLING} " * (words // 16 + 1)).split()[:words]
        return {"content": f"{mark} {text} {' '.join(filling)}".strip(), "id": mark}

    def user(self, text: str = "", words: int = 30) -> HumanMessage:
        return HumanMessage(**self._mark(text, words))

    def rules(self, text: str) -> SystemMessage:
        return SystemMessage(**self._mark(text, 0))

    def answer(self, text: str = "", words: int = 30) -> AIMessage:
        return AIMessage(**self._mark(text, words))

    def calls(self, *names: str) -> AIMessage:
        calls = [{"name": "look", "args": {}, "id": name, "type": "tool_call"} for name in names]
        return AIMessage(**self._mark("let me look", 0), tool_calls=calls)

    def result(self, name: str, text: str = "", words: int = 30) -> ToolMessage:
        return ToolMessage(**self._mark(text, words), tool_call_id=name)

    def talk(self, turns: int, words: int = 60, text: str = "") -> list[BaseMessage]:
        """Return turns of small talk."""
        return [
            one for _ in range(turns) for one in (self.user(text, words), self.answer(text, words))
        ]

    def loop(self, rounds: int, words: int = 60) -> list[BaseMessage]:
        """Return rounds of a tool loop: a call and its result."""
        names = [f"call{number}" for number in range(rounds)]
        return [one for name in names for one in (self.calls(name), self.result(name, "", words))]


class Stage:
    """Plays one scenario with one system, and keeps the record.

    Attributes:
        during: Called while the summariser works, when it has read what it is given.
        next_summary: Makes another summary of the next one, from what was read and noted.
        reports: What the summariser repeats if it reads it.
    """

    def __init__(self, kind: type[Summarising], folder: Path) -> None:
        self.during: Callable[[], None] | None = None
        self.next_summary: Callable[[AIMessage], AIMessage] | None = None
        self.reports = ""
        self._kind = kind
        self._folder = folder
        self._talks: list[Talk] = []

    @contextmanager
    def open(self, high: int, low: int) -> Iterator[tuple[Summarising, Script]]:
        """Open a system in a folder of its own; a new talk begins."""
        self._talks.append(Talk())
        folder = self._folder / str(len(self._talks))
        folder.mkdir()
        with self._kind(folder, Marks(high, low), ScriptedModel(reply=self._note)) as system:
            yield system, Script()

    def go_on(self, system: Summarising, *messages: BaseMessage) -> None:
        """Say messages and have the model called; a turn that fails is counted."""
        talk = self._talks[-1]
        known = {one.id for one in talk.said}
        # A copy: a system may do with its messages what it likes.
        talk.said += [one.model_copy(deep=True) for one in messages if one.id not in known]
        try:
            system.go_on(messages)
        except ProviderError:
            talk.unanswered += 1
        else:
            talk.got = list(system.model.seen[-1])

    def judge(self, play: Callable[[Stage], None]) -> dict[str, int]:
        """Play a scenario; return what is wrong, over all talks."""
        play(self)
        return dict(sum((Counter(judge_summary(talk)) for talk in self._talks), Counter[str]()))

    def _note(self, messages: Sequence[BaseMessage]) -> AIMessage:
        """Play the summariser: note every mark, and what is to be reported."""
        read = dict.fromkeys(marks_in(messages))
        self._talks[-1].read.update(read)
        if self.during is not None:
            self.during()
        is_reported = any(self.reports in str(one.text) for one in messages)
        noted = AIMessage(f"Noted: {' '.join(read)} {self.reports if is_reported else ''}".strip())
        change, self.next_summary = self.next_summary, None
        noted = noted if change is None else change(noted)
        self._talks[-1].written.append(str(noted.text))
        return noted


# -- scenarios -------------------------------------------------------------------------------


class Scenario(NamedTuple):
    """What is said of it, and what plays it."""

    what: str
    play: Callable[[Stage], None]


Said: TypeAlias = Callable[[Script], list[BaseMessage]]
"""What is said in one go."""


def _in_turn(what: str, high: int, low: int, *turns: Said) -> Scenario:
    """Return a scenario in which things are said, and nothing else happens."""

    def play(stage: Stage) -> None:
        with stage.open(high, low) as (system, script):
            for say in turns:
                stage.go_on(system, *say(script))

    return Scenario(what, play)


def _in_eight_places(what: str, say: Said) -> Scenario:
    """Return a scenario whose conversation is cut in eight places, from the front to its end."""

    def play(stage: Stage) -> None:
        for place in range(8):
            with stage.open(850 + 70 * place, 300 + 65 * place) as (system, script):
                loop = [*script.talk(5), script.user("", 60), *say(script), script.answer("", 60)]
                tail = script.talk(6 + place // 2, 5)
                more = [script.user("one thing first", 5)] if place % 2 else []
                stage.go_on(system, *loop, *tail, *more, script.user("and now?", 5))

    return Scenario(what, play)


def _with_trouble(what: str, start: Callable[[Stage], object], *, fails: bool = False) -> Scenario:
    """Return a scenario in which something goes wrong while a first summary is made.

    Then two more turns bring about the summary that is due, before a turn or behind it.
    """

    def play(stage: Stage) -> None:
        start(stage)
        with stage.open(2000, 500) as (system, script):
            said = [*script.talk(16), script.user("and now?")]
            with suppress(_CrashError):
                stage.go_on(system, *said)
            stage.during = None
            if fails:
                system.reopen()
                stage.go_on(system, said[-1])  # whoever heard no answer says it again
            for text in ("are you sure?", "and then?"):
                stage.go_on(system, script.user(text))

    return Scenario(what, play)


class _CrashError(BaseException):
    """The end of a process, as far as a process can play that itself."""


def _raise(error: BaseException) -> Callable[[Stage], None]:
    """Return what makes the summariser raise an error."""

    def fail() -> None:
        raise error

    return lambda stage: setattr(stage, "during", fail)


def _write(change: Callable[[str], AIMessage]) -> Callable[[Stage], None]:
    """Return what makes the next summary another one."""
    return lambda stage: setattr(stage, "next_summary", lambda noted: change(str(noted.text)))


def _say_meanwhile(stage: Stage) -> None:
    with stage.open(2000, 500) as (system, script):
        other = system.make_another()
        arriving = script.user("by the way, from my phone")

        def arrive() -> None:
            stage.during = None
            stage.go_on(other, arriving)

        stage.during = arrive
        stage.go_on(system, *script.talk(16), script.user("and now?"))
        stage.go_on(system, script.user("are you sure?"))
        other.close()


def _write_twice(stage: Stage) -> None:
    with stage.open(2000, 500) as (system, script):
        # One turn below the mark; the next goes beyond it, and two take it.
        stage.go_on(system, *script.talk(9), script.user("", 20))
        other = system.make_another()
        both = threading.Barrier(2)

        def wait() -> None:
            with suppress(threading.BrokenBarrierError):
                both.wait(GRACE_S)

        stage.during = wait
        news = [
            (one, *script.talk(4), script.user(f"from my {where}", 60))
            for one, where in ((system, "phone"), (other, "desk"))
        ]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda one: stage.go_on(*one), news))
        stage.during = None
        stage.go_on(system, script.user("are you sure?"))
        other.close()


def _report(stage: Stage) -> None:
    stage.reports = COMMAND
    with stage.open(2000, 500) as (system, script):
        page = [script.user("read it"), script.calls("page"), script.result("page", COMMAND)]
        talk = [script.answer("read"), *script.talk(16), script.user("and now?")]
        stage.go_on(system, *page, *talk)


_CURLY = 'use {user} and {0} and {{x}} in {"a": [1]} or {% raw %}'

SCENARIOS: dict[str, Scenario] = {
    "pending-question": _in_turn(
        "The user asks, and the model works with its tools for so long that a summary is due.",
        *(2000, 600),
        lambda say: [*say.talk(3), say.user("which flight did I book?"), *say.loop(24)],
    ),
    "parallel-calls": _in_eight_places(
        "The model calls four tools at once.",
        lambda say: [
            say.calls(*(f"call{number}" for number in range(4))),
            *(say.result(f"call{number}", "", 60) for number in range(4)),
        ],
    ),
    "interleaved-calls": _in_eight_places(
        "Two calls stand in two messages, and then come both results.",
        lambda say: [
            *(say.calls(name) for name in "ab"),
            *(say.result(name, "", 120) for name in "ab"),
        ],
    ),
    "trimmed-evictions": _in_turn(
        "Much more is summarised at once than a summariser reads by default.",
        *(20_000, 1500),
        lambda say: [*say.talk(150, 80), say.user("and now?")],
    ),
    "second-compaction": _in_turn(
        "A conversation is summarised, goes on for long, and is summarised again.",
        *(6000, 1000),
        lambda say: [*say.talk(45, 80), say.user("and now?")],
        lambda say: [*say.talk(45, 80), say.user("and now?")],
        lambda say: [say.user("are you sure?")],
    ),
    "nothing-from-the-user": _in_turn(
        "What a summariser is shown has no word of the user in it: a long loop of tools.",
        *(5000, 600),
        lambda say: [
            *(say.user("please port the driver"), *say.loop(40, 200)),
            *(say.answer("done"), say.user("and now?")),
        ],
    ),
    "oversize-question": _in_turn(
        "The latest message is larger than anything that is meant to stay.",
        *(3000, 600),
        lambda say: [*say.talk(24), say.user("what does this log say?", 4000)],
    ),
    "braces": _in_turn(
        "What was said, and the summary of it, are full of what templates are made of.",
        *(2000, 500),
        lambda say: [*say.talk(12, text=_CURLY), say.user("and now?")],
        lambda say: [*say.talk(12, text=_CURLY), say.user("and now?")],
    ),
    "empty-summary": _with_trouble(
        "The summariser says nothing once, and works again afterwards.",
        _write(lambda _: AIMessage("")),
    ),
    "cut-off-summary": _with_trouble(
        "The summary reaches its model's output limit once, and the model says so.",
        _write(
            lambda text: AIMessage(
                text[: len(text) // 2], response_metadata={"finish_reason": "length"}
            )
        ),
    ),
    "failing-summariser": _with_trouble(
        "The summariser's provider is down for one turn; the user asks again if need be.",
        _raise(ProviderError("overloaded")),
    ),
    "crash-before-commit": _with_trouble(
        "The process ends when the summary is made and not yet stored, and is started anew.",
        _raise(_CrashError()),
        fails=True,
    ),
    "messages-meanwhile": Scenario(
        "While the summariser works, another device takes a turn of the same chat.", _say_meanwhile
    ),
    "two-writers": Scenario(
        "Two processes find at the same time that a summary is due, each in a turn of its own.",
        _write_twice,
    ),
    "instructions": Scenario(
        "A tool brings a text that gives orders, and the summariser reports it, word for word.",
        _report,
    ),
    "system-message": _in_turn(
        "Rules for the assistant stand at the beginning, as a system message.",
        *(2000, 500),
        lambda say: [say.rules("never name a price"), *say.talk(16), say.user("and now?")],
    ),
}
