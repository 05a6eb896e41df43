"""Embedding services for tests: what they refuse, and how each writes its vectors.

OpenAI's `/v1/embeddings` and Bedrock's `InvokeModel` for Titan and Cohere, as pure functions from
requests to responses; the servers of the kit put them behind HTTP.
"""

from __future__ import annotations

import base64
import hashlib
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType, NoneType
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

from langchain_convmem.errors import ConfigError
from langchain_convmem.testing.scripted_replies import ReplyQueue, ScriptedError
from langchain_convmem.views.tokens import count_text_tokens

Vector: TypeAlias = NDArray[np.float32]
Input: TypeAlias = "str | Sequence[int]"
"""What is embedded: a text, or its tokens by number."""

_WORD = re.compile(r"\w+")


EmbeddingReply: TypeAlias = "Embeddings | ScriptedError | None"
"""What embeds, or an error to answer; None embeds by the words of a text."""

EmbeddingSource: TypeAlias = (
    "EmbeddingReply | Sequence[EmbeddingReply] | Callable[[dict[str, Any]], EmbeddingReply]"
)
"""One reply for all requests, a list of one each, or a callable that gets the body."""


class VectorMaker(NamedTuple):
    """How the scripted service makes vectors.

    Attributes:
        embeddings: What embeds a text. None: a vector for its words, so that texts are as similar
            as they share words; equal texts have equal vectors in every process.
    """

    embeddings: Embeddings | None = None

    def make(self, given: Input, *, dim: int, is_exact: bool, purpose: str = "") -> Vector:
        """Return a vector of unit length, shape (components,); zeros where nothing was said.

        Args:
            given: A text or tokens.
            dim: How many components the model has, or the request asks for.
            is_exact: Whether the request asks for them; an embedder of one's own has its own else.
            purpose: What the vector is for, where a model makes another one for each purpose.

        Raises:
            ConfigError: If an embedder of one's own is sent tokens.
        """
        if self.embeddings is None:
            return _normalize(_sum_words(given, purpose, dim))
        if not isinstance(given, str):
            raise ConfigError("the service was sent tokens, and the test's embedder takes texts")
        made = np.asarray(_embed(self.embeddings, given, purpose), dtype=np.float32)
        wanted = dim if is_exact else len(made)
        # As the models do that offer fewer components: the first ones, and unit length again.
        return _normalize(np.pad(made, (0, max(0, wanted - len(made))))[:wanted])


def _embed(embeddings: Embeddings, text: str, purpose: str) -> list[float]:
    if purpose == "search_query":
        return embeddings.embed_query(text)
    return embeddings.embed_documents([text])[0]


def _normalize(vector: Vector) -> Vector:
    length = np.linalg.norm(vector)
    return vector if not length else (vector / length).astype(np.float32)


def _sum_words(given: Input, purpose: str, dim: int) -> Vector:
    words = _WORD.findall(given.lower()) if isinstance(given, str) else map(str, given)
    total = np.zeros(dim, dtype=np.float32)
    for word in words:
        total += _make_word_vector(word, dim)
    if purpose and total.any():
        total += 0.5 * _make_word_vector(f"<{purpose}>", dim)
    return total


@lru_cache(maxsize=4096)
def _make_word_vector(word: str, dim: int) -> Vector:
    """Return a word's own random vector; do not write."""
    seed = int.from_bytes(hashlib.sha256(word.encode("utf-8", "replace")).digest()[:8])
    return _normalize(np.random.default_rng(seed).standard_normal(dim, dtype=np.float32))


# -- the script ----------------------------------------------------------------------------------


