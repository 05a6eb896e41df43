"""What a caller demands of the model's choice of tools, as far as text can make it so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from langchain_convmem.chat_templates import ChatTemplate
from langchain_convmem.conversation.replies import ReplyFormat
from langchain_convmem.conversation.replies.syntaxes.bare import BARE_JSON, BARE_PYTHON
from langchain_convmem.errors import ConfigError, UnsupportedError

__all__ = ["ToolChoice"]

_FREE = (None, False, "auto")
_ANY = (True, "any", "required")


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """A choice that is made before the model writes.

    Attributes:
        value: As it was given.
        shown: The tools that the model gets to see.
        start: What its reply is made to begin with; empty if it is free.
        closings: What opens a channel, and what closes it.
    """

    value: Any
    shown: list[dict[str, Any]]
    start: str
    closings: tuple[tuple[str, str], ...]

    @classmethod
    def of(
        cls,
        value: Any,
        tools: Sequence[dict[str, Any]],
        form: ReplyFormat,
        template: ChatTemplate,
    ) -> Self:
        """Read a choice.

        Args:
            value: See `TemplateChatModel.bind_tools`.
            tools: Schemas in OpenAI's form.
            form: How calls are written.
            template: What asks for them.

        Raises:
            ConfigError: If there is no such tool, or none at all where one is demanded.
            UnsupportedError: If nothing in the format makes a call certain.
        """
        closings = tuple((channel.start, channel.end) for channel in form.channels)
        if value == "none":
            return cls(value, [], "", closings)
        if value in _FREE:
            return cls(value, list(tools), "", closings)
        shown = list(tools) if value in _ANY else [_named(value, tools)]
        if not shown:
            raise ConfigError(f"tool_choice {value!r} demands a call, and there are no tools")
        return cls(value, shown, _start(form, template), closings)

    def forced(self, prompt: str) -> str:
        """Return what is put behind the prompt: the beginning of a call, or nothing."""
        if not self.start:
            return ""
        # A call within a channel would be a thought.
        ended = prompt.rstrip()
        closing = next((end for start, end in self.closings if ended.endswith(start)), "")
        return f"{closing}\n\n{self.start}" if closing else self.start


def _named(value: Any, tools: Sequence[dict[str, Any]]) -> dict[str, Any]:
    name = value
    if isinstance(value, Mapping):
        name = value.get("function", value).get("name")
    known = {tool["function"]["name"]: tool for tool in tools}
    if name not in known:
        raise ConfigError(f"tool_choice {value!r} names none of the tools {sorted(known)}")
    return known[name]


def _start(form: ReplyFormat, template: ChatTemplate) -> str:
    if form.bare is BARE_JSON:
        return '{"name": "'
    # A fence that stands in the header of a message comes too late once that has begun.
    starts = [fence.start for fence in form.fences if not fence.start.startswith("<|start|>")]
    if len(starts) == len(form.fences):
        shown = [start for start in starts if start in template.source]
        found = shown or (["["] if form.bare is BARE_PYTHON else starts)
        if found:
            return found[0]
    raise UnsupportedError(
        f"nothing in replies of the format {form.name!r} makes a call certain; "
        "use tool_choice='auto', and check what came"
    )
