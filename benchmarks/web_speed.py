"""What the web chat adds: its first page, and a turn in a browser beside the bare service.

    python -m benchmarks.web_speed [--lines N] [--rounds N] [--json]

One user has N lines in threads of 100. `convmem web` serves them over a scripted service on
loopback, to headless Chromium (Debian's `chromium`, and the client `playwright`). All times are
milliseconds, medians of the rounds; the first round of each is not counted.

    page         from the navigation until the page answers keys: its scripts have run
    thread       the same of a page that shows a thread of 100 lines
    bare first   a request to the service itself, until the first word is there
    bare whole   the same, until the last one is
    turn first   in the browser, from Enter until the first word is in the page
    turn whole   the same, until the reply is stored and shown with what was recalled for it

The difference is what recall over all lines, two writes, the server and the page cost. The service
answers at once, so nothing hides behind a model.
"""

from __future__ import annotations

import importlib
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from benchmarks import ui
from benchmarks.synthetic_dialogue import said, threads
from langchain_convmem import ConversationMemory

SUPPORT = Path(__file__).parents[1] / "tests" / "support"
THREAD = 100
QUESTION = said(1)

_TURN = """async question => {
  const wait = check => new Promise(resolve => {
    const look = () => check() ? resolve(performance.now()) : requestAnimationFrame(look);
    look() });
  const count = () => document.querySelectorAll('.message.assistant[data-message]').length;
  const before = count();
  document.querySelector('#text').value = question;
  const start = performance.now();
  document.querySelector('#composer').requestSubmit();
  const live = () => document.querySelector('.is-live .body')?.textContent;
  const first = await wait(() => live() || count() > before);
  const whole = await wait(() => count() > before && !document.querySelector('.is-live'));
  return [first - start, whole - start] }"""


def fill(folder: Path, lines: int) -> None:
    """Store and embed a user's lines."""
    with ConversationMemory.open(folder / "memory.db") as memory:
        for number, lines_said in enumerate(threads(lines, per_thread=THREAD)):
            thread = f"t{number}"
            memory.add_messages(lines_said, user_id="maya", thread_id=thread, durable=False)
        memory.refresh(user_id="maya")


def measure(folder: Path, program: str, rounds: int) -> dict[str, Any]:
    """Return the medians."""
    sys.path.insert(0, str(SUPPORT))
    server = importlib.import_module("web_server")
    playwright = importlib.import_module("playwright.sync_api")
    times: dict[str, list[float]] = {}
    with (
        server.run_service() as (service, gate),
        server.run_server(folder, service, "--no-summaries") as (address, _),
        playwright.sync_playwright() as started,
    ):
        gate.opened.set()
        browser = started.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu"]
        )
        for number in range(rounds + 1):
            found = measure_round(browser, address, service, number)
            for name, ms in found.items() if number else ():
                times.setdefault(name, []).append(ms)
        browser.close()
    return {name: round(median(values), 1) for name, values in times.items()}


def measure_round(browser: Any, address: str, service: str, number: int) -> dict[str, float]:
    """Return the times of a round: pages of a browser without a cache, a turn of each kind."""
    found: dict[str, float] = {}
    for name, path in (("page", ""), ("thread", f"&thread=t{number}")):
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"{address}/chat?user=maya{path}")
        found[name] = page.evaluate(
            "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"
        )
        if name == "page":
            found["bare first"], found["bare whole"] = call_service(service)
            found["turn first"], found["turn whole"] = page.evaluate(_TURN, QUESTION)
        context.close()
    return found


def call_service(service: str) -> tuple[float, float]:
    """Return how long the service itself takes, until its first word and its last."""
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": QUESTION}]}
    start, first = time.perf_counter(), 0.0
    headers = {"Authorization": "Bearer none"}
    address = f"{service}/chat/completions"
    with httpx.stream("POST", address, json=body, headers=headers) as answer:
        answer.raise_for_status()
        for line in answer.iter_lines():
            if not first and _says_something(line):
                first = time.perf_counter()
    return 1000 * (first - start), 1000 * (time.perf_counter() - start)


def _says_something(line: str) -> bool:
    if not line.startswith("data: {"):
        return False
    choices = json.loads(line.removeprefix("data: "))["choices"]
    return any(choice["delta"].get("content") for choice in choices)


def make_table(report: dict[str, Any]) -> list[str]:
    """Return the report for people."""
    rows = [(name, f"{ms:.1f} ms") for name, ms in report.items() if name != "lines"]
    return [f"{report['lines']:,} lines of one user", *ui.format_rows(rows)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code."""
    parser = ui.make_parser("benchmarks.web_speed", __doc__)
    parser.add_argument(
        "--lines", type=ui.parse_positive, default=100_000, help="lines of the user"
    )
    parser.add_argument(
        "--rounds", type=ui.parse_positive, default=9, help="pages and turns of each kind"
    )
    options = parser.parse_args(arguments)
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        parser.error("chromium is not installed")
    with tempfile.TemporaryDirectory() as directory:
        fill(Path(directory), options.lines)
        report: dict[str, Any] = measure(Path(directory), program, options.rounds)
    for what in ("first", "whole"):
        report[f"added {what}"] = round(report[f"turn {what}"] - report[f"bare {what}"], 1)
    report["lines"] = options.lines
    return ui.print_report(report, make_table, as_json=options.json)


if __name__ == "__main__":
    raise SystemExit(main())
