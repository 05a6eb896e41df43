"""What each provider accepts in a conversation, as data: one frozen value per provider.

`context` reads these values and holds no provider's name itself. Beside `rules` and `providers`,
each module here fits one thing to them: blocks, media, reasoning, tools that ran at a provider,
the names of speakers, and what is counted over a whole request.
A model behind a provider's interface may take less (no pictures, for instance): derive a profile
with `dataclasses.replace` and pass the value.
"""

from langchain_convmem.views.profiles.providers import (
    ANTHROPIC,
    BEDROCK_CONVERSE,
    GEMINI,
    OPENAI,
    PROFILES,
    STRICT,
    profile_for,
    resolved,
)
from langchain_convmem.views.profiles.rules import (
    Form,
    Kind,
    MediaRule,
    Origin,
    Place,
    Profile,
    ProfileName,
    ProviderProfile,
    fits,
)

__all__ = [
    "ANTHROPIC",
    "BEDROCK_CONVERSE",
    "GEMINI",
    "OPENAI",
    "PROFILES",
    "STRICT",
    "Form",
    "Kind",
    "MediaRule",
    "Origin",
    "Place",
    "Profile",
    "ProfileName",
    "ProviderProfile",
    "fits",
    "profile_for",
    "resolved",
]
