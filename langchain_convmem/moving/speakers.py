"""Which speaker of a dialogue is the user, and which the assistant. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from langchain_convmem.moving.threads import ROLE_WORDS, ImportedRole

__all__ = ["cast_roles", "speaker_name"]


def cast_roles(speakers: Iterable[str]) -> dict[str, ImportedRole]:
    """Return the role of every speaker.

    A speaker called by a role (`user`, `bot`, ...) has that role. Of the others, the first to
    appear takes the role of the user and the second that of the assistant, unless somebody is
    called by it; everybody else is a user with a name.

    Args:
        speakers: In order of appearance; repeats do not count.
    """
    named = list(dict.fromkeys(speakers))
    cast = {name: ROLE_WORDS[name.lower()] for name in named if name.lower() in ROLE_WORDS}
    taken = set(cast.values())
    free: list[ImportedRole] = [role for role in ("user", "assistant") if role not in taken]
    for name in named:
        if name not in cast:
            cast[name] = free.pop(0) if free else "user"
    return cast


def speaker_name(speaker: str) -> str | None:
    """Return the name to keep with a message: none where it only repeats the role."""
    return None if speaker.lower() in ROLE_WORDS else speaker
