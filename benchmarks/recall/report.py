"""A report as a table for people."""

from __future__ import annotations

from typing import Any

__all__ = ["table"]

_COLUMNS = (
    "evidence_recall",
    "full_evidence",
    "recall_at_20",
    "mean_tokens",
    "p50_ms",
    "p95_ms",
)


_OFF_HEAD = f"{'':<24}{'injected':>16}{'evidence_recall':>16}{'cost':>16}"


def table(report: dict[str, Any]) -> str:
    """Return the report as text."""
    rows = [f"{report['dataset']}: {report['questions']} questions with evidence", ""]
    rows += _systems(report["systems"])
    rows += [f"{name}: skipped, {reason}" for name, reason in report["skipped"].items()]
    if "ablation" in report:
        rows += _ablation(report["ablation"])
    if "cross_validation" in report:
        rows += _cross_validation(report["cross_validation"])
    if "off_topic" in report:
        rows += _off_topic(report["off_topic"])
    return "\n".join(rows)


def _systems(systems: dict[str, Any]) -> list[str]:
    head = f"{'system':<20}" + "".join(f"{column:>16}" for column in _COLUMNS)
    rows = [head + f"{'95 % interval':>18}"]
    for name, row in systems.items():
        cells = "".join(f"{row[column]:>16}" for column in _COLUMNS)
        rows.append(f"{name:<20}{cells}{_span(row['interval_95']['evidence_recall']):>18}")
    rows += ["", "evidence_recall by category"]
    for name, row in systems.items():
        parts = "  ".join(f"{key}: {value:.3f}" for key, value in row["by_category"].items())
        rows.append(f"{name:<20}{parts}")
    return rows


def _span(interval: list[float]) -> str:
    return f"{interval[0]:.3f} - {interval[1]:.3f}"


def _ablation(found: dict[str, Any]) -> list[str]:
    rows = [
        "",
        f"evidence_recall, all parts {found['all']}, both rankers added {found['both_rankers']}",
        f"{'part':<20}{'alone':>16}{'left out':>16}",
    ]
    for name, row in found["parts"].items():
        rows.append(f"{name:<20}{row['alone']:>16}{row['left_out']:>16}")
    return rows


def _cross_validation(found: dict[str, Any]) -> list[str]:
    rows = ["", "settings chosen on the other dialogues, judged on the one left out; grid:"]
    rows += [f"  {name}: {', '.join(map(str, values))}" for name, values in found["grid"].items()]
    for name, row in found["left_out"].items():
        rows.append(f"{name:<20}{row['evidence_recall']:>16}  {row['chosen']}")
    span = _span(found["interval_95"]["evidence_recall"])
    rows.append(f"{'all':<20}{found['evidence_recall']:>16}  {span}")
    rows.append(f"recall_at_20 {found['recall_at_20']}; best of the grid {found['best_on_all']}")
    return rows


def _off_topic(found: dict[str, Any]) -> list[str]:
    rows = ["", f'{found["questions"]} off-topic questions with threshold="auto"', _OFF_HEAD]
    kept = {**found["by_dialogue"], f"all, from {found['threshold']} on": found}
    if "cross_validated" in found:
        kept["all, cross-validated"] = found["cross_validated"]
    for name, row in kept.items():
        rows.append(f"{name:<24}{row['injected']:>16}{row['evidence_recall']:>16}{row['cost']:>16}")
    return rows
