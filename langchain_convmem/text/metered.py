"""The code of a template with an account before each of its operations.

Jinja compiles `+`, `~`, loops and calls to Python's own. `rewrite_tree` puts functions of ours in
their place, as filters whose names no template can write; they count first and act then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from jinja2 import nodes, pass_context
from jinja2.visitor import NodeTransformer

from langchain_convmem.text.allowed import (
    FILTERS,
    TESTS,
    MeteredContext,
    add_values,
    call_method,
    call_value,
    describe,
    format_percent,
    write_text,
)
from langchain_convmem.text.meter import (
    MAX_INTEGER_BITS,
    SHORT_TEXT,
    VALUE_SIZE,
    WIDEST_CHARACTER,
    CountedValues,
    LimitExceededError,
    Meter,
    NotAllowedError,
    Readable,
    TemplateLimits,
    check_integer,
    check_key,
    measure_made,
    measure_text,
)

_PREFIX = "convmem-"
_POINTER = 8
_LONG_DATA = 1_024
_MOST_LOOPS = 18
"""Python nests no more than twenty loops in one function."""

_PLAIN = frozenset({bool, float, int, str, type(None)})

_FORBIDDEN: Mapping[type[nodes.Node], str] = {
    nodes.Block: "block",
    nodes.EvalContextModifier: "autoescape",
    nodes.Extends: "extends",
    nodes.FromImport: "import",
    nodes.Import: "import",
    nodes.Include: "include",
    nodes.ScopedEvalContextModifier: "autoescape",
}
_REPEATED = (nodes.CallBlock, nodes.For, nodes.Macro)
_LITERALS = (nodes.Dict, nodes.List, nodes.Tuple)


def rewrite_tree(
    tree: nodes.Template,
    limits: TemplateLimits,
    filters: Iterable[str] = FILTERS,
    tests: Iterable[str] = TESTS,
) -> None:
    """Put an account before each operation of a template; changes the tree.

    Args:
        tree: The template's syntax tree.
        limits: What it may use up.
        filters: Names of the filters that it may use.
        tests: Names of the tests that it may use.

    Raises:
        NotAllowedError: If it uses what chat templates do not need.
        LimitExceededError: If it is nested too deep.
    """
    _TreeMeter(limits, frozenset(filters), frozenset(tests)).visit(tree)


class _TreeMeter(NodeTransformer):
    """Rewrites one tree."""

    def __init__(
        self, limits: TemplateLimits, filters: frozenset[str], tests: frozenset[str]
    ) -> None:
        self._limits = limits
        self._filters = filters
        self._tests = tests
        self._choices = self._loops = self._repeated = self._depth = 0

    def visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> Any:
        """Rewrite a node."""
        tag = _FORBIDDEN.get(type(node))
        if tag is not None:
            raise NotAllowedError(_place(node, describe("tag", tag)))
        if not isinstance(node, nodes.Stmt):
            return super().visit(node, *args, **kwargs)
        self._depth += 1
        if self._depth > self._limits.max_depth:
            raise LimitExceededError(
                _place(node, f"tags are nested deeper than {self._limits.max_depth} times")
            )
        made = super().visit(node, *args, **kwargs)
        self._depth -= 1
        return made

    def get_visitor(self, node: nodes.Node) -> Any:
        """Return what rewrites a node; None if it stays as it is."""
        name = _REWRITES.get(type(node))
        return None if name is None else getattr(self, name)

    # -- what is repeated -------------------------------------------------------------------------
    def _count_rounds(self, node: nodes.For) -> nodes.Node:
        """Count the rounds of a loop, those that its filter skips as well."""
        tick = _build_tick(node)
        outside, self._loops = self._loops, 0 if node.recursive else self._loops + 1
        if self._loops > _MOST_LOOPS:
            raise LimitExceededError(
                _place(node, f"loops are nested deeper than {_MOST_LOOPS} times")
            )
        self._rewrite_body(node, tick)
        self._loops = outside
        if node.test is not None:
            node.iter = _use("rounds", node.iter)
        return node

    def _count_calls(self, node: nodes.Macro) -> nodes.Node:
        """Count the calls of a macro."""
        outside = self._loops
        self._loops = 0
        self._rewrite_body(node, _build_tick(node))
        self._loops = outside
        return node

    def _count_uses(self, node: nodes.CallBlock) -> nodes.Node:
        """Count the uses of a block that is handed to a macro; the sandbox counts the call."""
        call = node.call
        node.call = nodes.Call(nodes.Const(None), [], [], None, None, lineno=node.lineno)
        self._count_calls(node)  # type: ignore[arg-type]  # both have a body
        self.generic_visit(call)
        node.call = call
        return node

    def _rewrite_body(self, node: nodes.For | nodes.Macro, tick: nodes.Node) -> None:
        self._repeated += 1
        self.generic_visit(node)
        self._repeated -= 1
        node.body.insert(0, tick)

    # -- choices ----------------------------------------------------------------------------------
    def _open_choice(self, node: nodes.Node) -> nodes.Node:
        """Rewrite what need not happen: unknown filters are refused when they are used."""
        self._choices += 1
        self.generic_visit(node)
        self._choices -= 1
        return node

    # -- what is written --------------------------------------------------------------------------
    def _count_output(self, node: nodes.Output) -> nodes.Node | list[nodes.Node]:
        """Count what is written."""
        self.generic_visit(node)
        data = _count_data(node)
        node.nodes = [one if _is_counted(one) else _use("write", one) for one in node.nodes]
        if self._repeated and data > _LONG_DATA:
            return [_make_tick(node, 1, data), node]
        return node

    def _count_concat(self, node: nodes.Concat) -> nodes.Node:
        """Count a text before it is joined."""
        self.generic_visit(node)
        return _use("concat", *node.nodes)

    # -- operators --------------------------------------------------------------------------------
    def _check_constant(self, node: nodes.Const) -> nodes.Node:
        """Refuse numbers that are too long."""
        check_integer(node.value)
        return node

    def _count_operator(self, node: nodes.BinExpr) -> nodes.Node:
        self.generic_visit(node)
        return _use(node.operator, node.left, node.right)

    def _weigh_compared(self, node: nodes.Compare) -> nodes.Node:
        """Weigh what is compared, unless one side is a constant."""
        self.generic_visit(node)
        last = node.ops[-1]
        if len(node.ops) == 1 and (_is_constant(last.expr) or _starts_constant(node)):
            return node
        for before, operand in zip(
            [node.expr, *(o.expr for o in node.ops)], node.ops, strict=False
        ):
            is_first = operand is node.ops[0] and not isinstance(before, _UNWEIGHED)
            if is_first and not _is_constant(before):
                node.expr = _use("key" if operand.op in _CONTAINING else "operand", before)
            if not isinstance(operand.expr, _UNWEIGHED) and not _is_constant(operand.expr):
                name = "container" if operand.op in _CONTAINING else "operand"
                operand.expr = _use(name, operand.expr)
        return node

    def _count_slice(self, node: nodes.Getitem) -> nodes.Node:
        """Count what a slice copies."""
        self.generic_visit(node)
        part = node.arg
        if not isinstance(part, nodes.Slice):
            return node
        ends = [one or nodes.Const(None) for one in (part.start, part.stop, part.step)]
        return _use("slice", node.node, *ends)

    def _check_keys(self, node: nodes.Dict) -> nodes.Node:
        """Check keys that are no constants."""
        self.generic_visit(node)
        for pair in node.items:
            if not isinstance(pair.key, nodes.Const):
                pair.key = _use("key", pair.key)
        return node

    # -- names ------------------------------------------------------------------------------------
    def _count_call(self, node: nodes.Call) -> nodes.Node:
        """Count calls."""
        self.generic_visit(node)
        function, args = node.node, node.args
        name = "call"
        if isinstance(function, nodes.Getattr):
            name, args = "method", [nodes.Const(function.attr), *args]
            function = function.node
        return _use(name, function, *args, given=(node.kwargs, node.dyn_args, node.dyn_kwargs))

    def _check_filter(self, node: nodes.Filter) -> nodes.Node:
        """Refuse filters that are not allowed."""
        self.generic_visit(node)
        return self._check_name(node, self._filters, "filter")

    def _check_test(self, node: nodes.Test) -> nodes.Node:
        """Refuse tests that are not allowed."""
        self.generic_visit(node)
        return self._check_name(node, self._tests, "test")

    def _check_name(
        self, node: nodes.Filter | nodes.Test, known: frozenset[str], what: str
    ) -> nodes.Node:
        if node.name in known:
            return node
        refusal = _place(node, describe(what, node.name))
        if not self._choices:
            raise NotAllowedError(refusal)
        return _use("refuse", nodes.Const(refusal, lineno=node.lineno))


_REWRITES: Mapping[type[nodes.Node], str] = {
    nodes.Add: "_count_operator",
    nodes.Call: "_count_call",
    nodes.CallBlock: "_count_uses",
    nodes.Compare: "_weigh_compared",
    nodes.Concat: "_count_concat",
    nodes.CondExpr: "_open_choice",
    nodes.Const: "_check_constant",
    nodes.Dict: "_check_keys",
    nodes.Filter: "_check_filter",
    nodes.For: "_count_rounds",
    nodes.Getitem: "_count_slice",
    nodes.If: "_open_choice",
    nodes.Macro: "_count_calls",
    nodes.Mod: "_count_operator",
    nodes.Mul: "_count_operator",
    nodes.Output: "_count_output",
    nodes.Pow: "_count_operator",
    nodes.Sub: "_count_operator",
    nodes.Test: "_check_test",
}
"""Which method rewrites a node."""


def _place(node: nodes.Node, reason: str) -> str:
    return f"{reason} (line {node.lineno})"


def _use(
    name: str,
    value: nodes.Node,
    *args: nodes.Node,
    given: tuple[Any, ...] = ((), None, None),
) -> nodes.Filter:
    """Return the call of a function of ours; `given` is what a call has besides."""
    keywords, more, more_keywords = given
    return nodes.Filter(
        value, _PREFIX + name, [*args], [*keywords], more, more_keywords, lineno=value.lineno
    )


def _build_tick(node: nodes.For | nodes.Macro) -> nodes.Node:
    """Return what a round of a loop or a call of a macro counts before anything else."""
    steps, made = 1, 0
    waiting: list[nodes.Node] = [*node.body]
    while waiting:
        part = waiting.pop()
        steps += 1
        if isinstance(part, nodes.Output):
            data = _count_data(part)
            made += data if data <= _LONG_DATA else 0
        elif isinstance(part, _LITERALS):
            made += VALUE_SIZE + _POINTER * len(part.items)
        if isinstance(part, _REPEATED):
            waiting += part.iter_child_nodes(exclude=("body",))
        else:
            waiting += part.iter_child_nodes()
    return _make_tick(node, steps, made)


def _make_tick(node: nodes.Node, steps: int, made: int) -> nodes.Node:
    counted = _use("tick", nodes.Const(steps), nodes.Const(made))
    return nodes.ExprStmt(counted).set_lineno(node.lineno)


def _count_data(node: nodes.Output) -> int:
    """Return the size of what a piece of a template writes, whatever it is given."""
    texts = [one.data for one in node.nodes if isinstance(one, nodes.TemplateData)]
    texts += [str(one.value) for one in node.nodes if isinstance(one, nodes.Const)]
    return WIDEST_CHARACTER * sum(map(len, texts))


def _is_counted(node: nodes.Node) -> bool:
    """Return whether what is written is a text that is counted already."""
    if isinstance(node, nodes.Filter):
        return node.name == f"{_PREFIX}concat"
    return isinstance(node, nodes.Const | nodes.TemplateData)


_CONTAINING = ("in", "notin")
_UNWEIGHED = (nodes.Compare, nodes.Not, nodes.Test)
"""What is true or false."""


def _is_constant(node: nodes.Node) -> bool:
    if isinstance(node, nodes.List | nodes.Tuple):
        return all(isinstance(item, nodes.Const) for item in node.items)
    return isinstance(node, nodes.Const)


def _starts_constant(node: nodes.Compare) -> bool:
    """Return whether the first side is a constant: comparing ends where that ends."""
    return isinstance(node.expr, nodes.Const) and node.ops[0].op not in _CONTAINING


# -- the operations -------------------------------------------------------------------------------
def _count_round(context: MeteredContext, steps: int, made: int) -> None:
    meter = context.meter
    meter.made += made
    meter.steps += steps
    if meter.steps >= meter.due:
        meter.step(0)


def _count_rounds(context: MeteredContext, values: Any) -> Iterable[Any]:
    return CountedValues(context.meter, values, values)


# Short texts are many: each is counted as wide, which takes no look at it, and without a call.
def _write(context: MeteredContext, value: Any) -> str:
    meter = context.meter
    text = value if type(value) is str else write_text(meter, value)
    meter.made += VALUE_SIZE + WIDEST_CHARACTER * len(text)
    if meter.made >= meter.made_due or len(text) > SHORT_TEXT:
        meter.make(measure_text(text))
    return text


def _join_texts(context: MeteredContext, *values: Any) -> str:
    meter = context.meter
    texts = [one if type(one) is str else write_text(meter, one) for one in values]
    length = sum(map(len, texts))
    # It may be written as it is: then it counts as a part as well.
    meter.made += VALUE_SIZE + 2 * WIDEST_CHARACTER * length
    if meter.made >= meter.made_due or length > SHORT_TEXT:
        meter.make(measure_made(length, *texts))
    return "".join(texts)


def _add(context: MeteredContext, left: Any, right: Any) -> Any:
    kind = type(left)
    if kind is str is type(right):
        meter, length = context.meter, len(left) + len(right)
        meter.made += VALUE_SIZE + WIDEST_CHARACTER * length
        if meter.made >= meter.made_due or length > SHORT_TEXT:
            meter.make(measure_made(length, left, right))
        return left + right
    if kind is int is type(right) and -_SMALL_NUMBER < left < _SMALL_NUMBER:
        return check_integer(left + right)
    return add_values(context, left, right)


_SMALL_NUMBER = 1 << 62


def _subtract(context: MeteredContext, left: Any, right: Any) -> Any:
    if type(left) not in _PLAIN or type(right) not in _PLAIN:
        context.meter.weigh((left, right))
    return check_integer(left - right)


def _multiply(context: MeteredContext, left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        if left.bit_length() + right.bit_length() > MAX_INTEGER_BITS:
            raise LimitExceededError("the template makes too large a value with '*'")
    else:
        context.meter.make(max(_count_copied(left, right), _count_copied(right, left)))
    return left * right


def _count_copied(items: Any, times: Any) -> int:
    if not isinstance(times, int) or times < 0:
        return 0
    if isinstance(items, str):
        return measure_text(items) * times
    return _POINTER * len(items) * times if isinstance(items, list | tuple) else 0


def _raise_power(_context: MeteredContext, base: Any, exponent: Any) -> Any:
    is_whole = isinstance(base, int) and isinstance(exponent, int)
    if is_whole and base.bit_length() * exponent > MAX_INTEGER_BITS:
        raise LimitExceededError("the template makes too large a value with '**'")
    return base**exponent


def _divide_rest(context: MeteredContext, left: Any, right: Any) -> Any:
    return format_percent(context, left, right) if isinstance(left, str) else left % right


def _check_operand(context: MeteredContext, value: Any) -> Any:
    if type(value) not in _PLAIN or type(value) is str:
        context.meter.weigh(value)
    return value


def _check_key(context: MeteredContext, value: Any) -> Any:
    return check_key(_check_operand(context, value))


def _check_container(context: MeteredContext, value: Any) -> Any:
    if isinstance(value, dict):
        return value
    if isinstance(value, Iterator | Readable):
        return _weigh_each(context.meter, value)
    return _check_operand(context, value)


def _weigh_each(meter: Meter, values: Any) -> Iterator[Any]:
    for value in values:
        meter.weigh(value)
        yield value


def _slice(context: MeteredContext, value: Any, start: Any, stop: Any, step: Any) -> Any:
    if isinstance(value, Readable):
        found = value[start:stop:step]  # type: ignore[index]  # or Python refuses it
        context.meter.read(_POINTER * len(found) if isinstance(found, list) else 0)
        return found
    if isinstance(value, str | list | tuple) and len(value) > VALUE_SIZE:
        copied = len(range(*slice(start, stop, step).indices(len(value))))
        is_wide = not isinstance(value, str) or not value.isascii()
        context.meter.make(_POINTER * copied if is_wide else copied)
    return value[start:stop:step]


def _refuse(_context: MeteredContext, refusal: str) -> Any:
    raise NotAllowedError(refusal)


_OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "+": _add,
    "-": _subtract,
    "*": _multiply,
    "**": _raise_power,
    "%": _divide_rest,
    "call": call_value,
    "concat": _join_texts,
    "container": _check_container,
    "key": _check_key,
    "method": call_method,
    "operand": _check_operand,
    "refuse": _refuse,
    "rounds": _count_rounds,
    "slice": _slice,
    "tick": _count_round,
    "write": _write,
}

OPERATIONS: Mapping[str, Callable[..., Any]] = {
    # What needs no context is computed when the template is compiled.
    _PREFIX + name: pass_context(function)
    for name, function in _OPERATIONS.items()
}
"""Filters that stand for operations."""


def is_operation(name: str) -> bool:
    """Return whether a filter's name is one that no template can write."""
    return name.startswith(_PREFIX)
