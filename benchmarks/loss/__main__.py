"""The command line: `python -m benchmarks.loss`: every scenario against every system."""

from __future__ import annotations

import logging
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.messages import HumanMessage

import benchmarks.loss
from benchmarks import ui
from benchmarks.loss import scenarios, summaries, systems
from benchmarks.loss.judging import KINDS, judge_chat
from benchmarks.loss.models import ScriptedModel

_PACKAGES = ("langchain-core", "langchain", "langgraph", "langmem")


def judge_chat_of(scenario: Any, kind: type[systems.System], folder: Path) -> dict[str, Any]:
    """Run a scenario; judge what the model gets when the user comes back after a restart."""
    with kind(folder) as system:
        happened = scenario(system)
        if system.undoes_failed_turns:
            happened = happened.without_failed()
        system.reopen()
        model = ScriptedModel()
        back = HumanMessage("Q9: and now?", id="q9")
        system.chat(systems.Setup(model)).ask(scenarios.THREAD, back)
        *before, last = model.seen[-1]
        # What was never answered may be joined with what is asked now, so that roles alternate.
        rest = str(last.text).replace("Q9", "")
        return judge_chat(happened, [*before, last.model_copy(update={"content": rest})])


class Suite(NamedTuple):
    """Scenarios and systems by name, which of these have a bar, and what judges them."""

    scenarios: Mapping[str, Any]
    systems: Mapping[str, Any]
    ours: Sequence[str]
    judge: Callable[..., dict[str, Any]]
    sums: tuple[str, ...] = ()


SUITES = {
    "chats": Suite(
        scenarios.SCENARIOS, systems.SYSTEMS, [kind.name for kind in systems.OURS], judge_chat_of
    ),
    "summaries": Suite(
        summaries.SCENARIOS,
        summaries.SYSTEMS,
        ["convmem", "convmem-step"],
        lambda scenario, kind, folder: summaries.Stage(kind, folder).judge(scenario.play),
        ("evicted", "read"),
    ),
}
SCENARIOS = [name for suite in SUITES.values() for name in suite.scenarios]
SYSTEMS = list(dict.fromkeys(name for suite in SUITES.values() for name in suite.systems))


def measure(names: Sequence[str], chosen: Sequence[str]) -> dict[str, Any]:
    """Run scenarios against systems, both by name; return what was found as plain JSON."""
    report: dict[str, Any] = {"machine": ui.describe_machine(*_PACKAGES), "bars": []}
    with _be_quiet():
        for title, suite in SUITES.items():
            able = [name for name in suite.systems if name in chosen]
            rows: dict[str, dict[str, Any]] = {}
            for name in names if able else ():
                if name in suite.scenarios:
                    ui.show_progress(name)
                    rows[name] = {system: _try(suite, name, system) for system in able}
            if rows:
                totals = {name: _sum(title, [row[name] for row in rows.values()]) for name in able}
                report[title] = {"scenarios": rows, "totals": totals}
                report["bars"] += [
                    ui.make_bar(f"{title}, {name}: not clean", one["tried"] - one["clean"], 0)
                    for name, one in totals.items()
                    if name in suite.ours
                ]
    return report


def _try(suite: Suite, name: str, system: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="benchmark-loss-") as folder:
        try:
            return suite.judge(suite.scenarios[name], suite.systems[system], Path(folder))
        except systems.UnsupportedError as error:
            return {"unsupported": str(error)}
        except Exception as error:  # noqa: BLE001 - a system that breaks down is a finding
            traceback.print_exc()
            return {"failed": f"{type(error).__name__}: {error}"}


def _sum(title: str, found: Sequence[dict[str, Any]]) -> dict[str, int]:
    kinds, wrong = KINDS[title], {*KINDS[title], "failed", "unsupported"}
    counted = (*kinds, *SUITES[title].sums)
    return {
        "tried": sum("unsupported" not in one for one in found),
        "clean": sum(not wrong & one.keys() for one in found),
        **{kind: sum(_count(one.get(kind, 0)) for one in found) for kind in counted},
        "failed": sum("failed" in one for one in found),
    }


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int) else len(value)


@contextmanager
def _be_quiet() -> Iterator[None]:
    logging.disable()  # where failures end up that nobody is told of; the table says so instead
    try:
        with warnings.catch_warnings():
            # langmem warns where it cannot trim, and where it is imported.
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def make_table(report: dict[str, Any]) -> list[str]:
    """Return the report for people."""
    lines = [ui.format_machine(report["machine"])]
    for title in SUITES:
        if title in report:
            totals = report[title]["totals"]
            rows: list[list[object]] = [[title, *totals]]
            for name, found in report[title]["scenarios"].items():
                rows.append([f"  {name}", *(_format(title, one) for one in found.values())])
            clean = [f"{one['clean']} of {one['tried']}" for one in totals.values()]
            rows += [[""], ["clean of tried", *clean]]
            for kind in list(next(iter(totals.values())))[2:]:
                rows.append([f"  {kind}", *(one[kind] for one in totals.values())])
            lines += ["", *ui.format_rows(rows)]
    return lines


def _format(title: str, found: dict[str, Any]) -> str:
    for word, cell in (("unsupported", "-"), ("failed", "failed")):
        if word in found:
            return cell
    parts = [f"{_count(found[kind])} {kind}" for kind in KINDS[title] if kind in found]
    return ", ".join(parts) or "clean"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and print; return the exit code, which is 1 when ours lost anything."""
    parser = ui.make_parser("benchmarks.loss", benchmarks.loss.__doc__)
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, default=SCENARIOS, metavar="NAME")
    parser.add_argument("--system", nargs="+", choices=SYSTEMS, default=SYSTEMS, metavar="NAME")
    options = parser.parse_args(arguments)
    report = measure(options.only, options.system)
    return ui.print_report(report, make_table, as_json=options.json)


if __name__ == "__main__":
    raise SystemExit(main())
