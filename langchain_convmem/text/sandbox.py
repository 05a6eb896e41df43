"""The sandbox that chat templates run in: Jinja's own, with a limit on the work of a rendering.

The dialect is the one of Hugging Face: Jinja2 with trimmed blocks, loop controls, a `generation`
block that only marks what a model said, `tojson` without HTML escapes, and `raise_exception`.

Every operation and every round of a loop counts as work, and so does the size of the values that it
reads and makes; what may grow beyond its arguments is counted before it is made. One figure
therefore limits the time and the memory of a rendering alike.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from traceback import walk_tb
from typing import Any, NoReturn

from jinja2 import Template, TemplateError, TemplateSyntaxError, nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import FILTERS
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment, safe_range
from jinja2.tests import TESTS
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from langchain_convmem.errors import ChatTemplateError

# What any operation and any value weighs, besides its text.
_STEP = 64
_WIDEST = 4  # what a character weighs: the most bytes that Python keeps it in

_LONGEST_REASON = 2_000
_LONGEST_DATE_FORMAT = 1_000
_MAX_INTEGER_BITS = 65_536
_WIDEST_INDENT = 16
_WIDE = re.compile(r"\*|[0-9]{5,}")
_CONTAINERS = (dict, list, tuple, range, set, KeysView, ValuesView, ItemsView)

# Filters of Jinja that make nothing much larger than what they are given; some write all of it.
_FILTERS = (
    *("abs", "count", "d", "default", "dictsort", "first", "float", "int", "items", "last"),
    *("length", "map", "reject", "rejectattr", "reverse", "select", "selectattr"),
)
_WRITING = ("capitalize", "lower", "safe", "string", "upper")

_METHODS = frozenset(
    (
        *("capitalize", "count", "endswith", "find", "get", "index", "isalnum", "isalpha"),
        *("isdigit", "islower", "isnumeric", "isspace", "isupper", "items", "join", "keys"),
        *("lower", "lstrip", "partition", "removeprefix", "removesuffix", "replace", "rfind"),
        *("rpartition", "rsplit", "rstrip", "split", "startswith", "strip", "title", "upper"),
        "values",
    )
)

_MAP_NAMES = frozenset(dir(dict))

RAISED_BY_TEMPLATES = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, NameError),
    *(RuntimeError, SyntaxError, TemplateError, TypeError, ValueError),
)
"""What sandboxed code over plain values can raise, and Jinja and Python where they compile it."""


# -- what a template may use up -------------------------------------------------------------------
class LimitExceededError(TemplateError):
    """A template used up what it may use."""


@dataclass(frozen=True, kw_only=True)
class TemplateLimits:
    """Limits of a template.

    Attributes:
        max_source: Characters of the template, which limit its compile time.
        max_output: Characters of a prompt.
        max_work: Work of one rendering: 64 for each operation and each value, and four for each
            character that it reads or writes.
    """

    max_source: int = 200_000
    max_output: int = 50_000_000
    max_work: int = 500_000_000


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
        """Return a value as a template writes it, once it is known how long that is."""
        text = value if type(value) is str else str(self.keep_deep(value))
        self.spend(_weigh(text))
        return text

    def join(self, values: Iterable[Any], d: Any = "") -> str:
        """Return values as one text."""
        texts, between = [self.write(value) for value in values], self.write(d)
        self.spend(_WIDEST * (sum(map(len, texts)) + len(between) * len(texts)))
        return between.join(texts)

    def replace(self, value: Any, old: Any, new: Any, count: int | None = -1) -> str:
        """Return a text with a part of it replaced."""
        text, old, new = self.write(value), self.write(old), self.write(new)
        self.spend(_WIDEST * (len(text) + text.count(old) * len(new)))
        return text.replace(old, new, -1 if count is None else count)

    def trim(self, value: Any, chars: str | None = None) -> Any:
        """Return a text without white space, or other characters, around it."""
        return self.call_text("strip", self.write(value), (chars,), {})

    def call_text(
        self, name: str, text: str, args: tuple[Any, ...], given: Mapping[str, Any]
    ) -> Any:
        """Call a method of a text, once what it reads and may make is counted."""
        if name == "join":
            return self.join(args[0], text)
        if name == "replace":
            return self.replace(text, *args, **given)
        self.keep_deep(args)
        part = args[0] if args and isinstance(args[0], str) else ""
        # Some methods take time for every character of the text that they look for.
        self.spend(_weigh(text) * (1 + len(part)))
        if name in {"split", "rsplit"}:
            self.spend(_STEP * (text.count(part) if part else len(text) // 2))
        return self.keep(getattr(text, name)(*args, **given))

    def write_json(
        self, value: Any, ensure_ascii: bool = False, indent: Any = None, **more: Any
    ) -> str:
        """Return a value as JSON."""
        for wide in (indent, *(more.get("separators") or ())):
            if (len(wide) if isinstance(wide, str) else wide or 0) > _WIDEST_INDENT:
                raise LimitExceededError("the template asks for too wide a JSON")
        text = json.dumps(self.keep_deep(value), ensure_ascii=ensure_ascii, indent=indent, **more)
        return self.write(text)


def _weigh(value: Any) -> int:
    """Return the size of a value, but for what its items hold."""
    if type(value) is str:
        return _WIDEST * len(value)
    return _STEP * len(value) if isinstance(value, _CONTAINERS) else 0


# -- what a template may call ---------------------------------------------------------------------
class _Namespace(Namespace):
    """A namespace that shows nothing of what it holds: it may hold others, and they hold it."""

    def __repr__(self) -> str:
        return "<Namespace>"


def _by_work(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of `Work` as a filter."""

    @pass_context
    def call(context: Any, *args: Any, **given: Any) -> Any:
        return method(context.work, *args, **given)

    return call


