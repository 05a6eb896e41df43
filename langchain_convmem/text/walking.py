"""A template that runs over a growing conversation, message by message."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from jinja2 import Template, nodes
from jinja2.runtime import Macro
from jinja2.utils import Namespace

from langchain_convmem.forks import make_lock
from langchain_convmem.text.meter import Meter, Readable, get_attributes
from langchain_convmem.text.sandbox import Sandbox

_Snapshot = tuple[tuple[dict[str, Any], ...], dict[str, Any]]


class WalkMark(NamedTuple):
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
        text: What comes after the mark that the run went on from.
        mark: From where the next run may go on.
        rounds: How many messages were written.
    """

    text: str
    mark: WalkMark
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
        self._lock = make_lock()
        self._memo: dict[str, Any] = {}
        self._chat = WalkedChat()
        self._chat.messages = messages
        context = sandbox.open_context(
            parts.template, {**variables, "messages": MessageView(self._chat)}
        )
        prologue = context.meter.join(parts.template.root_render_func(context))
        self._context = context
        held = context.vars
        self._first = self._find_first_row(held[ROWS])
        _check_repeatable(held.values())
        self._step: Macro = held[STEP]
        self._tail: Macro = held[TAIL]
        self._namespaces = [
            get_attributes(one) for one in held.values() if isinstance(one, Namespace)
        ]
        self._prologue = prologue
        self._start = WalkMark(0, len(prologue), self._take_snapshot())

    def _find_first_row(self, rows: Any) -> int:
        if self._chat.end_seen:
            raise NotSeparableError("it looks at the end of the conversation before its loop")
        first = get_first_shown(rows, self._chat)
        if first is None:
            raise NotSeparableError("its loop does not run over messages, or messages[n:]")
        return first

    def run(
        self, messages: Sequence[dict[str, Any]], mark: WalkMark | None, *, prompt: bool
    ) -> Walked:
        """Write what comes after a mark.

        Args:
            messages: The whole conversation, which begins as it did when the mark was made.
            mark: Where to go on; None is the beginning.
            prompt: The variable `add_generation_prompt` of what follows the messages.
        """
        with self._lock:
            self._chat.messages = messages
            try:
                run = _WalkState(mark or self._start)
                self._context.meter = Meter(self._sandbox.limits)
                text = self._context.meter.join(self._write_pieces(run, prompt=prompt))
            finally:
                self._chat.messages = ()
        return Walked(text if mark else self._prologue + text, run.mark, run.rounds)

    def _write_pieces(self, run: _WalkState, *, prompt: bool) -> Iterator[str]:
        chat, offset = self._chat, self._first
        self._restore(run.mark.snapshot)
        chat.end_seen = False
        for index in range(run.mark.rows, max(0, len(chat.messages) - offset)):
            loop = WalkedLoop(chat, offset, index, self._memo, self._sandbox.undefined)
            piece = self._step(chat.messages[offset + index], loop)
            yield piece
            run.rounds += 1
            # What is written after a look at the end may change, however it came about.
            if not chat.end_seen:
                run.mark = WalkMark(index + 1, run.mark.length + len(piece), self._take_snapshot())
        yield self._tail(prompt)

    def _take_snapshot(self) -> _Snapshot:
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


class _WalkState:
    """Where a run stands."""

    def __init__(self, mark: WalkMark) -> None:
        self.mark = mark
        self.rounds = 0


def _check_repeatable(values: Iterable[Any]) -> None:
    """Refuse what is used up by being read; a namespace's own values may be no namespaces."""
    if any(isinstance(value, Iterator) for value in values):
        raise NotSeparableError("it keeps an iterator")


# -- A template cut at its loop over the messages -------------------------------------------------


_OURS = "convmem_"
ROWS, STEP, TAIL = f"{_OURS}rows", f"{_OURS}step", f"{_OURS}tail"
_MESSAGE, _LOOP = f"{_OURS}message", f"{_OURS}loop"
_PROMPT = "add_generation_prompt"

_UNREPEATABLE = {"cycler", "joiner", "lipsum"}
"""Functions whose values change by being used."""

_LAZY = {
    *("items", "map", "reject", "rejectattr"),
    *("reverse", "select", "selectattr", "unique"),
}
"""Filters whose values are used up by being read."""


@dataclass(frozen=True)
class SplitTemplate:
    """The parts of a template.

    Attributes:
        template: Writes what comes before the messages, and defines the parts `ROWS` (what the
            loop runs over), `STEP(message, loop)` and `TAIL(add_generation_prompt)`.
        prompt_in_tail: Whether only the tail asks for `add_generation_prompt`.
    """

    template: Template
    prompt_in_tail: bool


