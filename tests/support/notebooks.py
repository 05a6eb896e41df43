"""Executes the notebooks of the cookbook, and compares what they show with what is stored.

`python tests/support/notebooks.py check` is `make cookbook`, `... write` is `make notebooks`; names
of notebooks after the word leave out the others. A notebook is executed as a reader would, in an
empty folder, without keys and without a network but loopback; its first cell, which installs what
it needs, is passed over.

What may differ between two runs is named here and nowhere else: ids, ports, addresses in memory,
temporary paths, the day of the run, and numbers with a fraction by `FRACTION`. A cell whose numbers
are measured says so by a tag, such as `tolerance=3`: they may be three times larger or smaller.
Figures are compared by what is drawn, which `describe_figure` puts into words; the words are stored
beside the picture, where a screen reader finds them.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
COOKBOOK = ROOT / "cookbook"
FRACTION = 0.02
"""By how much of itself a number with a fraction may differ: sums have another order elsewhere."""
MOST_BYTES = 60_000
"""A picture is no larger, so that a clone stays small."""
_TIMEOUT_S = 300
_SECRETS = ("API_KEY", "AWS_", "CONVMEM_")


PRELUDE = """
import sys as _sys

_sys.path.insert(0, {support!r})
from notebooks_kernel import prepare_kernel as _prepare

