"""What the documentation shows is run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/agents.md",
        "docs/chains.md",
        "docs/chat_templates.md",
        "docs/conversation.md",
        "docs/embedder.md",
        "docs/first_steps.md",
        "docs/history.md",
        "docs/langgraph.md",
        "docs/moving.md",
        "docs/privacy.md",
        "docs/prompts.md",
        "docs/vector_stores.md",
        "docs/recall.md",
        "docs/replies.md",
        "docs/summaries.md",
        "docs/text_models.md",
        "docs/voice.md",
    ],
)
def test_the_python_of_a_page_runs_from_top_to_bottom(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall((ROOT / page).read_text("utf-8"))
    assert blocks
    names: dict[str, object] = {"__name__": page}
    for block in blocks:
        exec(compile(block, page, "exec"), names)  # noqa: S102 - our own pages
    assert capsys.readouterr().out.strip()


def test_the_readme_remembers_where_ana_parked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    first = BLOCK.findall((ROOT / "README.md").read_text("utf-8"))[0]
    exec(compile(first, "README.md", "exec"), {})  # noqa: S102 - our own page
    assert "level C, next to the blue pillar" in capsys.readouterr().out


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
