"""The figures of a long chat, as JSON and as a table."""

from __future__ import annotations

import platform
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from statistics import mean, median, quantiles
from typing import Any

from benchmarks.long_chat.running import CONTEXT_TOKENS, SETTINGS, Asked, Measured, TurnSeen
from benchmarks.long_chat.summarisers import Meter

__all__ = ["reported", "table"]

_FLAT = 1.1
_FACTS = 0.95
_COST = 1.2
"""Tokens that the summariser may read and write for each token of the chat."""
_OURS = "convmem"
_SHOWN = 5
"""So many of what went wrong stand in the report."""


def reported(found: Measured) -> dict[str, Any]:
    """Return figures and bars as plain JSON."""
    systems = list(found.turns[0].tokens)
    at_the_end = [one for one in found.asked if one.is_at_the_end]
    report: dict[str, Any] = {
        "machine": {
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
            "system": f"{sys.platform} {platform.machine()}",
        },
        "turns": len(found.turns),
        "style": found.style,
        "context_tokens": CONTEXT_TOKENS,
        "trigger": list(SETTINGS.trigger) if isinstance(SETTINGS.trigger, tuple) else None,
        "keep": list(SETTINGS.low_mark),
        "seconds": round(found.seconds, 1),
        "tokens": {name: _tokens(found.turns, name) for name in systems},
        "facts": {name: _facts(found.asked, name) for name in systems},
        "said_tokens": found.said_tokens,
        "cost": {name: _cost(meter, found.said_tokens) for name, meter in found.meters.items()},
        "standing": {name: _by_kind(kinds) for name, kinds in found.standing.items()},
        "told": {
            name: _by_kind(one.kind for one in at_the_end if one.found[name])
            for name in found.meters
        },
        "missaid": {name: sum(one.missaid[name] for one in at_the_end) for name in found.meters},
        "asked": _by_kind(one.kind for one in at_the_end),
        "not_told": [
            {"kind": one.kind, "question": one.question, "answer": one.answer}
            for one in found.asked
            if not one.found["convmem"]
        ],
        "turn_ms": _times(found.turns),
        "invalid": _sum(found.turns, lambda one: bool(one.faults)),
        "faults": [fault for one in found.turns for fault in one.faults][:_SHOWN],
        "too_large": _sum(found.turns, lambda one: one.tokens["convmem"] > CONTEXT_TOKENS),
        "uncovered": _sum(found.turns, lambda one: one.uncovered),
        "prefixes": {
            "compared": _sum(found.turns, lambda one: one.is_same_prefix is not None),
            "broken": _sum(found.turns, lambda one: one.is_same_prefix is False),
        },
        "evicted": found.evicted,
        "sought": found.sought,
        "not_findable": len(found.not_found),
        "not_found": found.not_found[:_SHOWN],
        "summaries": _summaries(found),
    }
    return {**report, "bars": _bars(report)}


def _by_kind(kinds: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(kinds).items()))


def _cost(meter: Meter, said: int) -> dict[str, float]:
    return {
        "calls": meter.calls,
        "read": meter.read,
        "wrote": meter.wrote,
        "per_token": round((meter.read + meter.wrote) / said, 2),
        "slips": len(meter.slips),
    }


def _sum(turns: Sequence[TurnSeen], of: Callable[[TurnSeen], int]) -> int:
    return sum(map(of, turns))


