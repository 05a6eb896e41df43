"""What Chat Completions refuses, in its words: the kit's service, as strict as the real one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from langchain_convmem.testing import ChatCompletionsServer, RecordedRequest, ScriptedError

__all__ = ["StrictChatCompletions", "find_chat_fault"]

_ROLES = ("system", "assistant", "user", "function", "tool", "developer")
_LONGEST_CALL_ID = 40
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_PART_TYPES = ("file", "image_url", "input_audio", "refusal", "text")


def find_chat_fault(request: object) -> ScriptedError | None:
    """Return the first reason to refuse the parsed body of a request, or None."""
    return next(_find_chat_faults(request), None)


def _find_chat_faults(request: object) -> Iterator[ScriptedError]:
    yield from _find_faults_of_any(request)
    if not isinstance(request, Mapping):
        return
    for option in ("tool_choice", "parallel_tool_calls"):
        if request.get(option) is not None and not request.get("tools"):
            yield _refuse(
                f"Invalid value for '{option}': '{option}' is only allowed when 'tools' are "
                "specified.",
                option,
            )
    yield from _find_list_faults(request.get("messages"))


def _find_faults_of_any(request: object) -> Iterator[ScriptedError]:
    """Yield what is wrong with a request, whatever it asks for."""
    if not isinstance(request, Mapping):
        yield _refuse("The body of the request must be a JSON object.")
        return
    if not isinstance(request.get("model"), str) or not request["model"]:
        yield _refuse("You must provide a model parameter.", "model")
    if "stream_options" in request and not request.get("stream"):
        yield _refuse(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
            "stream_options",
        )


def _find_list_faults(messages: object) -> Iterator[ScriptedError]:
    if messages is None:
        yield _refuse_missing("messages")
    elif not isinstance(messages, list):
        yield _refuse_type("messages", "an array", messages)
    elif not messages:
        yield _refuse_empty("messages", "at least one message")
    else:
        for number, message in enumerate(messages):
            yield from _find_message_faults(message, f"messages[{number}]")
        yield from _find_pairing_faults(messages)


def _find_message_faults(message: object, at: str) -> Iterator[ScriptedError]:
    if not isinstance(message, Mapping):
        yield _refuse_type(at, "an object", message)
        return
    role = message.get("role")
    if role is None:
        yield _refuse_missing(f"{at}.role")
    elif role not in _ROLES:
        yield _refuse_value(role, _ROLES, f"{at}.role")
    name = message.get("name")
    if name is not None:
        yield from _find_name_faults(name, f"{at}.name")
    yield from _find_content_faults(message, at)
    if role == "assistant" and message.get("tool_calls") is not None:
        yield from _find_call_faults(message["tool_calls"], f"{at}.tool_calls")


def _find_content_faults(message: Mapping[str, Any], at: str) -> Iterator[ScriptedError]:
    content = message.get("content")
    if content is None:
        may_be_null = message.get("role") == "assistant" and any(
            message.get(key) for key in ("tool_calls", "function_call", "refusal", "audio")
        )
        if not may_be_null:
            yield _refuse(
                "Invalid value for 'content': expected a string, got null.",
                f"{at}.content",
                "invalid_type",
            )
    elif isinstance(content, list):
        yield from _find_part_faults(content, at)
    elif not isinstance(content, str):
        yield _refuse_type(f"{at}.content", "a string or an array of objects", content)


def _find_part_faults(content: list[Any], at: str) -> Iterator[ScriptedError]:
    if not content:
        yield _refuse_empty(f"{at}.content", "at least one part")
    for number, part in enumerate(content):
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind not in _PART_TYPES:
            yield _refuse_value(kind, _PART_TYPES, f"{at}.content[{number}].type")


def _find_call_faults(calls: object, at: str) -> Iterator[ScriptedError]:
    if not isinstance(calls, list) or not calls:
        yield _refuse_empty(at, "an array with minimum length 1")
        return
    for number, call in enumerate(calls):
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping):
            yield _refuse_missing(f"{at}[{number}].function")
            continue
        call_id = call.get("id")
        if not isinstance(call_id, str) or not 0 < len(call_id) <= _LONGEST_CALL_ID:
            yield _refuse(
                f"Invalid '{at}[{number}].id': expected a string with 1 to {_LONGEST_CALL_ID} "
                f"characters, got {call_id!r:.80}.",
                f"{at}[{number}].id",
                "string_above_max_length",
            )
        yield from _find_name_faults(function.get("name"), f"{at}[{number}].function.name")
        if not isinstance(function.get("arguments"), str):
            yield _refuse_missing(f"{at}[{number}].function.arguments")


def _find_pairing_faults(messages: list[Mapping[str, Any]]) -> Iterator[ScriptedError]:
    """Yield breaches of the pairing: each call answered at once, each result for an open call."""
    owed: list[str] = []
    for number, message in enumerate(messages):
        at = f"messages[{number}]"
        if message.get("role") == "tool":
            call_id = message.get("tool_call_id")
            if call_id not in owed:
                yield _refuse(
                    "Messages with role 'tool' must be a response to a preceding message with "
                    f"'tool_calls'; none is open for tool_call_id {call_id!r}.",
                    f"{at}.role",
                )
                continue
            owed.remove(call_id)
            continue
        if owed:
            yield _refuse_unanswered(owed, at)
        calls = message.get("tool_calls") if message.get("role") == "assistant" else None
        owed = [str(call.get("id")) for call in calls or () if isinstance(call, Mapping)]
    if owed:
        yield _refuse_unanswered(owed, f"messages[{len(messages) - 1}]")


def _find_name_faults(name: object, at: str) -> Iterator[ScriptedError]:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        message = (
            f"Invalid '{at}': string does not match pattern. "
            f"Expected a string that matches the pattern '^{_NAME.pattern}$'."
        )
        yield _refuse(message, at, "invalid_value")


def _refuse_unanswered(owed: list[str], at: str) -> ScriptedError:
    return _refuse(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to "
        f"each 'tool_call_id'. No response for: {', '.join(owed)}.",
        f"{at}.role",
    )


def _refuse_missing(param: str) -> ScriptedError:
    message = f"Missing required parameter: '{param}'."
    return _refuse(message, param, "missing_required_parameter")


def _refuse_empty(at: str, expected: str) -> ScriptedError:
    return _refuse(f"Invalid '{at}': empty array. Expected {expected}.", at, "empty_array")


def _refuse_type(at: str, expected: str, value: object) -> ScriptedError:
    names = {bool: "a boolean", int: "an integer", float: "a number", str: "a string"}
    got = names.get(type(value), "an array" if isinstance(value, list) else "an object")
    return _refuse(f"Invalid type for '{at}': expected {expected}, got {got}.", at, "invalid_type")


def _refuse_value(value: object, supported: Iterable[str], at: str) -> ScriptedError:
    values = ", ".join(f"'{known}'" for known in supported)
    message = f"Invalid value: {value!r}. Supported values are: {values}."
    return _refuse(message, at, "invalid_value")


def _refuse(
    message: str, param: str | None = None, code: str | None = None, *, status: int = 400
) -> ScriptedError:
    return ScriptedError(
        status=status, message=message, kind="invalid_request_error", param=param, code=code
    )


def _check(request: RecordedRequest) -> ScriptedError | None:
    return find_chat_fault(request.body) if "/chat/" in request.path else None


StrictChatCompletions = partial(ChatCompletionsServer, check=_check)
"""Opens the kit's service, which then refuses what OpenAI refuses."""
