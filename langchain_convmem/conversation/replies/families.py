"""How families of models mark their reasoning and their calls, as data."""

from __future__ import annotations

from collections.abc import Mapping

from langchain_convmem.conversation.replies.formats import Channel, Fence, ReplyFormat
from langchain_convmem.conversation.replies.syntaxes.bare import BARE_JSON, BARE_PYTHON
from langchain_convmem.conversation.replies.syntaxes.calls import Call, NamedJson, json_calls
from langchain_convmem.conversation.replies.syntaxes.gemma_calls import gemma_calls
from langchain_convmem.conversation.replies.syntaxes.python_calls import python_calls
from langchain_convmem.conversation.replies.syntaxes.tagged import (
    InvokedCalls,
    open_tagged_calls,
    tagged_calls,
)
from langchain_convmem.errors import ConfigError

__all__ = ["REPLY_FORMATS", "reply_format"]

_THINK = Channel("thinking", "<think>", "</think>")
_TAGGED = Fence(
    "<tool_call>",
    "</tool_call>",
    tagged_calls,
    r"\s*(?:[\[{]|<function=|[\w.:/-]+\s*<arg_key>)",
    open_tagged_calls,
)
_LISTED = Fence("<|tool_call|>", "<|/tool_call|>", json_calls)
_CALL = r"\s*call:"
_HARMONY_FENCES = tuple(
    Fence(
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


def _mistral_calls(text: str) -> list[Call]:
    """Read what older models write, JSON, or newer ones, a name and arguments."""
    return json_calls(text) if text.lstrip().startswith(("[", "{")) else _MISTRAL_NAMED(text)


_BAR, _LOW = "\uff5c", "\u2581"


def _deepseek(*words: str) -> str:
    """Return a mark as DeepSeek's models write it, with signs of their own for bars and blanks."""
    return f"<{_BAR}{_LOW.join(words)}{_BAR}>"


_DEEPSEEK_CALL = NamedJson(
    rf"(?:{_deepseek('tool', 'call', 'begin')})?+\s*+(?:function\s*+{_deepseek('tool', 'sep')})?+"
    rf"(?P<name>[\w.-]++)\s*+(?:```json|{_deepseek('tool', 'sep')})",
    rf"(?:```)?+\s*+{_deepseek('tool', 'call', 'end')}",
)

_FORMATS = (
    ReplyFormat(name="plain"),
    ReplyFormat(name="hermes", channels=(_THINK,), fences=(_TAGGED,), stop=("<|im_end|>",)),
    ReplyFormat(
        name="mistral",
        channels=(Channel("thinking", "[THINK]", "[/THINK]"),),
        fences=(
            Fence(
                "[TOOL_CALLS]",
                "",
                _mistral_calls,
                r"\s*(?:[\[{]|[\w.-]+\s*[\[{])",
            ),
        ),
        stop=("</s>",),
        has_short_ids=True,
    ),
    ReplyFormat(
        name="llama3",
        fences=(Fence("<|python_tag|>", "", json_calls),),
        bare=BARE_JSON,
        stop=("<|eot_id|>", "<|eom_id|>"),
    ),
    ReplyFormat(
        name="gemma",
        channels=(Channel("thinking", "<|channel>thought", "<channel|>"),),
        fences=(
            Fence("<start_function_call>", "<end_function_call>", gemma_calls, _CALL),
            Fence("<|tool_call>", "<tool_call|>", gemma_calls, _CALL),
        ),
        stop=("<end_of_turn>", "<turn|>", "<start_function_response>", "<|tool_response>"),
    ),
    ReplyFormat(
        name="pythonic",
        channels=(_THINK,),
        fences=(
            Fence("<|tool_call_start|>", "<|tool_call_end|>", python_calls, r"\s*[\[\w]"),
            Fence("<|python_start|>", "<|python_end|>", python_calls, r"\s*[\[\w]"),
        ),
        bare=BARE_PYTHON,
        stop=("<|im_end|>",),
    ),
    ReplyFormat(
        name="harmony",
        channels=(Channel("analysis", "<|channel|>analysis<|message|>", "<|end|>"),),
        fences=_HARMONY_FENCES,
        marks=(
            "<|start|>assistant",
            "<|channel|>commentary<|message|>",
            "<|channel|>final<|message|>",
            "<|end|>",
            "<|return|>",
        ),
        stop=("<|return|>", "<|call|>"),
    ),
    ReplyFormat(
        name="cohere",
        channels=(Channel("thinking", "<|START_THINKING|>", "<|END_THINKING|>"),),
        fences=(Fence("<|START_ACTION|>", "<|END_ACTION|>", json_calls),),
        marks=("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
        stop=("<|END_OF_TURN_TOKEN|>",),
    ),
    ReplyFormat(
        name="deepseek",
        channels=(_THINK,),
        fences=(
            Fence(
                _deepseek("tool", "calls", "begin"),
                _deepseek("tool", "calls", "end"),
                _DEEPSEEK_CALL,
                rf"\s*{_deepseek('tool', 'call', 'begin')}",
            ),
        ),
        stop=(_deepseek("end", "of", "sentence"),),
    ),
    ReplyFormat(
        name="granite",
        channels=(_THINK,),
        fences=(_LISTED, _TAGGED),
        marks=("<response>", "</response>"),
        stop=("<|end_of_text|>",),
    ),
    ReplyFormat(
        name="kimi",
        channels=(_THINK,),
        fences=(
            Fence(
                "<|tool_calls_section_begin|>",
                "<|tool_calls_section_end|>",
                NamedJson(
                    r"<\|tool_call_begin\|>\s*+(?P<id>(?:functions\.)?+(?P<name>[\w.-]++)(?::\d++)?+)"
                    r"\s*+<\|tool_call_argument_begin\|>",
                    r"<\|tool_call_end\|>",
                ),
                r"\s*<\|tool_call_begin\|>",
            ),
        ),
        stop=("<|im_end|>",),
    ),
    ReplyFormat(
        name="minimax",
        channels=(_THINK,),
        fences=(
            Fence("<minimax:tool_call>", "</minimax:tool_call>", InvokedCalls(), r"\s*<invoke "),
        ),
        stop=("[e~[",),
    ),
    ReplyFormat(
        name="muse",
        channels=(Channel("self", "<|start|>assistant to=self<|message|>", "<|eom|>"),),
        fences=(
            Fence(
                "<|start|>assistant to=",
                "</atem:function_calls>",
                InvokedCalls("atem:", "<atem:function_calls>"),
                r"[\w.-]+\s*<\|message\|>",
            ),
        ),
        marks=("<|start|>assistant", "<|start|>assistant to=user<|message|>", "<|eom|>"),
        stop=("<|eot|>",),
    ),
    ReplyFormat(
        name="nemotron",
        channels=(_THINK,),
        fences=(Fence("<TOOLCALL>", "</TOOLCALL>", json_calls),),
    ),
    ReplyFormat(name="phi4", channels=(_THINK,), fences=(_LISTED,), stop=("<|end|>",)),
)

REPLY_FORMATS: Mapping[str, ReplyFormat] = {found.name: found for found in _FORMATS}
"""The formats that are known, by name."""


def reply_format(value: str | ReplyFormat) -> ReplyFormat:
    """Return a format, by its name or as it is.

    Raises:
        ConfigError: If there is none of that name; names those that there are.
    """
    if isinstance(value, ReplyFormat):
        return value
    if value not in REPLY_FORMATS:
        raise ConfigError(f"there is no reply format {value!r}; there are {sorted(REPLY_FORMATS)}")
    return REPLY_FORMATS[value]
