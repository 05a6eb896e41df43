"""Bedrock's Converse on loopback for tests: real HTTP, scripted answers, strict input.

Speaks `POST /model/{modelId}/converse` (JSON) and `POST /model/{modelId}/converse-stream` (the
binary event stream), with nothing but the standard library, and refuses what the real service
refuses (see `bedrock_converse_rules`).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from langchain_convmem.errors import ConfigError
from langchain_convmem.testing.loopback_server import (
    Listener,
    LoopbackConnection,
    LoopbackServer,
)
from langchain_convmem.testing.scripted_replies import (
    ReplySource,
    Script,
    ScriptedError,
    ScriptedReply,
    ScriptedToolCall,
    pieces_of,
    words_of,
)
from langchain_convmem.views.tokens import count_text_tokens

_ADDRESS = re.compile(r"POST /model/[^/]+/(converse|converse-stream)")


_SIGNED = ("AWS4-HMAC-SHA256 ", "Bearer ")


class BedrockConverseServer(LoopbackServer):
    """Bedrock's conversation API on 127.0.0.1, for the time of a `with` block.

    Leaving the block closes every connection and joins every thread; an exception that `reply`
    raised is raised again there, unless the block itself failed. Any credentials will do: the
    signature of a request must be there, and is not checked. Safe to use from several threads.

    Example:
        ```python
        with BedrockConverseServer(reply="Level 3.") as server:
            model = ChatBedrockConverse(
                model="anthropic.claude-sonnet-4-20250514-v1:0",
                endpoint_url=server.url,
                region_name="us-east-1",
                aws_access_key_id="test",
                aws_secret_access_key="test",
            )
            model.invoke("Where did I park?")
            [message] = server.requests[0].body["messages"]
            assert message["content"] == [{"text": "Where did I park?"}]
        ```
    """

    def __init__(self, reply: ReplySource) -> None:
        """Create the server; it listens from `__enter__` on.

        Args:
            reply: What to answer: a text, a `ScriptedReply`, a `ScriptedError`; a list of them,
                one for each valid request in order, one request too many being an error; or a
                callable that gets each valid request's body and returns one of them. It runs in
                the thread of its connection.
        """
        script = Script(reply)
        super().__init__(script, lambda: Listener(script, _Connection))

    @property
    def url(self) -> str:
        """What to pass as `endpoint_url`."""
        return self.origin


class _Connection(LoopbackConnection):
    def heard(self, raw: bytes) -> None:
        if _ADDRESS.fullmatch(f"{self.command} {self.bare_path()}") is None:
            message = f"Unknown operation: {self.command} {self.path}"
            self._refuse(ConverseFault(message, "UnknownOperationException", 404))
            return
        request = self.recorded(raw)
        fault = _unsigned(request.headers) or find_converse_fault(request.body)
        if fault is not None:
            self._refuse(fault)
        else:
            self.answer(request.body)

    def say(self, request: dict[str, Any], reply: ScriptedReply) -> None:
        if not self.bare_path().endswith("-stream"):
            self.send_whole(converse_body(request, reply), reply)
            return
        cut = reply.cut_with
        self.send_stream(
            EVENT_STREAM,
            [event_frame(event) for event in stream_events(request, reply)],
            reply,
            None if cut is None else exception_frame(cut),
        )

    def say_error(self, error: ScriptedError) -> None:
        headers = {"x-amzn-ErrorType": exception_name(error), **self.when_to_retry(error)}
        self.send_json(error.status, {"message": error.message}, headers=headers)

    def _refuse(self, fault: ConverseFault) -> None:
        headers = {"x-amzn-ErrorType": fault.exception}
        self.send_json(fault.status, {"message": fault.message}, headers=headers)


def _unsigned(headers: Mapping[str, str]) -> ConverseFault | None:
    if headers.get("authorization", "").startswith(_SIGNED):
        return None
    return ConverseFault("Missing Authentication Token", "MissingAuthenticationTokenException", 403)


# -- Which requests Converse and ConverseStream refuse, and with which exception ------------------


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


# -- Which content blocks Converse refuses wherever they stand ------------------------------------


_KNOWN = frozenset(
    {
        "audio",
        "cachePoint",
        "citationsContent",
        "document",
        "guardContent",
        "image",
        "reasoningContent",
        "searchResult",
        "text",
        "toolResult",
        "toolUse",
        "video",
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


_FORMATS = {
    "document": frozenset({"csv", "doc", "docx", "html", "md", "pdf", "txt", "xls", "xlsx"}),
    "image": frozenset({"gif", "jpeg", "png", "webp"}),
    "video": frozenset({"flv", "mkv", "mov", "mp4", "mpeg", "mpg", "three_gp", "webm", "wmv"}),
}


_MOST_BYTES = {"document": 4_500_000, "image": 3_750_000, "video": 25_000_000}


_CALL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


_DOCUMENT_NAME = re.compile(r"(?!.{201})[a-zA-Z0-9()\[\]-]+(?:\s[a-zA-Z0-9()\[\]-]+)*")


def block_faults(block: object, role: str, at: str) -> Iterator[str]:
    """Yield what is wrong with one block of a message.

    Args:
        block: The block.
        role: Whose message it stands in.
        at: Its place, such as `messages.0.content.1`.
    """
    kind = _kind_of(block, _KNOWN)
    if kind is None or not isinstance(block, Mapping):
        yield f"The ContentBlock object at {at} must set exactly one known field, got {block!r:.60}"
        return
    if _ONLY_FROM.get(kind, role) != role:
        yield (
            f"The {kind} field at {at} is only allowed in messages of the role "
            f"{_ONLY_FROM[kind]}, not of {role}."
        )
        return
    yield from _inner_faults(kind, block[kind], at)


def _kind_of(block: object, known: frozenset[str]) -> str | None:
    """Return the one member that a union has; None where it has none, another, or more."""
    if not isinstance(block, Mapping) or len(block) != 1:
        return None
    [kind] = block
    return kind if kind in known else None


def _inner_faults(kind: str, value: Any, at: str) -> Iterator[str]:
    if kind == "text":
        yield from _text_faults(value, at)
    elif kind == "toolUse":
        yield from _call_faults(value, at)
    elif kind == "toolResult":
        yield from _result_faults(value, at)
    elif kind == "reasoningContent":
        yield from _reasoning_faults(value, at)
    elif kind in _FORMATS:
        yield from _media_faults(kind, value, at)


def _text_faults(text: object, at: str) -> Iterator[str]:
    if not isinstance(text, str) or not text.strip():
        yield (
            f"The text field in the ContentBlock object at {at} is blank. Add text to the text "
            "field, and try again."
        )


# -- tools ----------------------------------------------------------------------------------------
def _call_faults(call: object, at: str) -> Iterator[str]:
    if not isinstance(call, Mapping):
        yield f"The value at {at}.toolUse is no tool use."
        return
    yield from _pattern_faults(call.get("toolUseId"), _CALL_ID, f"{at}.toolUse.toolUseId")
    yield from _pattern_faults(call.get("name"), _TOOL_NAME, f"{at}.toolUse.name")
    if not isinstance(call.get("input"), Mapping):
        yield (
            f"The format of the value at {at}.toolUse.input is invalid. Provide a json object for "
            "the field and try again."
        )


def _pattern_faults(value: object, pattern: re.Pattern[str], at: str) -> Iterator[str]:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        yield (
            f"1 validation error detected: Value {value!r} at '{at}' failed to satisfy "
            f"constraint: Member must satisfy regular expression pattern: {pattern.pattern}"
        )


def _result_faults(result: object, at: str) -> Iterator[str]:
    if not isinstance(result, Mapping):
        yield f"The value at {at}.toolResult is no tool result."
        return
    yield from _pattern_faults(result.get("toolUseId"), _CALL_ID, f"{at}.toolResult.toolUseId")
    if result.get("status", "success") not in ("success", "error"):
        yield (
            f"1 validation error detected: Value {result['status']!r} at "
            f"'{at}.toolResult.status' failed to satisfy constraint: Member must satisfy enum "
            "value set: [success, error]"
        )
    content = result.get("content")
    if not isinstance(content, list) or not content:
        yield (
            f"The content field in the ToolResultBlock object at {at} is empty. Add a "
            "ToolResultContentBlock object to the content field and try again."
        )
        return
    for number, block in enumerate(content):
        inside = f"{at}.toolResult.content.{number}"
        kind = _kind_of(block, _IN_RESULTS)
        if kind is None:
            yield f"The ToolResultContentBlock object at {inside} must set exactly one known field."
        elif kind != "json":
            yield from _inner_faults(kind, block[kind], inside)


# -- reasoning ------------------------------------------------------------------------------------
def _reasoning_faults(value: object, at: str) -> Iterator[str]:
    told = value.get("reasoningText") if isinstance(value, Mapping) else None
    if not isinstance(told, Mapping):
        if not (isinstance(value, Mapping) and value.get("redactedContent")):
            yield f"The value at {at}.reasoningContent is no reasoning."
        return
    text, signature = told.get("text"), told.get("signature")
    if not isinstance(text, str):
        yield f"The text field at {at}.reasoningContent.reasoningText must be text."
    elif not isinstance(signature, str) or not signature:
        yield f"The signature field at {at}.reasoningContent.reasoningText is missing."
    elif signature.startswith(OWN_SIGNATURE) and signature != signature_of(text):
        yield (
            "The model returned the following errors: "
            f"{at}: Invalid `signature` in `thinking` block"
        )


# -- media ----------------------------------------------------------------------------------------
def _media_faults(kind: str, value: object, at: str) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield f"The value at {at}.{kind} is no {kind}."
        return
    if value.get("format") not in _FORMATS[kind]:
        yield (
            f"1 validation error detected: Value {value.get('format')!r} at '{at}.{kind}.format' "
            f"failed to satisfy constraint: Member must satisfy enum value set: "
            f"{sorted(_FORMATS[kind])}"
        )
    yield from _source_faults(kind, value.get("source"), at)
    name = value.get("name")
    if kind == "document" and not (isinstance(name, str) and _DOCUMENT_NAME.fullmatch(name)):
        yield (
            "The document file name can only contain alphanumeric characters, whitespace "
            "characters, hyphens, parentheses, and square brackets. The name can't contain more "
            f"than one consecutive whitespace character: {name!r:.80} at {at}"
        )


def _source_faults(kind: str, source: object, at: str) -> Iterator[str]:
    form = _kind_of(source, frozenset({"bytes", "content", "s3Location", "text"}))
    if form is None or not isinstance(source, Mapping):
        yield f"The source field at {at}.{kind} must set exactly one known field."
        return
    if form != "bytes":
        return
    data = _decoded(source["bytes"])
    if not data:
        yield f"The bytes field at {at}.{kind}.source is empty or no base64."
    elif len(data) > _MOST_BYTES[kind]:
        yield (
            f"The {kind} at {at} has {len(data)} bytes; the most allowed is {_MOST_BYTES[kind]}."
        )


def _decoded(data: object) -> bytes:
    if not isinstance(data, str):
        return b""
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error:
        return b""


# -- Scripted replies as Bedrock says them --------------------------------------------------------


EVENT_STREAM = "application/vnd.amazon.eventstream"


OWN_SIGNATURE = "scripted:"


"""How the signatures of scripted reasoning begin: those can be checked when they come back."""


_EXCEPTIONS = {
    400: "ValidationException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    424: "ModelErrorException",
    429: "ThrottlingException",
    500: "InternalServerException",
    503: "ServiceUnavailableException",
}


_STREAM_EXCEPTIONS = {**_EXCEPTIONS, 424: "ModelStreamErrorException"}


# -- frames ---------------------------------------------------------------------------------------
_PRELUDE = struct.Struct(">II")


_CHECKSUM = struct.Struct(">I")


_PRELUDE_BYTES = _PRELUDE.size + _CHECKSUM.size


_STRING = 7


"""The header type whose value is UTF-8 text."""


def frame(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return one message of an event stream.

    Args:
        headers: By name, in order; sent as text.
        payload: What follows them.
    """
    head = b"".join(_header(name, value) for name, value in headers.items())
    total = _PRELUDE_BYTES + len(head) + len(payload) + _CHECKSUM.size
    lengths = _PRELUDE.pack(total, len(head))
    prelude = lengths + _CHECKSUM.pack(zlib.crc32(lengths))
    body = prelude + head + payload
    return body + _CHECKSUM.pack(zlib.crc32(body))