class EmbeddingScript:
    """How a service embeds, and how many inputs it has embedded. Thread-safe."""

    def __init__(self, source: EmbeddingSource) -> None:
        """Take one way for all requests, a list in order, or a callable."""
        self._replies: ReplyQueue[Any] = ReplyQueue(
            source, Embeddings | ScriptedError | NoneType, "request for embeddings"
        )
        self._embedded: list[Input] = []
        self._lock = threading.Lock()

    def answer_to(self, request: dict[str, Any]) -> VectorMaker | ScriptedError:
        """Return how to answer a valid request.

        Raises:
            ConfigError: If a list of replies has been played to its end.
        """
        reply = self._replies.take()
        if callable(reply) and not isinstance(reply, Embeddings):
            reply = reply(request)
        return reply if isinstance(reply, ScriptedError) else VectorMaker(reply)

    def note(self, inputs: Sequence[Input]) -> None:
        """Count inputs that were embedded."""
        with self._lock:
            self._embedded += inputs

    def list_embedded(self) -> list[Input]:
        """Return all inputs that were embedded so far, in the order of their arrival."""
        with self._lock:
            return list(self._embedded)


class EmbeddedRequest(NamedTuple):
    """A request that was answered.

    Attributes:
        inputs: What was embedded.
        body: What the service answers.
        headers: What it says beside the body.
    """

    inputs: list[Input]
    body: dict[str, Any]
    headers: Mapping[str, str] = MappingProxyType({})


def _count_tokens(given: Input) -> int:
    return count_text_tokens(given) if isinstance(given, str) else len(given)


# -- OpenAI ----------------------------------------------------------------------------------------

_OPENAI_DIMS = {
    "text-embedding-3-large": 3072,
    "text-embedding-3-small": 1536,
    "text-embedding-ada-002": 1536,
}
_OPENAI_KEYS = {"dimensions", "encoding_format", "input", "model", "user"}
_MOST_INPUTS = 2048
_MOST_INPUT_TOKENS = 8192
_MOST_REQUEST_TOKENS = 300_000
_INVALID_INPUT = (
    "'$.input' is invalid. Please check the API reference: "
    "https://platform.openai.com/docs/api-reference."
)


def find_openai_fault(request: object) -> ScriptedError | None:
    """Return the first reason to refuse the parsed body of `POST /v1/embeddings`, or None."""
    fault = next(_find_openai_faults(request), None)
    if fault is None:
        return None
    message, param, code = fault
    kind = "invalid_request_error"
    return ScriptedError(status=400, message=message, kind=kind, param=param, code=code)


_Fault: TypeAlias = tuple[str, str | None, str | None]


def _find_openai_faults(request: object) -> Iterator[_Fault]:
    if not isinstance(request, Mapping):
        yield "The body of the request must be a JSON object.", None, None
        return
    unknown = [name for name in request if name not in _OPENAI_KEYS]
    if unknown:
        yield f"Unrecognized request argument supplied: {', '.join(unknown)}", None, None
    if not isinstance(request.get("model"), str) or not request["model"]:
        yield "you must provide a model parameter", None, None
    if request.get("encoding_format", "float") not in ("float", "base64"):
        given = request["encoding_format"]
        message = f"Invalid value: {given!r}. Supported values are: 'float' and 'base64'."
        yield message, "encoding_format", "invalid_value"
    yield from _find_dimension_faults(request)
    yield from _find_openai_input_faults(request.get("input"))


def _find_dimension_faults(request: Mapping[str, Any]) -> Iterator[_Fault]:
    dim, model = request.get("dimensions"), request.get("model")
    if dim is None:
        return
    most = _OPENAI_DIMS.get(str(model))
    if model == "text-embedding-ada-002":
        yield "This model does not support specifying dimensions.", None, None
    elif not isinstance(dim, int) or isinstance(dim, bool):
        message = "Invalid type for 'dimensions': expected an integer."
        yield message, "dimensions", "invalid_type"
    elif dim < 1:
        message = f"Invalid 'dimensions': below minimum value. Expected a value >= 1, got {dim}."
        yield message, "dimensions", "integer_below_min_value"
    elif most is not None and dim > most:
        message = f"Invalid value for 'dimensions' = {dim}. Must be less than or equal to {most}."
        yield message, None, None


