"""A Chat Completions service on loopback for tests: real HTTP, scripted answers, strict input.

Speaks `POST /v1/chat/completions` and `POST /v1/completions` (whole and streamed),
`POST /v1/embeddings` and `GET /v1/models`, and refuses what the real service refuses, in its words.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from langchain_convmem.errors import ConfigError
from langchain_convmem.testing.embeddings import (
    EmbeddedRequest,
    EmbeddingSource,
    VectorMaker,
    find_openai_fault,
    write_openai_embeddings,
)
from langchain_convmem.testing.loopback_server import LoopbackConnection, LoopbackServer
from langchain_convmem.testing.scripted_replies import (
    RecordedRequest,
    ReplySource,
    ScriptedError,
    ScriptedReply,
    ScriptedToolCall,
    split_pieces,
    split_words,
)
from langchain_convmem.views.tokens import count_text_tokens

_EMBEDDINGS = "/v1/embeddings"
STREAM_END = b"data: [DONE]\n\n"


class ChatCompletionsServer(LoopbackServer):
    """An OpenAI-compatible service on 127.0.0.1, for the time of a `with` block.

    It answers chats, prompts of plain text at `/v1/completions`, and `/v1/embeddings`.

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

    def __init__(
        self,
        reply: ReplySource = (),
        *,
        models: tuple[str, ...] = ("test-model",),
        embeddings: EmbeddingSource = None,
    ) -> None:
        """Create the server; it listens from `__enter__` on.

        Args:
            reply: What to answer: a text, a `ScriptedReply`, a `ScriptedError`; a list of them,
                one for each valid request in order, one request too many being an error; or a
                callable that gets each valid request's body and returns one of them. It runs in
                the thread of its connection.
            models: What `GET /v1/models` lists; any model name is accepted in requests.
            embeddings: What embeds: any LangChain `Embeddings`; None, whose vectors are as similar
                as texts share words; or a `ScriptedError`. A list of them, one for each valid
                request for embeddings in order; or a callable that gets each such request's body
                and returns one of them.
        """
        super().__init__(reply, embeddings=embeddings)
        self.models = models

    @property
    def url(self) -> str:
        """The base URL, `/v1` included."""
        return f"{self.origin}/v1"

    @property
    def connection(self) -> type[LoopbackConnection]:
        """What serves the requests of one connection."""
        return _ChatConnection


class _ChatConnection(LoopbackConnection):
    def find_page(self) -> dict[str, Any] | None:
        if self.bare_path != "/v1/models":
            return None
        models = cast("ChatCompletionsServer", self.server.service).models
        data = [
            {"id": name, "object": "model", "created": 0, "owned_by": "test"} for name in models
        ]
        return {"object": "list", "data": data}

    def find_wrong_address(self) -> ScriptedError | None:
        if self.command == "POST" and self.bare_path in (*SERVICES, _EMBEDDINGS):
            return None
        return _refuse(f"Unknown request URL: {self.command} {self.path}.", status=404)

    def find_fault(self, request: RecordedRequest) -> ScriptedError | None:
        if request.headers.get("authorization", "").startswith("Bearer "):
            if self.is_for_embeddings():
                return find_openai_fault(request.body)
            return SERVICES[self.bare_path].find_fault(request.body)
        message = "You didn't provide an API key in an Authorization header (Bearer)."
        return _refuse(message, status=401)

    def send_reply(self, request: dict[str, Any], reply: ScriptedReply) -> None:
        service = SERVICES[self.bare_path]
        number = self.server.service.script.take_number()
        envelope = Envelope(f"{service.id_prefix}-{number}", int(time.time()), request["model"])
        if not request.get("stream"):
            self.send_whole(service.whole(request, reply, envelope), reply)
            return
        events = map(_encode_event, service.events(request, reply, envelope))
        self.send_stream(
            "text/event-stream; charset=utf-8",
            [*events, STREAM_END],
            reply,
            lambda cut: _encode_event(_build_error(cut)),
        )

    def is_for_embeddings(self) -> bool:
        return self.bare_path == _EMBEDDINGS

    def write_embeddings(self, request: dict[str, Any], maker: VectorMaker) -> EmbeddedRequest:
        return write_openai_embeddings(request, maker)

    def send_fault(self, error: ScriptedError) -> None:
        self.send_json(error.status, _build_error(error), retry_after_s=error.retry_after_s)


def _build_error(error: ScriptedError) -> dict[str, Any]:
    told = {"message": error.message, "type": error.kind, "param": error.param, "code": error.code}
    return {"error": told}


def _encode_event(data: Mapping[str, Any]) -> bytes:
    """Return one server-sent event."""
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


# -- Which chats the service refuses --------------------------------------------------------------

