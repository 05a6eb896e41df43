"""What Chat Completions refuses: the kit's service, as strict as the real one."""

import re
from functools import partial

from langchain_convmem.testing import ChatCompletionsServer, ScriptedError

_ROLES = ("system", "assistant", "user", "function", "tool", "developer")
_PARTS = ("file", "image_url", "input_audio", "refusal", "text")
_INSTEAD_OF_CONTENT = ("tool_calls", "function_call", "refusal", "audio")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def find_chat_fault(request):
    """Return the first reason to refuse the parsed body of a request, or None."""
    for at, what in _find_faults(request):
        message = f"Invalid value for '{at}': {what}."
        return ScriptedError(status=400, message=message, kind="invalid_request_error", param=at)
    return None


def _find_faults(request):
    for option in ("tool_choice", "parallel_tool_calls"):
        if request.get(option) is not None and not request.get("tools"):
            yield option, "it is only allowed when 'tools' are specified"
    if "stream_options" in request and not request.get("stream"):
        yield "stream_options", "it is only allowed when 'stream' is enabled"
    if not request.get("messages"):
        yield "messages", "expected at least one message"
        return
    for number, message in enumerate(request["messages"]):
        yield from _find_message_faults(message, f"messages[{number}]")
    yield from _find_pairing_faults(request["messages"])


def _find_message_faults(message, at):
    if message.get("role") not in _ROLES:
        yield f"{at}.role", f"{message.get('role')!r} is none of {_ROLES}"
    name = message.get("name", "nobody")
    if name is not None and not _NAME.fullmatch(name):
        yield f"{at}.name", f"it does not match {_NAME.pattern}"
    content = message.get("content")
    if content is None and not any(map(message.get, _INSTEAD_OF_CONTENT)):
        yield f"{at}.content", "expected a string, got null"
    if content == []:
        yield f"{at}.content", "expected at least one part"
    for number, part in enumerate(content if isinstance(content, list) else ()):
        if part.get("type") not in _PARTS:
            yield f"{at}.content[{number}].type", f"{part.get('type')!r} is none of {_PARTS}"
    calls = message.get("tool_calls")
    if calls == []:
        yield f"{at}.tool_calls", "expected at least one call"
    for number, call in enumerate(calls or ()):
        yield from _find_call_faults(call, f"{at}.tool_calls[{number}]")


def _find_call_faults(call, at):
    if not isinstance(call["id"], str) or not 0 < len(call["id"]) <= 40:
        yield f"{at}.id", "expected 1 to 40 characters"
    if not _NAME.fullmatch(call["function"]["name"]):
        yield f"{at}.function.name", f"it does not match {_NAME.pattern}"
    if not isinstance(call["function"].get("arguments"), str):
        yield f"{at}.function.arguments", "expected a string"


def _find_pairing_faults(messages):
    """Yield breaches of the pairing: each call answered at once, each result for an open call."""
    owed = []
    for number, message in enumerate([*messages, {"role": "end"}]):
        if message["role"] == "tool":
            if message.get("tool_call_id") not in owed:
                yield f"messages[{number}].role", "a tool's message must answer a preceding call"
            else:
                owed.remove(message["tool_call_id"])
            continue
        if owed:
            place = min(number, len(messages) - 1)
            yield f"messages[{place}].role", f"no response for the calls {', '.join(owed)}"
        owed = [call["id"] for call in message.get("tool_calls") or ()]


def _check(request):
    return find_chat_fault(request.body) if "/chat/" in request.path else None


StrictChatCompletions = partial(ChatCompletionsServer, check=_check)
"""Opens the kit's service, which then refuses what OpenAI refuses."""