def _find_openai_input_faults(given: object) -> Iterator[_Fault]:
    if given is None:
        yield "you must provide an input parameter", None, None
        return
    inputs = _list_inputs(given)
    if inputs is None or not inputs or not all(inputs):
        yield _INVALID_INPUT, None, None
        return
    if len(inputs) > _MOST_INPUTS:
        message = (
            f"Invalid 'input': array too long. Expected an array with maximum length "
            f"{_MOST_INPUTS}, but got an array with length {len(inputs)} instead."
        )
        yield message, "input", "array_above_max_length"
    counts = [_count_tokens(one) for one in inputs]
    if max(counts) > _MOST_INPUT_TOKENS:
        place = next(n for n, count in enumerate(counts) if count > _MOST_INPUT_TOKENS)
        at = "input" if isinstance(given, str) else f"input[{place}]"
        yield f"Invalid '{at}': maximum input length is {_MOST_INPUT_TOKENS} tokens.", None, None
    if sum(counts) > _MOST_REQUEST_TOKENS:
        message = f"Requested {sum(counts)} tokens, max {_MOST_REQUEST_TOKENS} tokens per request"
        yield message, None, "max_tokens_per_request"


def _list_inputs(given: object) -> list[Input] | None:
    """Return the inputs of a request: a text, tokens, or an array of either; None for others."""
    if isinstance(given, str) or _is_token_array(given):
        return [cast("Input", given)]
    if isinstance(given, list) and (
        all(isinstance(one, str) for one in given) or all(map(_is_token_array, given))
    ):
        return given
    return None


def _is_token_array(given: object) -> bool:
    return (
        isinstance(given, list)
        and bool(given)
        and all(isinstance(token, int) and not isinstance(token, bool) for token in given)
    )


def write_openai_embeddings(request: Mapping[str, Any], maker: VectorMaker) -> EmbeddedRequest:
    """Return the answer to a valid request; base64 is little-endian single precision."""
    model, asked = request["model"], request.get("dimensions")
    dim = asked or _OPENAI_DIMS.get(model, 1536)
    inputs = _list_inputs(request["input"]) or []
    is_packed = request.get("encoding_format") == "base64"
    data = []
    for index, given in enumerate(inputs):
        vector = maker.make(given, dim=dim, is_exact=asked is not None)
        packed = base64.b64encode(vector.astype("<f4").tobytes()).decode() if is_packed else None
        data.append({"object": "embedding", "index": index, "embedding": packed or vector.tolist()})
    tokens = sum(map(_count_tokens, inputs))
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    body = {"object": "list", "data": data, "model": model, "usage": usage}
    return EmbeddedRequest(inputs, body)


# -- Bedrock ---------------------------------------------------------------------------------------

_REGION = re.compile(r"(?:[a-z]{2,6}|us-gov)\.(?=amazon|cohere)")
_MALFORMED = "Malformed input request: {}, please reformat your input and try again."
_MOST_TEXTS = 96
_PURPOSES = ("search_document", "search_query", "classification", "clustering", "image")
_TRUNCATIONS = {"v3": ("NONE", "START", "END"), "v4": ("NONE", "LEFT", "RIGHT")}
_COHERE_TYPES = ("float", "int8", "uint8", "binary", "ubinary")


