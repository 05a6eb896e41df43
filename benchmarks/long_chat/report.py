"""The figures of a long chat, as JSON and as a table."""

from __future__ import annotations

import platform
import sqlite3
import sys
from collections.abc import Callable, Sequence
from statistics import mean, median, quantiles
from typing import Any

from benchmarks.long_chat.running import CONTEXT_TOKENS, SETTINGS, Asked, Measured, TurnSeen

__all__ = ["reported", "table"]

_FLAT = 1.1
_FACTS = 0.95
_SHOWN = 5
"""So many of what went wrong stand in the report."""


def reported(found: Measured) -> dict[str, Any]:
    """Return figures and bars as plain JSON."""
    systems = list(found.turns[0].tokens)
    report: dict[str, Any] = {
        "machine": {
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
            "system": f"{sys.platform} {platform.machine()}",
        },
        "turns": len(found.turns),
        "context_tokens": CONTEXT_TOKENS,
        "trigger": list(SETTINGS.trigger) if isinstance(SETTINGS.trigger, tuple) else None,
        "keep": list(SETTINGS.keep),
        "seconds": round(found.seconds, 1),
        "tokens": {name: _tokens(found.turns, name) for name in systems},
        "facts": {name: _facts(found.asked, name) for name in systems},
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
    kinds = ("facts", "in_text", "listed", "recallable")
    return {
        "written": len(found.summaries),
        "calls": found.turns[-1].calls,
        **{kind: sum(one[kind] for one in found.summaries) for kind in kinds},
        "in_the_log_alone": sum(len(one["lost"]) for one in found.summaries),
    }


def _bars(report: dict[str, Any]) -> list[dict[str, Any]]:
    most = {
        "turns with an invalid context": (report["invalid"], 0),
        "turns over the budget": (report["too_large"], 0),
        "evicted entries not covered": (report["uncovered"], 0),
        "evicted entries not findable": (report["not_findable"], 0),
        "broken prefixes between compactions": (report["prefixes"]["broken"], 0),
        "tokens, last : second hundred turns": (
            report["tokens"]["convmem"]["ratio_to_second"],
            _FLAT,
        ),
    }
    share = report["facts"]["convmem"]["share"]
    return [
        *(
            {"what": what, "value": value, "bound": bound, "is_least": False, "ok": value <= bound}
            for what, (value, bound) in most.items()
        ),
        {
            "what": "facts told when asked for at the end",
            "value": share,
            "bound": _FACTS,
            "is_least": True,
            "ok": share >= _FACTS,
        },
    ]


# -- printing --------------------------------------------------------------------------------


def table(report: dict[str, Any]) -> str:
    """Return the report for people."""
    machine, systems = report["machine"], list(report["tokens"])
    summaries, times, prefixes = report["summaries"], report["turn_ms"], report["prefixes"]
    evicted = ", ".join(f"{count:,} {role}" for role, count in report["evicted"].items())
    rows = [
        (
            f"Python {machine['python']}, SQLite {machine['sqlite']}, {machine['system']}; "
            f"{report['turns']:,} turns in {report['seconds']:.0f} s"
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
        "",
        (
            f"a turn, ms: p50 {times['p50_first']} in the first hundred, {times['p50_last']} in "
            f"the last; p95 {times['p95']}, slowest {times['max']} (a compaction)"
        ),
        (
            f"{summaries['written']} summaries in {summaries['calls']} calls; of "
            f"{summaries['facts']:,} facts to tell, {summaries['in_text']:,} in their texts, "
            f"{summaries['listed']:,} in their lists, {summaries['recallable']:,} left to recall, "
            f"{summaries['in_the_log_alone']:,} in the log alone"
        ),
        f"evicted: {evicted}; {report['sought']:,} looked for, {report['not_findable']} not found",
        f"prefixes: {prefixes['compared']:,} compared, {prefixes['broken']} broken",
        "",
        "bars",
        *map(_bar_line, report["bars"]),
    ]
    return "\n".join(row.rstrip() for row in rows)


def _line(first: str, cells: Sequence[str]) -> str:
    return f"{first:<30}" + "".join(f"{cell:>16}" for cell in cells)


def _told(figures: dict[str, float], suffix: str) -> str:
    return f"{figures[f'told{suffix}']} of {figures[f'asked{suffix}']}"


def _bar_line(bar: dict[str, Any]) -> str:
    verdict = "ok" if bar["ok"] else "FAILED"
    limit = "at least" if bar["is_least"] else "at most"
    return f"  {bar['what']:<40}{bar['value']:>8g}  {limit} {bar['bound']:<5g} {verdict}"
