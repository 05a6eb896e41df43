"""Writes the tables and charts of measured figures, all from `benchmarks/results.json`.

`python docs/generate/figures.py` rewrites the marked parts of README and docs and draws the charts;
with `--check` it writes nothing, names what is stale, and exits with 1.

A marked part begins with `<!-- figures: NAME -->` and ends with `<!-- end of figures -->`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from drawing import Drawing
from stale import save

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results.json"
CHART = ROOT / "docs" / "pictures" / "recall_bars.svg"
_MARKED = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)
_NUMBER = re.compile(r"(?<![\w.\-])(?<!Python )\d[\d,]*\.\d+(?![\w.])")
_FENCED = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```\n", re.MULTILINE | re.DOTALL)

SYSTEMS = {
    "convmem_default": "langchain-convmem, as a chain gets it",
    "convmem": "langchain-convmem, without abstaining",
    "ensemble_chunks": "`EnsembleRetriever`, chunks",
    "ensemble_lines": "`EnsembleRetriever`, lines",
    "faiss_chunks": "FAISS, chunks",
    "faiss_lines": "FAISS, lines",
    "chroma": "Chroma, lines",
    "store": "`InMemoryStore`, lines",
    "langmem": "langmem, lines",
    "mem0": "mem0, lines",
}
DATA = {"beam_dev_4": "BEAM", "long_replies": "long replies", "locomo_dev": "LoCoMo"}


def load_results() -> dict[str, Any]:
    """Return the results by benchmark."""
    found: dict[str, Any] = json.loads(RESULTS.read_text("utf-8"))
    return found


# --- tables ---


def _write_recall(results: dict[str, Any]) -> Iterator[str]:
    folders = results["recall"]["figures"]["folders"]
    yield f"| evidence found, 95 % interval | {' | '.join(DATA.values())} | BEAM, new value |"
    yield "| --- |" + " --- |" * (len(DATA) + 1)
    for name, title in SYSTEMS.items():
        cells = []
        for folder in DATA:
            row = folders[folder]["systems"][name]
            column = "touched" if folder.startswith("beam") else "evidence_recall"
            cells.append("{:.3f} ({:.2f}-{:.2f})".format(row[column], *row["interval_95"][column]))
        new = folders["beam_dev_4"]["systems"][name]["new_value_present"]
        yield f"| {title} | {' | '.join(cells)} | {new:.3f} |"


def _write_recall_costs(results: dict[str, Any]) -> Iterator[str]:
    figures = results["recall"]["figures"]
    sets = {**DATA, "precision": "precision set"}
    yield f"| surplus, tokens | {' | '.join(sets.values())} | ms a line | ms a query | MB |"
    yield "| --- |" + " --- |" * (len(sets) + 3)
    for name, title in SYSTEMS.items():
        cost = figures["costs"][name]
        rows = [figures["folders"][folder]["systems"][name] for folder in sets]
        cells = [f"{row['surplus']:.2f}, {row['mean_tokens']:.0f}" for row in rows]
        cells += [f"{cost['write_ms']:.1f}", f"{cost['query_ms']:.1f}", f"{cost['mb']:.0f}"]
        yield f"| {title} | {' | '.join(cells)} |"
    yield f"\nVersions: {', '.join(map(' '.join, figures['versions'].items()))}."


def _write_quickstart(results: dict[str, Any]) -> Iterator[str]:
    figures = results["quickstart"]["figures"]
    yield "```text"
    for step, seconds in figures["seconds"].items():
        yield f"{seconds:7.1f} s  $ {step}"
    yield f"{figures['in_all']:7.1f} s  in all"
    yield from figures["printed"]
    yield "```"


def _write_costs(results: dict[str, Any]) -> Iterator[str]:
    found = results["costs"]["figures"]
    turns = " | turns ".join(found["turns"])
    yield f"| added ms, p50 / p95 | turns {turns} | new process, ms | KiB |"
    yield "| --- |" + " --- |" * (len(found["turns"]) + 2)
    for name, row in found["systems"].items():
        cells = [f"{one['p50']:.2f} / {one['p95']:.2f}" for one in row["added_ms"].values()]
        yield f"| {name} | {' | '.join(cells)} | {row['cold_ms'] or '-'} | {row['kib'] or '-'} |"


_LONG_CHAT = {
    "convmem": "langchain-convmem",
    "middleware": "LangChain's middleware",
    "langmem": "langmem",
    "full": "all messages",
    "last 20": "the last 20",
}
_STYLES = {"quoting": "word for word", "retelling": "half in its own words"}


def _write_long_chat(results: dict[str, Any]) -> Iterator[str]:
    yield f"| the summarizer writes | | {' | '.join(_LONG_CHAT.values())} |"
    yield "| --- | --- |" + " --- |" * len(_LONG_CHAT)
    for style, told in _STYLES.items():
        one = results["long_chat"]["figures"][style]
        columns = [_list_long_chat(one, name) for name in _LONG_CHAT]
        for title in columns[0]:
            cells = " | ".join(str(column[title]) for column in columns)
            yield f"| {told} | {title} | {cells} |"


def _list_long_chat(one: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the rows of a system; those that nobody summarises for have no cost."""
    cost = one["cost"].get(name, {"per_token": "-"})
    return {
        "facts found when asked for, of 200": one["facts"][name]["told"],
        "facts stated wrongly": one["missaid"].get(name, "-"),
        "tokens of the largest context": f"{one['tokens'][name]['most']:,}",
        "summarizer's tokens per token of chat": cost["per_token"],
    }