class BedrockEmbedder(NamedTuple):
    """One of Bedrock's embedding models.

    Attributes:
        family: `titan-v1`, `titan-v2`, `cohere-v3` or `cohere-v4`.
        dims: The numbers of components that may be asked for; the first is the usual one.
    """

    family: str
    dims: tuple[int, ...]

    def find_fault(self, request: object) -> ScriptedError | None:
        """Return the first reason to refuse the parsed body of a request, or None."""
        if not isinstance(request, Mapping):
            wrong: str | None = "#: expected type: JSONObject, found: " + type(request).__name__
        elif self.family.startswith("titan"):
            wrong = next(_find_titan_faults(request, self), None)
        else:
            wrong = next(_find_cohere_faults(request, self), None)
        if wrong is None:
            return None
        message = wrong if wrong.startswith("400") else _MALFORMED.format(wrong)
        return ScriptedError(status=400, message=message, code="ValidationException")

    def write(self, request: Mapping[str, Any], maker: VectorMaker) -> EmbeddedRequest:
        """Return the answer to a valid request."""
        if self.family.startswith("titan"):
            return _write_titan(request, maker, self)
        return _write_cohere(request, maker, self)


_BEDROCK = {
    "amazon.titan-embed-text-v1": BedrockEmbedder("titan-v1", (1536,)),
    "amazon.titan-embed-text-v2": BedrockEmbedder("titan-v2", (1024, 512, 256)),
    "cohere.embed-english-v3": BedrockEmbedder("cohere-v3", (1024,)),
    "cohere.embed-multilingual-v3": BedrockEmbedder("cohere-v3", (1024,)),
    "cohere.embed-v4": BedrockEmbedder("cohere-v4", (1536, 1024, 512, 256)),
}


def find_bedrock_embedder(model_id: str) -> BedrockEmbedder | None:
    """Return the embedding model of an id, an inference profile's too; None if it is another."""
    bare = _REGION.sub("", model_id, count=1).partition(":")[0]
    return _BEDROCK.get(bare)


def _find_key_faults(
    request: Mapping[str, Any], required: Sequence[str], known: Sequence[str]
) -> Iterator[str]:
    wrong = [f"#: required key [{name}] not found" for name in required if name not in request]
    wrong += [
        f"#: extraneous key [{name}] is not permitted" for name in request if name not in known
    ]
    if wrong:
        yield "".join(wrong)


def _find_titan_faults(request: Mapping[str, Any], model: BedrockEmbedder) -> Iterator[str]:
    options = ("dimensions", "normalize", "embeddingTypes") if model.family == "titan-v2" else ()
    yield from _find_key_faults(request, ["inputText"], ["inputText", *options])
    text = request["inputText"]
    if not isinstance(text, str):
        yield f"#/inputText: expected type: String, found: {_name_type(text)}"
    elif not text:
        yield "#/inputText: expected minLength: 1, actual: 0"
    elif count_text_tokens(text) > _MOST_INPUT_TOKENS:
        yield (
            f"400 Bad Request: Too many input tokens. Max input tokens: {_MOST_INPUT_TOKENS}, "
            f"request input token count: {count_text_tokens(text)}"
        )
    if request.get("dimensions", model.dims[0]) not in model.dims:
        yield f"#/dimensions: {request['dimensions']} is not a valid enum value"
    if not isinstance(request.get("normalize", True), bool):
        yield f"#/normalize: expected type: Boolean, found: {_name_type(request['normalize'])}"
    if not set(request.get("embeddingTypes") or ()) <= {"float", "binary"}:
        yield "#/embeddingTypes: not a valid enum value"


def _write_titan(
    request: Mapping[str, Any], maker: VectorMaker, model: BedrockEmbedder
) -> EmbeddedRequest:
    text, asked = request["inputText"], request.get("dimensions")
    vector = maker.make(text, dim=asked or model.dims[0], is_exact=asked is not None)
    is_unit = model.family == "titan-v2" and request.get("normalize", True)
    values = (vector if is_unit else vector * 8).tolist()
    tokens = count_text_tokens(text)
    body: dict[str, Any] = {"embedding": values, "inputTextTokenCount": tokens}
    if model.family == "titan-v2":
        made = {"float": values, "binary": (vector > 0).astype(int).tolist()}
        kinds = request.get("embeddingTypes") or ["float"]
        body["embeddingsByType"] = {kind: made[kind] for kind in kinds}
        if "float" not in kinds:
            del body["embedding"]
    return EmbeddedRequest([text], body, _report_tokens(tokens))


