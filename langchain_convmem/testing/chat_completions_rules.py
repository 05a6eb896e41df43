"""Which Chat Completions requests the service refuses, and the error it answers. Pure.

Source: the public API reference of Chat Completions; wording and codes follow its error bodies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["ROLES", "RequestFault", "error_body", "faults_of_any", "find_fault"]

ROLES = ("system", "assistant", "user", "function", "tool", "developer")
_LONGEST_CALL_ID = 40
NAME_PATTERN = "^[a-zA-Z0-9_-]{1,64}$"

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_PART_TYPES = frozenset({"text", "image_url", "input_audio", "file", "refusal"})


@dataclass(frozen=True, slots=True)
class RequestFault:
    """Why a request is refused.

    Attributes:
        message: One sentence.
        param: Path of the offending parameter, such as `messages[1].role`; None for the whole.
        code: Machine-readable reason; None where the service gives none.
        status: HTTP status.
        kind: The error's `type`.
    """

    message: str
    param: str | None = None
    code: str | None = None
    status: int = 400
    kind: str = "invalid_request_error"


def error_body(
    message: str, *, kind: str, param: str | None = None, code: str | None = None
) -> dict[str, Any]:
    """Return an error in the service's JSON form."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def find_fault(request: object) -> RequestFault | None:
    """Return the first reason to refuse the parsed body of a request, or None."""
    return next(_faults(request), None)


def faults_of_any(request: object) -> Iterator[RequestFault]:
    """Yield what is wrong with a request, whatever it asks for."""
    if not isinstance(request, Mapping):
        yield RequestFault("The body of the request must be a JSON object.")
        return
    if not isinstance(request.get("model"), str) or not request["model"]:
        yield RequestFault("You must provide a model parameter.", "model")
    if "stream_options" in request and not request.get("stream"):
        yield RequestFault(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
            "stream_options",
        )


def _faults(request: object) -> Iterator[RequestFault]:
    yield from faults_of_any(request)
    if not isinstance(request, Mapping):
        return
    for option in ("tool_choice", "parallel_tool_calls"):
        if request.get(option) is not None and not request.get("tools"):
            yield RequestFault(
                f"Invalid value for '{option}': '{option}' is only allowed when 'tools' are "
                "specified.",
                option,
            )
    yield from _list_faults(request.get("messages"))


def _list_faults(messages: object) -> Iterator[RequestFault]:
    if messages is None:
        yield _missing("messages")
    elif not isinstance(messages, list):
        yield RequestFault(
            f"Invalid type for 'messages': expected an array, got {_type_name(messages)}.",
            "messages",
            "invalid_type",
        )
    elif not messages:
        yield RequestFault(
            "Invalid 'messages': empty array. Expected at least one message.",
            "messages",
            "empty_array",
        )
    else:
        for number, message in enumerate(messages):
            yield from _message_faults(message, f"messages[{number}]")
        yield from _tool_faults(messages)


def _message_faults(message: object, at: str) -> Iterator[RequestFault]:
    if not isinstance(message, Mapping):
        yield RequestFault(
            f"Invalid type for '{at}': expected an object, got {_type_name(message)}.",
            at,
            "invalid_type",
        )
        return
    role = message.get("role")
    if role is None:
        yield _missing(f"{at}.role")
    elif role not in ROLES:
        supported = ", ".join(f"'{known}'" for known in ROLES)
        yield RequestFault(
            f"Invalid value: {role!r}. Supported values are: {supported}.",
            f"{at}.role",
            "invalid_value",
        )
    name = message.get("name")
    if name is not None and not (isinstance(name, str) and _NAME.fullmatch(name)):
        yield RequestFault(
            f"Invalid '{at}.name': string does not match pattern. "
            f"Expected a string that matches the pattern '{NAME_PATTERN}'.",
            f"{at}.name",
            "invalid_value",
        )
    yield from _content_faults(message, at)
    if role == "assistant" and message.get("tool_calls") is not None:
        yield from _call_faults(message["tool_calls"], f"{at}.tool_calls")


