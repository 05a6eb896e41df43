"""The integrations' own converters as judges: what do they make of a context, and is it legal?

Each oracle hands the messages to the converter that LangChain's package for a provider uses, and
reads the request that comes out by the provider's rules. An oracle whose package is not installed
is skipped, and the skip is counted.
"""

from __future__ import annotations

import copy
import json
import logging
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import Any, ClassVar
from unittest.mock import patch

from langchain_core.messages import BaseMessage, SystemMessage

from tests.support.strict_chats import find_chat_fault
from tests.support.strict_converse import find_converse_fault


class Oracle(ABC):
    """One converter and the rules of what it makes."""

    name: ClassVar[str]
    package: ClassVar[str]
    profiles: ClassVar[tuple[str, ...]]

    def __init__(self) -> None:
        """Import the package.

        Raises:
            ImportError: If it is not installed.
        """
        import_module(self.package)
        _remember_block_types()
        logging.getLogger(self.package).setLevel(logging.CRITICAL)

    def faults(self, messages: Sequence[BaseMessage]) -> list[str]:
        """Return what the converter or the rules say against the messages."""
        if all(isinstance(message, SystemMessage) for message in messages):
            return []  # nothing was said yet; the question will follow
        given = copy.deepcopy(list(messages))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)
                return list(self._faults(given))
        except Exception as error:  # noqa: BLE001 - whatever a converter raises is its verdict
            return [f"{self.name} raised {type(error).__name__}: {error!s:.200}"]

    @abstractmethod
    def _faults(self, messages: list[BaseMessage]) -> Iterator[str]:
        """Yield faults of the converted request."""


def _remember_block_types() -> None:
    """Have langchain-core work out once what it works out for every block: the same each time."""
    content = import_module("langchain_core.messages.content")
    find = getattr(content, "_get_data_content_block_types", None)
    if find is not None and not hasattr(find, "cache_info"):
        vars(content)[find.__name__] = cache(find)


def _alternation(turns: Sequence[tuple[str, Any]], first: str) -> Iterator[str]:
    roles = [role for role, _ in turns]
    if roles[:1] != [first]:
        yield f"begins with {roles[:1]}"
    for number, (before, after) in enumerate(pairwise(roles)):
        if before == after:
            yield f"turn {number + 1} repeats the role {after}"


_ANY_TOOLS = {
    "tools": [{"toolSpec": {"name": "look", "inputSchema": {"json": {"type": "object"}}}}]
}


class BedrockOracle(Oracle):
    """`ChatBedrockConverse` and the parameter validation of boto3."""

    name = "langchain-aws + botocore"
    package = "langchain_aws"
    profiles = ("bedrock_converse", "strict")

    def __init__(self) -> None:
        """Load the converter and the service model of the botocore that is installed."""
        super().__init__()
        module = import_module("langchain_aws.chat_models.bedrock_converse")
        self._convert = module._messages_to_bedrock
        loader = import_module("botocore.loaders").Loader()
        api = loader.load_service_model("bedrock-runtime", "service-2")
        model = import_module("botocore.model").ServiceModel(api)
        self._shape = model.operation_model("Converse").input_shape
        self._enums = import_module("botocore.validate").ParamValidator()

    def _faults(self, messages: list[BaseMessage]) -> Iterator[str]:
        turns, system = self._convert(messages, model_id="anthropic.claude-sonnet-4")
        request: dict[str, Any] = {"modelId": "m", "messages": turns}
        if system:
            request["system"] = system
        report = self._enums.validate(request, self._shape)
        if report.has_errors():
            yield report.generate_report()
        yield from _shape_faults(request, self._shape)
        asked = {"role": "user", "content": [{"text": "And now?"}]}
        whole = [*turns, asked] if turns[-1]["role"] == "assistant" else turns
        fault = find_converse_fault({**request, "messages": whole, "toolConfig": _ANY_TOOLS})
        if fault is not None:
            yield fault.message


