"""Every figure of README and docs comes from `benchmarks/results.json`; pictures from the code."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import figures
import pictures
import pytest
from stale import find_stale

ROOT = Path(__file__).parents[2]

NOT_MEASURED = {
    "0.3",  # the patience of a turn, in seconds, and a share of BM25
    "0.4",  # a release of langchain-community
    "2.0",  # a release of LangChain
}
"""Numbers with a point that say something else than what was measured."""


def test_the_tables_and_charts_say_what_the_results_say():
    stale = [path.relative_to(ROOT).as_posix() for path in find_stale(figures.write_all())]
    assert stale == [], "run make figures"


@pytest.mark.parametrize(
    "page",
    figures.list_pages(),
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_no_page_shows_a_figure_that_no_benchmark_printed(page):
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


def test_every_part_of_the_results_names_its_command_and_the_commit_of_its_figures():
    for name, part in figures.load_results().items():
        assert part["command"].startswith("python -m benchmarks."), name
        commits = [one["commit"] for one in part.get("carried", {}).values()]
        commits += [part["commit"]] if "figures" in part else []
        assert commits, name
        assert [one for one in commits if not re.fullmatch(r"[0-9a-f]{7,}", one)] == [], name


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_a_picture_is_what_its_run_draws_now_and_says_what_it_shows(name):
    drawn = pictures.PICTURES[name]().render()
    assert (pictures.TARGET / f"{name}.svg").read_text("utf-8") == drawn, "run make pictures"
    root = ET.fromstring(drawn)  # noqa: S314 - our own picture
    assert root[0].text
    assert len((root[1].text or "").split()) > 15


@pytest.mark.parametrize("path", sorted(pictures.TARGET.glob("*.svg")), ids=lambda path: path.stem)
def test_a_picture_loads_nothing(path):
    text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
    assert re.findall(r"https?://|url\((?!#)|@import|<script", text) == []
