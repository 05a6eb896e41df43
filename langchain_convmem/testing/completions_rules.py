"""Which requests for a completion of text the service refuses, and the error it answers. Pure.

Source: the public API reference of Completions; wording and codes follow its error bodies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from langchain_convmem.testing.chat_completions_rules import RequestFault, faults_of_any

__all__ = ["find_completion_fault"]

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


def find_completion_fault(request: object) -> RequestFault | None:
    """Return the first reason to refuse the parsed body of a request, or None."""
    return next(_faults(request), None)


def _faults(request: object) -> Iterator[RequestFault]:
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