_ROLES = ("system", "assistant", "user", "function", "tool", "developer")
_LONGEST_CALL_ID = 40
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_PART_TYPES = ("file", "image_url", "input_audio", "refusal", "text")


def find_fault(request: object) -> ScriptedError | None:
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


# -- Which completions of plain text the service refuses ------------------------------------------

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


def find_completion_fault(request: object) -> ScriptedError | None:
    """Return the first reason to refuse the parsed body of a request, or None."""
    return next(_find_completion_faults(request), None)


def _find_completion_faults(request: object) -> Iterator[ScriptedError]:
    yield from _find_faults_of_any(request)
    if not isinstance(request, Mapping):
        return
    unknown = [name for name in request if name not in _KNOWN]
    if unknown:
        yield _refuse(f"Unrecognized request argument supplied: {', '.join(unknown)}")
    yield from _find_prompt_faults(request)
    yield from _find_stop_faults(request.get("stop"))
    for name, (low, high) in _RANGES.items():
        yield from _find_number_faults(name, request.get(name), low, high)


def _find_prompt_faults(request: Mapping[str, Any]) -> Iterator[ScriptedError]:
    if "prompt" not in request:
        yield _refuse_missing("prompt")
        return
    prompt = request["prompt"]
    texts = prompt if isinstance(prompt, list) else [prompt]
    if not texts:
        yield _refuse_empty("prompt", "an array with minimum length 1")
    if not all(isinstance(text, str) for text in texts):
        # The service takes arrays of tokens, too; there is no vocabulary here to read them with.
        yield _refuse(
            "Invalid type for 'prompt': expected a string or an array of strings.",
            "prompt",
            "invalid_type",
        )


def _find_stop_faults(stop: object) -> Iterator[ScriptedError]:
    texts = [stop] if isinstance(stop, str) else stop
    if texts is None:
        return
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        yield _refuse(
            "Invalid type for 'stop': expected a string or an array of strings.",
            "stop",
            "invalid_type",
        )
    elif len(texts) > _MOST_STOPS:
        yield _refuse(
            f"Invalid 'stop': array too long. Expected an array with maximum length {_MOST_STOPS}, "
            f"but got an array with length {len(texts)} instead.",
            "stop",
            "array_above_max_length",
        )


def _find_number_faults(
    name: str, value: object, low: float, high: float | None
) -> Iterator[ScriptedError]:
    if value is None:
        return
    kinds = int if name in _WHOLE else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds):
        wanted = "an integer" if name in _WHOLE else "a decimal"
        yield _refuse(f"Invalid type for '{name}': expected {wanted}.", name, "invalid_type")
    elif value < low:
        message = f"Invalid '{name}': below minimum value. Expected a value >= {low}, got {value}."
        yield _refuse(message, name, "integer_below_min_value")
    elif high is not None and value > high:
        message = f"Invalid '{name}': above maximum value. Expected a value <= {high}, got {value}."
        yield _refuse(message, name, "integer_above_max_value")


# -- Scripted replies as Chat Completions says them -----------------------------------------------


@dataclass(frozen=True, slots=True)
class Envelope:
    """What every object of one response repeats."""

    completion_id: str
    created: int
    model: str


def write_completion(
    request: Mapping[str, Any], reply: ScriptedReply, envelope: Envelope
) -> dict[str, Any]:
    """Return the body of a response that is not streamed."""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": reply.text if reply.text or not reply.tool_calls else None,
        "refusal": None,
    }
    if reply.tool_calls:
        message["tool_calls"] = [
            _build_call(call, call.arguments_text) for call in reply.tool_calls
        ]
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
                "finish_reason": _get_finish_reason(reply),
            }
        ],
        "usage": _count_chat_usage(request, reply),
    }


