"""The sandbox that chat templates run in: Jinja's own, with limits on what a template may use up.

The dialect is the one of Hugging Face: Jinja2 with trimmed blocks, loop controls, a `generation`
block that only marks what a model said, `tojson` without HTML escapes, and `raise_exception`.

Every value that a template makes is counted, so none is larger than `max_value`, and any single
operation takes a moment. What may grow beyond its arguments is counted before it is made.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import (
    Callable,
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    Sequence,
    ValuesView,
)
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from datetime import datetime
from types import TracebackType
from typing import Any, NoReturn

from jinja2 import Template, TemplateError, TemplateSyntaxError, nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import FILTERS, make_attrgetter
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment, safe_range
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from langchain_convmem.errors import ChatTemplateError, ConfigError

_VALUE = 64
"""What any value weighs besides its text: about the bytes that Python needs for it."""

_POINTER = 8
_LOOK_AFTER = 32_768
_LONGEST_REASON = 2_000
_LONGEST_PART = 100
_LONGEST_DATE_FORMAT = 1_000
_MAX_INTEGER_BITS = 65_536
_SHORT_BITS = 64
_WIDEST_INDENT = 16
_WIDE = re.compile(r"\*|[0-9]{5,}")

_SHORT = frozenset({bool, float, type(None)})

_FILTERS = (
    *("abs", "capitalize", "dictsort", "float", "int", "items", "lower", "map", "reject"),
    *("rejectattr", "reverse", "safe", "select", "selectattr", "string", "upper"),
)
"""Filters of Jinja that make nothing much larger than what they are given."""

_READING_FILTERS = ("count", "d", "default", "first", "last", "length")
"""They return at once, with what there is already."""

_COMPARING = (
    *("!=", "<", "<=", "==", ">", ">=", "eq", "equalto", "ge", "greaterthan", "gt", "in", "le"),
    *("lessthan", "lt", "ne"),
)
_TEXT_METHODS = frozenset(
    (
        *("capitalize", "count", "endswith", "find", "index", "isalnum", "isalpha", "isdigit"),
        *("islower", "isnumeric", "isspace", "isupper", "join", "lower", "lstrip", "partition"),
        *("removeprefix", "removesuffix", "replace", "rfind", "rpartition", "rsplit", "rstrip"),
        *("split", "startswith", "strip", "title", "upper"),
    )
)
_SLOW_FOR_LONG_PARTS = frozenset(("lstrip", "rfind", "rpartition", "rsplit", "rstrip", "strip"))
_MAP_NAMES = frozenset(dir(dict))
_MAP_METHODS = frozenset(("get", "items", "keys", "values"))
_LOOP_NAMES = frozenset(name for name in dir(LoopContext) if not name.startswith("_"))
_LIST_METHODS = frozenset(("count", "index"))

RAISED_BY_TEMPLATES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    NameError,
    RuntimeError,
    SyntaxError,
    TemplateError,
    TypeError,
    ValueError,
)
"""What sandboxed code over plain values can raise, and Jinja and Python where they compile it."""


# -- what a template may use up -------------------------------------------------------------------
class LimitExceededError(TemplateError):
    """A template used up what it may use."""


@dataclass(frozen=True, kw_only=True)
class TemplateLimits:
    """What a template may use up.

    Sizes are bytes, about: a character counts one, four in a text that is not ASCII, and every
    value 64 besides.

    Attributes:
        max_source: Characters of the template; they decide how long it takes to compile.
        max_output: Characters of a prompt.
        max_value: Size of any one value, with all that it holds.
        max_memory: Size of all values that one rendering makes or reads.
        max_depth: How deep calls of macros and recursive loops may be nested.
        max_seconds: Processor time of one rendering.
    """

    max_source: int = 200_000
    max_output: int = 50_000_000
    max_value: int = 50_000_000
    max_memory: int = 500_000_000
    max_depth: int = 100
    max_seconds: float = 20.0

    def __post_init__(self) -> None:
        if min(astuple(self)) <= 0:
            raise ConfigError(f"the limits of a template must be above zero, got {self}")

    def share(self, parts: int) -> TemplateLimits:
        """Return the limits of something that takes one of so many parts of time and memory."""
        memory = max(1, self.max_memory // parts)
        return replace(self, max_memory=memory, max_seconds=self.max_seconds / parts)


class Budget:
    """What one rendering has used up. Not thread-safe: a rendering runs in one thread."""

    __slots__ = ("_end", "_look_after", "_spent", "_work", "depth", "limits")

    def __init__(self, limits: TemplateLimits) -> None:
        self.limits = limits
        self.depth = self._spent = self._work = 0
        self._look_after = min(_LOOK_AFTER, limits.max_value)
        self._end = time.thread_time() + limits.max_seconds

    def spend(self, size: int) -> None:
        """Count a step, before it makes or reads values of a size.

        Raises:
            LimitExceededError: If a value is too large, values are too many, or the time is over.
        """
        self._spent += size
        self._work += _VALUE + size
        if self._work > self._look_after:
            self._work = 0
            self._look(size)

    def _look(self, size: int) -> None:
        limits = self.limits
        if size > limits.max_value:
            raise _refuse_value(limits.max_value)
        if self._spent > limits.max_memory:
            raise LimitExceededError(
                f"the template makes and reads more than {limits.max_memory} bytes"
            )
        if time.thread_time() > self._end:
            raise LimitExceededError(
                f"the template runs for more than {limits.max_seconds:g} seconds"
            )

    def keep(self, value: Any) -> Any:
        """Count a value that was made and return it; what comes one by one becomes a list."""
        kind = type(value)
        if kind is str:
            self.spend(_VALUE + _measure_text(value))
        elif kind in _SHORT or (kind is int and value.bit_length() < _SHORT_BITS):
            self.spend(_VALUE)
        elif isinstance(value, Iterator):
            return self.keep(list(self.count_each(value)))
        else:
            self.spend(_measure(value, self.limits.max_value))
        return value

    def count_each(self, values: Iterable[Any], size: int = _VALUE) -> Iterator[Any]:
        """Yield values, and count each."""
        for value in values:
            self.spend(size)
            yield value

    def write(self, value: Any) -> str:
        """Return a value as a template writes it."""
        text = value if type(value) is str else str(value)
        self.spend(_VALUE + _measure_text(text))
        return text

    def join(self, texts: Sequence[str], between: str = "") -> str:
        """Return texts as one."""
        length = sum(map(len, texts)) + len(between) * len(texts)
        is_ascii = between.isascii() and all(map(str.isascii, texts))
        self.spend(_VALUE + (length if is_ascii else 4 * length))
        return between.join(texts)

    def replace(self, text: str, old: str, new: str, count: int | None = None) -> str:
        """Return a text with a part of it replaced."""
        grown = len(text) + text.count(old) * len(new)
        self.spend(grown if text.isascii() and new.isascii() else 4 * grown)
        return text.replace(old, new, -1 if count is None else count)


def _refuse_value(most: int) -> LimitExceededError:
    return LimitExceededError(f"the template makes a value larger than {most} bytes")


def _measure_text(text: str) -> int:
    return len(text) if text.isascii() else 4 * len(text)


def _measure(value: Any, most: int) -> int:
    """Return the size of a value with all that it holds, as often as it holds it.

    A list that holds another one twice is as large as its text is long: sixty such steps make a
    text that never ends.
    """
    size = 0
    waiting = [value]
    while waiting:
        item = waiting.pop()
        size += _VALUE
        if isinstance(item, str):
            size += _measure_text(item)
        elif isinstance(item, int) and item.bit_length() > _MAX_INTEGER_BITS:
            raise LimitExceededError("the template makes too large a number")
        elif isinstance(item, dict | list | tuple | set | KeysView | ValuesView | ItemsView):
            parts = [*item, *item.values()] if isinstance(item, dict) else item
            # Counted before they are visited, so what waits is bounded as well.
            if size + _VALUE * len(parts) > most:
                raise _refuse_value(most)
            waiting += parts
        if size > most:
            raise _refuse_value(most)
    return size


# -- what a template may call ---------------------------------------------------------------------
class _Namespace(Namespace):
    """A namespace that shows nothing of what it holds: it may hold others, and they hold it."""

    def __repr__(self) -> str:
        return "<Namespace>"


class BudgetContext(Context):
    """The variables of a template, and what its rendering has used up."""

    budget: Budget


def _count_value(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter or a test whose value counts."""
    wanted = getattr(function, "jinja_pass_arg", None)
    wants_context = wanted is not None and wanted.name == "context"

    @pass_context
    def call(context: BudgetContext, value: Any, *args: Any, **given: Any) -> Any:
        budget = context.budget
        budget.spend(_measure_shallow(value))
        if wanted is None:
            return budget.keep(function(value, *args, **given))
        passed = context if wants_context else context.environment
        return budget.keep(function(passed, value, *args, **given))

    return call


