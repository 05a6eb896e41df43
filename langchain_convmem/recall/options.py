"""What a call of a recall may ask for: its options, and the wish they make once checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, TypedDict

from langchain_convmem.errors import ConfigError
from langchain_convmem.recall.answer import Wish
from langchain_convmem.recall.settings import RecallSettings
from langchain_convmem.records import Owner, ThreadKey

__all__ = ["RecallOptions", "check_scope", "checked_wish", "limits"]


class RecallOptions(TypedDict, total=False):
    """The keywords of `LineRecall.recall`; each may be left out.

    Attributes:
        k: Exactly so many blocks, as long as there are lines enough to be hits.
        max_tokens: Budget of all blocks, 4 characters of text each, headers included. With `k`:
            at most so many blocks. Neither: what the settings say, else 1000.
        threshold: Least cosine similarity of a hit, from -1 to 1; "auto": every line may be one,
            but nothing is found where the question is not related to anything; None: what the
            settings say.
        within: Only this thread of the owner.
        exclude: Positions of entries, by thread, that must not come back, such as those a model
            already sees.
        ranking: How many matches to report, whether selected or not; 20 by default.
        buffer: The thread of the owner whose relevance buffer takes in what is found; it comes back
            in `Recall.buffer`. None, or settings whose `buffer_size` is 0: no buffer.
        remember: Whether the buffer is written; what comes back is the same.
        settings: Instead of the recall's own. Those of building (`exact_limit`) do not change.
    """

    k: int | None
    max_tokens: int | None
    threshold: float | Literal["auto"] | None
    within: ThreadKey | None
    exclude: Mapping[ThreadKey, Collection[int]] | None
    ranking: int
    buffer: ThreadKey | None
    remember: bool
    settings: RecallSettings | None


def checked_wish(
    query: str,
    *,
    k: int | None,
    max_tokens: int | None,
    threshold: float | Literal["auto"] | None,
    ranking: int,
    settings: RecallSettings,
) -> Wish:
    """Return what a caller wants back.

    Raises:
        ConfigError: If an argument makes no sense; the message names it.
    """
    if not isinstance(query, str) or not query.strip():
        msg = f"query must be a text that is not blank, got {query!r}"
        raise ConfigError(msg)
    _check_count("k", k, least=1)
    _check_count("max_tokens", max_tokens, least=1)
    _check_count("ranking", ranking, least=0)
    k, max_tokens = limits(k, max_tokens, settings)
    if threshold is None:
        threshold = settings.threshold
    _check_threshold(threshold)
    return Wish(query, k, max_tokens, threshold, ranking, settings)


def limits(
    k: int | None, max_tokens: int | None, settings: RecallSettings
) -> tuple[int | None, int | None]:
    """Return how many blocks and how many tokens, where a call may name neither."""
    if k is None and max_tokens is None:
        k, max_tokens = settings.k, settings.max_tokens
    if k is None and max_tokens is None:
        max_tokens = 1000
    return k, max_tokens


def _check_count(name: str, value: int | None, *, least: int) -> None:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        msg = f"{name} must be a whole number of at least {least}, got {value!r}"
        raise ConfigError(msg)


def _check_threshold(value: float | Literal["auto"] | None) -> None:
    if value is None or value == "auto":
        return
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not -1 <= value <= 1:
        msg = f'threshold must be None, "auto" or a cosine from -1 to 1, got {value!r}'
        raise ConfigError(msg)


def check_scope(owner: Owner, within: ThreadKey | None, name: str = "within") -> None:
    """Refuse a thread that is none of the owner's.

    Raises:
        ConfigError: If it is not.
    """
    if within is None:
        return
    if not isinstance(within, ThreadKey) or within.owner != owner:
        msg = f"{name} must be a thread of the owner {owner!r}, got {within!r}"
        raise ConfigError(msg)
