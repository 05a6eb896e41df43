"""The providers: one value each, what all of them accept, and which one a model belongs to.

A rule stands here because the provider's reference states it or its service refuses what breaks it;
how LangChain's integration packages translate messages is taken into account, since they stand in
between.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import reduce
from typing import Any, get_args

from langchain_convmem.errors import ConfigError
from langchain_convmem.views.profiles.rules import (
    Form,
    Kind,
    MediaRule,
    Patterns,
    Profile,
    ProfileName,
    ProviderProfile,
)

__all__ = [
    "ANTHROPIC",
    "BEDROCK_CONVERSE",
    "GEMINI",
    "OPENAI",
    "PROFILES",
    "STRICT",
    "profile_for",
    "resolved",
]


def _pattern(text: str) -> Patterns:
    return (re.compile(text),)


def _rule(forms: str, types: str, max_bytes: int | None = None) -> MediaRule:
    named = {form for form in get_args(Form) if form in forms.split()}
    return MediaRule(frozenset(named), frozenset(types.split()), max_bytes)


_MB = 1_000_000
_PICTURES = "image/png image/jpeg image/gif image/webp"

# -- the providers --------------------------------------------------------------------------------

BEDROCK_CONVERSE = ProviderProfile(
    name="bedrock_converse",
    media={
        "user": {
            "image": _rule("base64", _PICTURES, 3_750_000),
            "video": _rule(
                "base64",
                "video/x-matroska video/quicktime video/mp4 video/webm video/x-flv video/mpeg "
                "video/x-ms-wmv video/3gpp",
                25 * _MB,
            ),
            "file": _rule(
                "base64",
                "application/pdf text/csv text/html text/plain text/markdown application/msword "
                "application/vnd.openxmlformats-officedocument.wordprocessingml.document "
                "application/vnd.ms-excel "
                "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
                4_500_000,
            ),
        },
        "tool": {
            "image": _rule("base64", _PICTURES, 3_750_000),
            "file": _rule("base64", "application/pdf", 4_500_000),
        },
    },
    max_media={"image": 20, "file": 5, "video": 1},
    # The current service model also allows dots and colons; models behind it do not.
    call_id=_pattern("[a-zA-Z0-9_-]{1,64}"),
    tool_name=_pattern("[a-zA-Z0-9_-]{1,64}"),
    reasoning=frozenset({"bedrock_converse"}),
    files_need_text=True,
)

ANTHROPIC = ProviderProfile(
    name="anthropic",
    media={
        "user": {
            "image": _rule("base64 url id", _PICTURES, 5 * _MB),
            "file": _rule("base64 url id", "application/pdf", 32 * _MB),
        },
        "tool": {
            "image": _rule("base64 url", _PICTURES, 5 * _MB),
            "file": _rule("base64 url", "application/pdf", 32 * _MB),
        },
    },
    max_media={"image": 100},
    file_id=_pattern("file_[a-zA-Z0-9]+"),
    call_id=_pattern("[a-zA-Z0-9_-]{1,64}"),
    tool_name=_pattern("[a-zA-Z0-9_-]{1,128}"),
    reasoning=frozenset({"anthropic"}),
    server_tools=frozenset({"anthropic"}),
    cache_marks=4,
    errors_are_text=True,
)

OPENAI = ProviderProfile(
    name="openai",
    system="in_place",
    speaker_name=_pattern("[a-zA-Z0-9_-]{1,64}"),
    sends_names=True,
    media={
        "user": {
            "image": _rule("base64 url", _PICTURES, 50 * _MB),
            "audio": _rule("base64", "audio/wav audio/mp3"),
            "file": _rule("base64 id", "application/pdf", 32 * _MB),
        },
    },
    max_media={"image": 500},
    file_id=_pattern("file-[a-zA-Z0-9]+"),
    # Wider than Anthropic's letters, but short.
    call_id=_pattern(r"[\x21-\x7e]{1,40}"),
    tool_name=_pattern("[a-zA-Z0-9_-]{1,64}"),
    takes_refusals=True,
)

_GEMINI_PICTURES = "image/png image/jpeg image/webp image/heic image/heif"

GEMINI = ProviderProfile(
    name="gemini",
    media={
        "user": {
            "image": _rule("base64 url id", _GEMINI_PICTURES, 20 * _MB),
            "audio": _rule(
                "base64 url id",
                "audio/wav audio/mp3 audio/aiff audio/aac audio/ogg audio/flac",
                20 * _MB,
            ),
            "video": _rule(
                "base64 url id",
                "video/mp4 video/mpeg video/quicktime video/avi video/x-flv video/webm "
                "video/x-ms-wmv video/3gpp",
                20 * _MB,
            ),
            "file": _rule("base64 url id", "application/pdf", 20 * _MB),
        },
        "assistant": {"image": _rule("base64", _GEMINI_PICTURES, 20 * _MB)},
        "tool": {"image": _rule("base64 url", _GEMINI_PICTURES, 20 * _MB)},
    },
    max_media={"image": 3_000, "video": 10},
    file_id=_pattern(r"https://generativelanguage\.googleapis\.com/\S+"),
    tool_name=_pattern("[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}"),
    reasoning=frozenset({"gemini"}),
)


# -- their intersection ---------------------------------------------------------------------------


def _common(first: ProviderProfile, second: ProviderProfile) -> ProviderProfile:
    """Return what both accept."""
    return ProviderProfile(
        name="strict",
        system="head" if "head" in (first.system, second.system) else "in_place",
        speaker_name=_both(first.speaker_name, second.speaker_name),
        sends_names=first.sends_names and second.sends_names,
        media={
            place: _common_rules(first.media.get(place, {}), second.media.get(place, {}))
            for place in first.media.keys() & second.media.keys()
        },
        max_media={
            kind: min(limits)
            for kind in first.max_media.keys() | second.max_media.keys()
            for limits in [[p.max_media[kind] for p in (first, second) if kind in p.max_media]]
        },
        file_id=_both(first.file_id, second.file_id),
        call_id=_both(first.call_id, second.call_id),
        tool_name=_both(first.tool_name, second.tool_name),
        reasoning=first.reasoning & second.reasoning,
        server_tools=first.server_tools & second.server_tools,
        cache_marks=min(first.cache_marks, second.cache_marks),
        takes_refusals=first.takes_refusals and second.takes_refusals,
        errors_are_text=first.errors_are_text or second.errors_are_text,
        files_need_text=first.files_need_text or second.files_need_text,
    )


def _both(first: Patterns, second: Patterns) -> Patterns:
    return tuple(dict.fromkeys((*first, *second)))


def _common_rules(
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


STRICT = reduce(_common, (BEDROCK_CONVERSE, ANTHROPIC, OPENAI, GEMINI))
"""What all of them accept: for threads whose provider is not known, or changes."""

PROFILES: Mapping[ProfileName, ProviderProfile] = {
    "strict": STRICT,
    "bedrock_converse": BEDROCK_CONVERSE,
    "anthropic": ANTHROPIC,
    "openai": OPENAI,
    "gemini": GEMINI,
}


def resolved(profile: Profile) -> ProviderProfile:
    """Return the profile's value.

    Raises:
        ConfigError: If no profile has that name.
    """
    if isinstance(profile, ProviderProfile):
        return profile
    known = PROFILES.get(profile)
    if known is None:
        names = ", ".join(repr(name) for name in PROFILES)
        raise ConfigError(f"unknown profile {profile!r}; this release knows {names}")
    return known


_MODEL_TYPES: Mapping[str, ProfileName] = {
    "amazon_bedrock_converse_chat": "bedrock_converse",
    "anthropic-chat": "anthropic",
    "openai-chat": "openai",
    "azure-openai-chat": "openai",
    "chat-google-generative-ai": "gemini",
}


def profile_for(model: Any) -> ProfileName:
    """Return the profile of a LangChain chat model; `strict` for one that is not known.

    Tools or options bound to the model change nothing. Nothing is imported or called.
    """
    while hasattr(model, "bound"):
        model = model.bound
    return _MODEL_TYPES.get(getattr(model, "_llm_type", ""), "strict")