def _measure_shallow(value: Any) -> int:
    """Return what comparing or copying a value reads of it, but for what its items hold."""
    kind = type(value)
    if kind is str:
        return len(value)
    return _POINTER * len(value) if kind in {dict, list, range, tuple} else 0


@pass_context
def _join(context: BudgetContext, value: Any, d: Any = "", attribute: Any = None) -> str:
    budget = context.budget
    if attribute is not None:
        value = map(make_attrgetter(context.environment, attribute), value)
    return budget.join([budget.write(item) for item in value], str(d))


@pass_context
def _replace(
    context: BudgetContext, value: Any, old: Any, new: Any, count: int | None = None
) -> str:
    return context.budget.replace(str(value), str(old), str(new), count)


@pass_context
def _trim(context: BudgetContext, value: Any, chars: str | None = None) -> Any:
    if chars is not None:
        _check_part(chars)
    text = value if isinstance(value, str) else str(value)
    return context.budget.keep(text.strip(chars))


_JSON_OPTIONS = ("indent", "separators", "sort_keys")


@pass_context
def _write_json(
    context: BudgetContext,
    value: Any,
    ensure_ascii: bool = False,
    *args: Any,
    **given: Any,
) -> Any:
    budget = context.budget
    options = {**dict(zip(_JSON_OPTIONS, args, strict=False)), **given}
    indent, separators = options.get("indent"), options.get("separators") or ()
    width = len(indent) if isinstance(indent, str) else indent or 0
    if max(width, len("".join(separators))) > _WIDEST_INDENT:
        raise LimitExceededError("the template asks for too wide a JSON")
    budget.spend(_measure(value, budget.limits.max_value))
    encoder = json.JSONEncoder(ensure_ascii=ensure_ascii, **options)
    if indent is None:
        return budget.keep(encoder.encode(value))
    return budget.join([budget.write(piece) for piece in encoder.iterencode(value)])


