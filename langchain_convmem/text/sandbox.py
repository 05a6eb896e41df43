"""The sandbox that chat templates run in, and what a template may use up.

The dialect is the one of Hugging Face: Jinja2 with trimmed blocks, loop controls, a `generation`
block that only marks what a model said, `tojson` without HTML escapes, and `raise_exception`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from types import TracebackType
from typing import Any

from jinja2 import (
    Template,
    TemplateError,
    TemplateSyntaxError,
    Undefined,
    nodes,
)
from jinja2.ext import Extension, loopcontrols
from jinja2.lexer import Token, TokenStream
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Cycler, Namespace

from langchain_convmem.errors import ChatTemplateError, ConfigError
from langchain_convmem.text.allowed import (
    FILTERS,
    FUNCTIONS,
    TESTS,
    MeteredContext,
    call_value,
    describe,
    is_method,
    wrap_filter,
)
from langchain_convmem.text.meter import (
    LimitExceededError,
    Meter,
    NotAllowedError,
    Readable,
    TemplateLimits,
    check_key,
)
from langchain_convmem.text.metered import OPERATIONS, is_operation, rewrite_tree

_LONGEST_REASON = 2_000
_TOKENS_BETWEEN = 256
_MAP_NAMES = frozenset(dir(dict))
_OPEN = (Cycler, LoopContext, Macro, Namespace, Readable, Undefined)
_SAFE = (LoopContext, Readable)
"""What has no public attribute that a template may not read, and no methods of text."""

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


class Sandbox(ImmutableSandboxedEnvironment):
    """An environment that templates can neither leave, change nor exhaust.

    Safe to share between threads: what a rendering uses up is counted at its own meter.
    """

    context_class = MeteredContext

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
        _check_names([*(filters or ()), *(functions or ())])
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_Generation, _TokenCount, loopcontrols],
        )
        self.limits = limits
        added = {name: wrap_filter(function) for name, function in (filters or {}).items()}
        self._names = {**FILTERS, **added}
        self.filters.clear()
        self.filters.update({**self._names, **OPERATIONS})
        self.tests.clear()
        self.tests.update(TESTS)
        self.globals.clear()
        self.globals.update(
            {**FUNCTIONS, **{n: _wrap_function(f) for n, f in (functions or {}).items()}}
        )

    def compile_metered(self, tree: nodes.Template) -> Template:
        """Return the template of a syntax tree, which is changed; each of its operations counts.

        Raises:
            TemplateError: If the template uses what it may not, or is nested too deep.
        """
        rewrite_tree(tree, self.limits, self._names)
        tree.set_environment(self)
        return self.from_string(tree)

    def open_context(
        self, template: Template, variables: Mapping[str, Any], meter: Meter | None = None
    ) -> MeteredContext:
        """Return what a template reads, with a meter; a new one by default."""
        context = template.new_context(dict(variables))
        assert isinstance(context, MeteredContext)  # noqa: S101 - for mypy: `context_class`
        context.meter = meter or Meter(self.limits)
        return context

    def render(
        self, template: Template, variables: Mapping[str, Any], meter: Meter | None = None
    ) -> str:
        """Return what a template writes.

        Args:
            template: The template.
            variables: What it reads.
            meter: Where it counts; a new one by default.

        Raises:
            LimitExceededError: If it uses up more than it may.
        """
        context = self.open_context(template, variables, meter)
        try:
            return context.meter.join(template.root_render_func(context))
        finally:
            release_values(context)

    # -- what a template reads --------------------------------------------------------------------
    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return what a value holds under a name, or a method that a template may call."""
        kind: type[Any] = type(obj)
        if kind is dict and attribute not in _MAP_NAMES:
            found = attribute in obj
            return obj[attribute] if found else self.undefined(obj=obj, name=attribute)
        if isinstance(obj, _SAFE) and attribute in _list_public(kind):  # type: ignore[arg-type]
            return getattr(obj, attribute)
        if isinstance(obj, _OPEN):
            return super().getattr(obj, attribute)
        if is_method(kind, attribute):
            return getattr(obj, attribute)
        if hasattr(obj, attribute):
            return self.unsafe_undefined(obj, attribute)
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Return the part of a value that a key or a number names."""
        try:
            return obj[argument if type(argument) is str else check_key(argument)]
        except (TypeError, LookupError):
            if isinstance(argument, str) and not isinstance(obj, Namespace):
                return self._read_attribute(obj, argument)
        return self.undefined(obj=obj, name=argument)

    def _read_attribute(self, obj: Any, name: str) -> Any:
        # As plain Jinja does: a name that is no key may be an attribute.
        if isinstance(obj, _OPEN):
            return super().getitem(obj, name)
        if is_method(type(obj), name):
            return getattr(obj, name)
        if hasattr(obj, name):
            return self.unsafe_undefined(obj, name)
        return self.undefined(obj=obj, name=name)

    def unsafe_undefined(self, obj: Any, attribute: str) -> Undefined:
        """Return what raises as soon as it is used; it is written as nothing."""
        if attribute.startswith("_") or not self.is_safe_attribute(obj, attribute, None):
            return super().unsafe_undefined(obj, attribute)
        kind = type(obj).__name__
        return self.undefined(
            describe("method", f"{kind}.{attribute}"), obj, attribute, NotAllowedError
        )

    # -- what a template calls --------------------------------------------------------------------
    def call(self, __context: Context, __obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call what `{% call %}` names."""
        assert isinstance(__context, MeteredContext)  # noqa: S101 - see `context_class`
        for name in ("_loop_vars", "_block_vars"):
            kwargs.pop(name, None)
        return call_value(__context, __obj, *args, **kwargs)

    def call_filter(self, name: str, *args: Any, **options: Any) -> Any:
        """Apply a filter that `map` names."""
        if is_operation(name) or name not in self.filters:
            raise NotAllowedError(describe("filter", name))
        return super().call_filter(name, *args, **options)

    def call_test(self, name: str, *args: Any, **options: Any) -> Any:
        """Ask a test that `select` names."""
        if name not in self.tests:
            raise NotAllowedError(describe("test", name))
        return super().call_test(name, *args, **options)


