"""A variable function that failed, as a diagnostic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from langchain_convmem.prompts.diagnostics import Diagnostic, Findings
from langchain_convmem.prompts.placeholders import Occurrence

__all__ = ["OnProblem", "report_failure"]

OnProblem: TypeAlias = Callable[[Diagnostic], object]
"""Is told what went wrong in a call that goes on."""


def report_failure(  # noqa: PLR0917 - the first four are bound beforehand
    on_problem: OnProblem,
    name: str,
    sections: Mapping[str, str],
    occurrences: Mapping[str, tuple[Occurrence, ...]],
    function_name: str,
    error: Exception,
) -> None:
    """Report an error that shows where the value is missing.

    Line and column are those of the section's text, which compiled files have too; the name says
    so: it is that of the file, a number sign and the section's title.

    Args:
        on_problem: Gets the diagnostic.
        name: What the file is called.
        sections: Title -> text.
        occurrences: Title -> where variables stand in the text.
        function_name: The function; it occurs at least once.
        error: What it raised.
    """
    title, start = next(
        (title, found.start)
        for title, places in occurrences.items()
        for found in places
        if found.function_name == function_name
    )
    findings = Findings(f"{name}#{title}", sections[title])
    reason = f"{type(error).__name__}: {error}".removesuffix(": ")
    findings.error(
        f"the function '{function_name}' failed, so its value is empty: {reason}",
        start,
    )
    on_problem(findings.in_order()[0])
