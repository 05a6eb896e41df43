"""A template that runs over a growing conversation, message by message."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jinja2.runtime import Macro
from jinja2.utils import Namespace

from langchain_convmem.chat_templates.environment import Sandbox, joined
from langchain_convmem.chat_templates.loop_splitting import ROWS, STEP, TAIL, SplitTemplate
from langchain_convmem.chat_templates.message_views import (
    Chat,
    MessageView,
    NotSeparableError,
    WalkedLoop,
    first_shown,
)

__all__ = ["Mark", "Walk", "Walked"]

_Snapshot = tuple[tuple[dict[str, Any], ...], dict[str, Any]]


class Mark(NamedTuple):
    """How far the text of a conversation can no longer change.

    Attributes:
        rows: Rounds of the loop that are done for good.
        length: Code points of the text up to there.
        snapshot: What the template remembered there.
    """

    rows: int
    length: int
    snapshot: _Snapshot


class Walked(NamedTuple):
    """What a run has written.

    Attributes:
        text: What comes behind the mark that the run went on from.
        mark: From where the next run may go on.
        rounds: How many messages were written.
    """

    text: str
    mark: Mark
    rounds: int


class Walk:
    """A split template under one set of variables. Safe to share between threads.

    A run depends on its arguments alone: conversations that began alike may share a walk.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        parts: SplitTemplate,
        variables: Mapping[str, Any],
        messages: Sequence[dict[str, Any]],
    ) -> None:
        """Write what comes before the messages.

        Raises:
            NotSeparableError: If that depends on where the conversation ends.
        """
        self._sandbox = sandbox
        self._lock = threading.Lock()
        self._memo: dict[str, Any] = {}
        self._chat = Chat()
        self._chat.messages = messages
        context = parts.template.new_context({**variables, "messages": MessageView(self._chat)})
        prologue = joined(parts.template.root_render_func(context), sandbox.limits)
        held = context.vars
        self._first = self._first_row(held[ROWS])
        _check_repeatable(held.values())
        self._step: Macro = held[STEP]
        self._tail: Macro = held[TAIL]
        self._namespaces = [_attributes(one) for one in held.values() if isinstance(one, Namespace)]
        self._prologue = prologue
        self._start = Mark(0, len(prologue), self._snapshot())

    def _first_row(self, rows: Any) -> int:
        if self._chat.end_seen:
            raise NotSeparableError("it looks at the end of the conversation before its loop")
        first = first_shown(rows, self._chat)
        if first is None:
            raise NotSeparableError("its loop does not run over messages, or messages[n:]")
        return first

    def run(self, messages: Sequence[dict[str, Any]], mark: Mark | None, *, prompt: bool) -> Walked:
        """Write what lies behind a mark.

        Args:
            messages: The whole conversation, which begins as it did when the mark was made.
            mark: Where to go on; None is the beginning.
            prompt: The variable `add_generation_prompt` of what follows the messages.
        """
        with self._lock:
            self._chat.messages = messages
            try:
                run = _Run(mark or self._start)
                text = joined(self._pieces(run, prompt=prompt), self._sandbox.limits)
            finally:
                self._chat.messages = ()
        return Walked(text if mark else self._prologue + text, run.mark, run.rounds)

    def _pieces(self, run: _Run, *, prompt: bool) -> Iterator[str]:
        chat, offset = self._chat, self._first
        self._restore(run.mark.snapshot)
        chat.end_seen = False
        for index in range(run.mark.rows, max(0, len(chat.messages) - offset)):
            loop = WalkedLoop(chat, offset, index, self._memo, self._sandbox.undefined)
            piece = self._step(chat.messages[offset + index], loop)
            yield piece
            run.rounds += 1
            # What is written behind a look at the end may change, however it came about.
            if not chat.end_seen:
                run.mark = Mark(index + 1, run.mark.length + len(piece), self._snapshot())
        yield self._tail(prompt)

    def _snapshot(self) -> _Snapshot:
        for attributes in self._namespaces:
            _check_repeatable(attributes.values())
        return tuple(dict(attributes) for attributes in self._namespaces), dict(self._memo)

    def _restore(self, snapshot: _Snapshot) -> None:
        noted, memo = snapshot
        for attributes, values in zip(self._namespaces, noted, strict=True):
            attributes.clear()
            attributes.update(values)
        self._memo.clear()
        self._memo.update(memo)


class _Run:
    """Where a run stands."""

    def __init__(self, mark: Mark) -> None:
        self.mark = mark
        self.rounds = 0


def _attributes(namespace: Namespace) -> dict[str, Any]:
    found: dict[str, Any] = object.__getattribute__(namespace, "_Namespace__attrs")
    return found


def _check_repeatable(values: Iterable[Any]) -> None:
    """Refuse what is used up by being read; a namespace's own values may be no namespaces."""
    if any(isinstance(value, Iterator) for value in values):
        raise NotSeparableError("it keeps an iterator")
