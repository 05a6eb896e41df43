"""Which speakers a question names, and the question without their names. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from langchain_convmem.recall.words.analysis import is_stop_word
from langchain_convmem.views.lines import DEFAULT_SPEAKERS

__all__ = ["named_speakers", "without_names"]

_WORD_SIGN = re.compile(r"\w")
_ROLES = frozenset(DEFAULT_SPEAKERS.values())


def named_speakers(text: str, speakers: Sequence[str]) -> list[int]:
    """Return which speakers (by index) the text names, whole or by the first part of the name.

    The labels of speakers without a name, `User` and `Assistant`, are words like any other.
    """
    return list(_named(text, tuple(speakers)))


@lru_cache(maxsize=16)
def _named(text: str, speakers: tuple[str, ...]) -> tuple[int, ...]:
    # Kept for a moment: one recall asks when it embeds the question and when it ranks.
    return tuple(
        n
        for n, speaker in enumerate(speakers)
        if speaker not in _ROLES and _name_pattern(speaker).search(text)
    )


def without_names(text: str, speakers: Sequence[str]) -> str:
    """Return the text without the names of speakers; unchanged if nothing else would be left."""
    bare = text
    for number in named_speakers(text, speakers):
        bare = _name_pattern(speakers[number]).sub(" ", bare)
    bare = " ".join(bare.split())
    return bare if _WORD_SIGN.search(bare) else text


@lru_cache(maxsize=1024)
def _name_pattern(speaker: str) -> re.Pattern[str]:
    whole, first = speaker.strip(), (speaker.split() or [""])[0]
    names = {whole} if is_stop_word(first) else {whole, first}
    # "Will" and "May" are names only where they are written as such.
    parts = [
        re.escape(name) if is_stop_word(name) else f"(?i:{re.escape(name)})"
        for name in sorted(names - {""}, key=len, reverse=True)
    ]
    # A speaker without a name matches nothing.
    return re.compile(rf"(?<!\w)(?:{'|'.join(parts) or '(?!)'})(?:['\u2019]s)?(?!\w)")