def _check_part(part: str) -> None:
    if len(part) > _LONGEST_PART:
        raise LimitExceededError("the template looks for too long a text")


def _check_text_call(budget: Budget, text: str, name: str, values: Sequence[Any]) -> None:
    """Count what the call of a method of a text reads, and what it may make."""
    first: Any = values[0] if values else None
    part = first if isinstance(first, str) else ""
    budget.spend(len(text))
    if name in _SLOW_FOR_LONG_PARTS:
        _check_part(part)
    if name in {"split", "rsplit"}:
        pieces = text.count(part) if part else len(text) // 2
        budget.spend(len(text) + _VALUE * pieces)
    elif name == "replace" and len(values) > 1:
        budget.replace(text, *values[:2])
    elif name == "join" and values:
        budget.join([one for one in budget.count_each(first, 0) if isinstance(one, str)], text)


_OWN_FILTERS: Mapping[str, Callable[..., Any]] = {
    "join": _join,
    "list": _count_value(iter),  # which becomes a list where it is counted
    "replace": _replace,
    "tojson": _write_json,
    "trim": _trim,
}


def _raise_exception(message: Any) -> NoReturn:
    raise TemplateError(str(message))


def _make_map(*args: Any, **given: Any) -> dict[str, Any]:
    return dict(*args, **given)


