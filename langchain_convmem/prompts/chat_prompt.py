"""Prompt files as LangChain chat prompts.

What is built here survives `dumpd` and `load` when `load` is given `CHAT_PROMPT_TYPES` and the
namespace `langchain_convmem`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from langchain_core.load.serializable import Serializable
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.prompts.message import BaseMessagePromptTemplate

from langchain_convmem.errors import ConfigError
from langchain_convmem.prompts.examples import (
    ExampleRole,
    alternation_problem,
    example_problems,
    example_roles,
)
from langchain_convmem.prompts.layout import heading
from langchain_convmem.prompts.message_templates import (
    InputPlaceholder,
    RunTimeVariable,
    SectionsMessagePromptTemplate,
    SectionText,
)
from langchain_convmem.prompts.placeholders import split_pieces
from langchain_convmem.prompts.variables import Failed, VariableFunction

if TYPE_CHECKING:
    from langchain_convmem.prompts.prompt_file import PromptFile

__all__ = ["CHAT_PROMPT_TYPES", "Evaluation", "Layout", "build_chat_prompt"]

CHAT_PROMPT_TYPES: tuple[type[Serializable], ...] = (
    ChatPromptTemplate,
    InputPlaceholder,
    MessagesPlaceholder,
    RunTimeVariable,
    SectionText,
    SectionsMessagePromptTemplate,
)
"""What `langchain_core.load.load` must be allowed to make for a prompt of `build_chat_prompt`."""

_VARIABLE_PREFIX = "variable_"


class Layout(NamedTuple):
    """What stands where; see `PromptFile.to_chat_prompt`."""

    sections: Sequence[str] | None
    history: bool
    volatile: Literal["tail", "head"]
    include_titles: bool
    include_summary: bool


class Evaluation(NamedTuple):
    """How variables get their values; see `evaluate_steps`."""

    functions: Mapping[str, VariableFunction]
    strict: bool
    failed: Failed | None


def build_chat_prompt(
    prompt: PromptFile, layout: Layout, evaluation: Evaluation
) -> ChatPromptTemplate:
    """Return the chat prompt of a file: system message, examples, `history`, `input`.

    Raises:
        ConfigError: See `PromptFile.to_chat_prompt`.
    """
    if layout.volatile not in ("tail", "head"):
        raise ConfigError(f"volatile must be 'tail' or 'head', got {layout.volatile!r}")
    order = _order(prompt, layout.sections)
    roles = _example_roles(prompt, order)
    plain = [title for title in order if title not in roles]
    late = [one for one in plain if layout.volatile == "tail" and one in prompt.occurrences]
    early = [title for title in plain if title not in late]
    system = SectionsMessagePromptTemplate(
        sections=_text(prompt, early, has_headings=layout.include_titles),
        summary_heading=_summary_heading(prompt, layout),
    )
    examples = [
        SectionsMessagePromptTemplate(
            sections=_text(prompt, [title], has_headings=False), role=roles[title]
        )
        for title in order
        if title in roles
    ]
    tail = _text(prompt, late, has_headings=layout.include_titles)
    return _assembled(
        [system, *examples],
        InputPlaceholder(variable_name="input", sections=tail),
        layout,
        partials=_variables(prompt, order, evaluation),
        metadata=prompt.trace_metadata or None,
    )


def _assembled(
    messages: Iterable[BaseMessagePromptTemplate],
    last: InputPlaceholder,
    layout: Layout,
    *,
    partials: dict[str, Any],
    metadata: dict[str, Any] | None,
) -> ChatPromptTemplate:
    past = [MessagesPlaceholder("history", optional=True)] if layout.history else []
    optional = {"history": layout.history, "recalled": True, "summary": layout.include_summary}
    return ChatPromptTemplate(
        [*messages, *past, last],
        partial_variables={**partials, **({"history": []} if past else {})},
        optional_variables=[name for name, is_there in optional.items() if is_there],
        metadata=metadata,
    )


def _order(prompt: PromptFile, sections: Sequence[str] | None) -> list[str]:
    if sections is None:
        return list(prompt.sections)
    for title in sections:
        if title not in prompt.sections:
            msg = f"{prompt.name} has no section {title!r}; it has {list(prompt.sections)}"
            raise ConfigError(msg)
    return list(sections)


def _example_roles(prompt: PromptFile, order: Iterable[str]) -> dict[str, ExampleRole]:
    roles = example_roles(prompt.metadata)
    problems = [message for _, message in example_problems(prompt.metadata, prompt.sections)]
    problem = problems[0] if problems else alternation_problem(order, roles)
    if problem is not None:
        raise ConfigError(f"{prompt.name}: {problem}")
    return roles


def _summary_heading(prompt: PromptFile, layout: Layout) -> str | None:
    if not layout.include_summary:
        return None
    return heading(prompt.summary_title) if layout.include_titles else ""


def _text(prompt: PromptFile, titles: Iterable[str], *, has_headings: bool) -> SectionText:
    titles = list(titles)
    return SectionText(
        headings=[heading(title) if has_headings else "" for title in titles],
        bodies=[_named(prompt, title) for title in titles],
    )


def _named(prompt: PromptFile, title: str) -> list[str]:
    """Return the section's pieces, with safe names of template variables at odd places."""
    pieces = split_pieces(prompt.sections[title], prompt.occurrences.get(title, ()))
    return [_VARIABLE_PREFIX + part if at % 2 else part for at, part in enumerate(pieces)]


def _variables(prompt: PromptFile, titles: Iterable[str], evaluation: Evaluation) -> dict[str, Any]:
    names = dict.fromkeys(
        found.function_name for title in titles for found in prompt.occurrences.get(title, ())
    )
    return {
        _VARIABLE_PREFIX + name: RunTimeVariable(
            function_name=name,
            function=evaluation.functions.get(name),
            strict=evaluation.strict,
            failed=evaluation.failed,
        )
        for name in names
    }