def _hundred(turns: Sequence[TurnSeen]) -> int:
    return min(100, max(len(turns) // 3, 1))


def _tokens(turns: Sequence[TurnSeen], system: str) -> dict[str, float]:
    size = _hundred(turns)
    stretches = {"first": turns[:size], "second": turns[size : 2 * size], "last": turns[-size:]}
    means = {name: mean(one.tokens[system] for one in part) for name, part in stretches.items()}
    return {
        **{name: round(value) for name, value in means.items()},
        "most": max(one.tokens[system] for one in turns),
        "ratio": round(means["last"] / means["first"], 2),
        "ratio_to_second": round(means["last"] / means["second"], 2),
    }


def _facts(asked: Sequence[Asked], system: str) -> dict[str, float]:
    at_the_end = [one.found[system] for one in asked if one.is_at_the_end]
    earlier = [one.found[system] for one in asked if not one.is_at_the_end]
    return {
        "asked": len(at_the_end),
        "told": sum(at_the_end),
        "share": round(mean(at_the_end), 4),
        "asked_earlier": len(earlier),
        "told_earlier": sum(earlier),
    }


def _times(turns: Sequence[TurnSeen]) -> dict[str, float]:
    times = [one.taken_ms for one in turns]
    size = _hundred(turns)
    return {
        "p50_first": round(median(times[:size]), 2),
        "p50_last": round(median(times[-size:]), 2),
        "p50": round(median(times), 2),
        "p95": round(quantiles(times, n=20, method="inclusive")[-1], 2),
        "max": round(max(times), 2),
    }


def _summaries(found: Measured) -> dict[str, int]:
    """Return how many there were, and what became of the facts that each had to tell."""
    kinds = ("facts", "in_text", "listed", "left")
    # What parents tell stands in the summaries below them.
    leaves = [one for one in found.summaries if not one.get("level")]
    return {
        "written": len(leaves),
        "parents": len(found.summaries) - len(leaves),
        "calls": found.turns[-1].calls,
        **{kind: sum(one[kind] for one in leaves) for kind in kinds},
    }


def _bars(report: dict[str, Any]) -> list[dict[str, Any]]:
    most = {
        "turns with an invalid context": (report["invalid"], 0),
        "turns over the budget": (report["too_large"], 0),
        "evicted entries not covered": (report["uncovered"], 0),
        "evicted entries not findable": (report["not_findable"], 0),
        "broken prefixes between compactions": (report["prefixes"]["broken"], 0),
        "tokens, last : second hundred turns": (report["tokens"][_OURS]["ratio_to_second"], _FLAT),
        "summariser tokens per token of chat": (report["cost"][_OURS]["per_token"], _COST),
    }
    least = {
        "facts told when asked for at the end": (report["facts"][_OURS]["share"], _FACTS),
        **{f"facts told more than by {one}": _lead(report, one) for one in report["cost"]},
    }
    least.pop(f"facts told more than by {_OURS}")
    return [
        *(
            {"what": what, "value": value, "bound": bound, "is_least": False, "ok": value <= bound}
            for what, (value, bound) in most.items()
        ),
        *(
            {"what": what, "value": value, "bound": bound, "is_least": True, "ok": value >= bound}
            for what, (value, bound) in least.items()
        ),
    ]


def _lead(report: dict[str, Any], peer: str) -> tuple[int, int]:
    """Return how many facts more ours tells at the end than a peer, and how many it must."""
    told = report["facts"]
    return told[_OURS]["told"] - told[peer]["told"], 1


# -- printing --------------------------------------------------------------------------------


def table(report: dict[str, Any]) -> str:
    """Return the report for people."""
    machine, systems = report["machine"], list(report["tokens"])
    summaries, times, prefixes = report["summaries"], report["turn_ms"], report["prefixes"]
    evicted = ", ".join(f"{count:,} {role}" for role, count in report["evicted"].items())
    rows = [
        (
            f"Python {machine['python']}, SQLite {machine['sqlite']}, {machine['system']}; "
            f"{report['turns']:,} turns in {report['seconds']:.0f} s; {report['style']} summariser"
        ),
        "",
        _line("", systems),
        *(
            _line(f"tokens, {what}", [f"{report['tokens'][one][key]:,}" for one in systems])
            for what, key in (
                ("first hundred turns", "first"),
                ("second hundred", "second"),
                ("last hundred", "last"),
                ("last : first", "ratio"),
                ("last : second", "ratio_to_second"),
                ("most", "most"),
            )
        ),
        _line("facts told at the end", [_told(report["facts"][one], "") for one in systems]),
        _line("facts told earlier", [_told(report["facts"][one], "_earlier") for one in systems]),
        *_beside(report, systems),
        "",
        (
            f"a turn, ms: p50 {times['p50_first']} in the first hundred, {times['p50_last']} in "
            f"the last; p95 {times['p95']}, slowest {times['max']} (a compaction)"
        ),
        (
            f"{summaries['written']} summaries in {summaries['calls']} calls, "
            f"{summaries['parents']} parents by rule; of "
            f"{summaries['facts']:,} facts to tell, {summaries['in_text']:,} in their texts, "
            f"{summaries['listed']:,} in their lists, {summaries['left']:,} left to recall"
        ),
        f"evicted: {evicted}; {report['sought']:,} looked for, {report['not_findable']} not found",
        f"prefixes: {prefixes['compared']:,} compared, {prefixes['broken']} broken",
        "",
        "bars",
        *map(_bar_line, report["bars"]),
    ]
    return "\n".join(row.rstrip() for row in rows)


def _beside(report: dict[str, Any], systems: Sequence[str]) -> list[str]:
    """Return what summaries cost each system, and what they tell; others have a dash."""

    def line(first: str, cell: Callable[[str], str]) -> str:
        return _line(first, [cell(one) if one in report["cost"] else "-" for one in systems])

    return [
        line("summariser: calls", lambda one: f"{report['cost'][one]['calls']:,}"),
        line("tokens per token of chat", lambda one: f"{report['cost'][one]['per_token']:g}"),
        line("slips of the summariser", lambda one: f"{report['cost'][one]['slips']:,}"),
        line("facts mis-said at the end", lambda one: f"{report['missaid'][one]:,}"),
        line("facts that stand unasked", lambda one: f"{sum(report['standing'][one].values()):,}"),
        "",
        "told when asked for at the end (of these, standing unasked)",
        *(
            line(
                f"  {kind}, {count}",
                lambda one, kind=kind: (  # type: ignore[misc]
                    f"{report['told'][one].get(kind, 0)} ({report['standing'][one].get(kind, 0)})"
                ),
            )
            for kind, count in report["asked"].items()
        ),
    ]


def _line(first: str, cells: Sequence[str]) -> str:
    return f"{first:<30}" + "".join(f"{cell:>14}" for cell in cells)


def _told(figures: dict[str, float], suffix: str) -> str:
    return f"{figures[f'told{suffix}']} of {figures[f'asked{suffix}']}"


def _bar_line(bar: dict[str, Any]) -> str:
    verdict = "ok" if bar["ok"] else "FAILED"
    limit = "at least" if bar["is_least"] else "at most"
    return f"  {bar['what']:<40}{bar['value']:>8g}  {limit} {bar['bound']:<5g} {verdict}"
