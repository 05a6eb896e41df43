"""The sandbox that chat templates run in, and what a template may use up.

The dialect is the one of Hugging Face: Jinja2 with trimmed blocks, loop controls, a `generation`
block that only marks what a model said, `tojson` without HTML escapes, and `raise_exception`.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, NoReturn

from jinja2 import TemplateError, TemplateSyntaxError, nodes, pass_context
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from langchain_convmem.errors import ChatTemplateError, ConfigError

TICK = "convmem_tick"


"""The filter that counts the rounds of loops and the calls of macros."""


_TICKS_BETWEEN = 256


_LONGEST_POWER_BITS = 65_536


_SHOWN_FILE = "<template>"


RAISED_BY_TEMPLATES = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    TemplateError,
    TypeError,
    ValueError,
)


"""What sandboxed code over plain values can raise."""


class LimitExceededError(TemplateError):
    """A template used up what it may use."""


@dataclass(frozen=True, kw_only=True)
class TemplateLimits:
    """What a template may use up. They stop accidents and simple attacks, not every attack.

    Memory within one expression is not limited: run a stranger's template in a process that is.

    Attributes:
        max_source: Characters of the template.
        max_output: Characters of a prompt, and of a text that `*` makes.
        max_seconds: Processor time of one rendering; waiting for other processes does not count.
    """

    max_source: int = 500_000
    max_output: int = 50_000_000
    max_seconds: float = 20.0

    def __post_init__(self) -> None:
        if min(self.max_source, self.max_output, self.max_seconds) <= 0:
            raise ConfigError(f"the limits of a template must be above zero, got {self}")


class _Clock(threading.local):
    """When the rendering of this thread has to end, in seconds of its processor time."""

    ticks = 0
    end = math.inf

    def tick(self) -> None:
        self.ticks += 1
        if not self.ticks % _TICKS_BETWEEN and time.thread_time() > self.end:
            raise LimitExceededError("the template ran for longer than it may")

    @contextmanager
    def running(self, seconds: float) -> Iterator[None]:
        self.end = time.thread_time() + seconds
        try:
            yield
        finally:
            self.end = math.inf


_CLOCK = _Clock()


@pass_context  # what needs no context is computed once, when the template is compiled
def _tick(_context: Context, _value: Any) -> None:
    _CLOCK.tick()


class _Generation(Extension):
    """`{% generation %}`: trainers ask which text is the model's; a prompt does not care."""

    tags = {"generation"}  # noqa: RUF012 - as the base class declares it

    def parse(self, parser: Parser) -> nodes.Node:
        """Return the block's contents, in a scope of their own."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body).set_lineno(line)


class Sandbox(ImmutableSandboxedEnvironment):
    """An environment that templates can neither leave nor change. Safe to share between threads."""

    intercepted_binops = frozenset({"*", "**"})

    def __init__(self, limits: TemplateLimits) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
        )
        self.limits = limits
        self.filters["tojson"] = _to_json
        self.filters[TICK] = _tick
        self.globals["raise_exception"] = _raise_exception

    def parsed(self, source: str) -> nodes.Template:
        """Return the syntax tree of a template; its loops and macros count their rounds."""
        tree = self.parse(source)
        repeated: list[nodes.For | nodes.Macro] = [*tree.find_all(nodes.For)]
        repeated += tree.find_all(nodes.Macro)
        for node in repeated:
            tick = nodes.ExprStmt(nodes.Filter(nodes.Const(None), TICK, [], [], None, None))
            tick.set_lineno(node.lineno).set_environment(self)
            node.body.insert(0, tick)
        return tree

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Multiply and raise to powers, within the limits."""
        if operator == "**":
            size = _power_bits(left, right)
            is_large = size > _LONGEST_POWER_BITS
        else:
            is_large = max(_copied(left, right), _copied(right, left)) > self.limits.max_output
        if is_large:
            raise LimitExceededError(f"the template makes too large a value with {operator!r}")
        return super().call_binop(context, operator, left, right)


def _copied(items: Any, times: Any) -> int:
    if isinstance(items, str | list | tuple) and isinstance(times, int):
        return len(items) * times
    return 0


def _power_bits(base: Any, exponent: Any) -> int:
    if isinstance(base, int) and isinstance(exponent, int):
        return base.bit_length() * exponent
    return 0


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise_exception(message: Any) -> NoReturn:
    raise TemplateError(str(message))


def strftime_at(moment: datetime) -> Callable[[str], str]:
    """Return the template function `strftime_now` for a moment that stands still."""

    def strftime_now(form: str) -> str:
        return moment.strftime(form)

    return strftime_now


def joined(pieces: Iterable[str], limits: TemplateLimits) -> str:
    """Return what a template writes as one text.

    Raises:
        LimitExceededError: If it becomes too long, or takes too long.
    """
    written: list[str] = []
    length = 0
    with _CLOCK.running(limits.max_seconds):
        for piece in pieces:
            written.append(piece)
            length += len(piece)
            if length > limits.max_output:
                raise LimitExceededError(
                    f"the template writes more than {limits.max_output} characters"
                )
    return "".join(written)


# -- what a template raises -----------------------------------------------------------------------
@contextmanager
def template_errors(name: str) -> Iterator[None]:
    """Turn whatever a template raises into an error of ours; the template's own words are kept."""
    try:
        yield
    except ChatTemplateError:
        raise  # it says all that already
    except RAISED_BY_TEMPLATES as error:
        reason = str(error.message if isinstance(error, TemplateError) else error)
        line = _line_of(error)
        kind = _kind_of(error)
        is_syntax = isinstance(error, TemplateSyntaxError)
        what = "is no valid template" if is_syntax else "cannot render these messages"
        place = f", line {line}" if line else ""
        raise ChatTemplateError(
            f"{name}{place} {what}: {reason} ({kind})", reason=reason, kind=kind, line=line
        ) from error


def _kind_of(error: BaseException) -> str:
    return "LimitExceeded" if isinstance(error, LimitExceededError) else type(error).__name__


def _line_of(error: BaseException) -> int:
    """Return the line of the template that an error came from, 0 if it is not known."""
    if isinstance(error, TemplateSyntaxError):
        return error.lineno
    line = 0
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == _SHOWN_FILE:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
