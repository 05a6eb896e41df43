"""A report as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from benchmarks.recall.report import cell, span

__all__ = ["table"]

_FOUND = ("word", "other", "replies")
_UPDATES = ("new_present", "new_first", "new_leads")
_SEVERAL = ("several", "complete")
_TOKENS = ("tokens", "off_topic", "courtesies", "near_topic")
_COLUMNS = (*_FOUND, *_UPDATES, *_SEVERAL, *_TOKENS)
_SPANS = ("word", "other", "replies", "new_first", "several", *_TOKENS)


class _Table(NamedTuple):
    title: str
    head: Sequence[str]
    rows: list[Sequence[str]]


def table(report: dict[str, Any]) -> str:
    """Return the report as text."""
    lines: list[str] = []
    for part in _tables(report):
        widths = [max(map(len, column)) for column in zip(part.head, *part.rows, strict=True)]
        lines += [part.title] + [
            "  ".join(
                text.rjust(width) if at else text.ljust(width)
                for at, (text, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in (part.head, *part.rows)
        ]
        lines.append("")
    return "\n".join([*lines, *_skipped(report)])


def _skipped(report: dict[str, Any]) -> list[str]:
    return [f"{name}: skipped, {reason}" for name, reason in report["skipped"].items()]


def _tables(report: dict[str, Any]) -> Iterator[_Table]:
    for name, found in report["embedders"].items():
        for size, ways in found["sizes"].items():
            yield _figures(f"{name}, {size} user messages", ways)
            yield _intervals(f"{name}, {size} user messages, 95 % intervals", ways)
            if any(row["verdicts"] for row in ways.values()):
                yield _verdicts(f"{name}, {size} user messages, verdicts", ways)
        if found["languages"]:
            yield _languages(name, found["languages"])
        if "ablation" in found:
            yield _figures(f"{name}, default turn without parts of the settings", found["ablation"])


def _figures(title: str, ways: dict[str, Any]) -> _Table:
    rows = [
        [
            name,
            *(_share(row[column]) for column in (*_FOUND, *_UPDATES, *_SEVERAL)),
            *(_whole(row[column]) for column in _TOKENS),
        ]
        for name, row in ways.items()
    ]
    return _Table(title, ["", *_COLUMNS], [*rows])


def _intervals(title: str, ways: dict[str, Any]) -> _Table:
    rows = [
        [name, *(_span(row["interval_95"][column], column) for column in _SPANS)]
        for name, row in ways.items()
    ]
    return _Table(title, ["", *_SPANS], [*rows])


def _verdicts(title: str, ways: dict[str, Any]) -> _Table:
    rows = [
        [f"{name}, {kind}", ", ".join(f"{value} {n}" for value, n in counts.items())]
        for name, row in ways.items()
        for kind, counts in row["verdicts"].items()
    ]
    return _Table(title, ["", "verdicts"], [*rows])


def _languages(name: str, found: dict[str, Any]) -> _Table:
    ways = list(next(iter(found.values())))
    head = ["language"] + [f"{way} {kind}" for way in ways for kind in ("word", "other")]
    rows = [
        [language, *(_share(row[way][kind]) for way in ways for kind in ("word", "other"))]
        for language, row in found.items()
    ]
    return _Table(f"{name}, languages", head, [*rows])


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _span(interval: list[float] | None, column: str) -> str:
    if interval is None or column not in _TOKENS:
        return span(interval)
    return f"{interval[0]:.0f} - {interval[1]:.0f}"


def _whole(value: float | None) -> str:
    return cell(None if value is None else round(value))