def _header(name: str, value: str) -> bytes:
    raw_name, raw_value = name.encode(), value.encode()
    return (
        struct.pack(">B", len(raw_name))
        + raw_name
        + struct.pack(">BH", _STRING, len(raw_value))
        + raw_value
    )


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event of ConverseStream.

    Attributes:
        kind: Such as `contentBlockDelta`.
        body: What it says.
    """

    kind: str
    body: Mapping[str, Any]


def event_frame(event: StreamEvent) -> bytes:
    """Return the frame of an event."""
    return _json_frame("event", event.kind, event.body)


def exception_frame(error: ScriptedError) -> bytes:
    """Return the frame with which a stream fails after it has begun."""
    name = exception_name(error, _STREAM_EXCEPTIONS)
    return _json_frame("exception", name[:1].lower() + name[1:], {"message": error.message})


def exception_name(error: ScriptedError, names: Mapping[int, str] = _EXCEPTIONS) -> str:
    """Return the name of the exception that an error is at Bedrock."""
    usual = "ValidationException" if error.status < 500 else "InternalServerException"
    return error.code or names.get(error.status, usual)


def _json_frame(message_type: str, kind: str, body: Mapping[str, Any]) -> bytes:
    headers = {
        f":{message_type}-type": kind,
        ":content-type": "application/json",
        ":message-type": message_type,
    }
    return frame(headers, json.dumps(body, ensure_ascii=False).encode())


# -- replies --------------------------------------------------------------------------------------
def signature_of(reasoning: str) -> str:
    """Return how scripted reasoning is signed; another text has another signature."""
    digest = hashlib.sha256(reasoning.encode()).digest()
    return OWN_SIGNATURE + base64.b64encode(digest).decode()


def converse_body(request: Mapping[str, Any], reply: ScriptedReply) -> dict[str, Any]:
    """Return the body of a response that is not streamed.

    Raises:
        ConfigError: If the arguments of a call are no JSON object.
    """
    content: list[dict[str, Any]] = []
    if reply.reasoning:
        told = {"text": reply.reasoning, "signature": signature_of(reply.reasoning)}
        content.append({"reasoningContent": {"reasoningText": told}})
    if reply.text:
        content.append({"text": reply.text})
    content.extend(
        {"toolUse": {"toolUseId": call.call_id, "name": call.name, "input": _input(call)}}
        for call in reply.tool_calls
    )
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": _stop_reason(reply),
        **_metadata(request, reply),
    }


def stream_events(request: Mapping[str, Any], reply: ScriptedReply) -> Iterator[StreamEvent]:
    """Yield the events of a streamed response in order.

    Text comes word by word and arguments in pieces; only calls have a `contentBlockStart`.
    """
    yield StreamEvent("messageStart", {"role": "assistant"})
    for number, block in enumerate(_blocks(reply)):
        for kind, body in block:
            yield StreamEvent(kind, {**body, "contentBlockIndex": number})
        yield StreamEvent("contentBlockStop", {"contentBlockIndex": number})
    yield StreamEvent("messageStop", {"stopReason": _stop_reason(reply)})
    yield StreamEvent("metadata", _metadata(request, reply))


def _blocks(reply: ScriptedReply) -> Iterator[Iterator[tuple[str, dict[str, Any]]]]:
    if reply.reasoning:
        yield _deltas(*_reasoning_deltas(reply.reasoning))
    if reply.text:
        yield _deltas(*({"text": word} for word in words_of(reply.text)))
    for call in reply.tool_calls:
        yield _call_events(call)


def _deltas(*deltas: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for delta in deltas:
        yield "contentBlockDelta", {"delta": delta}


def _reasoning_deltas(reasoning: str) -> Iterator[dict[str, Any]]:
    for word in words_of(reasoning):
        yield {"reasoningContent": {"text": word}}
    yield {"reasoningContent": {"signature": signature_of(reasoning)}}


def _call_events(call: ScriptedToolCall) -> Iterator[tuple[str, dict[str, Any]]]:
    yield (
        "contentBlockStart",
        {"start": {"toolUse": {"toolUseId": call.call_id, "name": call.name}}},
    )
    yield from _deltas(*({"toolUse": {"input": piece}} for piece in pieces_of(call.arguments_text)))


def _input(call: ScriptedToolCall) -> dict[str, Any]:
    try:
        given = json.loads(call.arguments_text)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        msg = (
            f"the arguments of {call.name!r} are no JSON object: {call.arguments_text!r:.80}; "
            "Converse can only stream such a call"
        )
        raise ConfigError(msg)
    return given


def _stop_reason(reply: ScriptedReply) -> str:
    return "tool_use" if reply.tool_calls else "end_turn"


def _metadata(request: Mapping[str, Any], reply: ScriptedReply) -> dict[str, Any]:
    blocks = [block for message in request["messages"] for block in message["content"]]
    asked = sum(_block_tokens(block) for block in [*(request.get("system") or ()), *blocks])
    usage = {
        "inputTokens": asked,
        "outputTokens": reply.tokens,
        "totalTokens": asked + reply.tokens,
    }
    return {"usage": usage, "metrics": {"latencyMs": 1}}


def _block_tokens(block: Mapping[str, Any]) -> int:
    text = block.get("text")
    told = text if isinstance(text, str) else json.dumps(block, ensure_ascii=False)
    return count_text_tokens(told)
