"""The embedding routes of the kit's services, over real loopback sockets."""

from __future__ import annotations

import base64
import http.client
import json
import struct
import urllib.parse
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings

from langchain_convmem.errors import ConfigError
from langchain_convmem.testing import (
    BedrockConverseServer,
    ChatCompletionsServer,
    ScriptedError,
)

pytestmark = [pytest.mark.sockets, pytest.mark.usefixtures("socket_enabled")]

TITAN_1, TITAN_2 = "amazon.titan-embed-text-v1", "amazon.titan-embed-text-v2:0"
COHERE_3, COHERE_4 = "cohere.embed-english-v3", "cohere.embed-v4:0"


class _Triangle(Embeddings):
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[3.0, 4.0, 12.0] for _ in texts]

    def embed_query(self, text: str) -> list[float]:
        return [5.0, 12.0]


def _post(server: Any, path: str, body: object, auth: str) -> tuple[int, dict[str, str], Any]:
    url = urllib.parse.urlsplit(server.origin)
    connection = http.client.HTTPConnection(str(url.hostname), url.port, timeout=10)
    headers = {"Authorization": auth} if auth else {}
    try:
        connection.request("POST", path, json.dumps(body).encode(), headers)
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), json.loads(response.read())
    finally:
        connection.close()


def _openai(server: Any, given: object, **options: Any) -> tuple[int, Any]:
    body = {"model": "text-embedding-3-small", "input": given, **options}
    status, _, answer = _post(server, "/v1/embeddings", body, "Bearer test")
    return status, answer


def _bedrock(server: Any, model_id: str, **body: Any) -> tuple[int, dict[str, str], Any]:
    path = f"/model/{urllib.parse.quote(model_id, safe='')}/invoke"
    return _post(server, path, body, "AWS4-HMAC-SHA256 Credential=test")


def _length(vector: list[float]) -> float:
    return sum(value * value for value in vector) ** 0.5


# -- OpenAI ---------------------------------------------------------------------------------------


def test_openai_gives_a_unit_vector_for_each_text_in_order():
    with ChatCompletionsServer() as server:
        status, answer = _openai(server, ["the red car", "a blue boat", "the red car"])
        assert server.embedded == ["the red car", "a blue boat", "the red car"]
    assert status == 200
    assert (answer["object"], answer["model"]) == ("list", "text-embedding-3-small")
    assert [one["index"] for one in answer["data"]] == [0, 1, 2]
    first, second, third = (one["embedding"] for one in answer["data"])
    assert len(first) == 1536
    assert first == third != second
    assert _length(first) == pytest.approx(1)
    assert answer["usage"]["prompt_tokens"] == answer["usage"]["total_tokens"] > 0


def test_texts_are_as_similar_as_they_share_words():
    with ChatCompletionsServer() as server:
        _, answer = _openai(server, ["Where is the red car?", "The red car is here.", "A boat."])
    asked, near, far = (one["embedding"] for one in answer["data"])
    assert sum(a * b for a, b in zip(asked, near, strict=True)) > 0.6
    assert abs(sum(a * b for a, b in zip(asked, far, strict=True))) < 0.1


def test_base64_is_little_endian_single_precision():
    with ChatCompletionsServer() as server:
        _, plain = _openai(server, "the red car")
        _, packed = _openai(server, "the red car", encoding_format="base64")
    raw = base64.b64decode(packed["data"][0]["embedding"])
    floats = struct.unpack(f"<{len(raw) // 4}f", raw)
    assert list(floats) == pytest.approx(plain["data"][0]["embedding"], abs=1e-7)


def test_tokens_are_taken_alone_and_in_arrays():
    with ChatCompletionsServer() as server:
        _, alone = _openai(server, [1, 2, 3])
        _, both = _openai(server, [[1, 2, 3], [9]])
        assert server.embedded == [[1, 2, 3], [1, 2, 3], [9]]
    assert len(alone["data"]) == 1
    assert alone["usage"]["prompt_tokens"] == 3
    assert both["data"][0]["embedding"] == alone["data"][0]["embedding"]


def test_fewer_dimensions_are_the_first_of_an_own_embedder_at_unit_length():
    with ChatCompletionsServer(embeddings=_Triangle()) as server:
        _, whole = _openai(server, "x")
        _, fewer = _openai(server, "x", dimensions=2)
    assert whole["data"][0]["embedding"] == pytest.approx([3 / 13, 4 / 13, 12 / 13])
    assert fewer["data"][0]["embedding"] == pytest.approx([0.6, 0.8])


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (None, {}, "must provide an input"),
        ("", {}, "'$.input' is invalid"),
        ([], {}, "'$.input' is invalid"),
        (["x", ""], {}, "'$.input' is invalid"),
        (["x", [1]], {}, "'$.input' is invalid"),
        (["x"] * 2049, {}, "array too long"),
        ([[1] * 8193], {}, "Invalid 'input[0]': maximum input length is 8192 tokens."),
        ([[1] * 8192] * 37, {}, "Requested 303104 tokens, max 300000 tokens per request"),
        ("x", {"dimensions": 0}, "below minimum value"),
        ("x", {"dimensions": 1537}, "Must be less than or equal to 1536"),
        ("x", {"dimensions": 2, "model": "text-embedding-ada-002"}, "does not support specifying"),
        ("x", {"encoding_format": "hex"}, "Supported values are"),
        ("x", {"temperature": 0}, "Unrecognized request argument supplied: temperature"),
        ("x", {"model": ""}, "must provide a model"),
    ],
)
def test_openai_refuses_in_the_words_of_the_service(given, options, message):
    with ChatCompletionsServer() as server:
        status, answer = _openai(server, given, **options)
        assert server.embedded == []
    assert status == 400
    assert message in answer["error"]["message"]
    assert answer["error"]["type"] == "invalid_request_error"


