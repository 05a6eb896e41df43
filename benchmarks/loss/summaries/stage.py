"""Where a scenario plays: it opens systems, has the summariser behave, and keeps the record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from langchain_core.messages import AIMessage, BaseMessage

from benchmarks.loss.models import ProviderError, ScriptedModel
from benchmarks.loss.summaries.judging import Talk, marks_in, verdict
from benchmarks.loss.summaries.systems import Marks, Summarising

__all__ = ["Crash", "Stage"]


class Crash(BaseException):
    """The end of a process, as far as a process can play that itself."""


class Stage:
    """Plays one scenario with one system.

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
    def opened(self, marks: Marks) -> Iterator[Summarising]:
        """Open a system in a folder of its own; a new talk begins."""
        self._talks.append(Talk())
        folder = self._folder / str(len(self._talks))
        folder.mkdir()
        with self._kind(folder, marks, ScriptedModel(reply=self._note), _talker()) as system:
            yield system

    def another(self, system: Summarising) -> Summarising:
        """Return the same chat in the hands of another writer; whoever takes it closes it."""
        return system.another(_talker())

    def go_on(self, system: Summarising, messages: Sequence[BaseMessage]) -> None:
        """Say messages and have the model called; a turn that fails is counted."""
        self._say(messages)
        self._take(system, messages)

    def at_once(self, turns: Sequence[tuple[Summarising, Sequence[BaseMessage]]]) -> None:
        """Take turns in threads of their own."""
        for _, messages in turns:
            self._say(messages)
        with ThreadPoolExecutor(len(turns)) as pool:
            for done in [pool.submit(self._take, *turn) for turn in turns]:
                done.result()

    def verdict(self) -> dict[str, int]:
        """Return what is wrong, over all talks."""
        found = sum((Counter(verdict(talk)) for talk in self._talks), Counter[str]())
        return dict(found)

    @property
    def _talk(self) -> Talk:
        return self._talks[-1]

    def _say(self, messages: Sequence[BaseMessage]) -> None:
        # A copy: a system may do with its messages what it likes.
        known = {one.id for one in self._talk.said}
        self._talk.said += [one.model_copy(deep=True) for one in messages if one.id not in known]

    def _take(self, system: Summarising, messages: Sequence[BaseMessage]) -> None:
        try:
            system.go_on(messages)
        except ProviderError:
            self._talk.unanswered += 1
        else:
            self._talk.got = list(system.model.seen[-1])

    def _note(self, messages: Sequence[BaseMessage]) -> AIMessage:
        """Play the summariser: note every mark, and what is to be reported."""
        read = dict.fromkeys(marks_in(messages))
        self._talk.read.update(read)
        if self.during is not None:
            self.during()
        is_reported = any(self.reports in str(one.text) for one in messages)
        noted = AIMessage(f"Noted: {' '.join(read)} {self.reports if is_reported else ''}".strip())
        change, self.next_summary = self.next_summary, None
        noted = noted if change is None else change(noted)
        self._talk.written.append(str(noted.text))
        return noted


def _talker() -> ScriptedModel:
    return ScriptedModel(reply=lambda _: AIMessage("Fine."))
