"""What can be said of a provider: which parts of a conversation it accepts, as frozen values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

__all__ = [
    "Form",
    "Kind",
    "MediaRule",
    "Origin",
    "Patterns",
    "Place",
    "Profile",
    "ProfileName",
    "ProviderProfile",
    "fits",
]

Kind = Literal["image", "audio", "video", "file"]
Form = Literal["base64", "url", "id"]
Place = Literal["user", "assistant", "tool"]
Origin = Literal["bedrock_converse", "anthropic", "openai", "gemini"]
ProfileName = Literal["strict", "bedrock_converse", "anthropic", "openai", "gemini"]

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
        cache_marks: How many blocks of a request may carry `cache_control`; the last ones keep it.
        takes_refusals: Whether an assistant message may hold `refusal` blocks.
        errors_are_text: Whether the result of a failed tool may hold nothing but text.
        files_need_text: Whether a message with a file needs text, and every file its own name.
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
    cache_marks: int = 0
    takes_refusals: bool = False
    errors_are_text: bool = False
    files_need_text: bool = False


Profile: TypeAlias = ProfileName | ProviderProfile
"""How callers name a profile: by its name, or by a value of their own."""


def fits(text: object, patterns: Patterns) -> bool:
    """Return whether `text` is text that every pattern matches from end to end."""
    return isinstance(text, str) and all(pattern.fullmatch(text) for pattern in patterns)