_prepare()
del _prepare, _sys
"""


@dataclass(frozen=True)
class Run:
    """A notebook before and after it was executed, and how long that took."""

    path: Path
    stored: Any
    made: Any
    seconds: float


def execute_notebook(path):
    """Execute a notebook in a kernel of its own.

    Raises:
        CellExecutionError: If a cell raises; the error shows the cell.
    """
    import nbformat
    from nbclient import NotebookClient

    stored = nbformat.read(path, as_version=4)
    made = nbformat.read(path, as_version=4)
    prelude = nbformat.v4.new_code_cell(PRELUDE.format(support=str(Path(__file__).parent)))
    made.cells.insert(0, prelude)
    start = time.monotonic()
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        client = NotebookClient(
            made,
            timeout=_TIMEOUT_S,
            kernel_name="python3",
            extra_arguments=["--log-level=ERROR"],
            resources={"metadata": {"path": folder}},
            store_widget_state=False,
            record_timing=False,
        )
        client.execute(env=make_environment())
    made.cells.pop(0)
    for number, cell in enumerate(filter(is_executed, made.cells), 1):
        cell.execution_count = number
        # A progress bar is shown by slow machines alone.
        shown = [one for one in cell.outputs if not one.get("text", "").startswith("\r")]
        cell.outputs = list(join_streams(shown))
        for output in cell.outputs:
            if "execution_count" in output:
                output["execution_count"] = number
            hide_paths(output)
    made.metadata["executed"] = datetime.now(UTC).date().isoformat()
    return Run(path, stored, made, time.monotonic() - start)


def is_executed(cell):
    """Return whether a cell is code that runs here: not what installs packages."""
    return cell["cell_type"] == "code" and "skip-execution" not in cell["metadata"].get("tags", ())


def make_environment():
    """Return this process's environment without keys, so that no cell reaches a paid service."""
    return {
        **{k: v for k, v in os.environ.items() if not any(secret in k for secret in _SECRETS)},
        "PYTHONPATH": str(ROOT),
        "PYTHONUTF8": "1",
        "PYTHONHASHSEED": "0",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def join_streams(outputs):
    """Yield outputs with what was printed in one piece, however the kernel sent it."""
    last = None
    for output in outputs:
        if last and output.get("name") and output.get("name") == last.get("name"):
            last["text"] += output["text"]
            continue
        last = output
        yield output


def hide_paths(output):
    """Take the paths of this machine out of an output."""
    if "text" in output:
        output["text"] = _hide_in(output["text"])
    for kind, shown in output.get("data", {}).items():
        if kind.startswith("text/") and isinstance(shown, str):
            output["data"][kind] = _hide_in(shown)


_TEMPORARY = re.compile(r"(?:/private)?(?:/tmp|/var/folders/[\w/+-]+)/[\w.-]+")


def _hide_in(text):
    return _TEMPORARY.sub("<temporary>", text.replace(str(ROOT), "..."))


_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?(?![\w])")
_VOLATILE = (
    (re.compile(r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b"), "<id>"),
    (re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"), "<id>"),
    (re.compile(r"\b(?:run-|lc_run--)[\w-]+|\bcall_[0-9a-f]{16,}"), "<id>"),
    (re.compile(r"\b0x[0-9a-f]{6,}\b"), "<address>"),
    (re.compile(r"(127\.0\.0\.1|localhost):\d+"), r"\1:<port>"),
    (re.compile(r"\b\d{13}\b"), "<ms>"),
    (re.compile(r"(?<!\d)\d\d:\d\d:\d\d(?:\.\d+)?(?:\+00:00|Z)?"), "<time>"),
    (re.compile(r"\b\d+ (?:day|week|month|year)s? ago"), "<some time> ago"),
    (_TEMPORARY, "<temporary>"),
)


def compare_notebooks(stored, made):
    """Yield, cell by cell, what a run shows otherwise than what is stored."""
    days = [stored["metadata"].get("executed", ""), made["metadata"].get("executed", "")]
    pairs = zip(stored["cells"], made["cells"], strict=True)
    for number, (before, now) in enumerate(pairs):
        if before["cell_type"] != "code":
            continue
        old, new = (
            normalize("\n".join(list_texts(cell)), day)
            for cell, day in zip((before, now), days, strict=True)
        )
        if not are_close(old, new, read_tolerance(before)):
            lines = difflib.unified_diff(
                old.splitlines(), new.splitlines(), "stored", "now", lineterm="", n=1
            )
            yield f"cell {number}:\n" + "\n".join(f"    {line}" for line in lines)


def read_tolerance(cell):
    """Return how many times larger a number of a cell may be; 1: none may, but by `FRACTION`."""
    tags = dict(tag.partition("=")[::2] for tag in cell["metadata"].get("tags", ()))
    return float(tags.get("tolerance", 1))


def list_texts(cell):
    """Yield what a cell shows, in words; of a picture that there is one, and what it shows."""
    for output in cell["outputs"]:
        data = output.get("data", {})
        if "image/png" in data:
            yield "[picture]"
        yield output.get("text") or str(data.get("text/plain", ""))


def normalize(text, day):
    """Return a text without what every run has of its own.

    Args:
        text: What a cell shows.
        day: When it was executed, as an ISO date; the days around it count as that day, too.
    """
    if day:
        around = datetime.fromisoformat(day)
        for days in (-1, 0, 1):
            text = text.replace((around + timedelta(days=days)).date().isoformat(), "<day>")
    for pattern, name in _VOLATILE:
        text = pattern.sub(name, text)
    return text


def are_close(old, new, tolerance):
    """Return whether two texts are equal but for numbers that may differ."""
    if old == new:
        return True
    # Blanks do not count: a longer number moves a table's columns.
    if _NUMBER.sub("#", old).split() != _NUMBER.sub("#", new).split():
        return False
    pairs = zip(_NUMBER.findall(old), _NUMBER.findall(new), strict=True)
    return all(_may_differ(*pair, tolerance) for pair in pairs)


def _may_differ(old, new, tolerance):
    if old == new:
        return True
    before, now = (float(number.replace(",", "")) for number in (old, new))
    if tolerance > 1:
        low, high = sorted((abs(before), abs(now)))
        return high <= tolerance * low + 1
    if "." not in old + new:
        return False
    digits = min(len(number.partition(".")[2]) for number in (old, new))
    return abs(before - now) <= max(FRACTION * abs(before), 1.01 * 10**-digits)


def merge_outputs(stored, made):
    """Keep stored outputs where a run shows the same; return whether anything is new.

    So that pictures do not change in the history of the repository when nothing did.
    """
    is_new = False
    changed = {text.partition(":")[0] for text in compare_notebooks(stored, made)}
    same = []
    for number, (before, now) in enumerate(zip(stored["cells"], made["cells"], strict=True)):
        if not is_executed(now):
            continue
        if f"cell {number}" in changed or not before.get("execution_count"):
            is_new = True
        else:
            same.append((before, now))
    day = stored["metadata"].get("executed", "")
    if not is_new:
        made.metadata["executed"] = day or made.metadata["executed"]
    for before, now in same:
        # What shows the day of its run cannot stand in a notebook that another day is noted for.
        is_of_its_day = day and normalize(text := "\n".join(list_texts(before)), day) != normalize(
            text, ""
        )
        if not (is_new and is_of_its_day):
            now["outputs"] = before["outputs"]
    return is_new


def write_run(run, *, anew):
    """Store the outputs of a run; return what happened in a word.

    Args:
        run: The run.
        anew: Whether outputs that show the same are replaced, as after a change of style.
    """
    is_new = anew or merge_outputs(run.stored, run.made)
    import nbformat

    text = nbformat.writes(run.made, indent=1, ensure_ascii=False)
    run.path.write_text(text if text.endswith("\n") else text + "\n", encoding="utf-8")
    return "written" if is_new else "unchanged"


def check_run(run):
    """Return "ok", or what differs."""
    found = list(compare_notebooks(run.stored, run.made))
    return "\n".join(["differs", *found]) if found else "ok"


def run_all(paths, handle, *, jobs):
    """Execute notebooks, print a line for each, and return how many failed."""
    failures = 0
    started = time.monotonic()
    with ThreadPoolExecutor(jobs) as executor:
        for path, run in zip(paths, executor.map(_try_notebook, paths), strict=True):
            if isinstance(run, Exception):
                failures += 1
                _say(f"{path.name}: raised\n{run}")
                continue
            outcome = handle(run)
            failures += outcome.startswith("differs")
            _say(f"{path.name}: {outcome} ({run.seconds:.1f} s)")
    _say(f"{len(paths)} notebooks in {time.monotonic() - started:.0f} s, {failures} failed")
    return failures


_say = partial(print, flush=True)


def _try_notebook(path):
    from nbclient.exceptions import CellExecutionError

    try:
        return execute_notebook(path)
    except CellExecutionError as error:
        return error


def list_notebooks(names=()):
    """Return the notebooks whose names begin with one of these; without any, all."""
    found = sorted(COOKBOOK.glob("*.ipynb"))
    return [path for path in found if not names or path.name.startswith(tuple(names))]


def main(arguments=None):
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("action", choices=["check", "write"])
    parser.add_argument("names", nargs="*", help="beginnings of names, such as 06")
    parser.add_argument("--jobs", type=int, default=2, help="how many run at once")
    parser.add_argument("--anew", action="store_true", help="write what shows the same, too")
    given = parser.parse_intermixed_args(arguments)
    handle = partial(write_run, anew=given.anew) if given.action == "write" else check_run
    return 1 if run_all(list_notebooks(given.names), handle, jobs=given.jobs) else 0


if __name__ == "__main__":
    sys.exit(main())
