"""What a summariser returns that is no summary. Pure; takes linear time.

Nothing here asks what a text says: a summary in any language and any words passes. The only rule
of language is for refusals in English, at the beginning. Faults are named, never quoted.
"""

# ruff: noqa: SIM905 - lists of words

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from langchain_convmem.views.messages import get_block_type
from langchain_convmem.views.tokens import count_text_tokens

_LONGEST_SURE = 400
"""A text of so many characters may be longer than what it covers."""
_LONGER = 1.5
"""A longer text is at most so many times as long as what it covers."""


def find_fault(text: str, covered: str) -> str:
    """Return why a text cannot be a summary; empty if it can.

    Args:
        text: As `remove_reasoning` returns it.
        covered: What it is meant to sum up.
    """
    if not any(one.isalnum() for one in text):
        return "it says nothing"
    if _is_call(text):
        return "it is a call of a tool"
    if _REFUSAL.match(text.replace("\u2019", "'")):
        return "it is a refusal"
    is_long = len(text) > _LONGEST_SURE
    if is_long and count_text_tokens(text) > _LONGER * count_text_tokens(covered):
        return "it is longer than what it covers"
    return ""


# -- What a provider says of its answer -----------------------------------------------------------

_REFUSED = frozenset(
    """
    content_filter content_filtered refusal refused safety recitation blocklist blocked
    prohibited_content spii image_safety image_prohibited_content image_recitation language
    model_armor guardrail_intervened guardrails guardrail intervened sensitive moderation
    data_inspection_failed error error_toxic toxic policy_violation responsible_ai_policy_violation
    unsafe jailbreak flagged
    """.split()
)
_BROKEN = frozenset(
    """
    tool_calls tool_use function_call malformed_function_call unexpected_tool_call
    malformed_tool_use malformed_model_output malformed_response pause_turn no_image
    insufficient_system_resource network_error failed cancelled canceled error_limit
    """.split()
)
_REASONS = ("finish_reason", "stop_reason", "stopReason", "done_reason", "status", "finishReason")
_NESTED = ("incomplete_details", "prompt_feedback", "promptFeedback", "error")
_NESTED_REASONS = ("reason", "block_reason", "blockReason", "code", "type")
_CALLS = frozenset({"tool_use", "tool_call", "function_call", "server_tool_use", "toolUse"})


def find_refusal_sign(message: BaseMessage) -> str:
    """Return why a provider's own signs say that an answer is none; empty if they do not."""
    words = set(_list_reasons(message.response_metadata))
    words |= set(_list_reasons(message.additional_kwargs))
    blocks = message.content if isinstance(message.content, list) else []
    types = {get_block_type(block) for block in blocks}
    if message.additional_kwargs.get("refusal") or "refusal" in types or words & _REFUSED:
        return "the provider marked it as refused"
    calls = isinstance(message, AIMessage) and (message.tool_calls or message.invalid_tool_calls)
    raw = message.additional_kwargs.get("tool_calls") or message.additional_kwargs.get(
        "function_call"
    )
    if calls or raw or types & _CALLS:
        return "it is a call of a tool"
    return "the provider marked it as broken" if words & _BROKEN else ""


def _list_reasons(metadata: Mapping[str, Any]) -> Iterator[str]:
    """Yield the words by which providers say how an answer ended, in one spelling."""
    for name in _REASONS:
        yield _fold_reason(metadata.get(name))
    for name in _NESTED:
        inner = metadata.get(name)
        if isinstance(inner, Mapping):
            yield from (_fold_reason(inner.get(key)) for key in _NESTED_REASONS)
    if str(metadata.get("amazon-bedrock-guardrailAction", "")).upper() == "INTERVENED":
        yield "intervened"
    if metadata.get("is_blocked") is True or _has_filtered(metadata):
        yield "blocked"


def _fold_reason(value: Any) -> str:
    name = getattr(value, "name", value)
    return str(name).rpartition(".")[2].strip().casefold() if name else ""


def _has_filtered(metadata: Mapping[str, Any]) -> bool:
    results = metadata.get("content_filter_results")
    rated = metadata.get("safety_ratings")
    marks = list(results.values()) if isinstance(results, Mapping) else []
    marks += rated if isinstance(rated, list) else []
    return any(
        isinstance(mark, Mapping) and (mark.get("filtered") is True or mark.get("blocked") is True)
        for mark in marks
    )


# -- What stands in the text -----------------------------------------------------------------------
_NAMES = r"(?:think|thinking|thoughts?|reasoning|reflection|scratchpad|analysis)"
_MARK = re.compile(
    rf"^[ \t]*(?P<opens><{_NAMES}\b[^<>\n]{{0,40}}>|\[THINK\]|\u25c1think\u25b7)"
    rf"|(?:</{_NAMES}\s*>|\[/THINK\]|\u25c1/think\u25b7)(?P<ends>[ \t]*$)?",
    re.IGNORECASE | re.MULTILINE,
)