def stream_chat_events(
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
    for delta in _stream_deltas(reply):
        yield {**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    reason = _get_finish_reason(reply)
    yield {**frame, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    if with_usage:
        yield {**frame, "choices": [], "usage": _count_chat_usage(request, reply)}


def _stream_deltas(reply: ScriptedReply) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": "" if reply.text or not reply.tool_calls else None}
    for word in split_words(reply.text):
        yield {"content": word}
    for index, call in enumerate(reply.tool_calls):
        yield {"tool_calls": [{"index": index, **_build_call(call, "")}]}
        for piece in split_pieces(call.arguments_text):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _build_call(call: ScriptedToolCall, arguments: str) -> dict[str, Any]:
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.call_id, "type": "function", "function": function}


def _get_finish_reason(reply: ScriptedReply) -> str:
    return "tool_calls" if reply.tool_calls else "stop"


def _count_chat_usage(request: Mapping[str, Any], reply: ScriptedReply) -> dict[str, int]:
    texts = [text for message in request["messages"] for text in _collect_texts(message)]
    return _build_usage(sum(map(count_text_tokens, texts)), reply.tokens)


def _collect_texts(message: Mapping[str, Any]) -> Iterator[str]:
    content = message.get("content")
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else ():
        yield str(part.get("text") or "")
    for call in message.get("tool_calls") or ():
        yield json.dumps(call, ensure_ascii=False)


def _build_usage(read: int, wrote: int) -> dict[str, int]:
    return {"prompt_tokens": read, "completion_tokens": wrote, "total_tokens": read + wrote}


# -- Scripted replies as Completions says them: every prompt gets the same reply ------------------

_USUAL_MAX_TOKENS = 16


def write_text_completion(
    request: Mapping[str, Any], reply: ScriptedReply, envelope: Envelope
) -> dict[str, Any]:
    """Return the body of a response that is not streamed; every prompt gets the same reply."""
    written = _write(request, reply)
    return {
        **_build_frame(envelope),
        "choices": [
            {
                "index": index,
                "text": "".join(_repeat_prompt(request, prompt) + written.words),
                "logprobs": _build_logprobs(request, prompt, written.words),
                "finish_reason": written.finish_reason,
            }
            for index, prompt in enumerate(_list_prompts(request))
        ],
        "usage": _count_text_usage(request, written),
    }


def stream_text_events(
    request: Mapping[str, Any], reply: ScriptedReply, envelope: Envelope
) -> Iterator[dict[str, Any]]:
    """Yield the events of a streamed response in order, without the closing `[DONE]`.

    With `stream_options.include_usage` a last event has the `usage`, and no choices.
    """
    written = _write(request, reply)
    frame = _build_frame(envelope)
    for index, prompt in enumerate(_list_prompts(request)):
        for word in _repeat_prompt(request, prompt) + written.words:
            yield {**frame, "choices": [build_choice(index, word, None)]}
        yield {**frame, "choices": [build_choice(index, "", written.finish_reason)]}
    if (request.get("stream_options") or {}).get("include_usage"):
        yield {**frame, "choices": [], "usage": _count_text_usage(request, written)}


class _WrittenText(NamedTuple):
    words: list[str]
    finish_reason: str


def _write(request: Mapping[str, Any], reply: ScriptedReply) -> _WrittenText:
    if reply.tool_calls or reply.reasoning:
        raise ConfigError(
            "a write_completion is text: it has no tool calls and no reasoning of its own"
        )
    stop = request.get("stop") or ()
    stops: list[str] = [stop] if isinstance(stop, str) else list(stop)
    places = [place for one in stops if one and (place := reply.text.find(one)) >= 0]
    text = reply.text[: min(places, default=len(reply.text))]
    asked = request.get("max_tokens")
    limit = _USUAL_MAX_TOKENS if asked is None else asked
    words = split_words(text)
    return _WrittenText(words[:limit], "stop" if len(words) <= limit and limit else "length")


def _build_frame(envelope: Envelope) -> dict[str, Any]:
    return {
        "id": envelope.completion_id,
        "object": "write_text_completion",
        "created": envelope.created,
        "model": envelope.model,
    }


def build_choice(index: int, text: str, finish_reason: str | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": finish_reason}


def _list_prompts(request: Mapping[str, Any]) -> list[str]:
    prompt = request["prompt"]
    return [prompt] if isinstance(prompt, str) else prompt


def _repeat_prompt(request: Mapping[str, Any], prompt: str) -> list[str]:
    return split_words(prompt) if request.get("echo") else []


def _build_logprobs(
    request: Mapping[str, Any], prompt: str, words: list[str]
) -> dict[str, Any] | None:
    """Return probabilities that are as good as any: a token's is e to the minus its length."""
    if request.get("logprobs") is None:
        return None
    tokens = _repeat_prompt(request, prompt) + words
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


def _count_text_usage(request: Mapping[str, Any], written: _WrittenText) -> dict[str, int]:
    prompts = _list_prompts(request)
    read = sum(count_text_tokens(prompt) for prompt in prompts)
    return _build_usage(read, count_text_tokens("".join(written.words)) * len(prompts))


# -- What stands at which address -----------------------------------------------------------------


class _Service(NamedTuple):
    """What stands at one address."""

    id_prefix: str
    find_fault: Callable[[object], ScriptedError | None]
    whole: Callable[[Mapping[str, Any], ScriptedReply, Envelope], dict[str, Any]]
    events: Callable[[Mapping[str, Any], ScriptedReply, Envelope], Iterator[dict[str, Any]]]


SERVICES = {
    "/v1/chat/completions": _Service("chatcmpl", find_fault, write_completion, stream_chat_events),
    "/v1/completions": _Service(
        "cmpl", find_completion_fault, write_text_completion, stream_text_events
    ),
}
