"""Which requests Converse and ConverseStream refuse, and with which exception. Pure.

The rules are those of the models that know them all (Claude): where models differ, the strictest
one that takes tools, documents and reasoning decides, and a conversation must end with the user.
Source: the public API reference of Bedrock and the error bodies of its service.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from langchain_convmem.testing.bedrock_converse_blocks import block_faults

__all__ = ["ConverseFault", "find_converse_fault"]

_ROLES = ("user", "assistant")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MOST = {"image": 20, "document": 5, "video": 1}

_Messages: TypeAlias = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class ConverseFault:
    """Why a request is refused.

    Attributes:
        message: One or two sentences; names the place as `messages.0.content.1`.
        exception: Name of the exception.
        status: HTTP status.
    """

    message: str
    exception: str = "ValidationException"
    status: int = 400


def find_converse_fault(request: object) -> ConverseFault | None:
    """Return the first reason to refuse the parsed body of a request, or None."""
    if not isinstance(request, Mapping):
        message = "The body of the request must be a JSON object."
        return ConverseFault(message, "SerializationException")
    return next(map(ConverseFault, _faults(request)), None)


def _faults(request: Mapping[str, Any]) -> Iterator[str]:
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages:
        yield (
            "The messages field is empty. A conversation must start with a user message. Try "
            "again with a conversation that starts with a user message."
        )
        return
    yield from _system_faults(request.get("system"))
    yield from _tool_config_faults(request.get("toolConfig"))
    for number, message in enumerate(messages):
        yield from _message_faults(message, f"messages.{number}")
    yield from _order_faults(messages)
    yield from _pairing_faults(messages)
    yield from _tools_missing(messages, request.get("toolConfig"))
    yield from _count_faults(messages)


# -- one part alone -------------------------------------------------------------------------------


def _system_faults(system: object) -> Iterator[str]:
    if system is None:
        return
    if not isinstance(system, list):
        yield "The value at system is no list of content blocks."
        return
    for number, block in enumerate(system):
        kinds = set(block) if isinstance(block, Mapping) else set()
        if len(kinds & {"text", "guardContent", "cachePoint"}) != 1:
            yield f"The content block at system.{number} must have exactly one known member."
        elif "text" in kinds and not _says_something(block["text"]):
            yield (
                f"The text field in the SystemContentBlock object at system.{number} is blank. "
                "Add text to the text field, and try again."
            )


def _says_something(text: object) -> bool:
    return isinstance(text, str) and bool(text.strip())


def _tool_config_faults(config: object) -> Iterator[str]:
    if config is None:
        return
    tools = config.get("tools") if isinstance(config, Mapping) else None
    if not isinstance(tools, list) or not tools:
        yield "1 validation error detected: the list at toolConfig.tools must have 1 member or more"
        return
    specs = [t["toolSpec"] for t in tools if isinstance(t, Mapping) and "toolSpec" in t]
    for number, spec in enumerate(specs):
        yield from _tool_spec_faults(spec, f"toolConfig.tools.{number}.toolSpec")
    names = [spec.get("name") for spec in specs if isinstance(spec, Mapping)]
    if len(set(map(str, names))) < len(names):
        yield f"The names of tools in toolConfig.tools must be unique, got {names}."


def _tool_spec_faults(spec: object, at: str) -> Iterator[str]:
    if not isinstance(spec, Mapping):
        yield f"The value at {at} is invalid. Provide a tool specification and try again."
        return
    name = spec.get("name")
    if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
        yield (
            f"1 validation error detected: Value {name!r} at '{at}.name' failed to satisfy "
            "constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_-]+"
        )
    if spec.get("description") == "":
        yield (
            f"1 validation error detected: Value '' at '{at}.description' failed to satisfy "
            "constraint: Member must have length greater than or equal to 1"
        )
    schema = spec.get("inputSchema")
    inner = schema.get("json") if isinstance(schema, Mapping) else None
    if not isinstance(inner, Mapping) or inner.get("type") != "object":
        yield (f"The value at {at}.inputSchema.json.type must be one of the following: object.")


def _message_faults(message: object, at: str) -> Iterator[str]:
    if not isinstance(message, Mapping):
        yield f"The value at {at} is no message."
        return
    role = message.get("role")
    if role not in _ROLES:
        yield (
            f"1 validation error detected: Value {role!r} at '{at}.role' failed to satisfy "
            "constraint: Member must satisfy enum value set: [user, assistant]"
        )
        return
    content = message.get("content")
    if not isinstance(content, list) or not content:
        yield (
            f"The content field in the Message object at {at} is empty. Add a ContentBlock "
            "object to the content field and try again."
        )
        return
    for number, block in enumerate(content):
        yield from block_faults(block, role, f"{at}.content.{number}")
    yield from _content_faults(content, role, at)


def _content_faults(content: Sequence[Mapping[str, Any]], role: str, at: str) -> Iterator[str]:
    kinds = [kind for block in content for kind in block]
    if "document" in kinds and "text" not in kinds:
        yield (
            f"The content field at {at} has a document and no text. Add a text block beside the "
            "document, and try again."
        )
    if role == "assistant" and kinds[-1] == "reasoningContent":
        yield (
            "The model returned the following errors: "
            f"{at}: The final block in an assistant message cannot be `thinking`."
        )
    results = [place for place, kind in enumerate(kinds) if kind == "toolResult"]
    if results and set(kinds[: results[-1]]) - {"toolResult", "cachePoint"}:
        yield (
            "The model returned the following errors: "
            f"{at}: `tool_result` blocks must come before all other content."
        )


# -- the whole ------------------------------------------------------------------------------------


def _order_faults(messages: _Messages) -> Iterator[str]:
    roles = [message["role"] for message in messages]
    if roles[0] != "user":
        yield (
            "A conversation must start with a user message. Try again with a conversation that "
            "starts with a user message."
        )
    for number in range(1, len(roles)):
        if roles[number] == roles[number - 1]:
            yield (
                "A conversation must alternate between user and assistant roles. Make sure the "
                "conversation alternates between user and assistant roles and try again: "
                f"messages.{number} repeats {roles[number]!r}."
            )
    if roles[-1] != "user" and not _ids(messages[-1], "toolUse"):
        yield (
            "This model does not support assistant message prefill. The conversation must end "
            "with a user message."
        )


def _ids(message: Mapping[str, Any], kind: str) -> list[str]:
    return [block[kind]["toolUseId"] for block in message["content"] if kind in block]


def _pairing_faults(messages: _Messages) -> Iterator[str]:
    """Yield breaches of the pairing: the next message answers each call, and nothing else."""
    used: set[str] = set()
    owed: list[str] = []
    for number, message in enumerate(messages):
        at = f"messages.{number}.content"
        found = _ids(message, "toolResult")
        missing = [call_id for call_id in owed if call_id not in found]
        if missing:
            yield f"Expected toolResult blocks at {at} for the following Ids: {', '.join(missing)}"
        if len(set(found)) < len(found):
            yield f"The toolResult blocks at {at} contain duplicate Ids: {', '.join(found)}"
        if len(found) > len(owed) or not set(found) <= set(owed):
            yield (
                f"The number of toolResult blocks at {at} exceeds the number of toolUse blocks of "
                f"previous turn: {', '.join(found)}"
            )
        owed = _ids(message, "toolUse")
        if len(set(owed)) < len(owed) or used & set(owed):
            yield f"The toolUse blocks at {at} contain duplicate Ids: {', '.join(owed)}"
        used |= set(owed)
    if owed:
        yield (
            f"Expected toolResult blocks at messages.{len(messages)}.content for the following "
            f"Ids: {', '.join(owed)}"
        )


def _tools_missing(messages: _Messages, config: object) -> Iterator[str]:
    kinds = {kind for message in messages for block in message["content"] for kind in block}
    if config is None and kinds & {"toolUse", "toolResult"}:
        yield (
            "The toolConfig field must be defined when using toolUse and toolResult content blocks."
        )


def _count_faults(messages: _Messages) -> Iterator[str]:
    flat = [block for message in messages for block in _with_results(message["content"])]
    for kind, most in _MOST.items():
        count = sum(kind in block for block in flat)
        if count > most:
            yield f"The request has {count} blocks of kind {kind}; the most allowed is {most}."
    names = [block["document"]["name"] for block in flat if "document" in block]
    if len(set(names)) < len(names):
        yield f"The request has duplicate document names: {', '.join(names)}"


def _with_results(content: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for block in content:
        yield block
        if "toolResult" in block:
            yield from block["toolResult"]["content"]
