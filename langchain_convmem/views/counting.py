"""What counts tokens: the estimate of this package, a counter of the application, or a model's.

One counter serves every place that counts: contexts, recalled lines, marks, lists of details, tool
results. The estimate is calibrated by the usage that providers report, for each model and script.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias

from langchain_core.language_models import BaseLanguageModel
from langchain_core.messages import BaseMessage, HumanMessage, MessageLikeRepresentation

from langchain_convmem.causes import describe_value
from langchain_convmem.errors import ConfigError
from langchain_convmem.forks import make_lock
from langchain_convmem.views.messages import (
    TOKENS_PER_MESSAGE,
    TextCounter,
    TokenCounter,
    count_tokens,
    list_counted,
)
from langchain_convmem.views.tokens import Script, count_text_tokens, round_up, weigh_text

TokenCounterLike: TypeAlias = TokenCounter | BaseLanguageModel[Any] | Literal["auto"]
"""What may count: a function of messages, a model that counts for itself, or `"auto"`, which is the
estimate of this package, calibrated."""

_CHARACTERS_PER_TOKEN = 16
"""No token of a budget holds more characters than this on average."""


def read_counter(value: TokenCounterLike | None) -> TokenCounter | None:
    """Return what counts messages; None for the calibrated estimate.

    Raises:
        ConfigError: If it can count nothing.
    """
    if value is None or (isinstance(value, str) and value == "auto"):
        return None
    if isinstance(value, BaseLanguageModel):
        return CheckedCounter(value.get_num_tokens_from_messages)
    if callable(value) and not isinstance(value, type):
        return CheckedCounter(value)
    msg = (
        "token_counter must be a function of messages, a model that counts tokens, or None, "
        f"got {describe_value(value)}"
    )
    raise ConfigError(msg)


@dataclass(frozen=True, slots=True)
class CheckedCounter:
    """A counter of the application, whose answers are numbers. Thread-safe as the function is."""

    function: Any

    def __call__(self, messages: Sequence[BaseMessage]) -> int:
        """Return the tokens of messages.

        Raises:
            ConfigError: If the function returns anything but a whole number from 0 on.
        """
        plain = list(messages)
        if not plain:
            return 0
        count = self.function(plain)
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            msg = (
                "token_counter must return a whole number of tokens from 0 on, got "
                f"{describe_value(count)}"
            )
            raise ConfigError(msg)
        return count


def get_text_counter(counter: TokenCounter) -> TextCounter:
    """Return what counts texts as a counter counts messages.

    One that knows messages alone counts a text as what a user says, the frame included.
    """
    if counter is count_tokens:
        return count_text_tokens
    if isinstance(counter, CalibratedCounter | CurrentCounter):
        return counter.count_text
    return partial(_count_as_message, counter)


def _count_as_message(counter: TokenCounter, text: str) -> int:
    return counter([HumanMessage(text)]) if text else 0


def find_prefix(text: str, room: int, count: TextCounter) -> int:
    """Return how many of the first characters of a text fit into so many tokens; 0 if none do."""
    return _find_most(text, room, lambda most: count(text[:most]))


def find_suffix(text: str, room: int, count: TextCounter) -> int:
    """Return how many of the last characters of a text fit into so many tokens; 0 if none do."""
    return _find_most(text, room, lambda most: count(text[len(text) - most :]))


def _find_most(text: str, room: int, count: Callable[[int], int]) -> int:
    low, high = 0, min(len(text), max(room, 0) * _CHARACTERS_PER_TOKEN)
    while low < high:
        middle = (low + high + 1) // 2
        if count(middle) <= room:
            low = middle
        else:
            high = middle - 1
    return low


# -- The estimate, calibrated ---------------------------------------------------------------------
_LEAST_RATIO, _MOST_RATIO = 0.12, 3.0
_STEP = 1.05
"""Ratios are rounded up to powers of this: what a model reads must not change with every reply."""
_SAFETY = 1.02
_LEARN_DOWN = 0.25
"""How much of a difference is learned from one reply that took less; one that took more counts in
full at once."""
_LEAST_SAMPLE = 200
"""Shorter requests tell more of what stands around the messages than of these."""


@dataclass(frozen=True, slots=True)
class CalibratedCounter:
    """The estimate of this package, by what a model was seen to take. Thread-safe.

    Attributes:
        ratios: By script, real tokens for one that is estimated; 1 for those that are not here.
    """

    ratios: Mapping[Script, float]

    def __call__(self, messages: Iterable[MessageLikeRepresentation]) -> int:
        """Return about how many tokens messages take."""
        return count_tokens(messages, self.count_text)

    def count_text(self, text: str) -> int:
        """Return about how many tokens a text takes."""
        ratios = self.ratios
        weights = weigh_text(text).items()
        return round_up(sum(weight * ratios.get(script, 1.0) for script, weight in weights))


@dataclass(slots=True)
class _Learned:
    """What was learned of one model."""

    ratios: dict[Script, float] = field(default_factory=dict)
    counter: TokenCounter = count_tokens


class TokenCounters:
    """The counters of a memory, by model. Thread-safe; kept per process.

    The estimate learns from reported usage how many tokens models take; a counter of the
    application counts as it does.

    A reply that took more than was estimated counts in full at once, one that took less little by
    little; so does an error of the provider's. Numbers that cannot be true are not believed.
    """

    def __init__(self, given: TokenCounter | None = None) -> None:
        """Start with nothing learned.

        Args:
            given: A counter of the application, for all models; None is the estimate.
        """
        self._given = given
        self._lock = make_lock()
        self._models: dict[str, _Learned] = {}
        # Asked for each text of a recall: no lock for that.
        self._of_any = count_tokens if given is None else given

    def get_counter(self, model: str | None = None) -> TokenCounter:
        """Return the counter for a model.

        Args:
            model: Its name. None: not known; where all that was learned is of one model, it is
                taken for that.
        """
        if self._given is not None or model is None:
            return self._of_any
        with self._lock:
            known = self._models.get(model)
            return count_tokens if known is None else known.counter

    def learn(
        self, model: str, messages: Sequence[BaseMessage], tokens: Any, tools: Any = None
    ) -> bool:
        """Take in what a model reported for messages that it got; return whether it was believed.

        Args:
            model: The model's name.
            messages: All that it got.
            tokens: The input tokens that it reported.
            tools: Descriptions of tools that it got beside them, plain values.
        """
        if self._given is not None:
            return False
        weights, frame = _weigh_request(messages, tools)
        total = sum(weights.values())
        if not _is_credible(tokens, total, frame):
            return False
        with self._lock:
            learned = self._models.setdefault(model, _Learned())
            learned.ratios = _learn_ratios(learned.ratios, weights, tokens - frame)
            learned.counter = _make_counter(learned.ratios)
            self._of_any = learned.counter if len(self._models) == 1 else count_tokens
        return True


@dataclass(frozen=True, slots=True)
class CurrentCounter:
    """The counter as it is calibrated by now, for what outlives a turn. Thread-safe."""

    counters: TokenCounters

    def __call__(self, messages: Sequence[BaseMessage]) -> int:
        """Return about how many tokens messages take."""
        return self.counters.get_counter()(messages)

    def count_text(self, text: str) -> int:
        """Return about how many tokens a text takes."""
        return get_text_counter(self.counters.get_counter())(text)


def _weigh_request(messages: Sequence[BaseMessage], tools: Any) -> tuple[dict[Script, float], int]:
    """Return the tokens of what was sent by script, and what stands around the messages.

    Nothing is returned of messages with media, which nobody can price here.
    """
    texts = [json.dumps(tools, default=str, ensure_ascii=False)] if tools else []
    for message in messages:
        own, media = list_counted(message)
        if media:
            return {}, 0
        texts += own
    weights: dict[Script, float] = {}
    for text in texts:
        for script, weight in weigh_text(text).items():
            weights[script] = weights.get(script, 0.0) + weight
    return weights, TOKENS_PER_MESSAGE * len(messages)


def _is_credible(tokens: Any, estimated: float, frame: int) -> bool:
    if isinstance(tokens, bool) or not isinstance(tokens, int) or estimated < _LEAST_SAMPLE:
        return False
    return _LEAST_RATIO <= (tokens - frame) / estimated <= _MOST_RATIO


def _learn_ratios(
    before: Mapping[Script, float], weights: Mapping[Script, float], tokens: float
) -> dict[Script, float]:
    """Return ratios that come nearer to what was reported, those of large parts most."""
    error = tokens - sum(before.get(one, 1.0) * weight for one, weight in weights.items())
    rate = error if error > 0 else error * _LEARN_DOWN
    power = sum(weight * weight for weight in weights.values())
    after = dict(before)
    for script, weight in weights.items():
        ratio = before.get(script, 1.0) + rate * weight / power
        after[script] = min(max(ratio, _LEAST_RATIO), _MOST_RATIO)
    return after


def _make_counter(ratios: Mapping[Script, float]) -> TokenCounter:
    """Return the counter with ratios rounded up; the plain estimate where they change nothing."""
    rounded = {script: _round_ratio(ratio) for script, ratio in ratios.items()}
    changed: dict[Script, float] = {one: ratio for one, ratio in rounded.items() if ratio != 1.0}
    return CalibratedCounter(changed) if changed else count_tokens


def _round_ratio(ratio: float) -> float:
    """Return a ratio as it is used: with a margin, up to the next step; near 1 it is 1."""
    if 1 / _STEP < ratio < _SAFETY:
        return 1.0
    return min(_STEP ** math.ceil(math.log(ratio * _SAFETY, _STEP)), _MOST_RATIO)