def test_openai_needs_a_key_and_may_be_throttled():
    throttled = ScriptedError(
        status=429, message="Rate limit reached", kind="requests", code="rate_limit_exceeded"
    )
    with ChatCompletionsServer(embeddings=[throttled, None]) as server:
        status, _, _ = _post(server, "/v1/embeddings", {}, "")
        refused, error = _openai(server, "x")
        taken, _ = _openai(server, "x")
        assert server.embedded == ["x"]
    assert (status, refused, taken) == (401, 429, 200)
    assert error["error"]["code"] == "rate_limit_exceeded"


def test_a_script_for_texts_that_is_sent_tokens_says_so():
    answers = []
    with (
        pytest.raises(ConfigError, match="was sent tokens"),
        ChatCompletionsServer(embeddings=_Triangle()) as server,
    ):
        answers.append(_openai(server, [[1, 2]])[0])
    assert answers == [500]


# -- Bedrock --------------------------------------------------------------------------------------


def test_titan_takes_one_text_and_counts_its_tokens():
    with BedrockConverseServer() as server:
        status, headers, first = _bedrock(server, TITAN_1, inputText="the red car")
        _, _, second = _bedrock(server, TITAN_2, inputText="the red car", dimensions=256)
        _, _, raw = _bedrock(server, TITAN_2, inputText="the red car", normalize=False)
        assert server.embedded == ["the red car"] * 3
    assert status == 200
    assert headers["X-Amzn-Bedrock-Input-Token-Count"] == str(first["inputTextTokenCount"])
    assert len(first["embedding"]) == 1536
    assert len(second["embedding"]) == 256
    assert second["embeddingsByType"] == {"float": second["embedding"]}
    assert _length(second["embedding"]) == pytest.approx(1)
    assert _length(raw["embedding"]) != pytest.approx(1)


def test_cohere_embeds_questions_unlike_documents():
    with BedrockConverseServer() as server:
        _, _, line = _bedrock(server, COHERE_3, texts=["red car"], input_type="search_document")
        _, _, asked = _bedrock(server, COHERE_3, texts=["red car"], input_type="search_query")
        _, _, kinds = _bedrock(
            server,
            f"eu.{COHERE_4}",
            texts=["red car", "boat"],
            input_type="search_document",
            output_dimension=256,
            embedding_types=["float", "int8", "ubinary"],
        )
    assert line["response_type"] == "embeddings_floats"
    assert len(line["embeddings"][0]) == 1024
    assert line["embeddings"] != asked["embeddings"]
    with BedrockConverseServer(embeddings=_Triangle()) as server:
        _, _, own = _bedrock(server, COHERE_3, texts=["red car"], input_type="search_query")
    assert own["embeddings"][0] == pytest.approx([5 / 13, 12 / 13])
    assert kinds["response_type"] == "embeddings_by_type"
    sizes = {kind: [len(one) for one in made] for kind, made in kinds["embeddings"].items()}
    assert sizes == {"float": [256, 256], "int8": [256, 256], "ubinary": [32, 32]}


@pytest.mark.parametrize(
    ("model_id", "body", "message"),
    [
        ("amazon.titan-text-express-v1", {"inputText": "x"}, "model identifier is invalid"),
        (TITAN_2, {}, "required key [inputText] not found"),
        (TITAN_2, {"inputText": ""}, "expected minLength: 1, actual: 0"),
        (TITAN_2, {"inputText": ["x"]}, "expected type: String, found: JSONArray"),
        (TITAN_2, {"inputText": "x", "dimensions": 300}, "#/dimensions: 300 is not a valid enum"),
        (TITAN_1, {"inputText": "x", "dimensions": 256}, "extraneous key [dimensions]"),
        (TITAN_2, {"inputText": "word " * 9000}, "Too many input tokens. Max input tokens: 8192"),
        (COHERE_3, {"inputText": "x"}, "required key [texts] not found#: required key [input_t"),
        (COHERE_3, {"texts": [], "input_type": "search_query"}, "minimum item count: 1"),
        (COHERE_3, {"texts": ["x"] * 97, "input_type": "search_query"}, "item count: 96"),
        (COHERE_3, {"texts": ["x" * 2049], "input_type": "search_query"}, "maxLength: 2048"),
        (COHERE_3, {"texts": ["x"], "input_type": "query"}, "not a valid enum value"),
        (COHERE_4, {"texts": ["x"], "input_type": "search_query", "truncate": "END"}, "#/truncate"),
    ],
)
def test_bedrock_refuses_in_the_words_of_the_service(model_id, body, message):
    with BedrockConverseServer() as server:
        status, headers, answer = _bedrock(server, model_id, **body)
        assert server.embedded == []
    assert (status, headers["x-amzn-ErrorType"]) == (400, "ValidationException")
    assert message in answer["message"]


def test_bedrock_needs_a_signature_and_may_throttle():
    throttled = ScriptedError(status=429, message="Too many requests, please wait")
    with BedrockConverseServer(embeddings=throttled) as server:
        refused, _, _ = _post(server, f"/model/{TITAN_1}/invoke", {}, "")
        status, headers, _ = _bedrock(server, TITAN_1, inputText="x")
    assert refused == 403
    assert (status, headers["x-amzn-ErrorType"]) == (429, "ThrottlingException")
