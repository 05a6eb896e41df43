"""Prompt files: how fast they parse, whatever their size, and what the compiled forms save.

    python -m benchmarks.prompts [--rounds N] [--json]

The source is generated: sections of a few sentences with constants, run-time variables, addresses
and comments, and no fault. Times are CPU times of this process, so that other programs count
little; in every round each case has its turn, and the median of the rounds is shown.

Figures:
    parse       `PromptFile.parse` of 10 KB to 10 MB: megabytes a second, nanoseconds a byte
    load        `PromptFile.load` of the source, of its JSON and of its binary form; no source lies
                beside the compiled ones, so that nothing is hashed
    jinja2      compiling the same 10 KB as a Jinja2 template (`from_string`), sandboxed as
                LangChain does it, and plain

Bars: a byte of 10 MB takes at most 1.5 times what a byte of 100 KB takes; loading a compiled form
is faster than loading the source.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from jinja2 import Environment
from jinja2.sandbox import SandboxedEnvironment

from langchain_convmem import PromptFile

SIZES = {"10 KB": 10_000, "100 KB": 100_000, "1 MB": 1_000_000, "10 MB": 10_000_000}
LOADED = ("10 KB", "1 MB")
FLAT = 1.5
_LARGEST = 16_000_000
_REPEATED_BYTES = 300_000
"""Small cases are repeated until they have read so much: one of them is too short to time."""

_HEAD = """\
/* A desk that answers guests; written by a program. */

__* Meta *__
- version = 3.1
- *MessageSummaryTitle* = What Was Said Before

__* Const *__
- house = Hotel Aurora
- clerk = Sol Ibarra

__* Var *__  // called anew for every request
- day = getDate
- clock = getTime

"""
_PHRASES = (
    "ask for the wish of the guest",
    "write it down before breakfast",
    "call back early",
    "never promise a late room",
    "bring the key to the lobby",
    "wait at the window for the taxi",
    "repeat name and number",
)
_ENDS = (
    ".",
    ", as {{clerk}} of {{house}} would.",
    "; it is {{clock}} now.",
    " (see https://aurora.example/rules/a?b=1).",
    ". // checked",
    " /* or so */ today, {{day}}.",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit code, which is 1 when a bar fails."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.prompts",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=5, help="turns of every case")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error(f"--rounds must be at least 1, got {options.rounds}")
    with tempfile.TemporaryDirectory(prefix="benchmark-prompts-") as folder:
        report = reported(measured(options.rounds, Path(folder)))
    print(json.dumps(report, indent=2) if options.json else table(report))
    return 0 if all(bar["ok"] for bar in report["bars"]) else 1


# -- measuring -------------------------------------------------------------------------------


def source(size: int) -> str:
    """Return a prompt file of about so many bytes, the same in every run."""
    chosen = random.Random(7)
    parts = [_HEAD]
    length = len(_HEAD)
    while length < size:
        lines = [_sentence(chosen) for _ in range(chosen.randint(2, 9))]
        section = f"__ Duty {len(parts)} __\n" + "\n".join(lines) + "\n\n"
        parts.append(section)
        length += len(section)
    return "".join(parts)


def _sentence(chosen: random.Random) -> str:
    text = ", and ".join(chosen.sample(_PHRASES, k=chosen.randint(1, 3)))
    indent = chosen.choice(("", "", "  - "))
    return indent + text.capitalize() + chosen.choice(_ENDS)


def measured(rounds: int, folder: Path) -> dict[str, list[float]]:
    """Return the seconds that every case took in each round."""
    texts = {name: source(size) for name, size in SIZES.items()}
    cases: dict[str, tuple[Callable[[], object], int]] = {
        f"parse {name}": (_parsing(text), len(text)) for name, text in texts.items()
    }
    for name in LOADED:
        for form, path in _saved(texts[name], folder / name.replace(" ", "")).items():
            cases[f"load {name} {form}"] = (_loading(path), len(texts[name]))
    small = texts["10 KB"]
    cases["jinja2 sandboxed"] = (lambda: SandboxedEnvironment().from_string(small), len(small))
    cases["jinja2 plain"] = (lambda: Environment().from_string(small), len(small))  # noqa: S701 - text for a model
    times: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(rounds):
        order = list(cases) if number % 2 else list(reversed(cases))
        for name in order:
            times[name].append(_seconds(*cases[name]))
    return times


def _parsing(text: str) -> Callable[[], object]:
    return lambda: PromptFile.parse(text, strict=True)


def _loading(path: Path) -> Callable[[], object]:
    return lambda: PromptFile.load(path, strict=True, max_bytes=_LARGEST)


def _saved(text: str, folder: Path) -> dict[str, Path]:
    forms = {"source": "desk.prompt", "JSON": "json/desk.json", "binary": "binary/desk.bytes"}
    paths = {form: folder / name for form, name in forms.items()}
    for path in paths.values():
        path.parent.mkdir(parents=True, exist_ok=True)
    paths["source"].write_text(text, encoding="utf-8")
    prompt = PromptFile.load(paths["source"], strict=True, max_bytes=_LARGEST)
    prompt.save(paths["JSON"])
    prompt.save(paths["binary"])
    return paths


def _seconds(case: Callable[[], object], size: int) -> float:
    turns = max(1, _REPEATED_BYTES // size)
    start = time.process_time()
    for _ in range(turns):
        case()
    return (time.process_time() - start) / turns


# -- reporting -------------------------------------------------------------------------------


def reported(times: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Return the figures and the bars as plain JSON."""
    taken = {name: median(rounds) for name, rounds in times.items()}
    parse = {
        name: _speed(taken[f"parse {name}"], len(source(size))) for name, size in SIZES.items()
    }
    loads = {name: _loads(taken, name) for name in LOADED}
    own = taken["parse 10 KB"]
    flat = parse["10 MB"]["ns_per_byte"] / parse["100 KB"]["ns_per_byte"]
    slowest = min(loads[name][form]["speedup"] for name in LOADED for form in ("JSON", "binary"))
    return {
        "machine": f"Python {platform.python_version()}, {sys.platform} {platform.machine()}",
        "rounds": len(next(iter(times.values()))),
        "parse": parse,
        "load_ms": loads,
        "jinja2_10_kb": {
            "parse_ms": round(own * 1e3, 2),
            "sandboxed_ms": round(taken["jinja2 sandboxed"] * 1e3, 2),
            "plain_ms": round(taken["jinja2 plain"] * 1e3, 2),
            "sandboxed_to_parse": round(taken["jinja2 sandboxed"] / own, 2),
        },
        "bars": [
            _bar("time per byte, 10 MB : 100 KB", flat, f"at most {FLAT}", ok=flat <= FLAT),
            _bar("compiled load, times as fast", slowest, "above 1", ok=slowest > 1),
        ],
    }