def _shape_faults(value: Any, shape: Any, path: str = "request") -> Iterator[str]:
    """Yield breaches of patterns, lengths and enumerations: botocore leaves them to the service."""
    kind = shape.type_name
    if kind == "structure" and isinstance(value, Mapping) and not shape.is_document_type:
        for key, item in value.items():
            if key in shape.members:
                yield from _shape_faults(item, shape.members[key], f"{path}.{key}")
    elif kind == "list":
        for number, item in enumerate(value):
            yield from _shape_faults(item, shape.member, f"{path}[{number}]")
    elif kind == "string":
        meta = shape.metadata
        if not meta.get("min", 0) <= len(value) <= meta.get("max", len(value)):
            yield f"{path} is {len(value)} long"
        if "pattern" in meta and not re.fullmatch(meta["pattern"], value):
            yield f"{path} does not match {meta['pattern']}"
        if getattr(shape, "enum", None) and value not in shape.enum:
            yield f"{path} is {value!r}, not one of {shape.enum}"


class AnthropicOracle(Oracle):
    """`ChatAnthropic` and the rules of the Messages API."""

    name = "langchain-anthropic"
    package = "langchain_anthropic"
    profiles = ("anthropic", "strict")
    _blocks: ClassVar[dict[str, dict[str, set[str]]]] = {
        "user": {
            "text": {"type", "text", "cache_control"},
            "image": {"type", "source"},
            "document": {"type", "source", "title"},
            "tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control"},
        },
        "assistant": {
            "text": {"type", "text", "cache_control"},
            "tool_use": {"type", "id", "name", "input"},
            "thinking": {"type", "thinking", "signature"},
            "redacted_thinking": {"type", "data"},
            "server_tool_use": {"type", "id", "name", "input"},
            "mcp_tool_use": {"type", "id", "name", "input", "server_name"},
            "web_search_tool_result": {"type", "tool_use_id", "content"},
            "compaction": {"type", "content", "signature"},
        },
    }

    def __init__(self) -> None:
        """Load the converter."""
        super().__init__()
        self._convert = import_module("langchain_anthropic.chat_models")._format_messages

    def _faults(self, messages: list[BaseMessage]) -> Iterator[str]:
        system, turns = self._convert(messages, model="claude-sonnet-4-5")
        json.dumps([system, turns], allow_nan=False, ensure_ascii=False).encode()
        if isinstance(system, str) and not system.strip():
            yield "sends a blank system text"
        yield from _alternation([(turn["role"], turn["content"]) for turn in turns], "user")
        owed: list[str] = []
        for turn in turns:
            blocks = turn["content"]
            if isinstance(blocks, str):
                blocks = [{"type": "text", "text": blocks}]
            yield from self._turn_faults(turn["role"], blocks, owed)
            owed = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if owed:
            yield f"never answers {owed}"

    def _turn_faults(
        self, role: str, blocks: Sequence[Mapping[str, Any]], owed: list[str]
    ) -> Iterator[str]:
        results = [block for block in blocks if block["type"] == "tool_result"]
        if sorted(block["tool_use_id"] for block in results) != sorted(owed):
            yield f"answers {[block['tool_use_id'] for block in results]} where {owed} wait"
        if list(blocks[: len(results)]) != results:
            yield "says something before its results"
        if blocks and blocks[-1]["type"] in ("thinking", "redacted_thinking"):
            yield "ends with thinking"
        for block in blocks:
            keys = self._blocks[role].get(block["type"])
            if keys is None or not block.keys() <= keys:
                yield f"the {role} sends {block['type']} with {sorted(block)}"
            yield from _anthropic_block_faults(block)


def _anthropic_block_faults(block: Mapping[str, Any]) -> Iterator[str]:
    kind = block["type"]
    if kind == "text" and not block["text"].strip():
        yield "sends blank text"
    if kind == "tool_result" and isinstance(block["content"], list):
        known = all(one["type"] in ("text", "image", "document") for one in block["content"])
        if not known or not block["content"]:
            yield f"sends the result {block['content']!r:.80}"
    source = block["source"] if kind in ("image", "document") else {}
    if source.get("type") == "base64" and not (source["data"] and "/" in source["media_type"]):
        yield f"sends {block!r:.80}"