def _find_cohere_faults(request: Mapping[str, Any], model: BedrockEmbedder) -> Iterator[str]:
    version = model.family[-2:]
    known = ["texts", "input_type", "truncate", "embedding_types", "images"]
    options = ["output_dimension", "max_tokens", "inputs"] if version == "v4" else []
    yield from _find_key_faults(request, ["texts", "input_type"], [*known, *options])
    texts = request["texts"]
    if not isinstance(texts, list):
        yield f"#/texts: expected type: JSONArray, found: {_name_type(texts)}"
        return
    if not texts:
        yield "#/texts: expected minimum item count: 1, found: 0"
    if len(texts) > _MOST_TEXTS:
        yield f"#/texts: expected maximum item count: {_MOST_TEXTS}, found: {len(texts)}"
    yield from _find_cohere_text_faults(texts, 2048 if version == "v3" else 512_000)
    if request["input_type"] not in _PURPOSES:
        yield f"#/input_type: {request['input_type']} is not a valid enum value"
    if request.get("truncate", "NONE") not in _TRUNCATIONS[version]:
        yield f"#/truncate: {request['truncate']} is not a valid enum value"
    if not set(request.get("embedding_types") or ()) <= set(_COHERE_TYPES):
        yield "#/embedding_types: not a valid enum value"
    if request.get("output_dimension", model.dims[0]) not in model.dims:
        yield f"#/output_dimension: {request['output_dimension']} is not a valid enum value"


def _find_cohere_text_faults(texts: Sequence[object], most: int) -> Iterator[str]:
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            yield f"#/texts/{place}: expected type: String, found: {_name_type(text)}"
        elif not text:
            yield f"#/texts/{place}: expected minLength: 1, actual: 0"
        elif len(text) > most:
            yield f"#/texts/{place}: expected maxLength: {most}, actual: {len(text)}"


def _write_cohere(
    request: Mapping[str, Any], maker: VectorMaker, model: BedrockEmbedder
) -> EmbeddedRequest:
    texts, asked = request["texts"], request.get("output_dimension")
    dim, purpose = asked or model.dims[0], request["input_type"]
    vectors = [
        maker.make(text, dim=dim, is_exact=asked is not None, purpose=purpose) for text in texts
    ]
    kinds = request.get("embedding_types")
    made: Any = [vector.tolist() for vector in vectors]
    if kinds:
        made = {kind: [_encode_values(vector, kind) for vector in vectors] for kind in kinds}
    tokens = sum(map(count_text_tokens, texts))
    body = {
        "id": hashlib.sha256("\n".join(texts).encode("utf-8", "replace")).hexdigest()[:32],
        "texts": texts,
        "embeddings": made,
        "response_type": "embeddings_by_type" if kinds else "embeddings_floats",
    }
    return EmbeddedRequest(texts, body, _report_tokens(tokens))


def _report_tokens(tokens: int) -> dict[str, str]:
    return {"X-Amzn-Bedrock-Input-Token-Count": str(tokens)}


def _encode_values(vector: Vector, kind: str) -> list[float] | list[int]:
    """Return a vector as floats, bytes of -128 to 127 or 0 to 255, or eight signs to a byte."""
    if kind == "float":
        return cast("list[float]", vector.tolist())
    if kind in ("int8", "uint8"):
        scaled = np.clip(np.round(vector * 127), -128, 127).astype(int)
        return cast("list[int]", (scaled + (128 if kind == "uint8" else 0)).tolist())
    packed = np.packbits(vector > 0).astype(int)
    return cast("list[int]", (packed - (128 if kind == "binary" else 0)).tolist())


def _name_type(value: object) -> str:
    names = {bool: "Boolean", int: "Integer", float: "BigDecimal", str: "String", list: "JSONArray"}
    return "Null" if value is None else names.get(type(value), "JSONObject")
