"""Which sections are turns of an example dialogue: few-shot examples, named by the Meta section.

The keys are plain metadata to readers that do not know them, and the sections stay sections.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from langchain_convmem.prompts.diagnostics import Diagnostic, Findings

__all__ = [
    "ExampleRole",
    "alternation_problem",
    "diagnose_examples",
    "example_problems",
    "example_roles",
]

ExampleRole: TypeAlias = Literal["human", "ai"]

_KEYS: Mapping[str, ExampleRole] = {"*HumanExamples*": "human", "*AIExamples*": "ai"}
"""Keys of the Meta section whose values are titles, separated by commas."""


def example_roles(metadata: Mapping[str, str]) -> dict[str, ExampleRole]:
    """Return who speaks in which section: title -> role."""
    return {title: role for key, role in _KEYS.items() for title in _titles(metadata, key)}


def _titles(metadata: Mapping[str, str], key: str) -> list[str]:
    titles = (title.strip() for title in metadata.get(key, "").split(","))
    return [title for title in titles if title]


def example_problems(metadata: Mapping[str, str], sections: Iterable[str]) -> list[tuple[str, str]]:
    """Return what is wrong with the examples of a file: pairs of a key and a sentence."""
    roles = example_roles(metadata)
    known = dict.fromkeys(sections)
    problems = [
        (key, f"'{title}' is named by {key}, but there is no such section with text")
        for key in _KEYS
        for title in _titles(metadata, key)
        if title not in known
    ]
    used = [key for key in _KEYS if key in metadata]
    if len(used) == len(_KEYS) and set.intersection(*(set(_titles(metadata, key)) for key in used)):
        problems.append((used[-1], "a section cannot be an example of both human and AI"))
    disorder = alternation_problem(known, roles)
    return problems if disorder is None else [*problems, (used[-1], disorder)]


def alternation_problem(titles: Iterable[str], roles: Mapping[str, ExampleRole]) -> str | None:
    """Return what is wrong with the order of the examples among `titles`; None if it is right.

    Turns must alternate, from a human's to one of the AI: providers refuse other dialogues.
    """
    spoken = [roles[title] for title in titles if title in roles]
    if spoken == ["human", "ai"] * (len(spoken) // 2):
        return None
    return f"examples must alternate human, ai, in the order of sections; got {', '.join(spoken)}"


def diagnose_examples(
    text: str, *, name: str, metadata: Mapping[str, str], sections: Iterable[str]
) -> tuple[Diagnostic, ...]:
    """Return an error for each problem, at the line that holds the key."""
    findings = Findings(name, text)
    positions = {key: max(text.find(key), 0) for key in _KEYS}
    for key, message in example_problems(metadata, sections):
        findings.error(message, positions[key])
    return findings.in_order()
