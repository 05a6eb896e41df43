"""The sandbox that chat templates run in: Jinja's own, with a limit on the work of a rendering.

The dialect is the one of Hugging Face: Jinja2 with trimmed blocks, loop controls, a `generation`
block that only marks what a model said, `tojson` without HTML escapes, and `raise_exception`.

Every operation and every round of a loop counts as work, and so does the size of the values that it
reads and makes; what may grow beyond its arguments is counted before it is made. One figure
therefore limits the time and the memory of a rendering alike, and does so equally on any machine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from contextlib import contextmanager
from dataclasses import astuple, dataclass
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

_STEP = 64
"""What any operation and any value weighs, besides its text."""

_LONGEST_REASON = 2_000
_LONGEST_DATE_FORMAT = 1_000
_MAX_INTEGER_BITS = 65_536
_WIDEST_INDENT = 16
_WIDE = re.compile(r"\*|[0-9]{5,}")
_CONTAINERS = (dict, list, tuple, range, set, KeysView, ValuesView, ItemsView)

_FILTERS = (
    *("abs", "capitalize", "count", "d", "default", "dictsort", "first", "float", "int", "items"),
    *("last", "length", "lower", "map", "reject", "rejectattr", "reverse", "safe", "select"),
    *("selectattr", "string", "upper"),
)
"""Filters of Jinja that make nothing much larger than what they are given."""

_COMPARING = (
    *("!=", "<", "<=", "==", ">", ">=", "eq", "equalto", "ge", "greaterthan", "gt", "in", "le"),
    *("lessthan", "lt", "ne"),
)
_METHODS: Mapping[type, frozenset[str]] = {
    str: frozenset(
        (
            *("capitalize", "count", "endswith", "find", "index", "isalnum", "isalpha", "isdigit"),
            *("islower", "isnumeric", "isspace", "isupper", "join", "lower", "lstrip", "partition"),
            *("removeprefix", "removesuffix", "replace", "rfind", "rpartition", "rsplit", "rstrip"),
            *("split", "startswith", "strip", "title", "upper"),
        )
    ),
    dict: frozenset(("get", "items", "keys", "values")),
    list: frozenset(("count", "index")),
    tuple: frozenset(("count", "index")),
    int: frozenset(),
    float: frozenset(),
}
_SLOW_METHODS = frozenset(("lstrip", "rfind", "rpartition", "rsplit", "rstrip", "strip"))
"""They take time for every character of the text that they look for."""

_MAP_NAMES = frozenset(dir(dict))

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

    Attributes:
        max_source: Characters of the template; they decide how long it takes to compile.
        max_output: Characters of a prompt.
        max_work: Work of one rendering: 64 for each operation and each value, and the size of
            what it reads or makes. A character counts one, four in a text that is not ASCII.
    """

    max_source: int = 200_000
    max_output: int = 50_000_000
    max_work: int = 500_000_000

    def __post_init__(self) -> None:
        if min(astuple(self)) <= 0:
            raise ConfigError(f"the limits of a template must be above zero, got {self}")


