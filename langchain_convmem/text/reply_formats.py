"""What describes how a reply is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from langchain_convmem.errors import ConfigError
from langchain_convmem.text import ChatTemplate
from langchain_convmem.text.call_syntaxes import (
    NamedJson,
    ParsedCall,
    Syntax,
    read_gemma_calls,
    read_json_calls,
    read_open_tagged_calls,
    read_python_calls,
    read_tagged_calls,
)

# Keys whose texts LangChain does not join when it adds up chunks.
_MERGED_OTHERWISE = {"id", "index", "model_provider", "output_version"}


class Channel(NamedTuple):
    """A part of a reply other than its text.

    Attributes:
        name: What it is called.
        start: What opens it.
        end: What closes it; the end of the reply does, too.
        reasoning: Whether it is what the model thought.
    """

    name: str
    start: str
    end: str
    reasoning: bool = True


class ToolCallBlock(NamedTuple):
    """What stands around calls.

    Attributes:
        start: What opens it.
        end: What closes it, if not the next `start`; the end of the reply does, too.
        syntax: Reads what stands within.
        begins: How a call begins, as a pattern: what is never closed and begins otherwise is text.
        open_syntax: Reads what begins so and is never closed, if it cannot be known to be whole.
    """

    start: str
    end: str
    syntax: Syntax
    begins: str = r"\s*[\[{]"
    open_syntax: Syntax | None = None


@dataclass(frozen=True, kw_only=True)
class ReplyFormat:
    """How a family of models writes replies.

    Attributes:
        name: What it is called.
        channels: Where reasoning stands.
        call_blocks: Where calls stand.
        has_bare_calls: Whether a reply may begin with calls in JSON, without a block.
        marks: Texts that say nothing, and are left out.
        stop: Texts that end a reply.
        signs: What the templates of the family are known by.
    """

    name: str
    channels: tuple[Channel, ...] = ()
    call_blocks: tuple[ToolCallBlock, ...] = ()
    has_bare_calls: bool = False
    marks: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for channel in self.channels:
            if not (channel.name and channel.start and channel.end):
                raise ConfigError(f"a channel needs a name, a start and an end, not {channel!r}")
            if channel.name in _MERGED_OTHERWISE:
                raise ConfigError(f"LangChain reserves {channel.name!r}; rename the channel")
        if not all((*self.marks, *self.stop, *(block.start for block in self.call_blocks))):
            raise ConfigError(f"the format {self.name!r} has an empty mark: it stands everywhere")


# -- How families of models mark their reasoning and their calls, as data -------------------------


_THINK = Channel("thinking", "<think>", "</think>")

_TAGGED = ToolCallBlock(
    "<tool_call>",
    "</tool_call>",
    read_tagged_calls,
    r"\s*(?:[\[{]|<function=|[\w.:/-]+\s*<arg_key>)",
    read_open_tagged_calls,
)

_CALL = r"\s*call:"

_HARMONY_BLOCKS = tuple(
    ToolCallBlock(
        f"{start} to=",
        "<|call|>",
        NamedJson(
            r"(?:functions\.)?+(?P<name>[\w.-]++)\s*+(?:<\|channel\|>\w++)?+\s*+"
            r"(?:<\|constrain\|>)?+\w*+\s*+<\|message\|>"
        ),
        r"[\w.-]+\s*<\|",
    )
    for start in ("<|start|>assistant", "<|channel|>commentary", "<|channel|>analysis")
)

_MISTRAL_NAMED = NamedJson(r"(?P<name>[\w.-]++)\s*+(?:\[CALL_ID\](?P<id>\w++))?+\s*+(?:\[ARGS\])?+")


def _read_mistral_calls(text: str) -> list[ParsedCall]:
    """Read what older models write, JSON, or newer ones, a name and arguments."""
    return read_json_calls(text) if text.lstrip().startswith(("[", "{")) else _MISTRAL_NAMED(text)


_BAR, _LOW = "\uff5c", "\u2581"


def _mark(*words: str) -> str:
    """Return a mark as DeepSeek's models write it, with signs of their own for bars and blanks."""
    return f"<{_BAR}{_LOW.join(words)}{_BAR}>"


_DEEPSEEK_CALL = NamedJson(
    rf"(?:{_mark('tool', 'call', 'begin')})?+\s*+(?:function\s*+{_mark('tool', 'sep')})?+"
    rf"(?P<name>[\w.-]++)\s*+(?:```json|{_mark('tool', 'sep')})",
    rf"(?:```)?+\s*+{_mark('tool', 'call', 'end')}",
)

