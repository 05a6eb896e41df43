"""What describes how a reply is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from langchain_convmem.errors import ConfigError
from langchain_convmem.text import ChatTemplate
from langchain_convmem.text.call_syntaxes import (
    BARE_JSON,
    BARE_PYTHON,
    BareSyntax,
    Call,
    InvokedCalls,
    NamedJson,
    Syntax,
    gemma_calls,
    json_calls,
    open_tagged_calls,
    python_calls,
    tagged_calls,
)

_MERGED_OTHERWISE = {"id", "index", "model_provider", "output_version"}


"""Keys whose texts LangChain does not join when it adds up chunks."""


class Channel(NamedTuple):
    """A part of a reply that is not its text.

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


class Fence(NamedTuple):
    """What stands around calls.

    Attributes:
        start: What opens it.
        end: What closes it, if not the next `start`; the end of the reply does, too.
        syntax: Reads what stands within.
        begins: How a call begins, as a pattern: what is never closed and begins otherwise is text.
        open_syntax: Reads what begins so and is never closed, if that cannot be told to be whole.
    """

    start: str
    end: str
    syntax: Syntax
    begins: str = r"\s*[\[{]"
    open_syntax: Syntax | None = None


@dataclass(frozen=True, kw_only=True)
class ReplyFormat:
    """How the replies of a family of models are written.

    Attributes:
        name: What it is called.
        channels: Where reasoning stands.
        fences: Where calls stand.
        bare: How calls without a fence look, which then open the reply; None if there are none.
        marks: Texts that say nothing, and are left out.
        stop: Texts that end a reply.
        has_short_ids: Whether ids of calls have to be nine letters and digits.
    """

    name: str
    channels: tuple[Channel, ...] = ()
    fences: tuple[Fence, ...] = ()
    bare: BareSyntax | None = None
    marks: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    has_short_ids: bool = False

    def __post_init__(self) -> None:
        checked_channels(self.channels)
        if not all(fence.start for fence in self.fences) or not all((*self.marks, *self.stop)):
            raise ConfigError(
                f"the format {self.name!r} has an empty mark, which stands everywhere"
            )


def checked_channels(channels: Sequence[Channel]) -> tuple[Channel, ...]:
    """Return channels.

    Raises:
        ConfigError: If one has an empty name or mark, or a name that chunks cannot carry.
    """
    for channel in channels:
        if not (channel.name and channel.start and channel.end):
            raise ConfigError(f"a channel needs a name, a start and an end, not {tuple(channel)}")
        if channel.name in _MERGED_OTHERWISE:
            raise ConfigError(f"a channel cannot be called {channel.name!r}; LangChain reserves it")
    return tuple(channels)


# -- How families of models mark their reasoning and their calls, as data -------------------------


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


# -- Which format the replies have that a chat template asks for ----------------------------------


_TELLTALES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("harmony", ("<|channel|>",)),
    ("deepseek", ("<\uff5ctool\u2581calls\u2581begin\uff5c>", "<\uff5cAssistant\uff5c>")),
    ("kimi", ("<|tool_calls_section_begin|>",)),
    ("minimax", ("<minimax:tool_call>",)),
    ("muse", ("<atem:function_calls>",)),
    ("cohere", ("<|START_ACTION|>", "<|START_RESPONSE|>")),
    ("nemotron", ("<TOOLCALL>",)),
    ("granite", ("<|start_of_role|>",)),
    ("phi4", ("<|tool_call|>",)),
    ("gemma", ("<start_function_call>", "<|tool_call>", "<start_of_turn>")),
    ("pythonic", ("<|tool_call_start|>", "<|python_start|>")),
    ("mistral", ("[TOOL_CALLS]",)),
    ("llama3", ("<|python_tag|>", "<|start_header_id|>")),
    ("hermes", ("<tool_call>", "<think>", "<|im_start|>")),
)


"""What stands in the templates of a family; the first that fits is taken."""


_TURN_ENDS = (
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<end_of_turn>",
    "<turn|>",
    "<start_function_response>",
    "<|tool_response>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|eot|>",
    "<|END_OF_TURN_TOKEN|>",
    "<end_of_utterance>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "<|observation|>",
    "<|user|>",
    "</s>",
    "[e~[",
)


"""Marks that end a turn, whatever the family."""


def format_of(template: ChatTemplate) -> ReplyFormat:
    """Return the format that a template's source asks for, with the texts that end its replies.

    It is `plain` if nothing is recognised.
    """
    source = template.source
    name = next(
        (name for name, marks in _TELLTALES if any(mark in source for mark in marks)), "plain"
    )
    found = REPLY_FORMATS[name]
    inner = {channel.end for channel in found.channels} | {*found.marks} - {*found.stop}
    ends = [mark for mark in _TURN_ENDS if mark in source and mark not in inner]
    eos = template.special_tokens.get("eos_token", "")
    return replace(found, stop=tuple(dict.fromkeys([*filter(None, [eos]), *ends])))
