"""Makes pages of the cookbook's notebooks when the site is built, with their stored outputs.

A page tells the notebook's story: of a cell that draws it has the picture, of long cells and
outputs the beginning, and what the last part asserts is left to the notebook.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

COOKBOOK = Path(__file__).resolve().parents[2] / "cookbook"
MOST_SETUP, MOST_LINES, MOST_CODE, MOST_SIGNS = 6, 12, 30, 160
"""How many lines of the setup, an output and other code a page shows, and characters of each."""
_CLAIM = "## The claim"
_GROUP = re.compile(r"^\*\*(.+)\*\*$", re.MULTILINE)
_LISTED = re.compile(
    r"^- \[(.+?)\]\((\w+)\.ipynb\): ((?:.+\n?)+?)(?=^- |^\*\*|^$|\Z)", re.MULTILINE
)
_TO_DOCS = re.compile(r"\]\(\.\./docs/")
_TO_NOTEBOOK = re.compile(r"\]\((\w+)\.ipynb\)")


def on_files(files: Any, config: Any) -> Any:
    """Add a page and pictures for each notebook, the notebook itself, and the list of them."""
    for path in sorted(COOKBOOK.glob("*.ipynb")):
        files.append(File.generated(config, f"cookbook/{path.name}", content=path.read_bytes()))
        for name, content in make_page(path).items():
            files.append(File.generated(config, f"cookbook/{name}", content=content))
    files.append(File.generated(config, "cookbook/index.md", content=make_list()))
    return files


def make_page(path: Path) -> dict[str, str | bytes]:
    """Return a notebook's page in Markdown and its pictures, by file name."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    made: dict[str, str | bytes] = {}
    parts: list[str] = []
    chapters = 0
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if source.startswith(_CLAIM):
            break
        if cell["cell_type"] == "markdown":
            chapters += 1
            parts.append(_TO_NOTEBOOK.sub(r"](\1.md)", _TO_DOCS.sub("](../", source)))
            continue
        outputs = list(list_outputs(cell["outputs"]))
        if not any(picture for _, picture in outputs):
            most = MOST_CODE if chapters > 1 else MOST_SETUP
            parts.append(f"````python\n{_shorten(source, '# ...', most)}\n````")
        for text, picture in outputs:
            if picture is None:
                parts.append(f"````text\n{_shorten(text, '...')}\n````")
                continue
            name = f"{path.stem}-{len(made) + 1}.png"
            made[name] = picture
            parts.append(f"![{_describe(text)}]({name})")
    parts.append(f"[The whole notebook]({path.name})")
    made[f"{path.stem}.md"] = "\n\n".join(parts) + "\n"
    return made


def list_outputs(outputs: list[dict[str, Any]]) -> Iterator[tuple[str, bytes | None]]:
    """Yield what a cell shows: a text, or the words for a picture and the picture."""
    for output in outputs:
        data = output.get("data", {})
        text = "".join(output.get("text") or data.get("text/plain") or "").strip("\n")
        picture = data.get("image/png")
        if picture or (text and not text.startswith("<IPython")):
            yield text, base64.b64decode("".join(picture)) if picture else None


def _shorten(text: str, mark: str, most: int = MOST_LINES) -> str:
    lines = text.splitlines()
    shown = [
        line if len(line) <= MOST_SIGNS else f"{line[:MOST_SIGNS]}..." for line in lines[:most]
    ]
    if len(lines) > most:
        shown.append(f"{mark} {len(lines) - most} more lines")
    return "\n".join(shown)


def _describe(text: str) -> str:
    """Return the words for a picture: the titles and axes of its plots."""
    plots = [line.strip().replace(" | ", ", ") for line in text.splitlines() if " | x: " in line]
    return re.sub(r"[\[\]]", "", "; ".join(plots) or "A plot")


def make_list() -> str:
    """Return the list of the notebooks, by the README of the cookbook."""
    text = (COOKBOOK / "README.md").read_text(encoding="utf-8")
    opening = _GROUP.split(text, maxsplit=1)[0].strip()
    parts = [opening]
    groups = _GROUP.split(text)[1:]
    for title, listed in zip(groups[::2], groups[1::2], strict=True):
        parts.append(f"## {title}")
        for name, stem, told in _LISTED.findall(listed + "\n"):
            parts.append(f"### [{name}]({stem}.md)\n\n{_capitalize(' '.join(told.split()))}.")
    return "\n\n".join(parts) + "\n"


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]
