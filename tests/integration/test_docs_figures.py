"""Every figure of README and docs comes from `benchmarks/results.json`; pictures from the code."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import figures
import pictures
import pytest
from stale import find_stale

from benchmarks.__main__ import RUNS, merge_result, shorten_figures

ROOT = Path(__file__).parents[2]

NOT_MEASURED = {
    "0.3",  # the patience of a turn, in seconds, and a share of BM25
    "0.4",  # a release of langchain-community
}
"""Numbers with a point that say something else than what was measured."""
RECORD = ROOT / "benchmarks" / "measured_before.md"
"""Figures of one commit, kept as they were taken: no later run may change them."""


def test_the_tables_and_charts_say_what_the_results_say() -> None:
    stale = [path.relative_to(ROOT).as_posix() for path in find_stale(figures.write_all())]
    assert stale == [], "run make figures"


@pytest.mark.parametrize(
    "page",
    [page for page in figures.list_pages() if page != RECORD],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_no_page_shows_a_figure_that_no_benchmark_printed(page: Path) -> None:
    text = page.read_text("utf-8")
    printed = re.compile(r"^```python\n.*?^```\n\s*^```text\n.*?^```\n", re.MULTILINE | re.DOTALL)
    stale = [
        f"{number}: {line.strip()}"
        for number, line in figures.find_unknown_figures(
            printed.sub("", text), figures.load_results()
        )
        if number not in NOT_MEASURED and "reference" not in page.parts
    ]
    assert stale == []


def test_a_figure_that_no_result_holds_is_named_with_its_sentence() -> None:
    results = {"recall": {"figures": {"touched": 0.6472}}}
    text = "It finds 0.647.\n\nIt found 0.438 before.\n\n```python\nx = 0.111\n```\n"
    assert list(figures.find_unknown_figures(text, results)) == [
        ("0.438", "It found 0.438 before.")
    ]


def test_a_marked_part_is_written_anew_and_the_rest_is_kept() -> None:
    run = {"command": "python -m zoo", "commit": "abc1234", "date": "2026-11-29"}
    page = "A\n<!-- figures: runs -->\nold\n<!-- end of figures -->\nB\n"
    written = figures.write_parts(page, {"zoo": run})
    assert "| zoo | `python -m zoo` | `abc1234` | 2026-11-29 |" in written
    assert "old" not in written
    assert written.startswith("A\n")
    assert written.endswith("\nB\n")


def test_every_part_of_the_results_names_its_command_and_the_commit_of_its_figures() -> None:
    for name, part in figures.load_results().items():
        assert part["command"].startswith("python -m benchmarks."), name
        commits = [one["commit"] for one in part.get("carried", {}).values()]
        commits += [part["commit"]] if "figures" in part else []
        assert commits, name
        assert [one for one in commits if not re.fullmatch(r"[0-9a-f]{7,}", one)] == [], name


def test_a_new_part_takes_the_place_of_the_old_one_and_leaves_the_others() -> None:
    merged = merge_result({"zoo": {"x": 1}, "loss": {"x": 1}}, "personal", {"x": 2})
    assert list(merged) == ["personal", "loss", "zoo"]
    assert merge_result(merged, "loss", {"x": 3})["loss"] == {"x": 3}
    assert list(RUNS).index("personal") < list(RUNS).index("loss")


def test_figures_are_kept_to_four_digits_without_those_that_no_page_shows() -> None:
    figures = {"a": [0.123456, 12345.6], "b": 7, "c": {"hidden": 1}}
    assert shorten_figures(figures, ["hidden"]) == {"a": [0.1235, 12346], "b": 7, "c": {}}


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_a_picture_is_what_its_run_draws_now_and_says_what_it_shows(name: str) -> None:
    drawn = pictures.PICTURES[name]().render()
    assert (pictures.TARGET / f"{name}.svg").read_text("utf-8") == drawn, "run make pictures"
    root = ET.fromstring(drawn)  # noqa: S314 - our own picture
    assert root[0].text
    assert len((root[1].text or "").split()) > 15


@pytest.mark.parametrize("path", sorted(pictures.TARGET.glob("*.svg")), ids=lambda path: path.stem)
def test_a_picture_loads_nothing(path: Path) -> None:
    text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
    assert re.findall(r"https?://|url\((?!#)|@import|<script", text) == []