def _count(function: Callable[..., Any], *, reads_all: bool = False) -> Callable[..., Any]:
    """Return a filter or a test that counts what it reads and makes."""
    wanted = getattr(function, "jinja_pass_arg", None)

    @pass_context
    def call(context: Any, value: Any, *args: Any, **given: Any) -> Any:
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


def _raise_exception(message: Any) -> NoReturn:
    raise TemplateError(str(message))


def create_strftime(moment: datetime) -> Callable[[str], str]:
    """Return the template function `strftime_now` for a moment that stands still."""

    def strftime_now(form: str) -> str:
        if len(form) > _LONGEST_DATE_FORMAT or _WIDE.search(form):
            raise LimitExceededError("the template asks for too long a date")
        return moment.strftime(form)

    return strftime_now


class _CountWriter(NodeTransformer):
    """Writes filters that count into a template: for what Jinja compiles to Python's own."""

    def visit(self, node: nodes.Node, *args: Any, **given: Any) -> Any:
        """Count rounds of loops, joined texts, lists and maps, slices, keys, comparisons."""
        node = self.generic_visit(node, *args, **given)
        match node:
            case nodes.For():
                node.iter = _apply("_rounds", node.iter)
            case nodes.Concat():
                return _apply("join", nodes.List(node.nodes, lineno=node.lineno))
            case nodes.List() | nodes.Dict() | nodes.Tuple(ctx="load"):
                return _apply("_keep_deep", node)
            case nodes.Getitem(arg=nodes.Slice()):
                return _apply("_keep", node)
            case nodes.Getitem():
                node.arg = _count_operand(node.arg)
            case nodes.Compare() | nodes.Operand():
                node.expr = _count_operand(node.expr)
        return node


def _count_operand(value: nodes.Expr) -> nodes.Expr:
    return value if isinstance(value, nodes.Const) else _apply("_keep_deep", value)


