"""What Converse refuses, in its words: order, pairs, blanks, tools and reasoning.

What it refuses of media is with the validators of the fuzz tests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from langchain_convmem.testing import BedrockConverseServer, RecordedRequest, ScriptedError
from langchain_convmem.testing.bedrock import sign

__all__ = ["StrictConverse", "find_converse_fault"]

_ROLES = ("user", "assistant")
_IDENTIFIER = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_Messages: TypeAlias = Sequence[Mapping[str, Any]]


def find_converse_fault(request: object) -> ScriptedError | None:
    """Return the first reason to refuse the parsed body of a request, or None.

    Its message names the place as `messages.0.content.1`.
    """
    code = "ValidationException"
    if isinstance(request, Mapping):
        message = next(_find_faults(request), None)
    else:
        message, code = "The body of the request must be a JSON object.", "SerializationException"
    return None if message is None else ScriptedError(status=400, message=message, code=code)


def _find_faults(request: Mapping[str, Any]) -> Iterator[str]:
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages:
        yield (
            "The messages field is empty. A conversation must start with a user message. Try "
            "again with a conversation that starts with a user message."
        )
        return
    yield from _find_system_faults(request.get("system"))
    yield from _find_tool_config_faults(request.get("toolConfig"))
    for number, message in enumerate(messages):
        yield from _find_message_faults(message, f"messages.{number}")
    yield from _find_order_faults(messages)
    yield from _find_pairing_faults(messages)
    yield from _find_missing_tools(messages, request.get("toolConfig"))


def _find_system_faults(system: object) -> Iterator[str]:
    if system is None:
        return
    if not isinstance(system, list):
        yield "The value at system is not a list of content blocks."
        return
    for number, block in enumerate(system):
        kinds = set(block) if isinstance(block, Mapping) else set()
        if len(kinds & {"text", "guardContent", "cachePoint"}) != 1:
            yield f"The content block at system.{number} must have exactly one known member."
        elif "text" in kinds and _is_blank(block["text"]):
            yield _describe_blank("SystemContentBlock", f"system.{number}")


def _is_blank(text: object) -> bool:
    return not isinstance(text, str) or not text.strip()


def _describe_blank(kind: str, at: str) -> str:
    return (
        f"The text field in the {kind} object at {at} is blank. Add text to the text field, and "
        "try again."
    )


def _describe_empty(kind: str, block: str, at: str) -> str:
    return (
        f"The content field in the {kind} object at {at} is empty. Add a {block} object to the "
        "content field and try again."
    )


def _find_tool_config_faults(config: object) -> Iterator[str]:
    if config is None:
        return
    tools = config.get("tools") if isinstance(config, Mapping) else None
    if not isinstance(tools, list) or not tools:
        yield "1 validation error detected: the list at toolConfig.tools must have 1 member or more"
        return
    specs = [t["toolSpec"] for t in tools if isinstance(t, Mapping) and "toolSpec" in t]
    for number, spec in enumerate(specs):
        yield from _find_tool_spec_faults(spec, f"toolConfig.tools.{number}.toolSpec")
    names = [spec.get("name") for spec in specs if isinstance(spec, Mapping)]
    if len(set(map(str, names))) < len(names):
        yield f"The names of tools in toolConfig.tools must be unique, got {names}."


def _find_tool_spec_faults(spec: object, at: str) -> Iterator[str]:
    if not isinstance(spec, Mapping):
        yield f"The value at {at} is invalid. Provide a tool specification and try again."
        return
    name = spec.get("name")
    if not isinstance(name, str) or not _IDENTIFIER.fullmatch(name):
        yield _describe_breach(
            name, f"{at}.name", "satisfy regular expression pattern: [a-zA-Z0-9_-]+"
        )
    if spec.get("description") == "":
        yield _describe_breach("", f"{at}.description", "have length greater than or equal to 1")
    schema = spec.get("inputSchema")
    inner = schema.get("json") if isinstance(schema, Mapping) else None
    if not isinstance(inner, Mapping) or inner.get("type") != "object":
        yield (f"The value at {at}.inputSchema.json.type must be one of the following: object.")


def _find_message_faults(message: object, at: str) -> Iterator[str]:
    if not isinstance(message, Mapping):
        yield f"The value at {at} is not a message."
        return
    role = message.get("role")
    if role not in _ROLES:
        yield _describe_breach(role, f"{at}.role", "satisfy enum value set: [user, assistant]")
        return
    content = message.get("content")
    if not isinstance(content, list) or not content:
        yield _describe_empty("Message", "ContentBlock", at)
        return
    for number, block in enumerate(content):
        yield from _find_block_faults(block, role, f"{at}.content.{number}")
    yield from _find_content_faults(content, role, at)


def _find_content_faults(content: Sequence[Mapping[str, Any]], role: str, at: str) -> Iterator[str]:
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


def _find_order_faults(messages: _Messages) -> Iterator[str]:
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
    if roles[-1] != "user" and not _list_ids(messages[-1], "toolUse"):
        yield (
            "This model does not support assistant message prefill. The conversation must end "
            "with a user message."
        )


def _list_ids(message: Mapping[str, Any], kind: str) -> list[str]:
    return [block[kind]["toolUseId"] for block in message["content"] if kind in block]


def _find_pairing_faults(messages: _Messages) -> Iterator[str]:
    """Yield breaches of the pairing: the next message answers each call, and nothing else."""
    used: set[str] = set()
    owed: list[str] = []
    for number, message in enumerate(messages):
        at = f"messages.{number}.content"
        found = _list_ids(message, "toolResult")
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
        owed = _list_ids(message, "toolUse")
        if len(set(owed)) < len(owed) or used & set(owed):
            yield f"The toolUse blocks at {at} contain duplicate Ids: {', '.join(owed)}"
        used |= set(owed)
    if owed:
        yield (
            f"Expected toolResult blocks at messages.{len(messages)}.content for the following "
            f"Ids: {', '.join(owed)}"
        )


def _find_missing_tools(messages: _Messages, config: object) -> Iterator[str]:
    kinds = {kind for message in messages for block in message["content"] for kind in block}
    if config is None and kinds & {"toolUse", "toolResult"}:
        yield (
            "The toolConfig field must be defined when using toolUse and toolResult content blocks."
        )


# -- Which content blocks are refused wherever they stand -----------------------------------------

_KNOWN = frozenset(
    {
        *("audio", "cachePoint", "citationsContent", "document", "guardContent", "image"),
        *("reasoningContent", "searchResult", "text", "toolResult", "toolUse", "video"),
    }
)

_ONLY_FROM = {
    "audio": "user",
    "document": "user",
    "image": "user",
    "reasoningContent": "assistant",
    "searchResult": "user",
    "toolResult": "user",
    "toolUse": "assistant",
    "video": "user",
}

_IN_RESULTS = frozenset({"document", "image", "json", "searchResult", "text", "video"})


def _find_block_faults(block: object, role: str, at: str) -> Iterator[str]:
    """Yield what is wrong with one block of a message.

    Args:
        block: The block.
        role: Whose message it stands in.
        at: Its place, such as `messages.0.content.1`.
    """
    kind = _get_kind(block, _KNOWN)
    if kind is None or not isinstance(block, Mapping):
        yield f"The ContentBlock object at {at} must set exactly one known field, got {block!r:.60}"
        return
    if _ONLY_FROM.get(kind, role) != role:
        yield (
            f"The {kind} field at {at} is only allowed in messages of the role "
            f"{_ONLY_FROM[kind]}, not of {role}."
        )
        return
    yield from _find_inner_faults(kind, block[kind], at)


def _get_kind(block: object, known: frozenset[str]) -> str | None:
    """Return the one member that a union has; None where it has none, another, or more."""
    if not isinstance(block, Mapping) or len(block) != 1:
        return None
    [kind] = block
    return kind if kind in known else None


def _find_inner_faults(kind: str, value: Any, at: str) -> Iterator[str]:
    if kind == "text" and _is_blank(value):
        yield _describe_blank("ContentBlock", at)
    elif kind == "toolUse":
        yield from _find_call_faults(value, at)
    elif kind == "toolResult":
        yield from _find_result_faults(value, at)
    elif kind == "reasoningContent":
        yield from _find_reasoning_faults(value, at)


def _find_call_faults(call: object, at: str) -> Iterator[str]:
    if not isinstance(call, Mapping):
        yield f"The value at {at}.toolUse is not a tool use."
        return
    yield from _find_pattern_faults(call.get("toolUseId"), _IDENTIFIER, f"{at}.toolUse.toolUseId")
    yield from _find_pattern_faults(call.get("name"), _IDENTIFIER, f"{at}.toolUse.name")
    if not isinstance(call.get("input"), Mapping):
        yield (
            f"The format of the value at {at}.toolUse.input is invalid. Provide a json object for "
            "the field and try again."
        )


def _find_pattern_faults(value: object, pattern: re.Pattern[str], at: str) -> Iterator[str]:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        yield _describe_breach(value, at, f"satisfy regular expression pattern: {pattern.pattern}")


def _describe_breach(value: object, at: str, wanted: str) -> str:
    """Return how the service says that the value at a place breaks a rule of its schema."""
    return (
        f"1 validation error detected: Value {value!r} at '{at}' failed to satisfy constraint: "
        f"Member must {wanted}"
    )


def _find_result_faults(result: object, at: str) -> Iterator[str]:
    if not isinstance(result, Mapping):
        yield f"The value at {at}.toolResult is not a tool result."
        return
    yield from _find_pattern_faults(
        result.get("toolUseId"), _IDENTIFIER, f"{at}.toolResult.toolUseId"
    )
    if result.get("status", "success") not in ("success", "error"):
        yield _describe_breach(
            result["status"], f"{at}.toolResult.status", "satisfy enum value set: [success, error]"
        )
    content = result.get("content")
    if not isinstance(content, list) or not content:
        yield _describe_empty("ToolResultBlock", "ToolResultContentBlock", at)
        return
    for number, block in enumerate(content):
        inside = f"{at}.toolResult.content.{number}"
        kind = _get_kind(block, _IN_RESULTS)
        if kind is None:
            yield f"The ToolResultContentBlock object at {inside} must set exactly one known field."
        elif kind != "json":
            yield from _find_inner_faults(kind, block[kind], inside)


def _find_reasoning_faults(value: object, at: str) -> Iterator[str]:
    told = value.get("reasoningText") if isinstance(value, Mapping) else None
    if not isinstance(told, Mapping):
        if not (isinstance(value, Mapping) and value.get("redactedContent")):
            yield f"The value at {at}.reasoningContent is not reasoning."
        return
    text, signature = told.get("text"), told.get("signature")
    if not isinstance(text, str):
        yield f"The text field at {at}.reasoningContent.reasoningText must be text."
    elif not isinstance(signature, str) or not signature:
        yield f"The signature field at {at}.reasoningContent.reasoningText is missing."
    elif signature.startswith("scripted:") and signature != sign(text):
        yield (
            "The model returned the following errors: "
            f"{at}: Invalid `signature` in `thinking` block"
        )


def _check(request: RecordedRequest) -> ScriptedError | None:
    return None if request.path.endswith("/invoke") else find_converse_fault(request.body)


StrictConverse = partial(BedrockConverseServer, check=_check)
"""Opens the kit's service, which then refuses what Bedrock refuses."""