class Work:
    """What is left of the work of one rendering. Not thread-safe: it runs in one thread."""

    __slots__ = ("_left", "_most")

    def __init__(self, most: int) -> None:
        self._left = self._most = most

    def spend(self, size: int = 0) -> None:
        """Count an operation that reads or makes values of a size.

        Raises:
            LimitExceededError: If nothing is left.
        """
        self._left -= _STEP + size
        if self._left < 0:
            raise LimitExceededError(f"the template does more work than {self._most} allows")

    def keep(self, value: Any) -> Any:
        """Count a value that was made and return it; what comes one by one becomes a list."""
        if isinstance(value, Iterator):
            value = list(self.count_each(value))
        self.spend(_weigh(value))
        return value

    def keep_deep(self, value: Any) -> Any:
        """Count a value with all that it holds, as often as it holds it, and return it.

        A list that holds another one twice is as large as its text is long: sixty such steps make a
        text that never ends.
        """
        waiting = [value]
        while waiting:
            item = waiting.pop()
            self.spend(_weigh(item))
            if isinstance(item, _CONTAINERS):
                waiting += [*item, *item.values()] if isinstance(item, dict) else item
        return value

    def count_each(self, values: Iterable[Any]) -> Iterator[Any]:
        """Yield values, and count each."""
        for value in values:
            self.spend()
            yield value

    def write(self, value: Any) -> str:
        """Return a value as a template writes it."""
        text = value if type(value) is str else str(value)
        self.spend(_weigh(text))
        return text

    def join(self, values: Iterable[Any], between: str = "") -> str:
        """Return values as one text."""
        texts = [self.write(value) for value in values]
        # A single wide character widens the whole.
        is_ascii = between.isascii() and all(map(str.isascii, texts))
        self.spend((1 if is_ascii else 4) * (sum(map(len, texts)) + len(between) * len(texts)))
        return between.join(texts)

    def replace(self, text: str, old: str, new: str, count: int | None = -1) -> str:
        """Return a text with a part of it replaced."""
        grown = len(text) + text.count(old) * len(new)
        self.spend(grown if text.isascii() and new.isascii() else 4 * grown)
        return text.replace(old, new, -1 if count is None else count)

    def call_text(self, method: Callable[..., Any], text: str, values: tuple[Any, ...]) -> None:
        """Count what a method of a text reads, and what it may make, before it is called."""
        name = method.__name__
        first: Any = values[0] if values else None
        part = first if isinstance(first, str) else ""
        self.spend(_weigh(text) * (len(part) if part and name in _SLOW_METHODS else 1))
        if name in {"split", "rsplit"}:
            self.spend(_STEP * (text.count(part) if part else len(text) // 2))
        elif name == "replace" and len(values) > 1:
            self.replace(text, *values[:2])
        elif name == "join" and not isinstance(first, Iterator):
            self.join(first, text)


def _weigh(value: Any) -> int:
    """Return the size of a value, but for what its items hold."""
    kind = type(value)
    if kind is str:
        return len(value) if value.isascii() else 4 * len(value)
    if isinstance(value, int) and value.bit_length() > _MAX_INTEGER_BITS:
        raise LimitExceededError("the template makes too large a number")
    return _STEP * len(value) if isinstance(value, _CONTAINERS) else 0


# -- what a template may call ---------------------------------------------------------------------
class _Namespace(Namespace):
    """A namespace that shows nothing of what it holds: it may hold others, and they hold it."""

    def __repr__(self) -> str:
        return "<Namespace>"


class WorkContext(Context):
    """The variables of a template, and what is left of the work of its rendering."""

    work: Work


def _count(function: Callable[..., Any], *, reads_all: bool = False) -> Callable[..., Any]:
    """Return a filter or a test that counts what it reads and makes."""
    wanted = getattr(function, "jinja_pass_arg", None)

    @pass_context
    def call(context: WorkContext, value: Any, *args: Any, **given: Any) -> Any:
        work = context.work
        if reads_all:
            work.keep_deep([value, *args])
        else:
            work.spend(_weigh(value))
        if wanted is None:
            return work.keep(function(value, *args, **given))
        passed = context if wanted.name == "context" else context.environment
        return work.keep(function(passed, value, *args, **given))

    return call


@pass_context
def _join(context: WorkContext, value: Any, d: Any = "", attribute: Any = None) -> str:
    if attribute is not None:
        value = map(make_attrgetter(context.environment, attribute), value)
    return context.work.join(value, str(d))


@pass_context
def _replace(context: WorkContext, value: Any, old: Any, new: Any, count: int | None = None) -> str:
    return context.work.replace(str(value), str(old), str(new), count)


@pass_context
def _trim(context: WorkContext, value: Any, chars: str | None = None) -> str:
    text = str(value)
    context.work.spend(_weigh(text) * len(chars or " "))
    return text.strip(chars)


@pass_context
def _write_json(
    context: WorkContext,
    value: Any,
    ensure_ascii: bool = False,
    indent: Any = None,
    separators: Any = None,
    *,
    sort_keys: bool = False,
) -> str:
    width = len(indent) if isinstance(indent, str) else indent or 0
    if max(width, len("".join(separators or ()))) > _WIDEST_INDENT:
        raise LimitExceededError("the template asks for too wide a JSON")
    encoder = json.JSONEncoder(
        ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    return context.work.join(encoder.iterencode(value))


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


# -- what Jinja compiles to Python's own: no environment is asked, so these filters are -----------
@pass_context
def _write_value(context: WorkContext, value: Any) -> str:
    return context.work.write(value)


@pass_context
def _count_rounds(context: WorkContext, values: Iterable[Any]) -> Iterator[Any]:
    return context.work.count_each(values)


@pass_context
def _keep(context: WorkContext, value: Any) -> Any:
    return context.work.keep(value)


@pass_context
def _keep_deep(context: WorkContext, value: Any) -> Any:
    return context.work.keep_deep(value)


_OWN_FILTERS: Mapping[str, Callable[..., Any]] = {
    "join": _join,
    "list": _count(iter),  # which becomes a list where it is counted
    "replace": _replace,
    "tojson": _write_json,
    "trim": _trim,
    "_keep": _keep,
    "_keep_deep": _keep_deep,
    "_rounds": _count_rounds,
}


class _CountWriter(NodeTransformer):
    """Writes filters that count into a template: for loops, joined texts, lists, comparisons."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 - as Jinja names it
        """Count the rounds of a loop."""
        self.generic_visit(node)
        node.iter = _apply("_rounds", node.iter)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        """Count texts that `~` joins."""
        self.generic_visit(node)
        return _apply("join", nodes.List(node.nodes, lineno=node.lineno))

    def visit_List(self, node: nodes.List | nodes.Tuple | nodes.Dict) -> nodes.Node:  # noqa: N802
        """Count what a list, a tuple or a map is made of."""
        self.generic_visit(node)
        is_short = all(isinstance(one, nodes.Const | nodes.Pair) for one in node.items)
        is_map = isinstance(node, nodes.Dict) and node.items
        return node if is_short and not is_map else _apply("_keep_deep", node)

    visit_Dict = visit_List  # noqa: N815

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:  # noqa: N802
        """Count a tuple; the targets of an assignment are none."""
        return node if node.ctx == "store" else self.visit_List(node)

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        """Count what a slice copies, and a key that is looked up."""
        self.generic_visit(node)
        if isinstance(node.arg, nodes.Slice):
            return _apply("_keep", node)
        if not isinstance(node.arg, nodes.Const):
            node.arg = _apply("_keep_deep", node.arg)
        return node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802
        """Count what is compared."""
        self.generic_visit(node)
        sides: list[nodes.Compare | nodes.Operand] = [node, *node.ops]
        is_equality = len(node.ops) == 1 and node.ops[0].op not in {"in", "notin"}
        if not (is_equality and any(isinstance(side.expr, nodes.Const) for side in sides)):
            for side in sides:
                side.expr = _apply("_keep_deep", side.expr)
        return node


def _apply(name: str, value: nodes.Node) -> nodes.Filter:
    return nodes.Filter(value, name, [], [], None, None, lineno=value.lineno)


class _Generation(Extension):
    """`{% generation %}`: trainers ask which text is the model's; a prompt does not care."""

    tags = {"generation"}  # noqa: RUF012 - as the base class declares it

    def parse(self, parser: Parser) -> nodes.Node:
        """Return the block's contents, in a scope of their own."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body).set_lineno(line)


# -- the environment ------------------------------------------------------------------------------
class Sandbox(ImmutableSandboxedEnvironment):
    """An environment that templates can neither leave, change nor exhaust.

    Safe to share between threads: each rendering has work of its own.
    """

    context_class = WorkContext
    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(self, limits: TemplateLimits) -> None:
        """Create an environment in which templates may use up so much."""
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_Generation, loopcontrols],
            finalize=_write_value,
        )
        self.limits = limits
        self.filters = {**{name: _count(FILTERS[name]) for name in _FILTERS}, **_OWN_FILTERS}
        tests: Mapping[str, Any] = self.tests
        self.tests |= {name: _count(tests[name], reads_all=True) for name in _COMPARING}
        self.globals = {
            "dict": _make_map,
            "namespace": _make_namespace,
            "raise_exception": _raise_exception,
            "range": safe_range,
        }

    def compile_limited(self, tree: nodes.Template) -> Template:
        """Return the template of a syntax tree, which is changed.

        Raises:
            TemplateError: If it is not a valid template.
        """
        _CountWriter().visit(tree)
        tree.set_environment(self)
        return self.from_string(tree)

    def render(
        self, template: Template, variables: Mapping[str, Any], work: Work | None = None
    ) -> str:
        """Return what a template writes.

        Args:
            template: The template.
            variables: What it reads.
            work: What it may use up; all that the limits say by default.

        Raises:
            LimitExceededError: If it uses up more than it may.
        """
        context = template.new_context(dict(variables))
        assert isinstance(context, WorkContext)  # noqa: S101 - for mypy: `context_class`
        context.work = work or Work(self.limits.max_work)
        written: list[str] = []
        length = 0
        try:
            for piece in template.root_render_func(context):
                written.append(piece)
                length += len(piece)
                self._check_length(length)
        finally:
            context.vars.clear()  # macros hold their context, which holds them
        return "".join(written)

    def concat(self, pieces: Iterable[str]) -> str:
        """Return what a macro or a block has written."""
        texts = list(pieces)
        self._check_length(sum(map(len, texts)))
        return "".join(texts)

    def _check_length(self, length: int) -> None:
        most = self.limits.max_output
        if length > most:
            raise LimitExceededError(f"the template writes more than {most} characters")

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return what a value holds under a name, or a method that a template may call."""
        if type(obj) is dict and attribute not in _MAP_NAMES:  # far sooner found than by an error
            found = attribute in obj
            return obj[attribute] if found else self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Return whether a template may read an attribute, or call a method."""
        for kind, names in _METHODS.items():
            if isinstance(obj, kind):
                return attr in names
        if isinstance(obj, LoopContext | Namespace):
            return not attr.startswith("_")
        return super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> None:
        """Return None: no template may call these methods."""

    def call(self, __context: Context, __obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a macro, a loop, a function or a method."""
        kwargs.pop("_loop_vars", None)
        kwargs.pop("_block_vars", None)
        work: Work = __context.work  # type: ignore[attr-defined]  # see `context_class`
        owner = getattr(__obj, "__self__", None)
        if isinstance(owner, str):
            work.call_text(__obj, owner, (*args, *kwargs.values()))
        for value in args:
            work.spend(_weigh(value))
        return work.keep(__obj(*args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Add, multiply or divide values."""
        work: Work = context.work  # type: ignore[attr-defined]  # see `context_class`
        if operator == "*":
            work.spend(max(_count_copies(left, right), _count_copies(right, left)))
        elif operator == "**":
            _check_power(left, right)
        elif operator == "%" and isinstance(left, str):
            raise SecurityError("a chat template does not format text with '%'")
        return work.keep(self.binop_table[operator](left, right))


def _check_power(base: Any, exponent: Any) -> None:
    is_whole = isinstance(base, int) and isinstance(exponent, int)
    if is_whole and base.bit_length() * exponent > _MAX_INTEGER_BITS:
        raise LimitExceededError("the template makes too large a number")


def _count_copies(items: Any, times: Any) -> int:
    return times * _weigh(items) if isinstance(times, int) else 0


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
