"""A report as a table for people."""

from __future__ import annotations

from typing import Any

__all__ = ["cell", "span", "table"]

_COLUMNS = {
    "evidence_recall": "evidence",
    "full_evidence": "full",
    "recall_at_20": "at_20",
    "touched": "touched",
    "all_touched": "all_touched",
    "mean_tokens": "tokens",
    "nothing_on_answerable": "nothing",
    "something_on_unanswerable": "unanswerable",
    "tokens_on_unanswerable": "its_tokens",
    "new_value_present": "new_present",
    "new_value_first": "new_first",
    "p50_ms": "p50_ms",
    "p95_ms": "p95_ms",
}
_INTERVALS = ("evidence_recall", "touched", "new_value_first")
_BREAKDOWNS = {
    "by_category": "evidence_recall by category",
    "touched_by_category": "touched by category",
    "touched_by_role": "touched by role of the evidence line",
}

_OFF_HEAD = f"{'':<24}{'injected':>16}{'tokens':>16}{'evidence_recall':>16}{'cost':>16}"


def table(report: dict[str, Any]) -> str:
    """Return the report as text."""
    rows: list[str] = []
    for folder in report.get("folders", {"": report}).values():
        rows += ["", *_folder(folder)] if rows else _folder(folder)
    if "cross_validation_of_kinds" in report:
        rows += _kinds(report["cross_validation_of_kinds"])
    return "\n".join(rows)


def _folder(report: dict[str, Any]) -> list[str]:
    counts = f"{report['questions']} questions with evidence, {report['unanswerable']} without"
    rows = [f"{report['dataset']}: {counts}", ""]
    rows += _systems(report["systems"])
    rows += [f"{name}: skipped, {reason}" for name, reason in report["skipped"].items()]
    if "ablation" in report:
        rows += _ablation(report["ablation"])
    if "cross_validation" in report:
        rows += _cross_validation(report["cross_validation"])
    if "off_topic" in report:
        rows += _off_topic(report["off_topic"])
    return rows


def _systems(systems: dict[str, Any]) -> list[str]:
    rows = [f"{'system':<24}" + "".join(f"{head:>13}" for head in _COLUMNS.values())]
    for name, row in systems.items():
        rows.append(f"{name:<24}" + "".join(f"{cell(row[column]):>13}" for column in _COLUMNS))
    rows += ["", f"{'95 % intervals':<24}" + "".join(f"{name:>18}" for name in _INTERVALS)]
    for name, row in systems.items():
        spans = (span(row["interval_95"][column]) for column in _INTERVALS)
        rows.append(f"{name:<24}" + "".join(f"{part:>18}" for part in spans))
    for key, title in _BREAKDOWNS.items():
        if any(row[key] for row in systems.values()):
            rows += ["", title]
            rows += [f"{name:<24}{_parts(row[key])}" for name, row in systems.items()]
    return rows


def _parts(values: dict[str, float]) -> str:
    return "  ".join(f"{key}: {value:.3f}" for key, value in values.items())


def cell(value: float | None) -> str:
    """Return a figure as text, a dash where there is none."""
    return "-" if value is None else str(value)


def span(interval: list[float] | None) -> str:
    """Return an interval as text, a dash where there is none."""
    return "-" if interval is None else f"{interval[0]:.3f} - {interval[1]:.3f}"


def _ablation(found: dict[str, Any]) -> list[str]:
    worth = f"all parts {found['all']}, both rankers added {found['both_rankers']}"
    rows = [
        "",
        f"{found['judged_by']}, {worth}",
        f"{'part':<20}{'alone':>16}{'left out':>16}",
    ]
    for name, row in found["parts"].items():
        rows.append(f"{name:<20}{row['alone']:>16}{row['left_out']:>16}")
    return rows


def _grid(found: dict[str, Any]) -> list[str]:
    return [f"  {name}: {', '.join(map(str, values))}" for name, values in found["grid"].items()]


def _cross_validation(found: dict[str, Any]) -> list[str]:
    judged_by = found["judged_by"]
    rows = [
        "",
        f"settings chosen on the other dialogues, judged on the one left out by {judged_by}; grid:",
        *_grid(found),
    ]
    for name, row in found["left_out"].items():
        rows.append(f"{name:<20}{row[judged_by]:>16}  {row['chosen']}")
    rows.append(f"{'all':<20}{found[judged_by]:>16}  {span(found['interval_95'][judged_by])}")
    rows.append(f"recall_at_20 {found['recall_at_20']}; best of the grid {found['best_on_all']}")
    return rows


def _kinds(found: dict[str, Any]) -> list[str]:
    rows = ["", "settings chosen on the other folders, judged on the one left out; grid:"]
    rows += _grid(found)
    for name, row in found["left_out"].items():
        best = f"best of the grid {row['best_on_it']}"
        score = f"{row['judged_by']} {row['score']}  {span(row['interval_95'])}"
        rows.append(f"{name:<20}{score}  {best}  {row['chosen']}")
    return rows


def _off_topic(found: dict[str, Any]) -> list[str]:
    columns = ("injected", "tokens", "evidence_recall", "cost")
    rows = ["", f"{found['questions']} off-topic questions in the default turn", _OFF_HEAD]
    for name, row in {**found["by_dialogue"], "all": found}.items():
        rows.append(f"{name:<24}" + "".join(f"{row[column]:>16}" for column in columns))
    return rows