def split_template(sandbox: Sandbox, source: str) -> SplitTemplate:
    """Cut a template whose syntax is right.

    Raises:
        NotSeparableError: If it cannot be run message by message; says why.
    """
    tree = sandbox.parse(source)
    _check(tree)
    number, loop = _find_message_loop(tree.body)
    before, after = tree.body[:number], tree.body[number + 1 :]
    in_tail = not any(_has_name(node, _PROMPT) for node in [*before, loop])
    _rename_loop(loop.body)
    # Within a loop of one round, `continue` ends the message.
    only = nodes.List([_load(_MESSAGE)])
    body: list[nodes.Node] = [nodes.For(loop.target, only, loop.body, [], None, False)]
    tree.body = [
        *before,
        nodes.Assign(_store(ROWS), loop.iter),
        nodes.Macro(STEP, [_declare(_MESSAGE), _declare(_LOOP)], [], body),
        nodes.Macro(TAIL, [_declare(_PROMPT)], [], after),
    ]
    for node in tree.body[number:]:
        node.set_lineno(loop.lineno)
    return SplitTemplate(sandbox.compile_metered(tree), in_tail)


def _load(name: str) -> nodes.Name:
    return nodes.Name(name, "load")


def _store(name: str) -> nodes.Name:
    return nodes.Name(name, "store")


def _declare(name: str) -> nodes.Name:
    return nodes.Name(name, "param")


# -- the loop -------------------------------------------------------------------------------------
def _find_message_loop(body: list[nodes.Node]) -> tuple[int, nodes.For]:
    found = [
        (number, node)
        for number, node in enumerate(body)
        if isinstance(node, nodes.For) and _is_message_loop(node)
    ]
    if len(found) != 1:
        raise NotSeparableError(f"it has {len(found)} loops over messages at its top level")
    [(number, loop)] = found
    if loop.test is not None or loop.else_ or loop.recursive:
        raise NotSeparableError("its loop over the messages is filtered, recursive or has an else")
    if not isinstance(loop.target, nodes.Name):
        raise NotSeparableError("its loop over the messages unpacks them")
    if any(isinstance(node, nodes.Break) for node in _walk_loop(loop.body)):
        raise NotSeparableError("it leaves the loop over the messages early")
    if any(name.name == "loop" and name.ctx != "load" for name in loop.find_all(nodes.Name)):
        raise NotSeparableError("it has another variable 'loop'")
    return number, loop


def _is_message_loop(loop: nodes.For) -> bool:
    read = [loop.iter] if isinstance(loop.iter, nodes.Name) else loop.iter.find_all(nodes.Name)
    names = {name.name for name in read if isinstance(name, nodes.Name)}
    return bool(names - {"tools", "documents"}) and any(True for _ in loop.find_all(nodes.Output))


def _walk_loop(parts: Iterable[nodes.Node]) -> Iterator[nodes.Node]:
    """Yield all nodes for which `break` and `loop` mean this loop, loops within it apart."""
    for node in parts:
        yield node
        if isinstance(node, nodes.For):
            yield from _walk_loop([node.iter, *node.else_])
        else:
            yield from _walk_loop(node.iter_child_nodes())


def _rename_loop(body: list[nodes.Node]) -> None:
    for node in _walk_loop(body):
        if isinstance(node, nodes.Name) and node.name == "loop":
            node.name = _LOOP


# -- what cannot be taken back --------------------------------------------------------------------
def _check(tree: nodes.Template) -> None:
    used = {name.name for name in tree.find_all(nodes.Name)}
    if any(name.startswith(_OURS) for name in used):
        raise NotSeparableError(f"it uses names that begin with {_OURS}")
    odd = used & _UNREPEATABLE
    if odd:
        raise NotSeparableError(f"it uses {', '.join(sorted(odd))}")
    if any(_has_lazy(literal) for literal in tree.find_all((nodes.List, nodes.Tuple, nodes.Dict))):
        raise NotSeparableError("it keeps an iterator in a list")
    _check_namespaces(tree)


def _has_lazy(literal: nodes.Node) -> bool:
    items = literal.iter_child_nodes()
    values = [item.value if isinstance(item, nodes.Pair) else item for item in items]
    return any(isinstance(value, nodes.Filter) and value.name in _LAZY for value in values)


def _check_namespaces(tree: nodes.Template) -> None:
    """Check that namespaces are reached by names of the top level and in no other way."""
    made = [call for call in tree.find_all(nodes.Call) if _is_name(call.node, "namespace")]
    held = [a for a in tree.find_all(nodes.Assign) if any(a.node is call for call in made)]
    names = {a.target.name for a in held if isinstance(a.target, nodes.Name)}
    reads = sum(1 for name in tree.find_all(nodes.Name) if name.name in names | {"namespace"})
    subscripts: list[nodes.Getattr | nodes.Getitem] = [*tree.find_all(nodes.Getattr)]
    subscripts += tree.find_all(nodes.Getitem)
    as_base = len([part for part in subscripts if _is_name(part.node, *names)])
    if len(held) != len(made) or reads != as_base + len(held) + len(made):
        raise NotSeparableError("it hands a namespace on")


def _is_name(node: Any, *names: str) -> bool:
    return isinstance(node, nodes.Name) and node.name in names


def _has_name(node: nodes.Node, name: str) -> bool:
    return _is_name(node, name) or any(found.name == name for found in node.find_all(nodes.Name))


# -- Messages and loops as a template sees them while it is run message by message ----------------


Message = dict[str, Any]


class NotSeparableError(Exception):
    """A template does what cannot be followed message by message; it is rendered whole."""