def remove_reasoning(text: str) -> str:
    """Return a text without the blocks that a model thinks in, and without blanks around it.

    A block begins a line; what follows it unfinished is all of it. An end that nothing opened,
    last in its line, ends what the model was made to begin with.
    """
    kept: list[str] = []
    end, is_open = 0, False
    for mark in _MARK.finditer(text):
        if mark["opens"] and not is_open:
            kept.append(text[end : mark.start()])
            is_open = True
        elif not mark["opens"] and (is_open or mark["ends"] is not None):
            kept = kept if is_open else []
            end, is_open = mark.end(), False
    return "".join([*kept, "" if is_open else text[end:]]).strip()


_CALL = re.compile(
    r"\s*(?:<(?:tool_call|tool_use|function_calls?|antml:function_calls|invoke|function=)"
    r"|<\|python_tag\|>|<[|\uff5c]tool|\[TOOL_CALLS\]"
    r"|[A-Za-z_][\w.]*\((?:\{.*\}|(?:\w+\s*=\s*)?[\"'].*|)\)\s*\Z)",
    re.DOTALL,
)
_CALL_KEYS = [
    {*keys.split()}
    for keys in (
        "name arguments, name parameters, name args, name input, type function, "
        "action action_input, tool_calls, function_call"
    ).split(", ")
]


def _is_call(text: str) -> bool:
    if _CALL.match(text):
        return True
    bare = re.sub(r"\A`+(?:json)?|`+\Z", "", text).strip()
    if bare[:1] not in ("{", "["):
        return False
    try:
        value = json.loads(bare)
    except (ValueError, RecursionError):
        return False
    values = value if isinstance(value, list) else [value]
    return any(
        isinstance(one, dict) and any(keys <= one.keys() for keys in _CALL_KEYS) for one in values
    )


_SUBJECT = r"(?:this|that|so|your?|summar\w+|requests?|conversation|transcript|content|chat|text)"
# What an assistant is asked to do; people cannot eat nuts, or come on Friday.
_TASK = rf"""
    (?:help(?!\ but\b|\ \w+ing\b)|assist|provide|summari[sz]e|comply|fulfil+|generate|engage
    |process|discuss|condense|recap
    |(?:access|see|read|view|find|write|create|produce|complete|continue|answer|respond|give|do
       |share|proceed|support|offer|tell)\b(?:\ \w+){{0,3}}?\ {_SUBJECT})\b
"""
_SORRY = r"""
    (?:(?:i'm|i\ am|we're|we\ are)\ (?:\w+\ )?(?:sorry|afraid)|i\ (?:\w+\ )?apologi[sz]e
    |(?:my\ )?(?:\w+\ )?apologies|sorry|unfortunately|regrettably)
"""
_CANNOT = r"(?:can't|cannot|can\ not|won't|will\ not|could\ not|couldn't|am\ not\ going\ to)"
_AI = r"an?\ (?:ai|artificial\ intelligence|(?:large\ )?language\ model)"
_REFUSAL = re.compile(
    rf"""[\W_]{{0,20}}(?:
      (?:(?:i'm|i\ am)\ (?:\w+\ )?sorry|i\ (?:\w+\ )?apologi[sz]e|my\ (?:\w+\ )?apologies),?\ but\b
        (?!\ i\ {_CANNOT}\ (?!{_TASK}|\w+(?:\ \w+){{0,3}}?\ {_SUBJECT}\b))
    | {_SORRY}[.!]?\s*\Z
    | (?:{_SORRY}[\W_]{{1,4}}(?:but\ |that\ |however,?\ )?)?(?:
        i\ {_CANNOT}(?:\ and\ will\ not|\ be\ able\ to)?\ (?:\w+ly\ )?{_TASK}
      | i(?:'m|\ am|\ was)\ (?:\w+ly\ )?(?:unable|not\ able)\ to\ {_TASK}
      | i(?:'m|\ am)\ not\ (?:comfortable|allowed|permitted)\ (?:with|to)?\ ?(?:{_TASK}|\w+ing\b)
      | i\ (?:must|have\ to|will\ have\ to|'ll\ have\ to|need\ to)?\ ?(?:\w+ly\ )?
          (?:decline|refuse)(?:\ (?:to\b|this\b|that\b|your\b)|[.,])
      | i\ (?:do\ not|don't)\ have\ (?:the\ (?:ability|capability)
          |access\ to\ (?:\w+\ )?(?:conversations?|transcripts?|chats?|content|messages?))\b
      | as\ {_AI}(?:\ (?:language\ )?(?:model|assistant|system|chatbot))?
          (?:\ (?:developed|created|trained|made|built)\ by\ \w+)?,?\ (?:i|my)\b
      | i(?:'m|\ am)\ (?:\w+\ )?{_AI}(?:\ (?:language\ )?(?:model|assistant|system))?
          (?:[,.;]|\ (?:and|so|that|created|developed|trained|made)\b|\Z)
      )
    )""",
    re.IGNORECASE | re.VERBOSE,
)
