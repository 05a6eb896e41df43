"""The parts of a ranking, and the settings that switch each of them off."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from langchain_convmem.recall import RecallSettings

__all__ = ["PARTS", "RANKERS", "settings_without"]

PARTS: dict[str, dict[str, Any]] = {
    "dense": {"dense_weight": 0.0},
    "lexical": {"lexical_weight": 0.0},
    "smoothing": {"kernel": (1.0,)},
    "kinds": {"kind_weight": 0.0},
    "speaker bonus": {"speaker_bonus": 0.0},
    "who is meant": {"person_bonus": 0.0},
    "meaning first": {"meaning_first": False},
    "latest first": {"latest_first": False},
    "repeats": {"skip_repeats": False},
    "session prior": {"session_prior": 0.0},
    "dates": {"date_bonus": 0.0},
    "age in header": {"age_in_header": False},
}
"""By part the fields of `RecallSettings` that leave it out; every ablation goes by this table."""

RANKERS = ("dense", "lexical")
"""The parts that can rank by themselves; the others change a ranking."""


def settings_without(*parts: str) -> RecallSettings:
    """Return the default settings without some parts."""
    off: dict[str, Any] = {}
    for part in parts:
        off |= PARTS[part]
    return replace(RecallSettings(), **off)
