"""What a template may use up, and what one rendering has used up so far."""

from __future__ import annotations

import time
from collections.abc import ItemsView, Iterable, Iterator, KeysView, ValuesView
from dataclasses import astuple, dataclass, replace
from typing import Any

from jinja2 import TemplateError
from jinja2.exceptions import SecurityError
from jinja2.utils import Namespace

from langchain_convmem.errors import ConfigError

MAX_INTEGER_BITS = 65_536
"""The largest whole number that a template may make; the next operation on it stays short."""

VALUE_SIZE = 64
"""What any value weighs, besides its text: about the bytes that Python needs for it."""

SHORT_TEXT = 1_024
"""Characters of texts that count as wide without a look at what they hold."""

WIDEST_CHARACTER = 4
"""Bytes of a character at most: a single wide one makes all of its text as wide."""

_STEPS_BETWEEN = 512
_MADE_BETWEEN = 1_000_000
_LARGE = 65_536
_SIZE_OF_A_STEP = 64
_SECONDS_OF_A_BYTE = 5e-9
_SMALL = frozenset({bool, float, type(None)})


class LimitExceededError(TemplateError):
    """A template used up what it may use."""


class NotAllowedError(SecurityError):
    """A template uses what chat templates do not need."""


@dataclass(frozen=True, kw_only=True)
class TemplateLimits:
    """What a template may use up; counted before each step, so that no single one runs away.

    Sizes are bytes, about: a character counts one, four in a text that is short or not ASCII, and
    every value 64 besides. What is written counts twice: by itself, and in the text that it
    becomes part of, since both are held for a moment.

    Attributes:
        max_source: Characters of the template.
        max_tokens: Names, signs and texts that the template consists of; they decide how long
            it takes to compile.
        max_output: Characters of a prompt.
        max_value: Size of any one value, with all that it holds.
        max_memory: Size of all values that one rendering makes, those that it drops included: it
            never holds more.
        max_steps: Operations of one rendering; one on a large value counts once for 64 bytes.
        max_depth: How deep macros, recursive loops, and tags in the template may be nested.
        max_seconds: Processor time of one rendering, or of compiling; waiting for other processes
            does not count.
    """

    max_source: int = 500_000
    max_tokens: int = 50_000
    max_output: int = 50_000_000
    max_value: int = 50_000_000
    max_memory: int = 500_000_000
    max_steps: int = 50_000_000
    max_depth: int = 100
    max_seconds: float = 20.0

    def __post_init__(self) -> None:
        if min(astuple(self)) <= 0:
            raise ConfigError(f"the limits of a template must be above zero, got {self}")

    def share(self, parts: int) -> TemplateLimits:
        """Return the limits of something that takes one of so many parts of time and memory."""
        memory = max(1, self.max_memory // parts)
        return replace(self, max_memory=memory, max_seconds=self.max_seconds / parts)


class Readable:
    """Base of objects of ours whose public attributes a template may read."""

    __slots__ = ()

    def list_items(self) -> list[Any]:
        """Return what its text shows; nothing by default."""
        return []


class Meter:
    """What one rendering has used up. Not thread-safe: a rendering runs in one thread.

    Attributes:
        limits: What it may use up.
        steps: Operations so far.
        due: At how many of them limits are looked at again.
        made: Size of all values so far.
        made_due: At what size of them limits are looked at again.
        depth: Macros and recursive loops that are running within each other.
    """

    __slots__ = ("_end", "_large", "depth", "due", "limits", "made", "made_due", "steps")

    def __init__(self, limits: TemplateLimits) -> None:
        self.limits = limits
        self.steps = self.made = self.depth = 0
        self._large = min(_LARGE, limits.max_value)
        self._end = time.thread_time() + limits.max_seconds
        self.due = self.made_due = 0
        self._plan_checks()

    def step(self, steps: int) -> None:
        """Count operations.

        Raises:
            LimitExceededError: If there were too many, or they took too long.
        """
        self.steps += steps
        if self.steps >= self.due:
            self._check(steps * _SIZE_OF_A_STEP)

    def read(self, size: int) -> None:
        """Count an operation that reads values of a size."""
        self.step(1 + size // _SIZE_OF_A_STEP)

    def make(self, size: int) -> None:
        """Count a value before it is made; `size` is without what any value weighs.

        Raises:
            LimitExceededError: If it, or all of them, are too large.
        """
        self.made += VALUE_SIZE + size
        if size > self._large or self.made >= self.made_due:
            if size > self.limits.max_value:
                raise LimitExceededError(
                    f"the template makes a value larger than {self.limits.max_value} bytes"
                )
            self._check(size)

    def write(self, length: int) -> None:
        """Count a text of so many characters that becomes part of a longer one."""
        self.made += VALUE_SIZE + WIDEST_CHARACTER * length
        if self.made >= self.made_due:
            self._check(length)

    def weigh(self, value: Any) -> int:
        """Return the size of a value with all that it holds, and count reading it."""
        kind = type(value)
        if kind in _SMALL:
            return VALUE_SIZE
        if kind is str:
            size = VALUE_SIZE + measure_text(value)
        else:
            size = measure(value, self.limits.max_value)
        self.read(size)
        return size

    def enter(self) -> None:
        """Count a macro or a recursive loop that runs within others, until `leave`."""
        if self.depth >= self.limits.max_depth:
            raise LimitExceededError(
                f"macros and loops of the template call each other deeper than "
                f"{self.limits.max_depth} times"
            )
        self.depth += 1

    def leave(self) -> None:
        """End what `enter` began."""
        self.depth -= 1

    def join(self, pieces: Iterable[str]) -> str:
        """Return what a template writes as one text.

        Raises:
            LimitExceededError: If it becomes too long, or too large.
        """
        written: list[str] = []
        length = 0
        for piece in pieces:
            written.append(piece)
            length += len(piece)
            if length > self.limits.max_output:
                raise LimitExceededError(
                    f"the template writes more than {self.limits.max_output} characters"
                )
        size = measure_made(length, *written)
        self.made += size
        if size > self._large or self.made >= self.made_due:
            self._check(size)
        return "".join(written)

    def check_time(self, size: int = 0) -> None:
        """Raise `LimitExceededError` if no time is left for a value of a size."""
        if time.thread_time() + size * _SECONDS_OF_A_BYTE > self._end:
            raise LimitExceededError("the template ran for longer than it may")

    def _check(self, size: int) -> None:
        if self.steps > self.limits.max_steps:
            raise LimitExceededError(f"the template takes more than {self.limits.max_steps} steps")
        if self.made > self.limits.max_memory:
            raise LimitExceededError(
                f"the template makes values of more than {self.limits.max_memory} bytes"
            )
        self.check_time(size)
        self._plan_checks()

    def _plan_checks(self) -> None:
        self.due = min(self.steps + _STEPS_BETWEEN, self.limits.max_steps + 1)
        self.made_due = min(self.made + _MADE_BETWEEN, self.limits.max_memory + 1)


def measure_text(text: str) -> int:
    """Return the size of a text, without what any value weighs."""
    return len(text) if text.isascii() else WIDEST_CHARACTER * len(text)


def measure_made(length: int, *texts: str) -> int:
    """Return the size of a text of so many characters that is made of others.

    A single wide character makes all of them as wide.
    """
    return length if all(map(str.isascii, texts)) else WIDEST_CHARACTER * length


def measure(value: Any, most: int) -> int:
    """Return the size of a value with all that it holds, as often as it holds it.

    A list that holds another one twice is as large as its text is long: sixty such steps make a
    text that never ends. Nothing is visited after the size exceeds `most`.

    Raises:
        LimitExceededError: If it is larger than `most`.
    """
    size = 0
    waiting = [value]
    while waiting:
        item = waiting.pop()
        size += VALUE_SIZE
        if isinstance(item, str):
            size += measure_text(item)
        elif isinstance(item, int):
            size += item.bit_length() // 8
        else:
            parts = _list_parts(item)
            # Counted before they are visited: the list of what waits is bounded as well.
            if size + VALUE_SIZE * len(parts) <= most:
                waiting += parts
            else:
                size += VALUE_SIZE * len(parts)
        if size > most:
            raise LimitExceededError(f"the template makes a value larger than {most} bytes")
    return size


def _list_parts(item: Any) -> list[Any] | tuple[Any, ...] | range:
    if isinstance(item, list | tuple | range):
        return item
    if isinstance(item, dict):
        return [*item, *item.values()]
    if isinstance(item, KeysView | ValuesView | ItemsView):
        return list(item)
    if isinstance(item, Namespace):
        return _list_parts(get_attributes(item))
    return item.list_items() if isinstance(item, Readable) else ()


def get_attributes(namespace: Namespace) -> dict[str, Any]:
    """Return what a template has put into a namespace; changes of it are the namespace's."""
    found: dict[str, Any] = object.__getattribute__(namespace, "_Namespace__attrs")
    return found


def check_integer(value: Any) -> Any:
    """Return a value.

    Raises:
        LimitExceededError: If it is a whole number that is too large.
    """
    if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
        raise LimitExceededError("the template makes too large a number")
    return value


def check_key(value: Any) -> Any:
    """Return a key of a map.

    Raises:
        LimitExceededError: If it is a tuple that holds others: finding it may take for ever.
    """
    if type(value) is tuple and any(type(item) is tuple for item in value):
        raise LimitExceededError("a key of a map is a tuple that holds others")
    return value


class CountedValues(Iterator[Any]):
    """What a filter such as `map` writes one by one; each value is a step.

    Attributes:
        depth: How many such filters read from each other.
    """

    __slots__ = ("_meter", "_values", "depth")

    def __init__(self, meter: Meter, values: Iterable[Any], source: Any = None) -> None:
        """Count values.

        Args:
            meter: Where they count.
            values: The values.
            source: What they are made of.

        Raises:
            LimitExceededError: If too many filters read from each other.
        """
        self.depth: int = source.depth + 1 if isinstance(source, CountedValues) else 0
        if self.depth > meter.limits.max_depth:
            raise LimitExceededError("too many filters of the template read from each other")
        self._meter = meter
        self._values = iter(values)

    def __next__(self) -> Any:
        self._meter.step(1)
        self._meter.make(0)
        return next(self._values)