class WalkedChat:
    """The messages a template runs over; they are set anew for every run.

    Attributes:
        messages: All so far.
        end_seen: Whether the template has learned where they end.
    """

    __slots__ = ("end_seen", "messages")

    def __init__(self) -> None:
        self.messages: Sequence[Message] = ()
        self.end_seen = False


class MessageView(Readable):
    """`messages`, or `messages[n:]`, read-only.

    It has no public names: lists have none that a template may use.
    """

    __slots__ = ("_chat", "_offset")

    def __init__(self, chat: WalkedChat, offset: int = 0) -> None:
        self._chat = chat
        self._offset = offset

    def _count_known(self) -> int:
        return max(0, len(self._chat.messages) - self._offset)

    def list_items(self) -> list[Message]:
        """Return all messages; that is a look at where they end."""
        return self._list_all()

    def _list_all(self) -> list[Message]:
        self._chat.end_seen = True
        return list(self._chat.messages[self._offset :])

    def __len__(self) -> int:
        self._chat.end_seen = True
        return self._count_known()

    def __bool__(self) -> bool:
        if self._count_known():
            return True
        self._chat.end_seen = True
        return False

    def __iter__(self) -> Iterator[Message]:
        number = self._offset
        while number < len(self._chat.messages):
            yield self._chat.messages[number]
            number += 1
        self._chat.end_seen = True

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return self._slice(key)
        if isinstance(key, int) and 0 <= key < self._count_known():
            return self._chat.messages[self._offset + key]
        return self._list_all()[key]

    def _slice(self, key: slice) -> Any:
        start, stop = key.start or 0, key.stop
        is_plain = key.step in (None, 1) and isinstance(start, int) and start >= 0
        if is_plain and stop is None:
            return MessageView(self._chat, self._offset + start)
        if is_plain and isinstance(stop, int) and 0 <= stop <= self._count_known():
            return list(self._chat.messages[self._offset + start : self._offset + stop])
        return self._list_all()[key]

    def __add__(self, other: Any) -> Any:
        return self._list_all() + (other._list_all() if isinstance(other, MessageView) else other)

    def __radd__(self, other: Any) -> Any:
        return other + self._list_all()

    def __eq__(self, other: object) -> bool:
        return self._list_all() == (other._list_all() if isinstance(other, MessageView) else other)

    __hash__ = None  # type: ignore[assignment]  # lists have none either

    def __str__(self) -> str:
        return str(self._list_all())

    __repr__ = __str__

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotSeparableError(f"it uses messages.{name}")


def get_first_shown(view: Any, chat: WalkedChat) -> int | None:
    """Return the number of the first message that a view of the chat shows, None for others."""
    is_view = isinstance(view, MessageView) and view._chat is chat  # noqa: SLF001
    return view._offset if is_view else None  # noqa: SLF001


class WalkedLoop(Readable):
    """`loop` of the loop over the messages, for one of them."""

    __slots__ = ("_chat", "_memo", "_offset", "_undefined", "index0")

    depth = 1
    depth0 = 0

    def __init__(
        self,
        chat: WalkedChat,
        offset: int,
        index0: int,
        memo: dict[str, Any],
        undefined: Callable[[str], Any],
    ) -> None:
        self._chat = chat
        self._offset = offset
        self._memo = memo
        self._undefined = undefined
        self.index0 = index0

    @property
    def index(self) -> int:
        """The number of the message, from 1."""
        return self.index0 + 1

    @property
    def first(self) -> bool:
        """Whether it is the first."""
        return self.index0 == 0

    @property
    def length(self) -> int:
        """How many messages there are."""
        self._chat.end_seen = True
        return max(0, len(self._chat.messages) - self._offset)

    def __len__(self) -> int:
        return self.length

    @property
    def revindex(self) -> int:
        """How many messages there are from this one on."""
        return self.length - self.index0

    @property
    def revindex0(self) -> int:
        """How many messages follow."""
        return self.length - self.index

    @property
    def last(self) -> bool:
        """Whether it is the last."""
        # What is not the last message will never be; what is may cease to be.
        if self._offset + self.index < len(self._chat.messages):
            return False
        self._chat.end_seen = True
        return True

    @property
    def nextitem(self) -> Any:
        """The message after it."""
        following = self._offset + self.index
        if following < len(self._chat.messages):
            return self._chat.messages[following]
        self._chat.end_seen = True
        return self._undefined("there is no next item")

    @property
    def previtem(self) -> Any:
        """The message before it."""
        if self.first:
            return self._undefined("there is no previous item")
        return self._chat.messages[self._offset + self.index0 - 1]

    def cycle(self, *values: Any) -> Any:
        """Return the value whose turn it is."""
        if not values:
            raise TypeError("no items for cycling given")
        return values[self.index0 % len(values)]

    def changed(self, *values: Any) -> bool:
        """Return whether the values differ from those of the last call."""
        if self._memo.get("changed") == values:
            return False
        self._memo["changed"] = values
        return True

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotSeparableError(f"it uses loop.{name}")

    def __str__(self) -> str:
        raise NotSeparableError("it prints the loop")

    __repr__ = __str__
