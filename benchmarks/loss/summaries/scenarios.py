"""What happens to a conversation that grows too long: each scenario tells what it says, and when.

A scenario gets a stage, which opens systems and keeps the record, and leaves the record behind.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import count

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from benchmarks.loss.models import GRACE_S, ProviderError
from benchmarks.loss.summaries.judging import COMMAND
from benchmarks.loss.summaries.stage import Crash, Stage
from benchmarks.loss.summaries.systems import Marks, Summarising

__all__ = ["SCENARIOS", "Scenario"]

Scenario = Callable[[Stage], None]

_WORDS = "and so it went on for a while with this and that and nothing much besides "


class _Script:
    """Makes messages, each with a mark and an id of its own."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def _marked(self, text: str, words: int) -> tuple[str, str]:
        mark = f"m{next(self._numbers):03}"
        filling = (_WORDS * (words // 16 + 1)).split()[:words]
        return mark, f"{mark} {text} {' '.join(filling)}".strip()

    def user(self, text: str = "", words: int = 30) -> HumanMessage:
        mark, said = self._marked(text, words)
        return HumanMessage(said, id=mark)

    def rules(self, text: str) -> SystemMessage:
        mark, said = self._marked(text, 0)
        return SystemMessage(said, id=mark)

    def answer(self, text: str = "", words: int = 30) -> AIMessage:
        mark, said = self._marked(text, words)
        return AIMessage(said, id=mark)

    def calls(self, *names: str) -> AIMessage:
        mark, said = self._marked("let me look", 0)
        calls = [{"name": "look", "args": {}, "id": name, "type": "tool_call"} for name in names]
        return AIMessage(said, id=mark, tool_calls=calls)

    def result(self, name: str, text: str = "", words: int = 30) -> ToolMessage:
        mark, said = self._marked(text, words)
        return ToolMessage(said, id=mark, tool_call_id=name)

    def talk(self, turns: int, words: int = 60) -> list[BaseMessage]:
        """Return turns of small talk."""
        return [one for _ in range(turns) for one in (self.user("", words), self.answer("", words))]

    def loop(self, rounds: int, words: int = 60, first: int = 0) -> list[BaseMessage]:
        """Return rounds of a tool loop: a call and its result."""
        names = [f"call{number}" for number in range(first, first + rounds)]
        return [one for name in names for one in (self.calls(name), self.result(name, "", words))]


def pending_question(stage: Stage) -> None:
    """The user asks, and the model works with its tools for so long that a summary is due."""
    script = _Script()
    with stage.opened(Marks(2000, 600)) as system:
        before = script.talk(3)
        stage.go_on(system, [*before, script.user("which flight did I book?"), *script.loop(24)])


def parallel_calls(stage: Stage) -> None:
    """The model calls four tools at once; eight conversations, cut in eight places."""
    for place in range(8):
        script = _Script()
        with stage.opened(_cutting(place)) as system:
            before = [*script.talk(5), script.user("", 60)]
            names = [f"call{number}" for number in range(4)]
            results = [script.result(name, "", 60) for name in names]
            loop = [script.calls(*names), *results, script.answer("", 60)]
            stage.go_on(system, [*before, *loop, *_tail(script, place)])


def interleaved_calls(stage: Stage) -> None:
    """Two calls stand in two messages, and then come both results; cut in eight places."""
    for place in range(8):
        script = _Script()
        with stage.opened(_cutting(place)) as system:
            before = [*script.talk(5), script.user("", 60)]
            results = [script.result(name, "", 120) for name in ("a", "b")]
            loop = [script.calls("a"), script.calls("b"), *results, script.answer("", 60)]
            stage.go_on(system, [*before, *loop, *_tail(script, place)])


def _cutting(place: int) -> Marks:
    """Return marks that cut a conversation later from the front, and earlier from its end."""
    return Marks(high=850 + 70 * place, low=300 + 65 * place)


def _tail(script: _Script, place: int) -> list[BaseMessage]:
    """Return the end of a conversation, a message longer from place to place."""
    more = [script.user("one thing first", 5)] if place % 2 else []
    return [*script.talk(6 + place // 2, 5), *more, script.user("and now?", 5)]


def trimmed_evictions(stage: Stage) -> None:
    """Much more is summarised at once than a summariser reads by default."""
    script = _Script()
    with stage.opened(Marks(20_000, 1500)) as system:
        stage.go_on(system, [*script.talk(150, 80), script.user("and now?")])


def second_compaction(stage: Stage) -> None:
    """A conversation is summarised, goes on for long, and is summarised again."""
    script = _Script()
    with stage.opened(Marks(6000, 1000)) as system:
        stage.go_on(system, [*script.talk(45, 80), script.user("and now?")])
        stage.go_on(system, [*script.talk(45, 80), script.user("and now?")])
        stage.go_on(system, [script.user("are you sure?")])


def nothing_from_the_user(stage: Stage) -> None:
    """What a summariser is shown has no word of the user in it: a long loop of tools."""
    script = _Script()
    with stage.opened(Marks(5000, 600)) as system:
        asked = script.user("please port the driver")
        loop = [*script.loop(40, 200), script.answer("done")]
        stage.go_on(system, [asked, *loop, script.user("and now?")])


def oversize_question(stage: Stage) -> None:
    """The latest message is larger than anything that is meant to stay."""
    script = _Script()
    with stage.opened(Marks(3000, 600)) as system:
        stage.go_on(system, [*script.talk(24), script.user("what does this log say?", 4000)])


def braces(stage: Stage) -> None:
    """What was said, and the summary of it, are full of what templates are made of."""
    script = _Script()
    curly = 'use {user} and {0} and {{x}} in {"a": [1]} or {% raw %}'
    with stage.opened(Marks(2000, 500)) as system:
        for _ in range(2):
            talk = [
                one for _ in range(12) for one in (script.user(curly, 60), script.answer(curly, 60))
            ]
            stage.go_on(system, [*talk, script.user("and now?")])


def empty_summary(stage: Stage) -> None:
    """The summariser says nothing once, and works again afterwards."""
    _with_a_bad_summary(stage, lambda _: AIMessage(""))


def cut_off_summary(stage: Stage) -> None:
    """The summary reaches its model's output limit once, and the model says so."""

    def cut(noted: AIMessage) -> AIMessage:
        half = str(noted.text)[: len(str(noted.text)) // 2]
        return AIMessage(half, response_metadata={"finish_reason": "length"})

    _with_a_bad_summary(stage, cut)


def _with_a_bad_summary(stage: Stage, bad: Callable[[AIMessage], AIMessage]) -> None:
    script = _Script()
    stage.next_summary = bad
    with stage.opened(Marks(2000, 500)) as system:
        stage.go_on(system, [*script.talk(16), script.user("and now?")])
        _two_more_turns(stage, system, script)


def _two_more_turns(stage: Stage, system: Summarising, script: _Script) -> None:
    """Go on, so that the summary that is due comes about, whether before a turn or behind it."""
    for text in ("are you sure?", "and then?"):
        stage.go_on(system, [script.user(text)])


def failing_summariser(stage: Stage) -> None:
    """The summariser's provider is down for one turn; the user asks again if need be."""
    script = _Script()

    def down() -> None:
        raise ProviderError("overloaded")

    talk, asked = script.talk(16), script.user("and now?")
    with stage.opened(Marks(2000, 500)) as system:
        stage.during = down
        stage.go_on(system, [*talk, asked])
        stage.during = None
        _two_more_turns(stage, system, script)


def crash_before_the_commit(stage: Stage) -> None:
    """The process ends when the summary is made and not yet stored, and is started anew."""
    script = _Script()

    def crash() -> None:
        raise Crash

    asked = script.user("and now?")
    with stage.opened(Marks(2000, 500)) as system:
        stage.during = crash
        with suppress(Crash):
            stage.go_on(system, [*script.talk(16), asked])
        stage.during = None
        system.reopen()
        # Whoever heard no answer says it again.
        stage.go_on(system, [asked])
        _two_more_turns(stage, system, script)


def messages_meanwhile(stage: Stage) -> None:
    """While the summariser works, another device takes a turn of the same chat."""
    script = _Script()
    with stage.opened(Marks(2000, 500)) as system:
        other = stage.another(system)
        arriving = [script.user("by the way, from my phone")]

        def arrives() -> None:
            stage.during = None
            stage.go_on(other, arriving)

        stage.during = arrives
        stage.go_on(system, [*script.talk(16), script.user("and now?")])
        stage.go_on(system, [script.user("are you sure?")])
        other.close()


def two_writers(stage: Stage) -> None:
    """Two processes find at the same time that a summary is due, each in a turn of its own."""
    script = _Script()
    with stage.opened(Marks(2000, 500)) as system:
        # One turn below the mark; the next goes beyond it, and two take it.
        stage.go_on(system, [*script.talk(9), script.user("", 20)])
        other = stage.another(system)
        both = threading.Barrier(2)

        def waits() -> None:
            with suppress(threading.BrokenBarrierError):
                both.wait(GRACE_S)

        stage.during = waits
        news = [
            [*script.talk(4), script.user("from my phone", 60)],
            [*script.talk(4), script.user("from my desk", 60)],
        ]
        stage.at_once([(system, news[0]), (other, news[1])])
        stage.during = None
        stage.go_on(system, [script.user("are you sure?")])
        other.close()


def instructions(stage: Stage) -> None:
    """A tool brings a text that gives orders, and the summariser reports it, word for word."""
    script = _Script()
    stage.reports = COMMAND
    with stage.opened(Marks(2000, 500)) as system:
        page = [script.user("read it"), script.calls("page"), script.result("page", COMMAND)]
        stage.go_on(
            system, [*page, script.answer("read"), *script.talk(16), script.user("and now?")]
        )


def system_message(stage: Stage) -> None:
    """Rules for the assistant stand at the beginning of the conversation, as a system message."""
    script = _Script()
    with stage.opened(Marks(2000, 500)) as system:
        rules = script.rules("never name a price")
        stage.go_on(system, [rules, *script.talk(16), script.user("and now?")])


SCENARIOS: dict[str, Scenario] = {
    "pending-question": pending_question,
    "parallel-calls": parallel_calls,
    "interleaved-calls": interleaved_calls,
    "trimmed-evictions": trimmed_evictions,
    "second-compaction": second_compaction,
    "nothing-from-the-user": nothing_from_the_user,
    "oversize-question": oversize_question,
    "braces": braces,
    "empty-summary": empty_summary,
    "cut-off-summary": cut_off_summary,
    "failing-summariser": failing_summariser,
    "crash-before-commit": crash_before_the_commit,
    "messages-meanwhile": messages_meanwhile,
    "two-writers": two_writers,
    "instructions": instructions,
    "system-message": system_message,
}