def _make_namespace(*args: Any, **given: Any) -> Namespace:
    return _Namespace(*args, **given)


def create_strftime(moment: datetime) -> Callable[[str], str]:
    """Return the template function `strftime_now` for a moment that stands still."""

    def strftime_now(form: str) -> str:
        if len(form) > _LONGEST_DATE_FORMAT or _WIDE.search(form):
            raise LimitExceededError("the template asks for too long a date")
        return moment.strftime(form)

    return strftime_now


# -- the environment ------------------------------------------------------------------------------
class Sandbox(ImmutableSandboxedEnvironment):
    """An environment that templates can neither leave, change nor exhaust.

    Safe to share between threads: each rendering has a budget of its own.
    """

    context_class = BudgetContext
    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(
        self,
        limits: TemplateLimits,
        *,
        filters: Mapping[str, Callable[..., Any]] | None = None,
        functions: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        """Create an environment.

        Args:
            limits: What a template may use up.
            filters: Filters of the application, by name.
            functions: Functions of the application, by name.

        Raises:
            ConfigError: If one of these has no name that a template could write.
        """
        added = {**(filters or {}), **(functions or {})}
        wrong = [name for name in added if not name.isidentifier()]
        if wrong:
            raise ConfigError(f"a template cannot write the names {wrong}")
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_Generation, loopcontrols],
            finalize=_write_value,
        )
        self.limits = limits
        known: dict[str, Any] = {name: FILTERS[name] for name in _FILTERS} | dict(filters or {})
        counted = {name: _count_value(function) for name, function in known.items()}
        reading = {name: FILTERS[name] for name in _READING_FILTERS}
        self.filters = {**reading, **_OWN_FILTERS, **counted, **_HOOKS}
        tests: Mapping[str, Any] = self.tests
        self.tests |= {name: _count_value(tests[name]) for name in _COMPARING}
        self.globals = {
            "dict": _make_map,
            "namespace": _make_namespace,
            "raise_exception": _raise_exception,
            "range": safe_range,
            **(functions or {}),
        }

    def compile_limited(self, tree: nodes.Template) -> Template:
        """Return the template of a syntax tree, which is changed.

        Raises:
            TemplateError: If it is not a valid template.
        """
        _HookWriter().visit(tree)
        tree.set_environment(self)
        return self.from_string(tree)

    def render(
        self, template: Template, variables: Mapping[str, Any], budget: Budget | None = None
    ) -> str:
        """Return what a template writes.

        Args:
            template: The template.
            variables: What it reads.
            budget: Where it counts; a new one by default.

        Raises:
            LimitExceededError: If it uses up more than it may.
        """
        context = template.new_context(dict(variables))
        assert isinstance(context, BudgetContext)  # noqa: S101 - for mypy: `context_class`
        context.budget = budget or Budget(self.limits)
        written: list[str] = []
        length = 0
        try:
            for piece in template.root_render_func(context):
                written.append(piece)
                length += len(piece)
                if length > self.limits.max_output:
                    most = self.limits.max_output
                    raise LimitExceededError(f"the template writes more than {most} characters")
        finally:
            context.vars.clear()  # macros hold their context, which holds them
        return "".join(written)

    def concat(self, pieces: Iterable[str]) -> str:
        """Return what a macro or a block has written."""
        texts = list(pieces)
        if sum(map(len, texts)) > self.limits.max_value:
            raise _refuse_value(self.limits.max_value)
        return "".join(texts)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return what a value holds under a name, or a method that a template may call."""
        kind: type = type(obj)
        if kind is dict and attribute not in _MAP_NAMES:
            found = attribute in obj
            return obj[attribute] if found else self.undefined(obj=obj, name=attribute)
        if kind is LoopContext and attribute in _LOOP_NAMES:
            return getattr(obj, attribute)
        return super().getattr(obj, attribute)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Return whether a template may read an attribute, or call a method."""
        if isinstance(obj, str):
            return attr in _TEXT_METHODS
        if isinstance(obj, dict):
            return attr in _MAP_METHODS
        if isinstance(obj, list | tuple):
            return attr in _LIST_METHODS
        if isinstance(obj, Namespace):
            return not attr.startswith("_")
        return not isinstance(obj, int | float) and super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> None:
        """Return None: no template may call these methods."""

    def call(self, __context: Context, __obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a macro, a loop, a function or a method."""
        kwargs.pop("_loop_vars", None)
        kwargs.pop("_block_vars", None)
        budget: Budget = __context.budget  # type: ignore[attr-defined]  # see `context_class`
        owner = getattr(__obj, "__self__", None)
        if isinstance(owner, str):
            _check_text_call(budget, owner, __obj.__name__, [*args, *kwargs.values()])
            return budget.keep(__obj(*args, **kwargs))
        if isinstance(owner, dict | list | tuple):
            return __obj(*args, **kwargs)  # what is there already
        if budget.depth >= self.limits.max_depth:
            raise LimitExceededError(
                f"macros and loops of the template call each other deeper than "
                f"{self.limits.max_depth} times"
            )
        budget.depth += 1
        try:
            return budget.keep(__obj(*args, **kwargs))
        finally:
            budget.depth -= 1

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Add, multiply or divide values."""
        budget: Budget = context.budget  # type: ignore[attr-defined]  # see `context_class`
        if operator == "+":
            return budget.keep(left + right)
        if operator == "*":
            budget.spend(max(_count_copies(left, right), _count_copies(right, left)))
        elif operator == "**":
            _check_power(left, right)
        elif isinstance(left, str):
            raise SecurityError("a chat template does not format text with '%'")
        return budget.keep(self.binop_table[operator](left, right))

    def call_filter(self, name: str, *args: Any, **options: Any) -> Any:
        """Apply a filter that `map` names."""
        if name in _HOOKS:
            raise SecurityError(f"no filter named {name!r}")
        return super().call_filter(name, *args, **options)


def _check_power(base: Any, exponent: Any) -> None:
    is_whole = isinstance(base, int) and isinstance(exponent, int)
    if is_whole and base.bit_length() * exponent > _MAX_INTEGER_BITS:
        raise LimitExceededError("the template makes too large a number")


def _count_copies(items: Any, times: Any) -> int:
    if not isinstance(times, int) or not isinstance(items, str | list | tuple):
        return 0
    return times * (_measure_text(items) if isinstance(items, str) else _POINTER * len(items))


# -- what Jinja compiles to Python's own ----------------------------------------------------------
@pass_context
def _write_value(context: BudgetContext, value: Any) -> str:
    return context.budget.write(value)


@pass_context
def _join_texts(context: BudgetContext, values: list[Any]) -> str:
    budget = context.budget
    return budget.join([one if type(one) is str else budget.write(one) for one in values])


@pass_context
def _count_rounds(context: BudgetContext, values: Iterable[Any], pieces: int) -> Iterator[Any]:
    return context.budget.count_each(values, _POINTER * pieces)


@pass_context
def _keep_value(context: BudgetContext, value: Any) -> Any:
    return context.budget.keep(value)


@pass_context
def _count_read(context: BudgetContext, value: Any) -> Any:
    context.budget.spend(_measure_shallow(value))
    return value


# Filters whose names no template can write.
_HOOKS: Mapping[str, Callable[..., Any]] = {
    "joined texts": _join_texts,
    "kept value": _keep_value,
    "rounds of a loop": _count_rounds,
    "value that is read": _count_read,
}


def _hook(name: str, value: nodes.Node, *args: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(value, name, [*args], [], None, None, lineno=value.lineno)


class _HookWriter(NodeTransformer):
    """Lets count what the environment is not asked for: loops, joined texts, lists, slices."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 - as Jinja names it
        """Count the rounds of a loop, with the pieces of text that each may write."""
        pieces = 1 + sum(1 for _ in node.find_all(nodes.Output))
        self.generic_visit(node)
        node.iter = _hook("rounds of a loop", node.iter, nodes.Const(pieces))
        return node

    def visit_Output(self, node: nodes.Output) -> nodes.Node:  # noqa: N802
        """Write constant texts as what stands between the tags: they need no count."""
        self.generic_visit(node)
        node.nodes = [
            nodes.TemplateData(one.value, lineno=one.lineno)
            if isinstance(one, nodes.Const) and isinstance(one.value, str)
            else one
            for one in node.nodes
        ]
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        """Count texts that `~` joins."""
        self.generic_visit(node)
        return _hook("joined texts", nodes.List(node.nodes, lineno=node.lineno))

    def visit_List(self, node: nodes.List | nodes.Tuple) -> nodes.Node:  # noqa: N802
        """Count a list that holds other values than constants."""
        self.generic_visit(node)
        return node if _is_short(node) else _hook("kept value", node)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:  # noqa: N802
        """Count a tuple; the targets of an assignment are none."""
        return node if node.ctx == "store" else self.visit_List(node)

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:  # noqa: N802
        """Count a map."""
        self.generic_visit(node)
        return _hook("kept value", node) if node.items else node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        """Count what a slice copies."""
        self.generic_visit(node)
        return _hook("value that is read", node) if isinstance(node.arg, nodes.Slice) else node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802
        """Count what is compared, unless a constant ends the comparison."""
        self.generic_visit(node)
        sides: list[nodes.Compare | nodes.Operand] = [node, *node.ops]
        is_search = node.ops[0].op in {"in", "notin"}
        is_short = _is_short(sides[-1].expr) or (not is_search and _is_short(node.expr))
        if not is_short or len(node.ops) > 1:
            for side in sides:
                if not _is_short(side.expr):
                    side.expr = _hook("value that is read", side.expr)
        return node


def _is_short(node: nodes.Expr) -> bool:
    """Return whether a value is a constant, a list of constants, or true or false."""
    items = node.items if isinstance(node, nodes.List | nodes.Tuple) else [node]
    short = (nodes.Compare, nodes.Const, nodes.Not, nodes.Test)
    return all(isinstance(one, short) for one in items)


class _Generation(Extension):
    """`{% generation %}`: trainers ask which text is the model's; a prompt does not care."""

    tags = {"generation"}  # noqa: RUF012 - as the base class declares it

    def parse(self, parser: Parser) -> nodes.Node:
        """Return the block's contents, in a scope of their own."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body).set_lineno(line)


# -- what a template raises -----------------------------------------------------------------------
@contextmanager
def translate_errors(name: str) -> Iterator[None]:
    """Turn whatever a template raises into an error of ours; the template's own words are kept."""
    try:
        yield
    except ChatTemplateError:
        raise  # it says all that already
    except RAISED_BY_TEMPLATES as error:
        reason = _get_reason(error)[:_LONGEST_REASON]
        line = _find_line(error)
        kind = _name_kind(error)
        is_syntax = isinstance(error, SyntaxError | TemplateSyntaxError)
        what = "is not a valid template" if is_syntax else "cannot render these messages"
        place = f", line {line}" if line else ""
        raise ChatTemplateError(
            f"{name}{place} {what}: {reason} ({kind})", reason=reason, kind=kind, line=line
        ) from error


def _get_reason(error: BaseException) -> str:
    if isinstance(error, TemplateError):
        return str(error.message)
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    return error.msg if isinstance(error, SyntaxError) else str(error)


def _name_kind(error: BaseException) -> str:
    if isinstance(error, LimitExceededError | RecursionError):
        return "LimitExceeded"
    return "TemplateSyntaxError" if isinstance(error, SyntaxError) else type(error).__name__


def _find_line(error: BaseException) -> int:
    """Return the line of the template that an error came from, 0 if it is not known."""
    if isinstance(error, TemplateSyntaxError):
        return error.lineno
    line = 0
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        template = trace.tb_frame.f_globals.get("__jinja_template__")
        if isinstance(template, Template):
            line = template.get_corresponding_lineno(trace.tb_lineno)
        trace = trace.tb_next
    return line