def _content_faults(message: Mapping[str, Any], at: str) -> Iterator[RequestFault]:
    content = message.get("content")
    if content is None:
        may_be_null = message.get("role") == "assistant" and any(
            message.get(key) for key in ("tool_calls", "function_call", "refusal", "audio")
        )
        if not may_be_null:
            yield RequestFault(
                "Invalid value for 'content': expected a string, got null.",
                f"{at}.content",
                "invalid_type",
            )
    elif isinstance(content, list):
        yield from _part_faults(content, at)
    elif not isinstance(content, str):
        yield RequestFault(
            f"Invalid type for '{at}.content': expected a string or an array of objects, "
            f"got {_type_name(content)}.",
            f"{at}.content",
            "invalid_type",
        )


def _part_faults(content: list[Any], at: str) -> Iterator[RequestFault]:
    if not content:
        yield RequestFault(
            f"Invalid '{at}.content': empty array. Expected at least one part.",
            f"{at}.content",
            "empty_array",
        )
    for number, part in enumerate(content):
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind not in _PART_TYPES:
            supported = ", ".join(f"'{known}'" for known in sorted(_PART_TYPES))
            yield RequestFault(
                f"Invalid value: {kind!r}. Supported values are: {supported}.",
                f"{at}.content[{number}].type",
                "invalid_value",
            )


def _call_faults(calls: object, at: str) -> Iterator[RequestFault]:
    if not isinstance(calls, list) or not calls:
        yield RequestFault(
            f"Invalid '{at}': empty array. Expected an array with minimum length 1.",
            at,
            "empty_array",
        )
        return
    for number, call in enumerate(calls):
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping):
            yield _missing(f"{at}[{number}].function")
            continue
        call_id = call.get("id")
        if not isinstance(call_id, str) or not 0 < len(call_id) <= _LONGEST_CALL_ID:
            yield RequestFault(
                f"Invalid '{at}[{number}].id': expected a string with 1 to {_LONGEST_CALL_ID} "
                f"characters, got {call_id!r:.80}.",
                f"{at}[{number}].id",
                "string_above_max_length",
            )
        if not isinstance(function.get("name"), str) or not _NAME.fullmatch(function["name"]):
            yield RequestFault(
                f"Invalid '{at}[{number}].function.name': string does not match pattern. "
                f"Expected a string that matches the pattern '{NAME_PATTERN}'.",
                f"{at}[{number}].function.name",
                "invalid_value",
            )
        if not isinstance(function.get("arguments"), str):
            yield _missing(f"{at}[{number}].function.arguments")


def _missing(param: str) -> RequestFault:
    return RequestFault(
        f"Missing required parameter: '{param}'.", param, "missing_required_parameter"
    )


def _call_ids(message: Mapping[str, Any]) -> list[str]:
    calls = message.get("tool_calls") or []
    return [str(call.get("id")) for call in calls if isinstance(call, Mapping)]


def _tool_faults(messages: list[Mapping[str, Any]]) -> Iterator[RequestFault]:
    """Yield breaches of the pairing: each call answered at once, each result for an open call."""
    owed: list[str] = []
    for number, message in enumerate(messages):
        at = f"messages[{number}]"
        if message.get("role") == "tool":
            call_id = message.get("tool_call_id")
            if call_id not in owed:
                yield RequestFault(
                    "Messages with role 'tool' must be a response to a preceding message with "
                    f"'tool_calls'; none is open for tool_call_id {call_id!r}.",
                    f"{at}.role",
                )
                continue
            owed.remove(call_id)
            continue
        if owed:
            yield _unanswered(owed, at)
        owed = _call_ids(message) if message.get("role") == "assistant" else []
    if owed:
        yield _unanswered(owed, f"messages[{len(messages) - 1}]")


def _unanswered(owed: list[str], at: str) -> RequestFault:
    return RequestFault(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to "
        f"each 'tool_call_id'. No response for: {', '.join(owed)}.",
        f"{at}.role",
    )


def _type_name(value: object) -> str:
    names = {bool: "a boolean", int: "an integer", float: "a number", str: "a string"}
    return names.get(type(value), "an array" if isinstance(value, list) else "an object")
