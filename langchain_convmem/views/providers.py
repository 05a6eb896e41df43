"""What each provider accepts in a conversation, as data: one frozen value per provider.

The views read these values and hold no provider's name themselves; what a message says of its
provider is read here, too. A model behind a provider's interface may take less (no pictures, for
instance): derive a provider with `dataclasses.replace` and pass the value.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from langchain_core.language_models import BaseChatModel

from langchain_convmem.errors import ConfigError

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

_log = logging.getLogger("langchain_convmem")

Kind = Literal["image", "audio", "video", "file"]
Form = Literal["base64", "url", "id"]
Place = Literal["user", "assistant", "tool"]
Origin = Literal["bedrock_converse", "anthropic", "openai", "gemini"]
ProviderName = Literal[
    "strict", "text", "bedrock_converse", "anthropic", "openai", "openai_responses", "gemini"
]


@dataclass(frozen=True, slots=True)
class MediaRule:
    """Which media of one kind are accepted in one place.

    Attributes:
        forms: How their data may come: in the message, by address, by the provider's own file id.
        types: Accepted media types.
        max_bytes: Largest single one, in decoded bytes; None where no limit is published.
    """

    forms: frozenset[str]
    types: frozenset[str]
    max_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderProfile:
    """What one provider accepts.

    Attributes:
        name: What error messages and repairs call it.
        system: `head`: system text stands before the conversation, wherever it was written.
            `in_place`: it may stand anywhere between exchanges.
        speaker_name: What a message's `name` must match; None where the name is never sent.
        sends_names: Whether the model gets to see the `name` of a user message. Where it does not,
            the text says who speaks, once several people do.
        media: What is accepted beside text, by whose message it stands in. System messages hold
            text only, everywhere.
        max_media: How many media of a kind one request may hold; the newest are kept.
        file_id: What a file id of the provider matches; None where it knows none.
        call_id: What the id of a tool call must match; others are renamed in the view.
        tool_name: What the name of a tool must match.
        max_bytes: How many bytes the media of one request may take together, as Base64 text; the
            newest are kept. None where no limit is published.
        origins: Who its own messages say they come from; all others are foreign. Empty where that
            is not known.
        takes_back: Whose messages of earlier turns go back as they came: with what the model
            thought, what ran at the provider, and items that stand for what was said before them.
        cache_marks: How many blocks of a request may carry `cache_control`; the last ones keep it.
        errors_are_text: Whether the result of a failed tool may hold nothing but text.
        files_need_text: Whether a message with a file needs text, and every file its own name.
    """

    name: str
    system: Literal["head", "in_place"] = "head"
    speaker_name: re.Pattern[str] | None = None
    sends_names: bool = False
    media: Mapping[Place, Mapping[Kind, MediaRule]] = field(default_factory=dict)
    max_media: Mapping[Kind, int] = field(default_factory=dict)
    file_id: re.Pattern[str] | None = None
    call_id: re.Pattern[str] | None = None
    tool_name: re.Pattern[str] | None = None
    max_bytes: int | None = None
    origins: frozenset[Origin] = frozenset()
    takes_back: frozenset[Origin] = frozenset()
    cache_marks: int = 0
    errors_are_text: bool = False
    files_need_text: bool = False


Provider: TypeAlias = ProviderName | ProviderProfile
"""How callers name a provider: by its name, or by a value of their own."""


def fits(text: object, pattern: re.Pattern[str] | None) -> bool:
    """Return whether `text` is text that the pattern, if any, matches from end to end."""
    return isinstance(text, str) and (pattern is None or pattern.fullmatch(text) is not None)


# -- The providers --------------------------------------------------------------------------------
def _make_rule(forms: str, types: str, max_bytes: int | None = None) -> MediaRule:
    return MediaRule(frozenset(forms.split()), frozenset(types.split()), max_bytes)


_MB = 1_000_000
_PICTURES = "image/png image/jpeg image/gif image/webp"
_VIDEOS = "video/mp4 video/mpeg video/quicktime video/webm video/x-flv video/x-ms-wmv video/3gpp"

BEDROCK_CONVERSE = ProviderProfile(
    name="bedrock_converse",
    media={
        "user": {
            "image": _make_rule("base64", _PICTURES, 3_750_000),
            "video": _make_rule("base64", f"{_VIDEOS} video/x-matroska", 25 * _MB),
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
    call_id=re.compile("[a-zA-Z0-9_-]{1,64}"),
    tool_name=re.compile("[a-zA-Z0-9_-]{1,64}"),
    max_bytes=25 * _MB,
    origins=frozenset({"bedrock_converse"}),
    takes_back=frozenset({"bedrock_converse"}),
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
    file_id=re.compile("file_[a-zA-Z0-9]+"),
    call_id=re.compile("[a-zA-Z0-9_-]{1,64}"),
    tool_name=re.compile("[a-zA-Z0-9_-]{1,128}"),
    max_bytes=30 * _MB,
    origins=frozenset({"anthropic"}),
    takes_back=frozenset({"anthropic"}),
    cache_marks=4,
    errors_are_text=True,
)

OPENAI = ProviderProfile(
    name="openai",
    system="in_place",
    speaker_name=re.compile("[a-zA-Z0-9_-]{1,64}"),
    sends_names=True,
    media={
        "user": {
            "image": _make_rule("base64 url", _PICTURES, 50 * _MB),
            "audio": _make_rule("base64", "audio/wav audio/mp3"),
            "file": _make_rule("base64 id", "application/pdf", 32 * _MB),
        },
    },
    max_media={"image": 500},
    file_id=re.compile("file-[a-zA-Z0-9]+"),
    # Wider than Anthropic's letters, but short.
    call_id=re.compile(r"[\x21-\x7e]{1,40}"),
    tool_name=re.compile("[a-zA-Z0-9_-]{1,64}"),
    max_bytes=48 * _MB,
    origins=frozenset({"openai"}),
)

# Chat Completions knows no items of the Responses API, and refuses them.
OPENAI_RESPONSES = replace(OPENAI, name="openai_responses", takes_back=frozenset({"openai"}))

_GEMINI_PICTURES = "image/png image/jpeg image/webp image/heic image/heif"
_GEMINI_SOUNDS = "audio/wav audio/mp3 audio/aiff audio/aac audio/ogg audio/flac"

GEMINI = ProviderProfile(
    name="gemini",
    media={
        "user": {
            "image": _make_rule("base64 url id", _GEMINI_PICTURES, 20 * _MB),
            "audio": _make_rule("base64 url id", _GEMINI_SOUNDS, 20 * _MB),
            "video": _make_rule("base64 url id", f"{_VIDEOS} video/avi", 20 * _MB),
            "file": _make_rule("base64 url id", "application/pdf", 20 * _MB),
        },
        "assistant": {"image": _make_rule("base64", _GEMINI_PICTURES, 20 * _MB)},
        "tool": {"image": _make_rule("base64 url", _GEMINI_PICTURES, 20 * _MB)},
    },
    max_media={"image": 3_000, "video": 10},
    file_id=re.compile(r"https://generativelanguage\.googleapis\.com/\S+"),
    tool_name=re.compile("[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}"),
    max_bytes=19 * _MB,
    origins=frozenset({"gemini"}),
    takes_back=frozenset({"gemini"}),
)


STRICT = ProviderProfile(
    name="strict",
    speaker_name=OPENAI.speaker_name,
    media={
        "user": {
            "image": _make_rule("base64", "image/png image/jpeg image/webp", 3_750_000),
            "file": _make_rule("base64", "application/pdf", 4_500_000),
        },
    },
    max_media={"image": 20, "file": 5},
    call_id=re.compile("[a-zA-Z0-9_-]{1,40}"),
    tool_name=re.compile("[a-zA-Z_][a-zA-Z0-9_-]{0,63}"),
    max_bytes=19 * _MB,
    errors_are_text=True,
    files_need_text=True,
)
"""What all of them accept: for threads whose provider is not known, or changes."""

TEXT = replace(STRICT, name="text", media={})
"""What models accept that complete text: pictures of earlier turns become notes."""

_ALL = (STRICT, TEXT, BEDROCK_CONVERSE, ANTHROPIC, OPENAI, OPENAI_RESPONSES, GEMINI)
PROVIDERS: Mapping[Any, ProviderProfile] = {one.name: one for one in _ALL}
"""By the names in `ProviderName`."""


def resolve_provider(provider: Provider) -> ProviderProfile:
    """Return the provider's value.

    Raises:
        ConfigError: If no provider has that name.
    """
    known = provider if isinstance(provider, ProviderProfile) else PROVIDERS.get(provider)
    if known is None:
        names = ", ".join(repr(name) for name in PROVIDERS)
        raise ConfigError(f"unknown provider {provider!r}; this release knows {names}")
    return known


_MODEL_CLASSES: Mapping[str, ProviderName] = {
    "ChatBedrockConverse": "bedrock_converse",
    "ChatAnthropic": "anthropic",
    "ChatAnthropicVertex": "anthropic",
    "ChatOpenAI": "openai",
    "AzureChatOpenAI": "openai",
    "ChatGoogleGenerativeAI": "gemini",
    "ChatVertexAI": "gemini",
    "OfflineChatModel": "strict",
    "TemplateChatModel": "text",
}
"""Classes of LangChain's packages, which those of others inherit from, and our own."""


