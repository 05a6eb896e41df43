"""Cases of prompt files."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from conformance.cases import INFORMATION, alternatives, check_any, check_equal, check_keys
from langchain_convmem import PromptFile
from langchain_convmem.errors import PromptSyntaxError

DEFAULT_FUNCTIONS = {"dayStamp": "2031-05-06", "clockNow": "07:08:09"}
SUFFIXES = {"json": ".json", "binary": ".bytes"}
"""Compiled forms by the names that cases have for them."""
COMPILED = ("metadata", "constants", "variable_definitions", "sections", "occurrences")


def run_prompt_case(case):
    check_keys("case", set(case.fields) - {"input", "functions", "expect", "accept"}, INFORMATION)
    options = alternatives(case, {*CHECKS, "raises"})
    check_any(options, lambda expect: _compare(case, expect))


@dataclass
class Functions:
    """The functions that a case registers; counts their calls."""

    values: Mapping[str, Any]
    applied: int = 0
    calls: Counter[str] = field(default_factory=Counter)

    def registered(self):
        return {name: self._function(name, value) for name, value in self.values.items()}

    def _function(self, name, value):
        def call():
            self.calls[name] += 1
            return value[min(self.applied, len(value) - 1)] if isinstance(value, list) else value

        def fail():
            raise RuntimeError(value["raises"])

        if not isinstance(value, Mapping):
            return call
        check_keys("function", value, {"raises"})
        return fail


@dataclass
class Prompt:
    """A parsed prompt, and everything that was reported of it."""

    file: PromptFile
    functions: Functions
    levels: list[str]

    def render(self):
        self.functions.calls.clear()
        try:
            return self.file.render()
        finally:
            self.functions.applied += 1


def _compare(case, expect):
    functions = Functions(case.fields.get("functions", DEFAULT_FUNCTIONS))
    with _reports() as levels:
        file, error = _parsed(case.fields["input"], functions)
        check_equal("parsing raised", error, bool(expect.get("raises")))
        if file is None:
            return
        levels += [found.level for found in file.diagnostics]
        prompt = Prompt(file, functions, levels)
        for key in sorted(set(expect) & set(CHECKS), key=list(CHECKS).index):
            CHECKS[key](prompt, expect[key])


def _parsed(text, functions):
    """Return the file, or that it was refused."""
    try:
        return PromptFile.parse(text, strict=False, functions=functions.registered()), False
    except PromptSyntaxError:
        return None, True


@contextmanager
def _reports():
    """Collect the levels of what the package logs."""
    levels = []
    handler = logging.Handler()
    handler.emit = lambda record: levels.append(record.levelname.lower())
    logger = logging.getLogger("langchain_convmem")
    logger.addHandler(handler)
    try:
        yield levels
    finally:
        logger.removeHandler(handler)


def _rendered_sequence(prompt, expected):
    raw = dict(prompt.file.sections)
    prompt.functions.applied = 0
    for number, wanted in enumerate(expected):
        check_equal(f"rendered {number + 1}", prompt.render(), wanted)
    check_equal("raw prompts afterwards", dict(prompt.file.sections), raw)


def _calls_per_apply(prompt, expected):
    prompt.render()
    allowed = expected if isinstance(expected, Mapping) else {}
    for name, count in prompt.functions.calls.items():
        most = allowed.get(name) if isinstance(expected, Mapping) else expected
        assert most is None or count <= most, f"{name} was called {count} times, allowed {most}"


def _occurrences(prompt, expected):
    found = {title: [list(at) for at in every] for title, every in prompt.file.occurrences.items()}
    wanted = {title: every for title, every in expected.items() if every}
    check_equal("occurrences", {t: every for t, every in found.items() if every}, wanted)


def _formatted(prompt, expected):
    known = {"titles", "include_title", "include_summary", "summary", "text"}
    for call in expected:
        check_keys("formatted", call, known)
        text = prompt.file.format(
            call["titles"],
            include_titles=call.get("include_title", True),
            include_summary=call.get("include_summary", True),
            summary=call.get("summary", ""),
        )
        check_equal(f"formatted {call['titles']}", text, call["text"])


def _round_trip(prompt, expected):
    check_keys("round_trip", expected, SUFFIXES)
    functions = prompt.functions.registered()
    with TemporaryDirectory() as folder:
        for form, is_same in expected.items():
            path = Path(folder) / f"prompt{SUFFIXES[form]}"
            prompt.file.save(path)
            loaded = PromptFile.load(path, strict=False, functions=functions)
            found = {field: getattr(loaded, field) for field in COMPILED}
            wanted = {field: getattr(prompt.file, field) for field in COMPILED}
            check_equal(f"{form} reads back the same", found == wanted, is_same)


def _diagnostics(prompt, expected):
    check_keys("diagnostics", expected, {"error", "problem"})
    errors = prompt.levels.count("error")
    found = {"error": errors, "problem": errors + prompt.levels.count("warning")}
    for level, least in expected.items():
        assert found[level] >= least, f"{found[level]} diagnostics of level {level}, not {least}"


def _pick(found, wanted):
    return {key: found.get(key) for key in wanted}


def _check_same(name, read):
    return lambda prompt, wanted: check_equal(name, read(prompt, wanted), wanted)


READ = {
    "metadata": lambda prompt, _: dict(prompt.file.metadata),
    "constants": lambda prompt, _: dict(prompt.file.constants),
    "variables_definition": lambda prompt, _: dict(prompt.file.variable_definitions),
    "prompts": lambda prompt, _: dict(prompt.file.sections),
    "prompts_include": lambda prompt, wanted: _pick(prompt.file.sections, wanted),
    "prompt_order": lambda prompt, _: list(prompt.file.sections),
    "json_include": lambda prompt, wanted: _pick(json.loads(prompt.file.compile("json")), wanted),
    "rendered": lambda prompt, _: prompt.render(),
}
"""What is to be what a case says."""

CHECKS = {
    **{name: _check_same(name, read) for name, read in READ.items()},
    "occurrences": _occurrences,
    "rendered_sequence": _rendered_sequence,
    "calls_per_apply": _calls_per_apply,
    "formatted": _formatted,
    "round_trip": _round_trip,
    "diagnostics": _diagnostics,  # last: it counts what the others had reported
}
