"""A template cut at its loop over the messages: what comes before, one message, what comes after.

The loop's body becomes a macro that writes one message, what follows the loop a macro that writes
the end. So a conversation that goes on costs what is new in it. Only templates that keep all their
state in namespaces are cut: that state can be noted and taken back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from jinja2 import Template, nodes

from langchain_convmem.chat_templates.environment import Sandbox
from langchain_convmem.chat_templates.message_views import NotSeparableError

__all__ = ["ROWS", "STEP", "TAIL", "SplitTemplate", "split"]

_OURS = "convmem_"
ROWS, STEP, TAIL = f"{_OURS}rows", f"{_OURS}step", f"{_OURS}tail"
_MESSAGE, _LOOP = f"{_OURS}message", f"{_OURS}loop"
_PROMPT = "add_generation_prompt"
_FOR_WHOLE_TEMPLATES = (
    nodes.Block,
    nodes.EvalContextModifier,
    nodes.Extends,
    nodes.FromImport,
    nodes.Import,
    nodes.Include,
    nodes.ScopedEvalContextModifier,
)
_UNREPEATABLE = {"cycler", "joiner", "lipsum"}
"""Functions whose values change by being used."""
_UNLIKE = {"pprint", "random"}
"""Filters that write something else each time, or for a view of messages than for a list."""
_LAZY = {
    *("batch", "items", "map", "reject", "rejectattr"),
    *("reverse", "select", "selectattr", "slice", "unique"),
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


def split(sandbox: Sandbox, source: str) -> SplitTemplate:
    """Cut a template whose syntax is right.

    Raises:
        NotSeparableError: If it cannot be run message by message; says why.
    """
    tree = sandbox.parsed(source)
    _check(tree)
    number, loop = _message_loop(tree.body)
    before, after = tree.body[:number], tree.body[number + 1 :]
    in_tail = not any(_names(node, _PROMPT) for node in [*before, loop])
    _rename_loop(loop.body)
    # Within a loop of one round, `continue` ends the message.
    only = nodes.List([_load(_MESSAGE)])
    body: list[nodes.Node] = [nodes.For(loop.target, only, loop.body, [], None, False)]
    tree.body = [
        *before,
        nodes.Assign(_store(ROWS), loop.iter),
        nodes.Macro(STEP, [_parameter(_MESSAGE), _parameter(_LOOP)], [], body),
        nodes.Macro(TAIL, [_parameter(_PROMPT)], [], after),
    ]
    for node in tree.body[number:]:
        node.set_lineno(loop.lineno)
    tree.set_environment(sandbox)
    return SplitTemplate(sandbox.from_string(tree), in_tail)


def _load(name: str) -> nodes.Name:
    return nodes.Name(name, "load")


def _store(name: str) -> nodes.Name:
    return nodes.Name(name, "store")


def _parameter(name: str) -> nodes.Name:
    return nodes.Name(name, "param")


# -- the loop -------------------------------------------------------------------------------------


def _message_loop(body: list[nodes.Node]) -> tuple[int, nodes.For]:
    found = [
        (number, node)
        for number, node in enumerate(body)
        if isinstance(node, nodes.For) and _writes_messages(node)
    ]
    if len(found) != 1:
        raise NotSeparableError(f"it has {len(found)} loops over messages at its top level")
    [(number, loop)] = found
    if loop.test is not None or loop.else_ or loop.recursive:
        raise NotSeparableError("its loop over the messages is filtered, recursive or has an else")
    if not isinstance(loop.target, nodes.Name):
        raise NotSeparableError("its loop over the messages unpacks them")
    if any(isinstance(node, nodes.Break) for node in _of_this_loop(loop.body)):
        raise NotSeparableError("it leaves the loop over the messages early")
    if any(name.name == "loop" and name.ctx != "load" for name in loop.find_all(nodes.Name)):
        raise NotSeparableError("it has another variable 'loop'")
    return number, loop


def _writes_messages(loop: nodes.For) -> bool:
    read = [loop.iter] if isinstance(loop.iter, nodes.Name) else loop.iter.find_all(nodes.Name)
    names = {name.name for name in read if isinstance(name, nodes.Name)}
    return bool(names - {"tools", "documents"}) and any(True for _ in loop.find_all(nodes.Output))


def _of_this_loop(parts: Iterable[nodes.Node]) -> Iterator[nodes.Node]:
    """Yield all nodes for which `break` and `loop` mean this loop, loops within it apart."""
    for node in parts:
        yield node
        if isinstance(node, nodes.For):
            yield from _of_this_loop([node.iter, *node.else_])
        else:
            yield from _of_this_loop(node.iter_child_nodes())


def _rename_loop(body: list[nodes.Node]) -> None:
    for node in _of_this_loop(body):
        if isinstance(node, nodes.Name) and node.name == "loop":
            node.name = _LOOP


# -- what cannot be taken back --------------------------------------------------------------------


def _check(tree: nodes.Template) -> None:
    if any(tree.find_all(_FOR_WHOLE_TEMPLATES)):
        raise NotSeparableError("it has blocks, includes or sections that are escaped")
    used = {name.name for name in tree.find_all(nodes.Name)}
    if any(name.startswith(_OURS) for name in used):
        raise NotSeparableError(f"it uses names that begin with {_OURS}")
    odd = used & _UNREPEATABLE | {f.name for f in tree.find_all(nodes.Filter)} & _UNLIKE
    if odd:
        raise NotSeparableError(f"it uses {', '.join(sorted(odd))}")
    if any(
        _holds_lazy(literal) for literal in tree.find_all((nodes.List, nodes.Tuple, nodes.Dict))
    ):
        raise NotSeparableError("it keeps an iterator in a list")
    _check_namespaces(tree)


def _holds_lazy(literal: nodes.Node) -> bool:
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


def _names(node: nodes.Node, name: str) -> bool:
    return _is_name(node, name) or any(found.name == name for found in node.find_all(nodes.Name))