def find_provider(model: Any) -> ProviderName:
    """Return the provider of a LangChain chat model; `strict` for one that is not known.

    A model is known by the classes that its own inherits from. Tools or options bound to it change
    nothing. Nothing is imported or called. A class that is not known is logged once, at INFO.
    """
    model = _unbind(model)
    theirs = (kind for kind in type(model).__mro__ if kind.__module__.startswith("langchain_"))
    known = [_MODEL_CLASSES[kind.__name__] for kind in theirs if kind.__name__ in _MODEL_CLASSES]
    name = known[0] if known else "strict"
    if not known:
        _note_unknown(f"{type(model).__module__}.{type(model).__qualname__}")
    return "openai_responses" if name == "openai" and _speaks_responses(model) else name


@cache
def _note_unknown(name: str) -> None:
    _log.info(
        "no provider is known for models of the class %s: earlier turns are shown as every "
        "provider takes them; pass provider= to say whose rules to keep",
        name,
    )


def _unbind(model: Any) -> Any:
    """Return a model without the tools or options that are bound to it."""
    while hasattr(model, "bound"):
        model = model.bound
    return model


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


# -- How much a model reads at once ---------------------------------------------------------------
_LEAST_WINDOW = 1024


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What is known of the model of a chain.

    Attributes:
        window_tokens: How many tokens it reads at once, by LangChain's profile of it; None where
            LangChain knows none. Of several models, the least.
        chat_model: The model itself, which may summarise; of several, the first.
    """

    window_tokens: int | None = None
    chat_model: Any = field(default=None, compare=False, repr=False)

    @classmethod
    def read(cls, model: Any) -> ModelFacts:
        """Return what a model says of itself. Nothing is imported or called."""
        model = _unbind(model)
        profile = getattr(model, "profile", None)
        tokens = profile.get("max_input_tokens") if isinstance(profile, dict) else None
        is_window = type(tokens) is int and tokens >= _LEAST_WINDOW
        chat_model = model if isinstance(model, BaseChatModel) else None
        return cls(tokens if is_window else None, chat_model)

    @classmethod
    def merge(cls, facts: Sequence[ModelFacts]) -> ModelFacts:
        """Return what holds for any of several models."""
        window = min((one.window_tokens or 0 for one in facts), default=0)
        chats = (one.chat_model for one in facts if one.chat_model is not None)
        return cls(window or None, next(chats, None))


NO_MODEL = ModelFacts()
"""What is known where no model can be seen."""


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


THOUGHTS: Mapping[Origin, frozenset[str]] = {
    "anthropic": frozenset({"thinking", "redacted_thinking"}),
    "bedrock_converse": frozenset({"reasoning_content"}),
    "gemini": frozenset({"thinking"}),
    "openai": frozenset({"reasoning"}),
}
"""In which blocks each provider's own integration tells what its model thought."""


def find_origin(message: BaseMessage) -> Origin | None:
    """Return which provider made the message; None where it names none that is known."""
    return _ORIGINS.get(str(message.response_metadata.get("model_provider")))
