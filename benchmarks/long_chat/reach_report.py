"""The figures of what stays within reach, as JSON and as a table."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Sequence
from statistics import mean
from typing import Any

from benchmarks.long_chat.reach import SETTINGS, Asked, Reach

__all__ = ["reported", "table"]

_REACHED = 0.9
_REACHED_OF_A_KIND = 0.8
_FLAT = 0.05
"""So much lower than at the first checkpoint may the share be at the last."""
_SHOWN = 8
"""So many of the facts that are out of reach stand in the report."""


def reported(found: Reach) -> dict[str, Any]:
    """Return figures and bars as plain JSON."""
    last = found.asked[-1]
    kinds = sorted({one.saying.kind for one in last})
    report: dict[str, Any] = {
        "machine": {
            "python": platform.python_version(),
            "system": f"{sys.platform} {platform.machine()}",
        },
        "style": found.style,
        "embedder": found.embedder,
        "compactions": last[-1].compactions,
        "turns": found.turns,
        "said_tokens": found.said_tokens,
        "marks": [SETTINGS.trigger, SETTINGS.keep],
        "seconds": round(found.seconds, 1),
        "summariser": {
            "calls": found.meter.calls,
            "per_token": round((found.meter.read + found.meter.wrote) / found.said_tokens, 2),
        },
        "checkpoints": [
            {
                "compactions": asked[-1].compactions,
                "view_tokens": tokens,
                **_shares(asked),
            }
            for asked, tokens in zip(found.asked, found.view_tokens, strict=True)
        ],
        "kinds": {
            kind: _shares([one for one in last if one.saying.kind == kind]) for kind in kinds
        },
        "out_of_reach": [
            {"said": one.saying.said, "question": one.saying.question}
            for one in last
            if not one.in_other_words
        ][:_SHOWN],
    }
    return {**report, "bars": _bars(report)}


def _shares(asked: Sequence[Asked]) -> dict[str, float]:
    def share(of: Callable[[Asked], bool]) -> float:
        return round(mean(map(of, asked)), 3)

    return {
        "asked": len(asked),
        "in_view": share(lambda one: one.in_view),
        "in_words_of_its_own": share(lambda one: one.in_words_of_its_own),
        "in_other_words": share(lambda one: one.in_other_words),
    }


def _bars(report: dict[str, Any]) -> list[dict[str, Any]]:
    shares = [one["in_other_words"] for one in report["checkpoints"]]
    least = {
        "within reach, all facts at the end": (shares[-1], _REACHED),
        "within reach, lowest checkpoint": (min(shares), _REACHED),
        "within reach, last less first": (round(shares[-1] - shares[0], 3), -_FLAT),
        **{
            f"within reach, {kind}": (found["in_other_words"], _REACHED_OF_A_KIND)
            for kind, found in report["kinds"].items()
        },
    }
    return [
        {"what": what, "value": value, "bound": bound, "is_least": True, "ok": value >= bound}
        for what, (value, bound) in least.items()
    ]


# -- printing --------------------------------------------------------------------------------

_COLUMNS = ("asked", "in_view", "in_words_of_its_own", "in_other_words")
_TITLES = ("asked", "in view", "own words", "other words")


def table(report: dict[str, Any]) -> str:
    """Return the report for people."""
    machine, summariser = report["machine"], report["summariser"]
    rows = [
        (
            f"Python {machine['python']}, {machine['system']}; {report['turns']:,} turns, "
            f"{report['compactions']:,} compactions in {report['seconds']:.0f} s; "
            f"{report['style']} summariser, {report['embedder']}"
        ),
        (
            f"{report['said_tokens']:,} tokens of chat; {summariser['calls']:,} calls of the "
            f"summariser, {summariser['per_token']:g} of its tokens per token of chat"
        ),
        "",
        _line("after compactions", (*_TITLES, "view, tokens")),
        *(
            _line(f"  {one['compactions']:,}", (*_cells(one), f"{one['view_tokens']:,}"))
            for one in report["checkpoints"]
        ),
        "",
        _line("at the end, by kind", _TITLES),
        *(_line(f"  {kind}", _cells(found)) for kind, found in report["kinds"].items()),
        "",
        "bars",
        *map(_bar_line, report["bars"]),
    ]
    return "\n".join(row.rstrip() for row in rows)


def _cells(found: dict[str, float]) -> list[str]:
    return [f"{found[column]:g}" for column in _COLUMNS]


def _line(first: str, cells: Sequence[str]) -> str:
    return f"{first:<24}" + "".join(f"{cell:>14}" for cell in cells)


def _bar_line(bar: dict[str, Any]) -> str:
    verdict = "ok" if bar["ok"] else "FAILED"
    return f"  {bar['what']:<40}{bar['value']:>8g}  at least {bar['bound']:<6g} {verdict}"
