"""What Converse refuses of what boto3 sends: order, pairs, blanks, names and reasoning.

boto3 itself refuses what has another shape. What the service refuses of media is with the
validators of the fuzz tests.
"""

import re
from collections.abc import Mapping
from functools import partial

from langchain_convmem.testing import BedrockConverseServer, ScriptedError
from langchain_convmem.testing.bedrock import sign

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ONLY_FROM = {
    **dict.fromkeys(("audio", "document", "image", "searchResult", "toolResult", "video"), "user"),
    **dict.fromkeys(("reasoningContent", "toolUse"), "assistant"),
}
_FREE = ("cachePoint", "citationsContent", "guardContent", "text")
_IN_RESULTS = frozenset({"document", "image", "json", "searchResult", "text", "video"})


def find_converse_fault(request):
    """Return the first reason to refuse the parsed body of a request, or None.

    Its message names the place as `messages.0.content.1`.
    """
    message = next(_find_faults(request), None)
    if message is None:
        return None
    return ScriptedError(status=400, message=message, code="ValidationException")


def _find_faults(request):
    messages, config = request.get("messages"), request.get("toolConfig")
    if not messages:
        yield "The messages field is empty"
        return
    for number, block in enumerate(request.get("system") or ()):
        if not block.get("text", "cache point").strip():
            yield f"system.{number} is blank"
    if config is not None:
        yield from _find_tool_faults(config["tools"])
    for number, message in enumerate(messages):
        yield from _find_message_faults(message, f"messages.{number}")
    yield from _find_order_faults(messages)
    yield from _find_pairing_faults(messages)
    kinds = {kind for message in messages for block in message["content"] for kind in block}
    if config is None and kinds & {"toolUse", "toolResult"}:
        yield "The toolConfig field must be defined when using toolUse and toolResult"


def _find_tool_faults(tools):
    specs = [tool["toolSpec"] for tool in tools if "toolSpec" in tool]
    if not tools:
        yield "toolConfig.tools must have 1 member or more"
    for number, spec in enumerate(specs):
        at = f"toolConfig.tools.{number}.toolSpec"
        if not _NAME.fullmatch(spec["name"]):
            yield f"{at}.name does not match {_NAME.pattern}"
        if spec.get("description") == "":
            yield f"{at}.description is empty"
        if spec["inputSchema"]["json"].get("type") != "object":
            yield f"{at}.inputSchema.json.type must be object"
    if len({spec["name"] for spec in specs}) < len(specs):
        yield "The names of tools in toolConfig.tools must be unique"


def _find_message_faults(message, at):
    role, content = message["role"], message["content"]
    if not content:
        yield f"{at}.content is empty"
        return
    for number, block in enumerate(content):
        yield from _find_block_faults(block, role, f"{at}.content.{number}")
    kinds = [kind for block in content for kind in block]
    if "document" in kinds and "text" not in kinds:
        yield f"{at} has a document and no text"
    if role == "assistant" and kinds[-1] == "reasoningContent":
        yield f"{at}: the final block in an assistant message cannot be `thinking`"
    results = [place for place, kind in enumerate(kinds) if kind == "toolResult"]
    if results and set(kinds[: results[-1]]) - {"toolResult", "cachePoint"}:
        yield f"{at}: `tool_result` blocks must come before all other content"


def _find_block_faults(block, role, at):
    if len(block) != 1 or not {*_ONLY_FROM, *_FREE} & set(block):
        yield f"{at} must set exactly one known field, got {block!r:.60}"
        return
    [(kind, value)] = block.items()
    if _ONLY_FROM.get(kind, role) != role:
        yield f"{at}: {kind} is only allowed from the {_ONLY_FROM[kind]}"
    elif kind == "text" and not value.strip():
        yield f"{at} is blank"
    elif kind == "toolUse":
        if not _NAME.fullmatch(value["toolUseId"]) or not _NAME.fullmatch(value["name"]):
            yield f"{at}: id or name does not match {_NAME.pattern}"
        if not isinstance(value["input"], Mapping):
            yield f"{at}.toolUse.input must be an object"
    elif kind == "toolResult":
        yield from _find_result_faults(value, f"{at}.toolResult")
    elif kind == "reasoningContent":
        yield from _find_reasoning_faults(value, at)


def _find_result_faults(result, at):
    if not _NAME.fullmatch(result["toolUseId"]):
        yield f"{at}.toolUseId does not match {_NAME.pattern}"
    if result.get("status", "success") not in ("success", "error"):
        yield f"{at}.status must be success or error"
    if not result["content"]:
        yield f"{at}.content is empty"
    for number, block in enumerate(result["content"]):
        if len(block) != 1 or not _IN_RESULTS & set(block):
            yield f"{at}.content.{number} must set exactly one known field"
        elif not block.get("text", "none").strip():
            yield f"{at}.content.{number} is blank"


def _find_reasoning_faults(value, at):
    told = value.get("reasoningText")
    if told is None:
        if not value.get("redactedContent"):
            yield f"{at} is no reasoning"
        return
    signature = told.get("signature")
    if not signature:
        yield f"The signature field at {at} is missing"
    elif signature.startswith("scripted:") and signature != sign(told["text"]):
        yield f"{at}: invalid `signature` in `thinking` block"


def _find_order_faults(messages):
    roles = [message["role"] for message in messages]
    if roles[0] != "user":
        yield "A conversation must start with a user message"
    for number in range(1, len(roles)):
        if roles[number] == roles[number - 1]:
            yield f"Roles must alternate: messages.{number} repeats {roles[number]}"
    if roles[-1] != "user" and not _list_ids(messages[-1], "toolUse"):
        yield "The conversation must end with a user message"


def _list_ids(message, kind):
    return [block[kind]["toolUseId"] for block in message["content"] if kind in block]


def _find_pairing_faults(messages):
    """Yield breaches of the pairing: the next message answers each call, and nothing else."""
    used = set()
    owed = []
    for number, message in enumerate([*messages, {"content": []}]):
        at = f"messages.{number}.content"
        found = _list_ids(message, "toolResult")
        missing = [call_id for call_id in owed if call_id not in found]
        if missing:
            yield f"Expected toolResult blocks at {at} for the following Ids: {', '.join(missing)}"
        if len(set(found)) < len(found):
            yield f"The toolResult blocks at {at} contain duplicate Ids"
        if not set(found) <= set(owed):
            yield f"The number of toolResult blocks at {at} exceeds that of toolUse blocks before"
        owed = _list_ids(message, "toolUse")
        if len(set(owed)) < len(owed) or used & set(owed):
            yield f"The toolUse blocks at {at} contain duplicate Ids"
        used |= set(owed)


def _check(request):
    return None if request.path.endswith("/invoke") else find_converse_fault(request.body)


StrictConverse = partial(BedrockConverseServer, check=_check)
"""Opens the kit's service, which then refuses what Bedrock refuses."""
