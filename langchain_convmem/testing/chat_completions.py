"""A Chat Completions service on loopback for tests: real HTTP, scripted answers, strict input.

Speaks `POST /v1/chat/completions` and `POST /v1/completions` (whole and streamed) and
`GET /v1/models`, with nothing but the standard library, and refuses what the real service refuses
(see `chat_completions_rules` and `completions_rules`).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from langchain_convmem.errors import ConfigError
from langchain_convmem.testing.loopback_server import (
    Listener,
    LoopbackConnection,
    LoopbackServer,
)
from langchain_convmem.testing.scripted_replies import (
    RecordedRequest,
    ReplySource,
    Script,
    ScriptedError,
    ScriptedReply,
    ScriptedToolCall,
    pieces_of,
    words_of,
)
from langchain_convmem.views.tokens import count_text_tokens


class _Service(NamedTuple):
    """What stands at one address."""

    id_prefix: str
    find_fault: Callable[[object], RequestFault | None]
    whole: Callable[[Mapping[str, Any], ScriptedReply, Envelope], dict[str, Any]]
    events: Callable[[Mapping[str, Any], ScriptedReply, Envelope], Iterator[dict[str, Any]]]


# -- Scripted replies as Chat Completions says them -----------------------------------------------


def completion(
    request: Mapping[str, Any], reply: ScriptedReply, envelope: Envelope
) -> dict[str, Any]:
    """Return the body of a response that is not streamed."""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": reply.text if reply.text or not reply.tool_calls else None,
        "refusal": None,
    }
    if reply.tool_calls:
        message["tool_calls"] = [_call(call, call.arguments_text) for call in reply.tool_calls]
    return {
        "id": envelope.completion_id,
        "object": "chat.completion",
        "created": envelope.created,
        "model": envelope.model,
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": None,
                "finish_reason": _finish_reason(reply),
            }
        ],
        "usage": _usage(request, reply),
    }


# -- Which requests for a completion of text the service refuses, and the error it answers --------


def find_completion_fault(request: object) -> RequestFault | None:
    """Return the first reason to refuse the parsed body of a request, or None."""
    return next(_completion_faults(request), None)


# -- Which Chat Completions requests the service refuses, and the error it answers ----------------


def find_fault(request: object) -> RequestFault | None:
    """Return the first reason to refuse the parsed body of a request, or None."""
    return next(_faults(request), None)


# -- Scripted replies as Chat Completions says them -----------------------------------------------


def stream_events(
    request: Mapping[str, Any], reply: ScriptedReply, envelope: Envelope
) -> Iterator[dict[str, Any]]:
    """Yield the events of a streamed response in order, without the closing `[DONE]`.

    With `stream_options.include_usage` every event has a `usage`, null but in the last, which has
    no choices.
    """
    with_usage = bool((request.get("stream_options") or {}).get("include_usage"))
    frame: dict[str, Any] = {
        "id": envelope.completion_id,
        "object": "chat.completion.chunk",
        "created": envelope.created,
        "model": envelope.model,
        **({"usage": None} if with_usage else {}),
    }
    for delta in _deltas(reply):
        yield {**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    reason = _finish_reason(reply)
    yield {**frame, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    if with_usage:
        yield {**frame, "choices": [], "usage": _usage(request, reply)}


# -- Scripted replies as Completions says them: one body, or the events of a stream ---------------


def text_completion(
    request: Mapping[str, Any], reply: ScriptedReply, envelope: Envelope
) -> dict[str, Any]:
    """Return the body of a response that is not streamed; every prompt gets the same reply."""
    written = _written(request, reply)
    return {
        **_frame(envelope),
        "choices": [
            {
                "index": index,
                "text": "".join(_echoed(request, prompt) + written.words),
                "logprobs": _logprobs(request, prompt, written.words),
                "finish_reason": written.finish_reason,
            }
            for index, prompt in enumerate(_prompts(request))
        ],
        "usage": _completion_usage(request, written),
    }


def text_stream_events(
    request: Mapping[str, Any], reply: ScriptedReply, envelope: Envelope
) -> Iterator[dict[str, Any]]:
    """Yield the events of a streamed response in order, without the closing `[DONE]`.

    With `stream_options.include_usage` a last event has the `usage`, and no choices.
    """
    written = _written(request, reply)
    frame = _frame(envelope)
    for index, prompt in enumerate(_prompts(request)):
        for word in _echoed(request, prompt) + written.words:
            yield {**frame, "choices": [_piece(index, word, None)]}
        yield {**frame, "choices": [_piece(index, "", written.finish_reason)]}
    if (request.get("stream_options") or {}).get("include_usage"):
        yield {**frame, "choices": [], "usage": _completion_usage(request, written)}


# -- A Chat Completions service on loopback for tests ---------------------------------------------


_SERVICES = {
    "/v1/chat/completions": _Service("chatcmpl", find_fault, completion, stream_events),
    "/v1/completions": _Service("cmpl", find_completion_fault, text_completion, text_stream_events),
}


class ChatCompletionsServer(LoopbackServer):
    """An OpenAI-compatible service on 127.0.0.1, for the time of a `with` block.

    It answers chats, and prompts of plain text at `/v1/completions`.

    Leaving the block closes every connection and joins every thread; an exception that `reply`
    raised is raised again there, unless the block itself failed. Safe to use from several threads.

    Example:
        ```python
        with ChatCompletionsServer(reply="Level 3.") as server:
            model = ChatOpenAI(base_url=server.url, api_key="test", model="test-model")
            model.invoke("Where did I park?")
            assert server.requests[0].body["messages"][0]["content"] == "Where did I park?"
        ```
    """

    def __init__(self, reply: ReplySource, *, models: tuple[str, ...] = ("test-model",)) -> None:
        """Create the server; it listens from `__enter__` on.

        Args:
            reply: What to answer: a text, a `ScriptedReply`, a `ScriptedError`; a list of them,
                one for each valid request in order, one request too many being an error; or a
                callable that gets each valid request's body and returns one of them. It runs in
                the thread of its connection.
            models: What `GET /v1/models` lists; any model name is accepted in requests.
        """
        script = Script(reply)
        super().__init__(script, lambda: _Listener(script, models))

    @property
    def url(self) -> str:
        """The base URL, `/v1` included."""
        return f"{self.origin}/v1"


class _Listener(Listener):
    """Knows which models to list."""

    def __init__(self, script: Script, models: tuple[str, ...]) -> None:
        self.models = models
        super().__init__(script, _Connection)


class _Connection(LoopbackConnection):
    server: _Listener

    def heard(self, raw: bytes) -> None:
        if f"{self.command} {self.bare_path()}" == "GET /v1/models":
            self._list_models()
        elif self.command == "POST" and self.bare_path() in _SERVICES:
            self._judge(self.recorded(raw))
        else:
            message = f"Unknown request URL: {self.command} {self.path}."
            self._refuse(RequestFault(message, status=404))

    def _list_models(self) -> None:
        data = [
            {"id": name, "object": "model", "created": 0, "owned_by": "test"}
            for name in self.server.models
        ]
        self.send_json(200, {"object": "list", "data": data})

    def _judge(self, request: RecordedRequest) -> None:
        service = _SERVICES[self.bare_path()]
        fault = self._unauthorized(request) or service.find_fault(request.body)
        if fault is not None:
            self._refuse(fault)
        else:
            self.answer(request.body)

    @staticmethod
    def _unauthorized(request: RecordedRequest) -> RequestFault | None:
        if request.headers.get("authorization", "").startswith("Bearer "):
            return None
        message = "You didn't provide an API key in an Authorization header (Bearer)."
        return RequestFault(message, status=401)

    # -- answering ----------------------------------------------------------------------------

    def say(self, request: dict[str, Any], reply: ScriptedReply) -> None:
        service = _SERVICES[self.bare_path()]
        number = self.server.script.next_number()
        envelope = Envelope(f"{service.id_prefix}-{number}", int(time.time()), request["model"])
        if not request.get("stream"):
            self.send_whole(service.whole(request, reply, envelope), reply)
            return
        events = [stream_event(event) for event in service.events(request, reply, envelope)]
        cut = reply.cut_with
        self.send_stream(
            "text/event-stream; charset=utf-8",
            [*events, stream_end()],
            reply,
            None if cut is None else stream_event(_body_of(cut)),
        )

    def say_error(self, error: ScriptedError) -> None:
        self.send_json(error.status, _body_of(error), headers=self.when_to_retry(error))

    def _refuse(self, fault: RequestFault) -> None:
        body = error_body(fault.message, kind=fault.kind, param=fault.param, code=fault.code)
        self.send_json(fault.status, body)


def _body_of(error: ScriptedError) -> dict[str, Any]:
    return error_body(error.message, kind=error.kind, code=error.code)


# -- Which Chat Completions requests the service refuses, and the error it answers ----------------


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


# -- Scripted replies as Chat Completions says them -----------------------------------------------


@dataclass(frozen=True, slots=True)
class Envelope:
    """What every object of one response repeats."""

    completion_id: str
    created: int
    model: str


def _message_texts(message: Mapping[str, Any]) -> Iterator[str]:
    content = message.get("content")
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else ():
        yield str(part.get("text") or "")
    for call in message.get("tool_calls") or ():
        yield json.dumps(call, ensure_ascii=False)


def _usage(request: Mapping[str, Any], reply: ScriptedReply) -> dict[str, int]:
    texts = [text for message in request["messages"] for text in _message_texts(message)]
    prompt = sum(count_text_tokens(text) for text in texts)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": reply.tokens,
        "total_tokens": prompt + reply.tokens,
    }


def _finish_reason(reply: ScriptedReply) -> str:
    return "tool_calls" if reply.tool_calls else "stop"


def _call(call: ScriptedToolCall, arguments: str) -> dict[str, Any]:
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.call_id, "type": "function", "function": function}


def _deltas(reply: ScriptedReply) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": "" if reply.text or not reply.tool_calls else None}
    for word in words_of(reply.text):
        yield {"content": word}
    for index, call in enumerate(reply.tool_calls):
        yield {"tool_calls": [{"index": index, **_call(call, "")}]}
        for piece in pieces_of(call.arguments_text):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def stream_event(data: Mapping[str, Any]) -> bytes:
    """Return one server-sent event."""
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def stream_end() -> bytes:
    """Return the event that closes a whole stream."""
    return b"data: [DONE]\n\n"


# -- Which requests for a completion of text the service refuses, and the error it answers --------


_KNOWN = {
    *("best_of", "echo", "frequency_penalty", "logit_bias", "logprobs", "max_tokens", "model", "n"),
    *("presence_penalty", "prompt", "seed", "stop", "stream", "stream_options", "suffix"),
    *("temperature", "top_p", "user"),
}


_MOST_STOPS = 4


_RANGES = {
    "best_of": (1, 20),
    "frequency_penalty": (-2, 2),
    "logprobs": (0, 5),
    "max_tokens": (0, None),
    "n": (1, 128),
    "presence_penalty": (-2, 2),
    "temperature": (0, 2),
    "top_p": (0, 1),
}


_WHOLE = {"best_of", "logprobs", "max_tokens", "n"}


def _completion_faults(request: object) -> Iterator[RequestFault]:
    yield from faults_of_any(request)
    if not isinstance(request, Mapping):
        return
    unknown = [name for name in request if name not in _KNOWN]
    if unknown:
        yield RequestFault(f"Unrecognized request argument supplied: {', '.join(unknown)}")
    yield from _prompt_faults(request)
    yield from _stop_faults(request.get("stop"))
    for name, (low, high) in _RANGES.items():
        yield from _number_faults(name, request.get(name), low, high)


def _prompt_faults(request: Mapping[str, Any]) -> Iterator[RequestFault]:
    if "prompt" not in request:
        yield RequestFault(
            "Missing required parameter: 'prompt'.", "prompt", "missing_required_parameter"
        )
        return
    prompt = request["prompt"]
    texts = prompt if isinstance(prompt, list) else [prompt]
    if not texts:
        yield RequestFault(
            "Invalid 'prompt': empty array. Expected an array with minimum length 1.",
            "prompt",
            "empty_array",
        )
    if not all(isinstance(text, str) for text in texts):
        # The service takes arrays of tokens, too; there is no vocabulary here to read them with.
        yield RequestFault(
            "Invalid type for 'prompt': expected a string or an array of strings.",
            "prompt",
            "invalid_type",
        )


def _stop_faults(stop: object) -> Iterator[RequestFault]:
    texts = [stop] if isinstance(stop, str) else stop
    if texts is None:
        return
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        yield RequestFault(
            "Invalid type for 'stop': expected a string or an array of strings.",
            "stop",
            "invalid_type",
        )
    elif len(texts) > _MOST_STOPS:
        yield RequestFault(
            f"Invalid 'stop': array too long. Expected an array with maximum length {_MOST_STOPS}, "
            f"but got an array with length {len(texts)} instead.",
            "stop",
            "array_above_max_length",
        )


def _number_faults(
    name: str, value: object, low: float, high: float | None
) -> Iterator[RequestFault]:
    if value is None:
        return
    kinds = int if name in _WHOLE else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds):
        wanted = "an integer" if name in _WHOLE else "a decimal"
        yield RequestFault(f"Invalid type for '{name}': expected {wanted}.", name, "invalid_type")
    elif value < low:
        message = f"Invalid '{name}': below minimum value. Expected a value >= {low}, got {value}."
        yield RequestFault(message, name, "integer_below_min_value")
    elif high is not None and value > high:
        message = f"Invalid '{name}': above maximum value. Expected a value <= {high}, got {value}."
        yield RequestFault(message, name, "integer_above_max_value")


# -- Scripted replies as Completions says them: one body, or the events of a stream ---------------


_USUAL_MAX_TOKENS = 16


class _Written(NamedTuple):
    words: list[str]
    finish_reason: str


def _frame(envelope: Envelope) -> dict[str, Any]:
    return {
        "id": envelope.completion_id,
        "object": "text_completion",
        "created": envelope.created,
        "model": envelope.model,
    }


def _piece(index: int, text: str, finish_reason: str | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": finish_reason}


def _prompts(request: Mapping[str, Any]) -> list[str]:
    prompt = request["prompt"]
    return [prompt] if isinstance(prompt, str) else prompt


def _echoed(request: Mapping[str, Any], prompt: str) -> list[str]:
    return words_of(prompt) if request.get("echo") else []


def _written(request: Mapping[str, Any], reply: ScriptedReply) -> _Written:
    if reply.tool_calls or reply.reasoning:
        raise ConfigError("a completion is text: it has no tool calls and no reasoning of its own")
    stop = request.get("stop") or ()
    stops: list[str] = [stop] if isinstance(stop, str) else list(stop)
    text = reply.text[: min(_places(reply.text, stops), default=len(reply.text))]
    asked = request.get("max_tokens")
    limit = _USUAL_MAX_TOKENS if asked is None else asked
    words = words_of(text)
    return _Written(words[:limit], "stop" if len(words) <= limit and limit else "length")


def _places(text: str, stops: list[str]) -> list[int]:
    return [place for stop in stops if stop and (place := text.find(stop)) >= 0]


def _logprobs(request: Mapping[str, Any], prompt: str, words: list[str]) -> dict[str, Any] | None:
    """Return probabilities that are as good as any: a token's is e to the minus its length."""
    if request.get("logprobs") is None:
        return None
    tokens = _echoed(request, prompt) + words
    offsets, place = [], 0 if request.get("echo") else len(prompt)
    for token in tokens:
        offsets.append(place)
        place += len(token)
    chances: list[float | None] = [-float(len(token)) for token in tokens]
    if request.get("echo") and chances:
        chances[0] = None  # nothing stands before the first token that it could follow from
    return {
        "tokens": tokens,
        "token_logprobs": chances,
        "top_logprobs": None,
        "text_offset": offsets,
    }


def _completion_usage(request: Mapping[str, Any], written: _Written) -> dict[str, int]:
    prompts = _prompts(request)
    read = sum(count_text_tokens(prompt) for prompt in prompts)
    wrote = count_text_tokens("".join(written.words)) * len(prompts)
    return {"prompt_tokens": read, "completion_tokens": wrote, "total_tokens": read + wrote}