def _apply(name: str, value: Any) -> nodes.Filter:
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

    intercepted_binops = frozenset(ImmutableSandboxedEnvironment.default_binop_table)

    def __init__(self, limits: TemplateLimits) -> None:
        """Create an environment in which templates may use up so much."""
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_Generation, loopcontrols],
            finalize=_by_work(Work.write),
        )
        self.limits = limits
        self.filters = {
            **{name: _count(FILTERS[name]) for name in _FILTERS},
            **{name: _count(FILTERS[name], reads_all=True) for name in _WRITING},
            "join": _by_work(Work.join),
            "list": _count(list),
            "replace": _by_work(Work.replace),
            "tojson": _by_work(Work.write_json),
            "trim": _by_work(Work.trim),
            "_keep": _by_work(Work.keep),
            "_keep_deep": _by_work(Work.keep_deep),
            "_rounds": _by_work(Work.count_each),
        }
        tests: Mapping[str, Any] = TESTS
        for name, test in tests.items():
            if name == "in" or test.__module__ == "_operator":  # it compares all of two values
                self.tests[name] = _count(test, reads_all=True)
        self.globals = {
            "dict": dict,
            "namespace": _Namespace,
            "raise_exception": _raise_exception,
            "range": safe_range,
        }

    def read(self, source: str) -> nodes.Template:
        """Return the syntax tree of a template.

        Raises:
            TemplateError: If it is not a valid template, or too long.
        """
        longest = self.limits.max_source
        if len(source) > longest:
            raise LimitExceededError(f"it has {len(source)} characters, allowed {longest}")
        return self.parse(source)

    def compile_limited(self, tree: nodes.Template) -> Template:
        """Return the template of a syntax tree, which is changed.

        Raises:
            TemplateError: If it is not a valid template.
        """
        _CountWriter().visit(tree)
        tree.set_environment(self)
        return self.from_string(tree)

    def render(self, template: Template, variables: Mapping[str, Any], work: Work) -> str:
        """Return what a template writes.

        Raises:
            LimitExceededError: If it uses up more than it may.
        """
        context: Any = template.new_context(dict(variables))
        context.work = work
        return self.concat(template.root_render_func(context))

    def concat(self, pieces: Iterable[str]) -> str:
        """Return what a template, a macro or a block has written."""
        most = left = self.limits.max_output
        written: list[str] = []
        for piece in pieces:
            left -= len(piece)
            if left < 0:
                raise LimitExceededError(f"the template writes more than {most} characters")
            written.append(piece)
        return "".join(written)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return what a value holds under a name, or a method that a template may call."""
        if type(obj) is dict and attribute not in _MAP_NAMES:  # far sooner found than by an error
            found = attribute in obj
            return obj[attribute] if found else self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Return whether a template may read an attribute, or call a method."""
        if isinstance(obj, str | dict | list | tuple | int | float):
            return attr in _METHODS
        return super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> None:
        """Return None: no template may call these methods."""

    def call(self, __context: Any, __obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a macro, a loop, a function or a method."""
        kwargs.pop("_loop_vars", None)
        kwargs.pop("_block_vars", None)
        work: Work = __context.work
        owner = getattr(__obj, "__self__", None)
        if isinstance(owner, str):
            return work.call_text(__obj.__name__, owner, args, kwargs)
        work.spend(sum(map(_weigh, args)))
        return work.keep(__obj(*args, **kwargs))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Add, multiply or divide values."""
        if operator == "**" or (operator == "%" and isinstance(left, str)):
            raise SecurityError(f"a chat template does not use {operator!r} here")
        if isinstance(left, int) and isinstance(right, int):
            if max(left.bit_length(), right.bit_length()) > _MAX_INTEGER_BITS:
                raise LimitExceededError("the template makes too large a number")
        elif operator == "*":
            items, times = (right, left) if isinstance(left, int) else (left, right)
            context.work.spend(_weigh(items) * max(0, times) if isinstance(times, int) else 0)
        return context.work.keep(self.binop_table[operator](left, right))


# -- what a template raises -----------------------------------------------------------------------
@contextmanager
def translate_errors(name: str) -> Iterator[None]:
    """Turn whatever a template raises into an error of ours; the template's own words are kept."""
    try:
        yield
    except ChatTemplateError:
        raise  # it says all that already
    except RAISED_BY_TEMPLATES as error:
        reason, kind = str(error), type(error).__name__
        if isinstance(error, RecursionError):
            reason, kind = "it is nested too deep", "LimitExceeded"
        elif isinstance(error, SyntaxError):
            reason, kind = error.msg, "TemplateSyntaxError"
        elif isinstance(error, TemplateError):
            reason = str(error.message)
        if isinstance(error, LimitExceededError):
            kind = "LimitExceeded"
        reason, line = reason[:_LONGEST_REASON], _find_line(error)
        is_syntax = kind == "TemplateSyntaxError"
        what = "is not a valid template" if is_syntax else "cannot render these messages"
        told = f"{name}{f', line {line}' if line else ''} {what}: {reason} ({kind})"
        raise ChatTemplateError(told, reason=reason, kind=kind, line=line) from error


def _find_line(error: BaseException) -> int:
    """Return the line of the template that an error came from, 0 if it is not known."""
    if isinstance(error, TemplateSyntaxError):
        return error.lineno
    line = 0
    for frame, at in walk_tb(error.__traceback__):
        template = frame.f_globals.get("__jinja_template__")
        line = line if template is None else template.get_corresponding_lineno(at)
    return line
