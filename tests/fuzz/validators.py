"""What each provider refuses, from its published rules: judges of a context, written apart from it.

Nothing here comes from the package: what the views get wrong must not be wrong here. A
judge reads the messages as the provider's LangChain integration would hand them on, and names every
fault.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from tests.fuzz.rules import FILE_IDS, RULES, Rules, bytes_of

_KINDS = {
    HumanMessage: "user",
    AIMessage: "assistant",
    SystemMessage: "system",
    ToolMessage: "tool",
}
_THOUGHTS = {"thinking", "redacted_thinking", "reasoning", "reasoning_content"}
_ADDRESS = re.compile(r"https?://\S+")
_DATA_URI = re.compile(r"data:(image/[a-z]+);base64,(.+)", re.DOTALL)


def faults_of(messages: Sequence[BaseMessage], rules: Rules) -> list[str]:
    """Return what a provider with these rules would refuse, one sentence each."""
    found = [
        f"message {number} ({message.type}) {fault}"
        for number, message in enumerate(messages)
        for fault in _message_faults(message, rules)
    ]
    return [*found, *_order_faults(messages, rules), *_request_faults(messages, rules)]


def _message_faults(message: BaseMessage, rules: Rules) -> Iterator[str]:
    place = _KINDS.get(type(message))
    if place is None:
        yield f"is a {type(message).__name__}"
        return
    if rules.speaker is not None:
        names = [message.name, message.additional_kwargs.get("name")]
        if any(n is not None and not re.fullmatch(rules.speaker, n) for n in names):
            yield f"bears the names {names}"
    role = message.additional_kwargs.get("__openai_role__", "developer")
    if role != "developer" or (
        place != "system" and "__openai_role__" in message.additional_kwargs
    ):
        yield f"asks for the role {role}"
    if place != "tool" and not message.id:
        yield "has no id"
    yield from _content_faults(message, place, rules)
    if isinstance(message, AIMessage):
        yield from _call_faults(message, rules)


def _content_faults(message: BaseMessage, place: str, rules: Rules) -> Iterator[str]:
    content = message.content
    has_calls = bool(getattr(message, "tool_calls", ()))
    if isinstance(content, str):
        if not content.strip() and not (content == "" and has_calls):
            yield f"has blank text {content!r}"
        yield from _unsendable(content)
        return
    if not content:
        yield "has an empty list for content"
    for block in content:
        yield from _block_faults(block, message, place, rules)
    kinds = [block.get("type") for block in content if isinstance(block, dict)]
    told = {block.get("id") for block in content if isinstance(block, dict)}
    follows = [call for call in getattr(message, "tool_calls", ()) if call["id"] not in told]
    if kinds and kinds[-1] in _THOUGHTS and not follows:
        yield "ends with reasoning"
    if rules.named_files and "file" in kinds and "text" not in kinds:
        yield "holds a file and no text"
    if rules.server_tools:
        yield from _server_pair_faults(content)


def _block_faults(block: Any, message: BaseMessage, place: str, rules: Rules) -> Iterator[str]:
    if not isinstance(block, dict):
        yield f"holds {block!r:.40}, which is no block"
        return
    yield from _unsendable(block)
    kind = block.get("type")
    if kind == "text":
        yield from _text_faults(block, rules)
    elif kind == "refusal":
        if rules.speaker is None or place != "assistant" or not block["refusal"].strip():
            yield "holds a refusal"
    elif kind in ("tool_use", "function_call"):
        yield from _repeat_faults(block, message, rules)
    elif kind in _THOUGHTS:
        yield from _thought_faults(block, message, rules)
    elif kind == "compaction" or str(kind).endswith(("_tool_result", "_tool_use")):
        yield from _own_faults(block, message, place, rules)
    else:
        yield from _media_faults(block, message, place, rules)


def _own_faults(
    block: Mapping[str, Any], message: BaseMessage, place: str, rules: Rules
) -> Iterator[str]:
    """Judge a block that one provider alone takes: its own."""
    kind = block["type"]
    if kind != "compaction":
        if not rules.server_tools or place != "assistant":
            yield f"holds {kind}"
        return
    if not rules.compactions or place != "assistant" or not block.get(rules.compactions):
        yield f"holds a compaction that is refused: {block!r:.80}"
    if "content" in block and message.response_metadata.get("model_provider") == "openai":
        yield "holds another provider's compaction"


def _text_faults(block: Mapping[str, Any], rules: Rules) -> Iterator[str]:
    if not isinstance(block.get("text"), str) or not block["text"].strip():
        yield f"holds blank text {block!r:.60}"
    if not block.keys() <= rules.text_keys:
        yield f"has a text block with {sorted(block.keys() - rules.text_keys)}"


def _thought_faults(block: Mapping[str, Any], message: BaseMessage, rules: Rules) -> Iterator[str]:
    if not isinstance(message, AIMessage) or rules.thoughts is None:
        yield f"holds {block['type']}"
    elif not rules.thoughts(block, message):
        yield f"holds reasoning that is refused: {block!r:.80}"


def _repeat_faults(block: Mapping[str, Any], message: BaseMessage, rules: Rules) -> Iterator[str]:
    """Judge a block that repeats a call: integrations pass over it where `tool_calls` has it."""
    own = [call["id"] for call in getattr(message, "tool_calls", ())]
    if block.get("id") not in own and block.get("call_id") not in own:
        yield f"repeats a call that is none: {block!r:.80}"
    maker = message.response_metadata.get("model_provider")
    if rules is RULES["gemini"] and maker in ("google_genai", "google_vertexai"):
        yield f"holds {block['type']}, which the integration refuses"
    if rules is RULES["anthropic"] and maker == "anthropic" and block["type"] == "function_call":
        yield "holds function_call, which is handed on as it is"
    if block["type"] == "tool_use" and not {"id", "name", "input"} <= block.keys():
        yield "holds half a tool_use"


def _media_faults(
    block: dict[str, Any], message: BaseMessage, place: str, rules: Rules
) -> Iterator[str]:
    kind, form, data, named = _read(block)
    forms, types = rules.media.get((place, kind), ("", ""))
    if form not in forms.split():
        yield f"holds {kind!r} by {form!r} in {place}: {block!r:.100}"
        return
    if form == "base64" and (not bytes_of(data) or not re.fullmatch(types, named or "")):
        yield f"holds {kind} of type {named!r} or with broken data: {block!r:.100}"
    if form == "url" and not (isinstance(data, str) and _ADDRESS.fullmatch(data)):
        yield f"holds {kind} at {data!r:.60}"
    if form == "file_id":
        own = next(name for name, one in RULES.items() if one is rules)
        if not str(data).startswith(FILE_IDS[own]):
            yield f"holds the file id {data!r} of another provider"
    if rules.error_is_text and getattr(message, "status", "") == "error":
        yield f"holds {kind} in a failed result"
    if kind == "file" and rules.named_files:
        name = block.get("name", "")
        if not re.fullmatch(r"[a-zA-Z0-9()\[\]-]+( [a-zA-Z0-9()\[\]-]+)*", name) or len(name) > 200:
            yield f"names a file {name!r}"


def _read(block: Mapping[str, Any]) -> tuple[Any, str, Any, Any]:
    """Return kind, form, data and media type of the two shapes that all integrations read."""
    kind = block.get("type")
    if kind == "image_url" and isinstance(block.get("image_url"), dict):
        url = block["image_url"].get("url", "")
        uri = _DATA_URI.fullmatch(url)
        return ("image", "base64", uri[2], uri[1]) if uri else ("image", "url", url, None)
    if kind not in ("image", "audio", "video", "file"):
        return kind, "", None, None
    named = block.get("mime_type")
    if block.get("source_type") == "base64":
        return kind, "base64", block.get("data"), named
    form = next((one for one in ("base64", "url", "file_id") if one in block), "")
    return kind, form, block.get(form), named


def _unsendable(value: Any) -> Iterator[str]:
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        yield f"holds what no JSON carries: {error}"


def _call_faults(message: AIMessage, rules: Rules) -> Iterator[str]:
    own = [call["id"] for call in message.tool_calls]
    if message.invalid_tool_calls or {"function_call", "audio"} & message.additional_kwargs.keys():
        yield "has calls that are none"
    raw = message.additional_kwargs.get("tool_calls", ())
    if not {call.get("id") for call in raw} <= set(own):
        yield "repeats other calls"
    for call in message.tool_calls:
        if not isinstance(call["id"], str) or not re.fullmatch(rules.call_id, call["id"]):
            yield f"calls with the id {call['id']!r}"
        if not re.fullmatch(rules.tool_name, call["name"]):
            yield f"calls a tool {call['name']!r}"
        yield from _unsendable(call["args"])


def _server_pair_faults(content: Sequence[Any]) -> Iterator[str]:
    waiting: list[Any] = []
    for block in content:
        kind = str(block.get("type")) if isinstance(block, dict) else ""
        if kind in ("server_tool_use", "mcp_tool_use"):
            waiting.append(block["id"])
        elif kind.endswith("_tool_result"):
            if block["tool_use_id"] not in waiting:
                yield f"holds {kind} of no use"
            else:
                waiting.remove(block["tool_use_id"])
    if waiting:
        yield f"used {waiting} without a result"


def _order_faults(messages: Sequence[BaseMessage], rules: Rules) -> Iterator[str]:
    owed: list[str] = []
    used: set[str] = set()
    before = "start"
    for number, message in enumerate(messages):
        kind = _KINDS.get(type(message), "")
        at = f"message {number} ({kind})"
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in owed:
                yield f"{at} answers no call that waits"
            owed = [own for own in owed if own != message.tool_call_id]
            before = kind
            continue
        if owed:
            yield f"{at} comes before the results of {owed}"
        yield from (f"{at} {fault}" for fault in _place_faults(kind, before, rules))
        if kind == "system":
            before = before if before == "start" else kind
            continue
        before = kind
        owed = [str(call["id"]) for call in getattr(message, "tool_calls", ())]
        if used & set(owed) or len(set(owed)) < len(owed):
            yield f"{at} uses an id of a call again"
        used |= set(owed)
    if owed:
        yield f"{owed} are never answered"


def _place_faults(kind: str, before: str, rules: Rules) -> Iterator[str]:
    """Judge whether a message may stand behind another one."""
    if kind == "system":
        if before != "start" and not rules.system_anywhere:
            yield "stands behind the conversation"
    elif before == "start" and kind != "user":
        yield "opens the conversation"
    elif kind == before and (kind != "user" or rules.alternates):
        yield "repeats the role"


def _request_faults(messages: Sequence[BaseMessage], rules: Rules) -> Iterator[str]:
    blocks = [one for message in messages for one in message.content if isinstance(one, dict)]
    kinds = [_read(block)[0] for block in blocks]
    for kind, most in rules.most.items():
        if kinds.count(kind) > most:
            yield f"{kinds.count(kind)} of kind {kind}, {most} at most"
    marks = sum("cache_control" in block for block in blocks)
    if marks > (4 if "cache_control" in rules.text_keys else 0):
        yield f"{marks} marks for the cache"
    if rules.named_files:
        names = [block["name"] for block in blocks if block.get("type") == "file"]
        if len(set(names)) < len(names):
            yield f"files share a name: {names}"
    ids = [message.id for message in messages if message.id is not None]
    if len(set(ids)) < len(ids):
        yield "two messages have one id"


VALIDATORS: Mapping[str, Callable[[Sequence[BaseMessage]], list[str]]] = {
    **{
        name: lambda messages, rules=rules: faults_of(messages, rules)  # type: ignore[misc]
        for name, rules in RULES.items()
    },
    **dict.fromkeys(
        ("strict", "text"),  # what any of the providers would refuse
        lambda said: [f"{k}: {one}" for k, v in RULES.items() for one in faults_of(said, v)],
    ),
}
