"""What the documentation shows is run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pages import OURS, blocks_of, run_page

ROOT = Path(__file__).parents[2]

ELSEWHERE = {
    "docs/how_to/deploy.md": "quotes the example, see below; its client runs in `make web`",
    "docs/get_started/quickstart.md": "is followed block by block in test_docs_quickstart",
    "docs/how_to/testing.md": "runs below, with sockets",
}
"""Pages whose code is not run with the others, and why."""
SILENT = {
    "docs/how_to/postgres.md",  # it connects to nothing
    "docs/project/security.md",  # its claims are assertions
    "docs/reference/prompt_language.md",
}
"""Pages whose code prints nothing."""
PAGES = [
    page.relative_to(ROOT).as_posix()
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if any(block.language == OURS for block in blocks_of(page))
]
"""Pages with Python on them."""


@pytest.mark.parametrize("page", [page for page in PAGES if page not in ELSEWHERE])
def test_the_python_of_a_page_runs_from_top_to_bottom_and_prints_what_the_page_shows(
    page, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CONVMEM_EMBEDDER")  # a page runs as its reader runs it
    assert bool(run_page(ROOT / page).strip()) is (page not in SILENT)


def test_pages_that_are_told_apart_are_there():
    assert {*ELSEWHERE, *SILENT} <= set(PAGES)


@pytest.mark.sockets
@pytest.mark.parametrize("page", ["docs/how_to/testing.md"])
def test_a_page_with_services_on_loopback_runs_and_prints_what_it_shows(page, tmp_path):
    pytest.importorskip("langchain_openai", reason="langchain-openai is not installed")
    # In a process of its own: an example need not close its clients.
    code = f"import pages, pathlib; print(pages.run_page(pathlib.Path({str(ROOT / page)!r})))"
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support")])
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", code],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip()


def test_the_page_on_deployment_quotes_the_example():
    example = (ROOT / "examples" / "fastapi_app.py").read_text("utf-8")
    quoted = [
        block for block in blocks_of(ROOT / "docs/how_to/deploy.md") if block.language == OURS
    ]
    assert quoted
    assert [f"line {block.line}" for block in quoted if block.code not in example] == []


def test_every_relative_link_of_a_page_leads_somewhere():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")]
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text("utf-8"))
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert pages
    assert broken == []
