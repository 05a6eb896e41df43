"""What each provider accepts in a conversation, as data: one frozen value per provider.

The views read these values and hold no provider's name themselves; what a message says of its
provider is read here, too. A model behind a provider's interface may take less (no pictures, for
instance): derive a provider with `dataclasses.replace` and pass the value.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from langchain_convmem.errors import ConfigError

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

Kind = Literal["image", "audio", "video", "file"]
Form = Literal["base64", "url", "id"]
Place = Literal["user", "assistant", "tool"]
Origin = Literal["bedrock_converse", "anthropic", "openai", "gemini"]
ProviderName = Literal[
    "strict", "bedrock_converse", "anthropic", "openai", "openai_responses", "gemini"
]
Patterns: TypeAlias = tuple[re.Pattern[str], ...]


@dataclass(frozen=True, slots=True)
class MediaRule:
    """Which media of one kind are accepted in one place.

    Attributes:
        forms: How their data may come: in the message, by address, by the provider's own file id.
        types: Accepted media types.
        max_bytes: Largest single one, in decoded bytes; None where no limit is published.
    """

    forms: frozenset[Form]
    types: frozenset[str]
    max_bytes: int | None = None


MediaRules: TypeAlias = Mapping[Place, Mapping[Kind, MediaRule]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderProfile:
    """What one provider accepts.

    Attributes:
        name: What error messages and repairs call it.
        system: `head`: system text stands before the conversation, wherever it was written.
            `in_place`: it may stand anywhere between exchanges.
        speaker_name: What a message's `name` must match; empty where the name is never sent.
        sends_names: Whether the model gets to see the `name` of a user message. Where it does not,
            the text says who speaks, once several people do.
        media: What is accepted beside text, by whose message it stands in. System messages hold
            text only, everywhere.
        max_media: How many media of a kind one request may hold; the newest are kept.
        file_id: What a file id of the provider matches; empty where it knows none.
        call_id: What the id of a tool call must match; others are renamed in the view.
        tool_name: What the name of a tool must match.
        reasoning: Whose reasoning blocks may be sent back.
        server_tools: Whose blocks of tools that ran at the provider may be sent back.
        compactions: Whose items may be sent back that stand for all that was said before them, and
            make up for it.
        cache_marks: How many blocks of a request may carry `cache_control`; the last ones keep it.
        takes_refusals: Whether an assistant message may hold `refusal` blocks.
        errors_are_text: Whether the result of a failed tool may hold nothing but text.
        files_need_text: Whether a message with a file needs text, and every file its own name.
        old_addresses: What becomes of remote media of earlier turns. `note`: a note stands in their
            place, since an address that stopped working would make every later turn fail, whether
            the integration or the provider downloads it. `keep`: they are sent again.
    """

    name: str
    system: Literal["head", "in_place"] = "head"
    speaker_name: Patterns = ()
    sends_names: bool = False
    media: MediaRules = field(default_factory=dict)
    max_media: Mapping[Kind, int] = field(default_factory=dict)
    file_id: Patterns = ()
    call_id: Patterns = ()
    tool_name: Patterns = ()
    reasoning: frozenset[Origin] = frozenset()
    server_tools: frozenset[Origin] = frozenset()
    compactions: frozenset[Origin] = frozenset()
    cache_marks: int = 0
    takes_refusals: bool = False
    errors_are_text: bool = False
    files_need_text: bool = False
    old_addresses: Literal["keep", "note"] = "note"


Provider: TypeAlias = ProviderName | ProviderProfile
"""How callers name a provider: by its name, or by a value of their own."""


def fits(text: object, patterns: Patterns) -> bool:
    """Return whether `text` is text that every pattern matches from end to end."""
    return isinstance(text, str) and all(pattern.fullmatch(text) for pattern in patterns)


# -- The providers --------------------------------------------------------------------------------
def _compile_pattern(text: str) -> Patterns:
    return (re.compile(text),)


def _make_rule(forms: str, types: str, max_bytes: int | None = None) -> MediaRule:
    named = {form for form in get_args(Form) if form in forms.split()}
    return MediaRule(frozenset(named), frozenset(types.split()), max_bytes)


_MB = 1_000_000
_PICTURES = "image/png image/jpeg image/gif image/webp"

BEDROCK_CONVERSE = ProviderProfile(
    name="bedrock_converse",
    media={
        "user": {
            "image": _make_rule("base64", _PICTURES, 3_750_000),
            "video": _make_rule(
                "base64",
                "video/x-matroska video/quicktime video/mp4 video/webm video/x-flv video/mpeg "
                "video/x-ms-wmv video/3gpp",
                25 * _MB,
            ),
            "file": _make_rule(
                "base64",
                "application/pdf text/csv text/html text/plain text/markdown application/msword "
                "application/vnd.openxmlformats-officedocument.wordprocessingml.document "
                "application/vnd.ms-excel "
                "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
                4_500_000,
            ),
        },
        "tool": {
            "image": _make_rule("base64", _PICTURES, 3_750_000),
            "file": _make_rule("base64", "application/pdf", 4_500_000),
        },
    },
    max_media={"image": 20, "file": 5, "video": 1},
    # The current service model also allows dots and colons; models behind it do not.
    call_id=_compile_pattern("[a-zA-Z0-9_-]{1,64}"),
    tool_name=_compile_pattern("[a-zA-Z0-9_-]{1,64}"),
    reasoning=frozenset({"bedrock_converse"}),
    files_need_text=True,
)

ANTHROPIC = ProviderProfile(
    name="anthropic",
    media={
        "user": {
            "image": _make_rule("base64 url id", _PICTURES, 5 * _MB),
            "file": _make_rule("base64 url id", "application/pdf", 32 * _MB),
        },
        "tool": {
            "image": _make_rule("base64 url", _PICTURES, 5 * _MB),
            "file": _make_rule("base64 url", "application/pdf", 32 * _MB),
        },
    },
    max_media={"image": 100},
    file_id=_compile_pattern("file_[a-zA-Z0-9]+"),
    call_id=_compile_pattern("[a-zA-Z0-9_-]{1,64}"),
    tool_name=_compile_pattern("[a-zA-Z0-9_-]{1,128}"),
    reasoning=frozenset({"anthropic"}),
    server_tools=frozenset({"anthropic"}),
    compactions=frozenset({"anthropic"}),
    cache_marks=4,
    errors_are_text=True,
)

OPENAI = ProviderProfile(
    name="openai",
    system="in_place",
    speaker_name=_compile_pattern("[a-zA-Z0-9_-]{1,64}"),
    sends_names=True,
    media={
        "user": {
            "image": _make_rule("base64 url", _PICTURES, 50 * _MB),
            "audio": _make_rule("base64", "audio/wav audio/mp3"),
            "file": _make_rule("base64 id", "application/pdf", 32 * _MB),
        },
    },
    max_media={"image": 500},
    file_id=_compile_pattern("file-[a-zA-Z0-9]+"),
    # Wider than Anthropic's letters, but short.
    call_id=_compile_pattern(r"[\x21-\x7e]{1,40}"),
    tool_name=_compile_pattern("[a-zA-Z0-9_-]{1,64}"),
    takes_refusals=True,
)

# Chat Completions knows no items of a compaction, and refuses them.
OPENAI_RESPONSES = replace(OPENAI, name="openai_responses", compactions=frozenset({"openai"}))

_GEMINI_PICTURES = "image/png image/jpeg image/webp image/heic image/heif"

GEMINI = ProviderProfile(
    name="gemini",
    media={
        "user": {
            "image": _make_rule("base64 url id", _GEMINI_PICTURES, 20 * _MB),
            "audio": _make_rule(
                "base64 url id",
                "audio/wav audio/mp3 audio/aiff audio/aac audio/ogg audio/flac",
                20 * _MB,
            ),
            "video": _make_rule(
                "base64 url id",
                "video/mp4 video/mpeg video/quicktime video/avi video/x-flv video/webm "
                "video/x-ms-wmv video/3gpp",
                20 * _MB,
            ),
            "file": _make_rule("base64 url id", "application/pdf", 20 * _MB),
        },
        "assistant": {"image": _make_rule("base64", _GEMINI_PICTURES, 20 * _MB)},
        "tool": {"image": _make_rule("base64 url", _GEMINI_PICTURES, 20 * _MB)},
    },
    max_media={"image": 3_000, "video": 10},
    file_id=_compile_pattern(r"https://generativelanguage\.googleapis\.com/\S+"),
    tool_name=_compile_pattern("[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}"),
    reasoning=frozenset({"gemini"}),
)


# -- Their intersection ---------------------------------------------------------------------------
def _intersect(first: ProviderProfile, second: ProviderProfile) -> ProviderProfile:
    """Return what both accept."""
    return ProviderProfile(
        name="strict",
        system="head" if "head" in (first.system, second.system) else "in_place",
        speaker_name=_join_patterns(first.speaker_name, second.speaker_name),
        sends_names=first.sends_names and second.sends_names,
        media={
            place: _intersect_rules(first.media.get(place, {}), second.media.get(place, {}))
            for place in first.media.keys() & second.media.keys()
        },
        max_media={
            kind: min(limits)
            for kind in first.max_media.keys() | second.max_media.keys()
            for limits in [[p.max_media[kind] for p in (first, second) if kind in p.max_media]]
        },
        file_id=_join_patterns(first.file_id, second.file_id),
        call_id=_join_patterns(first.call_id, second.call_id),
        tool_name=_join_patterns(first.tool_name, second.tool_name),
        reasoning=first.reasoning & second.reasoning,
        server_tools=first.server_tools & second.server_tools,
        compactions=first.compactions & second.compactions,
        cache_marks=min(first.cache_marks, second.cache_marks),
        takes_refusals=first.takes_refusals and second.takes_refusals,
        errors_are_text=first.errors_are_text or second.errors_are_text,
        files_need_text=first.files_need_text or second.files_need_text,
        old_addresses=max(first.old_addresses, second.old_addresses),
    )


def _join_patterns(first: Patterns, second: Patterns) -> Patterns:
    return tuple(dict.fromkeys((*first, *second)))


def _intersect_rules(
    first: Mapping[Kind, MediaRule], second: Mapping[Kind, MediaRule]
) -> dict[Kind, MediaRule]:
    rules: dict[Kind, MediaRule] = {}
    for kind in first.keys() & second.keys():
        one, other = first[kind], second[kind]
        limits = [rule.max_bytes for rule in (one, other) if rule.max_bytes is not None]
        forms, types = one.forms & other.forms, one.types & other.types
        if forms and types:
            rules[kind] = MediaRule(forms, types, min(limits, default=None))
    return rules


STRICT = reduce(_intersect, (BEDROCK_CONVERSE, ANTHROPIC, OPENAI, GEMINI))
"""What all of them accept: for threads whose provider is not known, or changes."""

PROVIDERS: Mapping[ProviderName, ProviderProfile] = {
    "strict": STRICT,
    "bedrock_converse": BEDROCK_CONVERSE,
    "anthropic": ANTHROPIC,
    "openai": OPENAI,
    "openai_responses": OPENAI_RESPONSES,
    "gemini": GEMINI,
}


def resolve_provider(provider: Provider) -> ProviderProfile:
    """Return the provider's value.

    Raises:
        ConfigError: If no provider has that name.
    """
    if isinstance(provider, ProviderProfile):
        return provider
    known = PROVIDERS.get(provider)
    if known is None:
        names = ", ".join(repr(name) for name in PROVIDERS)
        raise ConfigError(f"unknown provider {provider!r}; this release knows {names}")
    return known


_MODEL_TYPES: Mapping[str, ProviderName] = {
    "amazon_bedrock_converse_chat": "bedrock_converse",
    "anthropic-chat": "anthropic",
    "openai-chat": "openai",
    "azure-openai-chat": "openai",
    "chat-google-generative-ai": "gemini",
}


def find_provider(model: Any) -> ProviderName:
    """Return the provider of a LangChain chat model; `strict` for one that is not known.

    Tools or options bound to the model change nothing. Nothing is imported or called.
    """
    while hasattr(model, "bound"):
        model = model.bound
    name = _MODEL_TYPES.get(getattr(model, "_llm_type", ""), "strict")
    return "openai_responses" if name == "openai" and _speaks_responses(model) else name


def join_providers(names: Collection[ProviderName]) -> ProviderName:
    """Return the provider of models that read the same messages; `strict` for several providers."""
    if len(names) > 1 and {*names} == {"openai", "openai_responses"}:
        return "openai"
    return next(iter(names)) if len(names) == 1 else "strict"


_RESPONSES_FIELDS = ("context_management", "include", "reasoning", "truncation")
"""What a `ChatOpenAI` has set that Chat Completions does not know."""


def _speaks_responses(model: Any) -> bool:
    """Return whether every request of an OpenAI model goes to the Responses API, by its fields."""
    wanted = getattr(model, "use_responses_api", None)
    if isinstance(wanted, bool):
        return wanted
    return (
        getattr(model, "output_version", None) == "responses/v1"
        or getattr(model, "use_previous_response_id", False) is True
        or any(getattr(model, name, None) is not None for name in _RESPONSES_FIELDS)
    )


# -- What messages say of their provider ----------------------------------------------------------
_ORIGINS: Mapping[str, Origin] = {
    "anthropic": "anthropic",
    "azure": "openai",
    "bedrock": "bedrock_converse",
    "bedrock_converse": "bedrock_converse",
    "google_genai": "gemini",
    "google_vertexai": "gemini",
    "openai": "openai",
}


def find_origin(message: BaseMessage, unnamed: Origin | None = None) -> Origin | None:
    """Return which provider made the message; None for one without a provider of its own.

    Args:
        message: The message.
        unnamed: What to return where it does not say.
    """
    named = message.response_metadata.get("model_provider")
    return unnamed if named is None else _ORIGINS.get(str(named))