# A template has the format of the first family that it is known by.
_FORMATS = (
    ReplyFormat(
        name="harmony",
        channels=(Channel("analysis", "<|channel|>analysis<|message|>", "<|end|>"),),
        call_blocks=_HARMONY_BLOCKS,
        marks=(
            "<|start|>assistant",
            "<|channel|>commentary<|message|>",
            "<|channel|>final<|message|>",
            "<|end|>",
            "<|return|>",
        ),
        stop=("<|return|>", "<|call|>"),
        signs=("<|channel|>",),
    ),
    ReplyFormat(
        name="deepseek",
        channels=(_THINK,),
        call_blocks=(
            ToolCallBlock(
                _mark("tool", "calls", "begin"),
                _mark("tool", "calls", "end"),
                _DEEPSEEK_CALL,
                rf"\s*{_mark('tool', 'call', 'begin')}",
            ),
        ),
        stop=(_mark("end", "of", "sentence"),),
        signs=(_mark("tool", "calls", "begin"), _mark("Assistant")),
    ),
    ReplyFormat(
        name="cohere",
        channels=(Channel("thinking", "<|START_THINKING|>", "<|END_THINKING|>"),),
        call_blocks=(ToolCallBlock("<|START_ACTION|>", "<|END_ACTION|>", read_json_calls),),
        marks=("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
        stop=("<|END_OF_TURN_TOKEN|>",),
        signs=("<|START_ACTION|>", "<|START_RESPONSE|>"),
    ),
    ReplyFormat(
        name="gemma",
        channels=(Channel("thinking", "<|channel>thought", "<channel|>"),),
        call_blocks=(
            ToolCallBlock("<start_function_call>", "<end_function_call>", read_gemma_calls, _CALL),
            ToolCallBlock("<|tool_call>", "<tool_call|>", read_gemma_calls, _CALL),
        ),
        stop=("<end_of_turn>", "<turn|>", "<start_function_response>", "<|tool_response>"),
        signs=("<start_function_call>", "<|tool_call>", "<start_of_turn>"),
    ),
    ReplyFormat(
        name="pythonic",
        channels=(_THINK,),
        call_blocks=tuple(
            ToolCallBlock(f"<|{name}_start|>", f"<|{name}_end|>", read_python_calls, r"\s*[\[\w]")
            for name in ("tool_call", "python")
        ),
        stop=("<|im_end|>",),
        signs=("<|tool_call_start|>", "<|tool_list_start|>", "<|python_start|>"),
    ),
    ReplyFormat(
        name="mistral",
        channels=(Channel("thinking", "[THINK]", "[/THINK]"),),
        call_blocks=(
            ToolCallBlock("[TOOL_CALLS]", "", _read_mistral_calls, r"\s*(?:[\[{]|[\w.-]+\s*[\[{])"),
        ),
        stop=("</s>",),
        signs=("[TOOL_CALLS]",),
    ),
    ReplyFormat(
        name="llama3",
        call_blocks=(ToolCallBlock("<|python_tag|>", "", read_json_calls),),
        has_bare_calls=True,
        stop=("<|eot_id|>", "<|eom_id|>"),
        signs=("<|python_tag|>", "<|start_header_id|>"),
    ),
    ReplyFormat(
        name="hermes",
        channels=(_THINK,),
        call_blocks=(_TAGGED,),
        stop=("<|im_end|>",),
        signs=("<tool_call>", "<think>", "<|im_start|>"),
    ),
    ReplyFormat(name="plain"),
)

REPLY_FORMATS: Mapping[str, ReplyFormat] = {found.name: found for found in _FORMATS}
"""The formats that are known, by name."""

# Marks that end a turn, whatever the family.
_TURN_ENDS = dict.fromkeys(
    [
        *(mark for form in _FORMATS for mark in form.stop),
        *("<|end|>", "<end_of_utterance>", "<|endoftext|>", "<|end_of_text|>", "[e~["),
        *("<|observation|>", "<|user|>"),
    ]
)


def get_reply_format(value: str | ReplyFormat) -> ReplyFormat:
    """Return a format, by its name or as it is.

    Raises:
        ConfigError: If there is none of that name; names those that there are.
    """
    if isinstance(value, ReplyFormat):
        return value
    if value not in REPLY_FORMATS:
        raise ConfigError(f"there is no reply format {value!r}; there are {sorted(REPLY_FORMATS)}")
    return REPLY_FORMATS[value]


def find_reply_format(template: ChatTemplate) -> ReplyFormat:
    """Return the format that a template's source asks for, with the texts that end its replies.

    It is `plain` if nothing is recognised.
    """
    source = template.source
    known = (form for form in _FORMATS if any(sign in source for sign in form.signs))
    found = next(known, REPLY_FORMATS["plain"])
    inner = {channel.end for channel in found.channels} | {*found.marks} - {*found.stop}
    ends = [mark for mark in _TURN_ENDS if mark in source and mark not in inner]
    eos = template.special_tokens.get("eos_token", "")
    return replace(found, stop=tuple(dict.fromkeys([*filter(None, [eos]), *ends])))