@cache
def _list_public(kind: type) -> frozenset[str]:
    return frozenset(name for name in dir(kind) if not name.startswith("_"))


def release_values(context: Context) -> None:
    """Let go of what a rendering made.

    A macro holds its context, which holds the macro: large values of the last renderings would stay
    until Python looks for such circles.
    """
    for value in context.vars.values():
        if isinstance(value, Macro):
            vars(value).clear()
    context.vars.clear()
    context.parent.clear()


def _wrap_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of an application as a plain one; only these may be called."""

    def call_added(*args: Any, **given: Any) -> Any:
        return function(*args, **given)

    return call_added


def _check_names(names: Sequence[str]) -> None:
    wrong = [name for name in names if not name.isidentifier()]
    if wrong:
        raise ConfigError(f"a template cannot write the names {wrong}")


class _Generation(Extension):
    """`{% generation %}`: trainers ask which text is the model's; a prompt does not care."""

    tags = {"generation"}  # noqa: RUF012 - as the base class declares it

    def parse(self, parser: Parser) -> nodes.Node:
        """Return the block's contents, in a scope of their own."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body).set_lineno(line)


class _TokenCount(Extension):
    """Stops reading a template that would take too long to compile."""

    environment: Sandbox

    def filter_stream(self, stream: TokenStream) -> Iterable[Token]:
        """Yield the tokens of a template."""
        limits = self.environment.limits
        end = time.thread_time() + limits.max_seconds
        for number, token in enumerate(stream):
            if number >= limits.max_tokens:
                raise LimitExceededError(f"it has more than {limits.max_tokens} names and signs")
            if not number % _TOKENS_BETWEEN and time.thread_time() > end:
                raise LimitExceededError("it takes longer to read than it may")
            yield token


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
    if isinstance(error, NotAllowedError):
        return "NotAllowed"
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