def _write_runs(results: dict[str, Any]) -> Iterator[str]:
    yield "| benchmark | command | commit | date |"
    yield "| --- | --- | --- | --- |"
    for name, part in results.items():
        if "commit" in part:
            yield f"| {name} | `{part['command']}` | `{part['commit']}` | {part['date']} |"
        for place, carried in part.get("carried", {}).items():
            where = place.partition(": ")[2]
            yield f"| {name}: {where} | `{part['command']}` | `{carried['commit']}` | {carried['date']} |"


TABLES: dict[str, Callable[[dict[str, Any]], Iterator[str]]] = {
    "recall": _write_recall,
    "recall_costs": _write_recall_costs,
    "quickstart": _write_quickstart,
    "long_chat": _write_long_chat,
    "costs": _write_costs,
    "runs": _write_runs,
}
"""What writes a marked part, by the name in its mark."""


def draw_chart(results: dict[str, Any]) -> Drawing:
    """Draw the measured recall as bars: dialogues with an assistant first."""
    folders = results["recall"]["figures"]["folders"]
    panels = [
        ("A user and an assistant (BEAM, 4 of 20): a piece of it", "beam_dev_4", "touched"),
        ("A user and an assistant (long replies): its part", "long_replies", "evidence_recall"),
        ("Two people (LoCoMo): the whole line", "locomo_dev", "evidence_recall"),
    ]
    shown = [name for name in SYSTEMS if name != "convmem"]
    picture = Drawing(
        900, 64 + len(panels) * (44 + 24 * len(shown)),
        "What is found within 1,000 tokens of recalled text",
        "Bars of the share of evidence that each system brings back, on three sets of dialogues; "
        "the page on recall has a table of the same figures.",
    )  # fmt: skip
    title = "Evidence found within 1,000 tokens of recalled text, same embedder"
    picture.text(24, 36, title, kind="title")
    y = 72.0
    for title, folder, column in panels:
        picture.text(24, y, title, kind="bold")
        y += 12
        for name in shown:
            share = folders[folder]["systems"][name][column]
            kind = "bar3" if name.startswith("convmem") else "bar2"
            picture.text(330, y + 15, SYSTEMS[name].replace("`", ""), kind="small", anchor="end")
            picture.bar(340, y + 3, 480 * share, 16, kind=kind)
            picture.text(346 + 480 * share, y + 15, f"{share:.3f}", kind="small")
            y += 24
        y += 32
    return picture


def write_parts(text: str, results: dict[str, Any]) -> str:
    """Return a page with its marked parts written anew.

    Raises:
        LookupError: If a mark names no table.
    """

    def write(found: re.Match[str]) -> str:
        name = found[2]
        rows = f"Not measured yet: `python -m benchmarks --json {name}` does."
        if name.partition("_costs")[0] in results or name == "runs":
            rows = "\n".join(TABLES[name](results))
        return f"{found[1]}\n{rows}\n\n{found[3]}"

    return _MARKED.sub(write, text)


def list_pages() -> list[Path]:
    """Return README and the pages of the documentation that hold figures."""
    pages = sorted((ROOT / "docs").rglob("*.md"))
    return [ROOT / "README.md", *(page for page in pages if page.parent.name not in ("adr", "api"))]


def find_unknown_figures(text: str, results: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each figure of a page that no result holds, with its line.

    Figures are numbers with a decimal point, outside of code that runs. Results hold them as they
    are, or rounded to one, two or three places.
    """
    known = _collect_numbers(results)
    for block in _FENCED.finditer(text):
        if block[2] != "text":
            text = text.replace(block[0], "\n" * block[0].count("\n"), 1)
    for line in text.splitlines():
        for number in _NUMBER.findall(line):
            if number not in known:
                yield number, line


def _collect_numbers(value: Any) -> set[str]:
    if isinstance(value, float):
        return {str(value), f"{value:.1f}", f"{value:.2f}", f"{value:.3f}"}
    if isinstance(value, str):
        return set(_NUMBER.findall(value))
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return {number for one in inside for number in _collect_numbers(one)}


def write_all() -> dict[Path, str]:
    """Return the text of every page with marked parts, and of the chart if measured, by path."""
    results = load_results()
    written = {page: write_parts(page.read_text("utf-8"), results) for page in list_pages()}
    marked = {page: text for page, text in written.items() if "<!-- figures: " in text}
    if "recall" in results:
        marked[CHART] = draw_chart(results).render()
    return marked


if __name__ == "__main__":
    raise SystemExit(save(write_all(), sys.argv, "figures"))
