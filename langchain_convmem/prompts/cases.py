"""Cases of a prompt file: which messages it must make of which variables, and where it differs."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage

from langchain_convmem.causes import ErrorTrap
from langchain_convmem.errors import ConfigError
from langchain_convmem.prompts.prompt_file import PromptFile

CASES_FORM = (
    'a list of cases {"name", "input"?, "functions"?: {name: text}, "variables"?: {name: text}, '
    '"messages": [{"role", "content"}]}'
)
_ROLES = {"human": "user", "ai": "assistant"}
_MEMBERS = {"name", "input", "functions", "variables", "messages"}


@dataclass(frozen=True, slots=True)
class PromptCase:
    """One case.

    Attributes:
        name: What it is called.
        functions: What variable functions return, by name.
        variables: Values of run-time variables, by name.
        input: What the user says.
        messages: The messages that must come out: pairs of role and text.
    """

    name: str
    functions: Mapping[str, str]
    variables: Mapping[str, str]
    input: str
    messages: tuple[tuple[str, str], ...]


def read_cases(text: str, name: str) -> list[PromptCase]:
    """Return the cases of a YAML or JSON file.

    Args:
        text: The file's text.
        name: What errors call it.

    Raises:
        ConfigError: If it is not such a list; the message names the place.
    """
    import yaml

    with ErrorTrap(yaml.YAMLError, ValueError, RecursionError) as trap:
        found = yaml.safe_load(text)
        return [
            _read_case(value, f"{name}, case {n}") for n, value in enumerate(_list(found, name), 1)
        ]
    raise ConfigError(f"{name} is neither YAML nor JSON ({trap.reason})")


def _list(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise ConfigError(f"{place} holds no list; expected {CASES_FORM}")
    return value


def _read_case(value: Any, place: str) -> PromptCase:
    if not isinstance(value, dict) or "messages" not in value:
        raise ConfigError(f"{place}: expected {CASES_FORM}")
    unknown = sorted(str(key) for key in value.keys() - _MEMBERS)
    if unknown:
        known = ", ".join(sorted(_MEMBERS))
        raise ConfigError(f"{place}: there is no member {unknown[0]!r}; there are {known}")
    messages = _list(value["messages"], f"{place}, messages")
    return PromptCase(
        name=str(value.get("name", place)),
        functions=_read_texts(value.get("functions", {}), f"{place}, functions"),
        variables=_read_texts(value.get("variables", {}), f"{place}, variables"),
        input=str(value.get("input", "")),
        messages=tuple(_read_message(one, f"{place}, messages") for one in messages),
    )


def _read_texts(value: Any, place: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ConfigError(f"{place}: expected names with their texts")
    return {str(name): str(text) for name, text in value.items()}


def _read_message(value: Any, place: str) -> tuple[str, str]:
    if not isinstance(value, dict) or not {"role", "content"} <= value.keys():
        raise ConfigError(f'{place}: expected {{"role", "content"}}')
    return str(value["role"]), str(value["content"])


def render_case(prompt: PromptFile, case: PromptCase) -> list[tuple[str, str]]:
    """Return the messages that a prompt file makes of a case, as pairs of role and text.

    Raises:
        ConfigError: If the case lacks a variable, or names one that there is not.
    """
    template = prompt.to_chat_prompt()
    open_names = [name for name in template.input_variables if name not in _SLOTS]
    problems = [
        *(f"gives no value to the variable {n!r}" for n in open_names if n not in case.variables),
        *(f"names no variable: {n!r}" for n in case.variables if n not in open_names),
    ]
    if problems:
        raise ConfigError(f"the case {case.name!r} {problems[0]}")
    spoken: list[BaseMessage] = [HumanMessage(case.input)] if case.input else []
    values = {"input": spoken, "history": [], **case.variables}
    messages = template.format_messages(**values)
    return [(_ROLES.get(one.type, one.type), _join_text(one)) for one in messages]


def _join_text(message: BaseMessage) -> str:
    """Return the text of a message, each block of it on lines of its own."""
    if isinstance(message.content, str):
        return message.content
    texts = [one if isinstance(one, str) else one.get("text", "") for one in message.content]
    return "\n".join(text.strip("\n") for text in texts if text)


_SLOTS = {"input", "history", "recalled", "summary"}


def compare_case(case: PromptCase, made: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield the difference between a case and what was made of it, as unified diffs are printed."""
    expected, found = (_list_lines(one) for one in (case.messages, made))
    yield from difflib.unified_diff(expected, found, "expected", "made", lineterm="")


def _list_lines(messages: Sequence[tuple[str, str]]) -> list[str]:
    return [line for role, text in messages for line in (f"[{role}]", *text.strip().split("\n"))]