class OpenAIOracle(Oracle):
    """`ChatOpenAI` and the rules of Chat Completions."""

    name = "langchain-openai"
    package = "langchain_openai"
    profiles = ("openai", "strict")
    _parts: ClassVar[dict[str, dict[str, set[str]]]] = {
        "user": {
            "text": {"type", "text"},
            "image_url": {"type", "image_url"},
            "input_audio": {"type", "input_audio"},
            "file": {"type", "file"},
        },
        "assistant": {"text": {"type", "text"}, "refusal": {"type", "refusal"}},
        "system": {"text": {"type", "text"}},
        "developer": {"text": {"type", "text"}},
        "tool": {"text": {"type", "text"}},
    }
    _keys: ClassVar[set[str]] = {"role", "content", "name", "tool_calls", "tool_call_id"}

    def __init__(self) -> None:
        """Load the converter."""
        super().__init__()
        self._convert = import_module("langchain_openai.chat_models.base")._convert_message_to_dict

    def _faults(self, messages: list[BaseMessage]) -> Iterator[str]:
        turns = [self._convert(message) for message in messages]
        json.dumps(turns, allow_nan=False, ensure_ascii=False).encode()
        fault = find_chat_fault({"model": "m", "messages": turns})
        if fault is not None:
            yield fault.message
        for turn in turns:
            if not turn.keys() <= self._keys:
                yield f"sends a message with {sorted(turn)}"
            yield from self._turn_faults(turn)

    def _turn_faults(self, turn: Mapping[str, Any]) -> Iterator[str]:
        content = turn["content"]
        if isinstance(content, str) and not content.strip():
            yield f"the {turn['role']} says {content!r}"
        for part in content if isinstance(content, list) else ():
            keys = self._parts[turn["role"]].get(part["type"])
            if keys is None or not part.keys() <= keys:
                yield f"the {turn['role']} sends {part['type']} with {sorted(part)}"
            form = part.get("input_audio", {}).get("format", "wav")
            if form not in ("wav", "mp3"):
                yield f"sends audio as {form}"
            if part["type"] == "text" and not part["text"].strip():
                yield "sends blank text"
        for call in turn.get("tool_calls", ()):
            if call["type"] != "function":
                yield f"calls by {call['type']}"
            if not isinstance(json.loads(call["function"]["arguments"]), dict):
                yield "calls with no object"


class GeminiOracle(Oracle):
    """`ChatGoogleGenerativeAI` and the rules of `generateContent`. Pictures are not fetched."""

    name = "langchain-google-genai"
    package = "langchain_google_genai"
    profiles = ("gemini", "strict")

    def __init__(self) -> None:
        """Load the converter."""
        super().__init__()
        self._convert = import_module("langchain_google_genai.chat_models")._parse_chat_history
        loader = import_module("langchain_google_genai._image_utils").ImageBytesLoader
        self._fetching = patch.object(
            loader, "_bytes_from_url", lambda _loader, _url: b"\x89PNG\r\n\x1a\n" + bytes(20)
        )

    def _faults(self, messages: list[BaseMessage]) -> Iterator[str]:
        with self._fetching:
            _system, turns = self._convert(messages, model="gemini-2.5-pro")
        yield from _alternation(list(_joined(turns)), "user")
        owed: list[str] = []
        for turn in turns:
            parts = turn.parts or []
            if not parts:
                yield f"the {turn.role} sends nothing"
            yield from self._turn_faults(parts, owed)
            owed = [part.function_call.name for part in parts if part.function_call]
        if owed:
            yield f"never answers {owed}"

    def _turn_faults(self, parts: Sequence[Any], owed: list[str]) -> Iterator[str]:
        given = [part.function_response.name for part in parts if part.function_response]
        if given != owed:
            yield f"answers {given} where {owed} wait"
        for part in parts:
            json.dumps(part.model_dump(mode="json"), allow_nan=False, ensure_ascii=False).encode()
            if part.text is not None and not part.text.strip() and not part.thought_signature:
                yield f"sends the text {part.text!r}"
            call = part.function_call
            if call and not re.fullmatch("[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}", call.name):
                yield f"calls {call.name}"
            if part.inline_data and not (part.inline_data.mime_type and part.inline_data.data):
                yield "sends media without a type or without data"


def _joined(turns: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Yield turns with a user's message behind results as one, which the service allows."""
    before = None
    for turn in turns:
        has_results = any(part.function_response for part in turn.parts or ())
        if not (turn.role == "user" and before == "results" and not has_results):
            yield turn.role, turn.parts
        before = "results" if has_results else turn.role


ORACLES: tuple[type[Oracle], ...] = (BedrockOracle, AnthropicOracle, OpenAIOracle, GeminiOracle)
