"""Which format the replies have that a chat template asks for."""

from __future__ import annotations

from dataclasses import replace

from langchain_convmem.chat_templates import ChatTemplate
from langchain_convmem.conversation.replies.families import REPLY_FORMATS
from langchain_convmem.conversation.replies.formats import ReplyFormat

__all__ = ["format_of"]

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