def _speed(seconds: float, size: int) -> dict[str, float]:
    return {
        "ms": round(seconds * 1e3, 2),
        "mb_per_s": round(size / seconds / 1e6, 2),
        "ns_per_byte": round(seconds / size * 1e9, 1),
    }


def _loads(taken: Mapping[str, float], name: str) -> dict[str, dict[str, float]]:
    whole = taken[f"load {name} source"]
    return {
        form: {
            "ms": round(taken[f"load {name} {form}"] * 1e3, 2),
            "speedup": round(whole / taken[f"load {name} {form}"], 1),
        }
        for form in ("source", "JSON", "binary")
    }


def _bar(what: str, value: float, wanted: str, *, ok: bool) -> dict[str, Any]:
    return {"bar": what, "value": round(value, 2), "wanted": wanted, "ok": ok}


def table(report: Mapping[str, Any]) -> str:
    """Return the report for people."""
    lines = [f"{report['machine']}, median of {report['rounds']} rounds, CPU time", ""]
    lines.append(f"{'parse':<28}{'ms':>10}{'MB/s':>8}{'ns/byte':>10}")
    lines += [
        f"  {name:<26}{row['ms']:>10.2f}{row['mb_per_s']:>8.2f}{row['ns_per_byte']:>10.1f}"
        for name, row in report["parse"].items()
    ]
    lines += ["", f"{'load':<28}{'ms':>10}{'times as fast':>18}"]
    for name, forms in report["load_ms"].items():
        lines += [
            f"  {name + ', ' + form:<26}{row['ms']:>10.2f}{row['speedup']:>18.1f}"
            for form, row in forms.items()
        ]
    jinja = report["jinja2_10_kb"]
    lines += ["", f"{'10 KB, once':<28}{'ms':>10}"]
    lines += [
        f"  {name:<26}{jinja[key]:>10.2f}"
        for name, key in (
            ("PromptFile.parse", "parse_ms"),
            ("Jinja2, sandboxed", "sandboxed_ms"),
            ("Jinja2, plain", "plain_ms"),
        )
    ]
    lines += ["", "bars"]
    lines += [
        f"  {bar['bar']:<40}{bar['value']:>8.2f}  {bar['wanted']:<12}{_verdict(bar)}"
        for bar in report["bars"]
    ]
    return "\n".join(lines)


def _verdict(bar: Mapping[str, Any]) -> str:
    return "ok" if bar["ok"] else "FAILS"


if __name__ == "__main__":
    raise SystemExit(main())
