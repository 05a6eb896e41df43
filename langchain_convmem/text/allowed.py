"""Filters, tests, functions and methods that a chat template may use, each with its account.

They are what chat templates of models use, and what belongs to it. What an operation reads and
makes is counted before it begins, from the sizes of what it is given.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any, NoReturn, Protocol

from jinja2 import TemplateError, Undefined, filters, pass_context
from jinja2.filters import FILTERS as JINJA_FILTERS
from jinja2.runtime import BlockReference, Context, LoopContext, Macro
from jinja2.sandbox import SandboxedFormatter, safe_range
from jinja2.tests import TESTS as JINJA_TESTS
from jinja2.utils import Cycler, Joiner, Namespace
from markupsafe import Markup, escape

from langchain_convmem.text.meter import (
    MAX_INTEGER_BITS,
    SHORT_TEXT,
    VALUE_SIZE,
    CountedValues,
    LimitExceededError,
    Meter,
    NotAllowedError,
    Readable,
    check_key,
    measure_made,
    measure_text,
)

_ESCAPED = 6
"""How many characters `escape`, JSON and `repr` make of one, at most."""

_WIDEST_FIELD = 4
_MOST_DIGITS = 300
_DEEP_JSON = 16
_WIDEST_INDENT = 64
_LONGEST_DATE_FORMAT = 1_000
_MAX_NUMBER_TEXT = MAX_INTEGER_BITS // 4
_POINTER = 8
_WIDE = re.compile(rf"\*|[0-9]{{{_WIDEST_FIELD + 1},}}")
_PERCENT_FIELD = re.compile(r"[-#0 +]*(?:\*|[0-9]*)(?:\.(?:\*|[0-9]*))?")
_PARENTHESIS = re.compile(r"[()]")
_LONGEST_FORMAT = 65_536
_PLAIN = frozenset({bool, float, int, type(None)})
_ASCII_SPACES = "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f "
_TITLE_WORD_BYTES = 700
_WIDE_SPACES = "\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)


class MeteredContext(Context):
    """The variables of a template, and the meter of its rendering."""

    meter: Meter

    def derived(self, locals: dict[str, Any] | None = None) -> Context:  # noqa: A002 - as the base class
        """Return a context of more variables; it counts at the same meter."""
        made = super().derived(locals)
        if isinstance(made, MeteredContext):
            made.meter = self.meter
        return made


# -- text -----------------------------------------------------------------------------------------
def write_text(meter: Meter, value: Any) -> str:
    """Return a value as a template writes it.

    Raises:
        LimitExceededError: If that is too long.
    """
    if type(value) is str:
        return value
    if type(value) not in _PLAIN and not isinstance(value, str | Undefined):
        meter.make(_ESCAPED * meter.weigh(value))
    return str(value)


def _read_text(meter: Meter, value: Any) -> str:
    """Return a value as text; marked text stays marked."""
    return value if isinstance(value, str) else write_text(meter, value)


def _estimate_case(text: str) -> int:
    return len(text) if text.isascii() else 3 * measure_text(text)


def _estimate_title(text: str) -> int:
    # Jinja's own takes some microseconds for each word: as long as much larger texts take.
    words = sum(map(text.count, "-({[<" + _ASCII_SPACES)) + 1
    if not text.isascii():
        words += sum(map(text.count, _WIDE_SPACES))
    return _estimate_case(text) + _TITLE_WORD_BYTES * words


def _estimate_strip(text: str, chars: Any = None, *_: Any) -> int:
    # Each character may be looked for among all of these.
    return measure_text(text) * (1 + (len(chars) // 8 if isinstance(chars, str) else 0))


def _estimate_same(text: str, *_: Any) -> int:
    return measure_text(text)


def _estimate_split(text: str, separator: Any = None, most: Any = -1, *_: Any) -> int:
    if isinstance(separator, str) and separator:
        pieces = text.count(separator)
    else:
        pieces = sum(map(text.count, _ASCII_SPACES))
        if not text.isascii():
            pieces += sum(map(text.count, _WIDE_SPACES))
    if isinstance(most, int) and most >= 0:
        pieces = min(pieces, most)
    return measure_text(text) + (VALUE_SIZE + _POINTER) * (pieces + 1)


def _estimate_backward(text: str, part: Any = None, *rest: Any) -> int:
    """Return what looking for a part from the end may take: that is slow in Python."""
    length = len(part) if isinstance(part, str) else 0
    return _estimate_split(text, part, *rest) + len(text) * (length // 8)


def _estimate_replace(text: str, old: Any = "", new: Any = "", *_: Any) -> int:
    if not isinstance(old, str) or not isinstance(new, str):
        return 0
    found = text.count(old) if old else len(text) + 1
    return measure_made(len(text) + found * len(new), text, new)


def _count_join(meter: Meter, text: str, values: Any) -> tuple[list[str]]:
    items = list_values(meter, values)
    texts = [item for item in items if isinstance(item, str)]
    length = sum(map(len, texts)) + len(text) * len(items)
    grown = _ESCAPED if isinstance(text, Markup) else 1
    meter.make(grown * measure_made(length, text, *texts))
    return (items,)


TEXT_METHODS: Mapping[str, Callable[..., int]] = {
    **dict.fromkeys(("capitalize", "lower", "title", "upper"), _estimate_case),
    **dict.fromkeys(("lstrip", "rstrip", "strip"), _estimate_strip),
    **dict.fromkeys(("count", "endswith", "find", "index", "startswith"), _estimate_same),
    **dict.fromkeys(("isalnum", "isalpha", "isdigit", "islower", "isnumeric"), _estimate_same),
    **dict.fromkeys(("isspace", "isupper", "removeprefix", "removesuffix"), _estimate_same),
    **dict.fromkeys(("rfind", "rindex", "rpartition", "rsplit"), _estimate_backward),
    **dict.fromkeys(("partition", "split", "splitlines"), _estimate_split),
    "replace": _estimate_replace,
}
"""Methods of text, and what each may read and make of it."""

_OWN_TEXT_METHODS = {"format", "join"}
LIST_METHODS = frozenset({"count", "index"})
MAP_METHODS = frozenset({"get", "items", "keys", "values"})
_METHODS: Mapping[type, Iterable[str]] = {
    str: {*TEXT_METHODS, *_OWN_TEXT_METHODS},
    dict: MAP_METHODS,
    list: LIST_METHODS,
    tuple: LIST_METHODS,
}


def is_method(kind: type, name: str) -> bool:
    """Return whether values of a type have a method that a template may call."""
    return any(name in names for base, names in _METHODS.items() if issubclass(kind, base))


# -- calls ----------------------------------------------------------------------------------------
def call_method(context: MeteredContext, value: Any, name: str, /, *args: Any, **given: Any) -> Any:
    """Call a method of a value, or what it holds under that name."""
    kind = type(value)
    if kind is dict and name in MAP_METHODS:
        if args:
            check_key(args[0])
        return getattr(value, name)(*args, **given)
    if isinstance(value, str) and name in TEXT_METHODS:
        for one in (*args, *given.values()):
            context.meter.weigh(one)
        context.meter.make(TEXT_METHODS[name](value, *args, *given.values()))
        return getattr(value, name)(*args, **given)
    if isinstance(value, str) and name == "join":
        return value.join(*_count_join(context.meter, value, *args), **given)
    if isinstance(value, str) and name == "format":
        return _format_fields(context, value, args, given)
    if kind in (list, tuple) and name in LIST_METHODS:
        context.meter.weigh((value, args))
        return getattr(value, name)(*args, **given)
    return call_value(context, context.environment.getattr(value, name), *args, **given)


def call_value(context: MeteredContext, function: Any, /, *args: Any, **given: Any) -> Any:
    """Call a macro, a loop or a function.

    Raises:
        NotAllowedError: If a template may not call it.
    """
    meter = context.meter
    if isinstance(function, _REPEATED):
        meter.make(_POINTER * len(args))
        meter.enter()
        try:
            return function(*args, **given)
        finally:
            meter.leave()
    if isinstance(function, BuiltinMethodType) and is_method(
        type(function.__self__), function.__name__
    ):
        return call_method(context, function.__self__, function.__name__, *args, **given)
    if isinstance(function, Undefined):
        return function(*args, **given)  # raises, in its own words
    owner = type(function.__self__) if isinstance(function, MethodType) else type(function)
    is_open = isinstance(function, MethodType) and issubclass(
        owner, Readable | LoopContext | Cycler
    )
    if not is_open and not _is_function(function):
        # What is no function at all is refused by Python in its own words.
        return _refuse(function) if callable(function) else function(*args, **given)
    for one in (*args, *given.values()):
        meter.make(meter.weigh(one))
    return function(*args, **given)


_REPEATED = (Macro, LoopContext, BlockReference)


def _is_function(function: Any) -> bool:
    return isinstance(function, FunctionType | Joiner) or function in _CLASSES


_CLASSES = (dict, Namespace, Cycler, Joiner)


def _refuse(function: Any) -> NoReturn:
    raise NotAllowedError(f"{describe('function', getattr(function, '__name__', '?'))}")


def describe(what: str, name: str) -> str:
    """Return why a template may not use something, and what to do about it."""
    added = {"filter": "extra_filters", "function": "extra_functions"}.get(what)
    hint = f"; an application adds its own by ChatTemplate(..., {added}={{...}})" if added else ""
    return f"chat templates have no {what} {name[:80]!r}{hint}"


# -- functions ------------------------------------------------------------------------------------
def _raise_exception(message: Any) -> NoReturn:
    raise TemplateError(str(message))


def _refuse_lipsum(*_: Any, **__: Any) -> NoReturn:
    raise NotAllowedError(describe("function", "lipsum"))


def create_strftime(moment: datetime) -> Callable[[str], str]:
    """Return the template function `strftime_now` for a moment that stands still."""

    def strftime_now(form: str) -> str:
        if len(form) > _LONGEST_DATE_FORMAT or _WIDE.search(form):
            raise LimitExceededError("the template asks for too long a date")
        return moment.strftime(form)

    return strftime_now


def _make_range(*args: int) -> range:
    return safe_range(*args)


FUNCTIONS: Mapping[str, Any] = {
    "cycler": Cycler,
    "dict": dict,
    "joiner": Joiner,
    "lipsum": _refuse_lipsum,
    "namespace": Namespace,
    "raise_exception": _raise_exception,
    "range": _make_range,
}
"""Functions that templates know by name; `strftime_now` is given with each prompt."""


# -- values one by one ----------------------------------------------------------------------------
def list_values(meter: Meter, values: Any) -> list[Any]:
    """Return a new list of values."""
    if hasattr(values, "__len__"):
        meter.make((VALUE_SIZE if isinstance(values, str | range) else _POINTER) * len(values))
        return list(values)
    return list(CountedValues(meter, values, values))


def _collect_values(meter: Meter, values: Any) -> Any:
    """Return values that may be read twice; one by one they could be read only once."""
    return list_values(meter, values) if isinstance(values, Iterator) else values


class _ContextFilter(Protocol):
    def __call__(self, context: MeteredContext, value: Any, *args: Any, **given: Any) -> Any: ...


def _count_each(name: str) -> _ContextFilter:
    """Return a filter of Jinja that writes one value after the other."""
    inner = JINJA_FILTERS[name]
    wants_context = name in {"map", "reject", "rejectattr", "select", "selectattr"}
    weighs_each = name == "unique"

    def count_each(context: MeteredContext, value: Any, *args: Any, **given: Any) -> Any:
        meter = context.meter
        for one in (*args, *given.values()):
            meter.weigh(one)
        is_whole = name == "items" or not value
        counted = value if is_whole else CountedValues(meter, value, value)
        if weighs_each and not is_whole:
            counted = (_weigh_key(meter, one) for one in counted)
        first = context if wants_context else context.environment
        made = inner(counted) if name == "items" else inner(first, counted, *args, **given)
        return CountedValues(meter, made, counted) if isinstance(made, Iterator) else made

    return count_each


def _weigh_key(meter: Meter, value: Any) -> Any:
    meter.weigh(value)
    return value


def _weigh_all(name: str) -> _ContextFilter:
    """Return a filter of Jinja that reads a whole list, and compares what is in it."""
    inner = JINJA_FILTERS[name]

    def weigh_all(context: MeteredContext, value: Any, *args: Any, **given: Any) -> Any:
        meter = context.meter
        items = _collect_values(meter, value)
        size = sum(meter.weigh(one) for one in (items, *args, *given.values()))
        meter.make(size)
        meter.read(size * size.bit_length() // 4)
        if name == "dictsort":
            return inner(items, *args, **given)
        return inner(context.environment, items, *args, **given)

    return weigh_all


def _wrap_text(name: str, grow: Callable[..., int]) -> _ContextFilter:
    """Return a filter of Jinja that makes a text of a text."""
    inner = JINJA_FILTERS[name]

    def convert_text(context: MeteredContext, value: Any, *args: Any, **given: Any) -> Any:
        meter = context.meter
        text = _read_text(meter, value)
        meter.make(grow(text, *args, *given.values()))
        return inner(text, *args, **given)

    return convert_text


def _reverse_values(context: MeteredContext, value: Any) -> Any:
    if isinstance(value, str):
        context.meter.make(measure_text(value))
    elif isinstance(value, Iterator):
        return list_values(context.meter, value)[::-1]
    return filters.do_reverse(value)


def _sum_values(context: MeteredContext, value: Any, attribute: Any = None, start: Any = 0) -> Any:
    items = _collect_values(context.meter, value)
    if attribute is not None:
        find = filters.make_attrgetter(context.environment, attribute)
        items = [find(item) for item in list_values(context.meter, items)]
    total = start
    for item in items:
        total = add_values(context, total, item)
    return total


def add_values(context: MeteredContext, left: Any, right: Any, /) -> Any:
    """Add numbers, or join texts or lists."""
    meter = context.meter
    if isinstance(left, str):
        if isinstance(right, str):
            grown = 1 if type(left) is str is type(right) else _ESCAPED
            meter.make(grown * measure_made(len(left) + len(right), left, right))
    elif isinstance(left, int) and isinstance(right, int):
        if max(left.bit_length(), right.bit_length()) >= MAX_INTEGER_BITS:
            raise LimitExceededError("the template makes too large a value with '+'")
    elif hasattr(left, "__len__") and hasattr(right, "__len__"):
        meter.make(_POINTER * (_count(left) + _count(right)))
    return left + right


def _count(values: Any) -> int:
    return 0 if isinstance(values, Undefined | Readable) else len(values)


# -- other filters --------------------------------------------------------------------------------
def _join_values(context: MeteredContext, value: Any, d: Any = "", attribute: Any = None) -> str:
    meter = context.meter
    between = write_text(meter, d)
    if attribute is not None:
        find = filters.make_attrgetter(context.environment, attribute)
        value = map(find, list_values(meter, value))
    texts = [write_text(meter, item) for item in list_values(meter, value)]
    length = sum(map(len, texts)) + len(between) * len(texts)
    meter.make(measure_made(length, between, *texts))
    return between.join(texts)


def _replace_text(
    context: MeteredContext, value: Any, old: Any, new: Any, count: int | None = None
) -> str:
    meter = context.meter
    text, before, after = (write_text(meter, one) for one in (value, old, new))
    meter.make(_estimate_replace(text, before, after))
    return text.replace(before, after, -1 if count is None else count)


def _indent_text(
    context: MeteredContext,
    value: Any,
    width: int | str = 4,
    first: bool = False,
    blank: bool = False,
) -> str:
    text = _read_text(context.meter, value)
    signs = width if isinstance(width, str) else ""
    wide = len(width) if isinstance(width, str) else max(0, width)
    lines = sum(map(text.count, "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")) + 2
    made = measure_made(len(text) + lines * wide, text, signs)
    # Its lines are held by themselves, with and without the indent, and so is what is made of them.
    context.meter.make(2 * (measure_text(text) + lines * VALUE_SIZE))
    context.meter.make(2 * made)
    return filters.do_indent(text, width, first, blank)


def _write_json(
    context: MeteredContext, value: Any, ensure_ascii: bool = False, *args: Any, **given: Any
) -> str:
    options = {**dict(zip(_JSON_OPTIONS, args, strict=False)), **given}
    indent, separators = options.get("indent"), options.get("separators")
    wide = len(indent) if isinstance(indent, str) else indent or 0
    between = sum(map(len, separators or ()))
    if max(wide, between) > _WIDEST_INDENT:
        raise LimitExceededError("the template asks for too wide a JSON")
    size = context.meter.weigh(value)
    # Each value weighs more than its commas, and is indented by how deep it lies.
    context.meter.make(size * (_ESCAPED + between // _POINTER + _DEEP_JSON * wide))
    return _dump_json(value, ensure_ascii=ensure_ascii, **options)


_JSON_OPTIONS = ("indent", "separators", "sort_keys")


def _dump_json(
    value: Any,
    *,
    ensure_ascii: bool,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _convert_string(context: MeteredContext, value: Any) -> str:
    return _read_text(context.meter, value)


def _mark_safe(context: MeteredContext, value: Any) -> Markup:
    return Markup(_copy_text(context, value, 1))  # noqa: S704 - a template says so, and nothing is HTML


def _escape_text(context: MeteredContext, value: Any) -> Markup:
    return escape(_copy_text(context, value, _ESCAPED))


def _trim_text(context: MeteredContext, value: Any, chars: str | None = None) -> str:
    meter = context.meter
    if type(value) is str and chars is None and len(value) <= SHORT_TEXT:
        meter.write(len(value))
        return value.strip()
    text = _read_text(meter, value)
    meter.make(_estimate_strip(text, chars))
    return text.strip(chars)


def _copy_text(context: MeteredContext, value: Any, grown: int) -> str:
    text = _read_text(context.meter, value)
    context.meter.make(grown * measure_text(text))
    return text


def _read_int(context: MeteredContext, value: Any, default: Any = 0, base: int = 10) -> Any:
    return filters.do_int(_check_number(context, value), default, base)


def _read_float(context: MeteredContext, value: Any, default: Any = 0.0) -> Any:
    return filters.do_float(_check_number(context, value), default)


def _check_number(_context: MeteredContext, value: Any) -> Any:
    if isinstance(value, str) and len(value) > _MAX_NUMBER_TEXT:
        raise LimitExceededError("the template reads too long a number")
    return value


def _round_number(
    _context: MeteredContext, value: Any, precision: int = 0, method: Any = "common"
) -> Any:
    if abs(precision) > _MOST_DIGITS:
        raise LimitExceededError("the template rounds to too many digits")
    return filters.do_round(value, precision, method)


def _list_items(context: MeteredContext, value: Any) -> list[Any]:
    return list_values(context.meter, value)


# -- formats --------------------------------------------------------------------------------------
def _format_value(context: MeteredContext, value: Any, *args: Any, **given: Any) -> str:
    text = _read_text(context.meter, value)
    return format_percent(context, text, given or args)


def format_percent(context: MeteredContext, text: str, values: Any, /) -> str:
    """Fill in what follows `%` in a text."""
    _check_format(text)
    fields = list(_list_percent_fields(text))
    if any(map(_WIDE.search, fields)):
        raise LimitExceededError("the template asks for too wide a field")
    _count_fields(context.meter, text, len(fields), values)
    made: str = text % values
    return made


def _list_percent_fields(text: str) -> Iterator[str]:
    """Yield flags, width and precision of each field, as Python reads them."""
    start = text.find("%")
    while start >= 0:
        end = start + 1
        if text[end : end + 1] == "(":
            end = _find_closing(text, end)
        field = _PERCENT_FIELD.match(text, end)
        end = field.end() if field else end
        yield field.group() if field else ""
        # The letter itself comes next; it may be another `%`.
        start = text.find("%", end + 1)


def _find_closing(text: str, start: int) -> int:
    """Return where the name of a field ends, which may hold parentheses."""
    depth = 0
    for found in _PARENTHESIS.finditer(text, start):
        depth += 1 if found.group() == "(" else -1
        if not depth:
            return found.end()
    return len(text)


def _check_format(text: str) -> None:
    if len(text) > _LONGEST_FORMAT:
        raise LimitExceededError("the template fills in too long a text")


def _count_fields(meter: Meter, text: str, fields: int, values: Any) -> None:
    widest = 10**_WIDEST_FIELD * (_WIDE_ENOUGH.search(text) is not None)
    size = _ESCAPED * meter.weigh(values)
    meter.make(measure_text(text) + fields * (size + widest))


_WIDE_ENOUGH = re.compile(r"[0-9]")


class _FieldFormatter(SandboxedFormatter):
    def format_field(self, value: Any, format_spec: str) -> Any:
        """Refuse fields that are too wide."""
        if _WIDE.search(format_spec):
            raise LimitExceededError("the template asks for too wide a field")
        return super().format_field(value, format_spec)


def _format_fields(
    context: MeteredContext, text: str, args: tuple[Any, ...], given: dict[str, Any]
) -> str:
    _check_format(text)
    _count_fields(context.meter, text, text.count("{"), (args, given))
    if isinstance(text, Markup):
        raise NotAllowedError("chat templates do not format text that is marked as safe")
    return _FieldFormatter(context.environment).vformat(text, args, given)


# -- by name --------------------------------------------------------------------------------------
_METERED_FILTERS: Mapping[str, Callable[..., Any]] = {
    **{
        name: _count_each(name)
        for name in ("items", "map", "reject", "rejectattr", "select", "selectattr", "unique")
    },
    **{name: _weigh_all(name) for name in ("dictsort", "max", "min", "sort")},
    **{name: _wrap_text(name, _estimate_case) for name in ("capitalize", "lower", "upper")},
    "title": _wrap_text("title", _estimate_title),
    "e": _escape_text,
    "escape": _escape_text,
    "float": _read_float,
    "format": _format_value,
    "indent": _indent_text,
    "int": _read_int,
    "join": _join_values,
    "list": _list_items,
    "replace": _replace_text,
    "reverse": _reverse_values,
    "round": _round_number,
    "safe": _mark_safe,
    "string": _convert_string,
    "sum": _sum_values,
    "tojson": _write_json,
    "trim": _trim_text,
}

_SHORT_FILTERS = ("abs", "count", "d", "default", "first", "last", "length")
"""They take a moment, whatever they are given."""

FILTERS: Mapping[str, Callable[..., Any]] = {
    **{name: JINJA_FILTERS[name] for name in _SHORT_FILTERS},
    # What needs no context is computed when the template is compiled.
    **{name: pass_context(function) for name, function in _METERED_FILTERS.items()},
}
"""Filters by name."""


_KNOWN_TESTS: Mapping[str, Any] = JINJA_TESTS


def _compare(name: str) -> Callable[..., Any]:
    inner = _KNOWN_TESTS[name]

    @pass_context
    def compare(context: MeteredContext, value: Any, *others: Any) -> Any:
        for one in (value, *others):
            context.meter.weigh(one)
        if name == "in" and others and isinstance(others[0], Iterator):
            others = (list_values(context.meter, others[0]),)
            context.meter.weigh(others)
        return inner(value, *others)

    return compare


_SHORT_TESTS = (
    *("boolean", "defined", "divisibleby", "even", "false", "float", "integer", "iterable"),
    *("mapping", "none", "number", "odd", "sameas", "sequence", "string", "true", "undefined"),
)
_COMPARING_TESTS = (
    *("!=", "<", "<=", "==", ">", ">=", "eq", "equalto", "ge", "greaterthan", "gt", "in"),
    *("le", "lessthan", "lower", "lt", "ne", "upper"),
)
TESTS: Mapping[str, Callable[..., Any]] = {
    **{name: _KNOWN_TESTS[name] for name in _SHORT_TESTS},
    **{name: _compare(name) for name in _COMPARING_TESTS},
}
"""Tests by name."""


def wrap_filter(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter that an application adds; what it is given and returns counts."""

    @pass_context
    def call_added(context: MeteredContext, *args: Any, **given: Any) -> Any:
        for one in (*args, *given.values()):
            context.meter.weigh(one)
        made = function(*args, **given)
        context.meter.make(context.meter.weigh(made))
        return made

    return call_added
