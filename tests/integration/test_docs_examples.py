"""What the documentation shows is run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pages import OURS, blocks_of, run_page

ROOT = Path(__file__).parents[2]

PAGES_RUN = pytest.mark.parametrize(
    "page",
    [
        "docs/get_started/choose_integration.md",
        "docs/how_to/agents.md",
        "docs/how_to/operate.md",
        "docs/how_to/dynamodb.md",
        "docs/how_to/streaming.md",
        "docs/how_to/troubleshoot.md",
        "docs/how_to/tune_recall.md",
        "docs/how_to/chains.md",
        "docs/concepts/chat_templates.md",
        "docs/how_to/conversation.md",
        "docs/how_to/embedder.md",
        "docs/how_to/history.md",
        "docs/how_to/langgraph.md",
        "docs/how_to/mcp.md",
        "docs/how_to/before_langchain_2.md",
        "docs/how_to/full_transcript.md",
        "docs/how_to/transfer.md",
        "docs/how_to/own_log.md",
        "docs/how_to/privacy.md",
        "docs/how_to/prompts.md",
        "docs/how_to/vector_stores.md",
        "docs/concepts/recall.md",
        "docs/benchmarks/reliability.md",
        "docs/how_to/profile.md",
        "docs/concepts/profile.md",
        "docs/concepts/architecture.md",
        "docs/project/coding_assistants.md",
        "docs/how_to/summaries.md",
        "docs/concepts/summaries.md",
        "docs/how_to/text_models.md",
        "docs/how_to/voice.md",
    ],
)


@PAGES_RUN
def test_the_python_of_a_page_runs_from_top_to_bottom_and_prints_what_the_page_shows(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CONVMEM_EMBEDDER")  # a page runs as its reader runs it
    assert run_page(ROOT / page).strip()


@pytest.mark.parametrize("page", ["docs/how_to/postgres.md", "docs/reference/prompt_language.md"])
def test_the_python_of_a_page_that_prints_nothing_runs(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CONVMEM_EMBEDDER")  # a page runs as its reader runs it
    assert run_page(ROOT / page) == ""


ELSEWHERE = {
    "docs/how_to/deploy.md": "quotes the example, see below; its client runs in `make web`",
    "docs/get_started/quickstart.md": "is followed block by block in test_docs_quickstart",
    "docs/how_to/testing.md": "runs below, with sockets",
    "docs/how_to/postgres.md": "runs above: it connects to nothing, and prints nothing",
    "docs/project/security.md": "runs below, and prints nothing",
    "docs/reference/prompt_language.md": "runs above, and prints nothing",
}
"""Pages whose code is not run with the others, and why."""


def test_every_page_with_python_on_it_is_run_or_says_why_not() -> None:
    run = {value for mark in PAGES_RUN.args[1:] for value in mark}
    pages = [
        page.relative_to(ROOT).as_posix()
        for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
        if any(block.language == OURS for block in blocks_of(page))
    ]
    assert [page for page in pages if page not in run and page not in ELSEWHERE] == []
    assert [page for page in ELSEWHERE if page not in pages] == []


@pytest.mark.sockets
@pytest.mark.parametrize("page", ["docs/how_to/testing.md"])
def test_a_page_with_services_on_loopback_runs_and_prints_what_it_shows(
    page: str, tmp_path: Path
) -> None:
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


def test_what_the_page_on_security_claims_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CONVMEM_EMBEDDER")  # a page runs as its reader runs it
    assert run_page(ROOT / "docs/project/security.md") == ""  # its claims are assertions


def test_the_page_on_deployment_quotes_the_example() -> None:
    example = (ROOT / "examples" / "fastapi_app.py").read_text("utf-8")
    quoted = [
        block for block in blocks_of(ROOT / "docs/how_to/deploy.md") if block.language == OURS
    ]
    assert quoted
    assert [f"line {block.line}" for block in quoted if block.code not in example] == []


def test_every_relative_link_of_a_page_leads_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")]
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text("utf-8"))
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert pages
    assert broken == []
