"""Who speaks: the names of several people in one thread, visible to every provider.

Where a provider shows its model the `name` of a message and takes this one, it stays there. Where
it does not, the text says who speaks, once the thread has more than one named person.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from langchain_core.messages import BaseMessage, SystemMessage

from langchain_convmem.records import Entry
from langchain_convmem.views.copies import clean_text, handed_out
from langchain_convmem.views.profiles.rules import ProviderProfile, fits

__all__ = ["first_speakers", "has_several_speakers", "introduced", "named", "speaker_of"]

_ROLE_KEY = "__openai_role__"


_SEVERAL = 2


def has_several_speakers(live: Iterable[Entry], earlier: Collection[str] = ()) -> bool:
    """Return whether user messages of the thread bear different names.

    Args:
        live: Live entries.
        earlier: Names that entries before these bear.
    """
    return len(first_speakers(live, earlier)) == _SEVERAL


def first_speakers(live: Iterable[Entry], earlier: Collection[str] = ()) -> tuple[str, ...]:
    """Return the first two names that user messages of the thread bear, or fewer."""
    found = list(earlier)
    for entry in live:
        if len(found) >= _SEVERAL:
            break
        name = speaker_of(entry) if entry.role == "user" else None
        if name and name not in found:
            found.append(name)
    return tuple(found[:_SEVERAL])


def speaker_of(entry: Entry) -> str | None:
    """Return the name the entry's message bears, if any."""
    message = entry.message
    if message is None or message.name:
        return None if message is None else message.name
    return handed_out(entry).name if message.type == "chat" else None


def named(
    message: BaseMessage, profile: ProviderProfile, *, is_user: bool, several: bool
) -> str | None:
    """Put the speaker's name where the model will see it.

    Args:
        message: The message; it is changed.
        profile: Whose rules to keep.
        is_user: Whether a person speaks.
        several: Whether the thread has several named people.

    Returns:
        The name, where neither `name` nor the text could carry it.
    """
    _drop_other_names(message, profile)
    name = message.name
    if not name:
        message.name = None
        return None
    is_valid = fits(name, profile.speaker_name)
    if is_valid and (profile.sends_names or not (is_user and several)):
        return None
    message.name = None
    label = clean_text(" ".join(name.split()))
    if is_user and label:
        message.content = introduced(message.content, label)
        return None
    return name


def _drop_other_names(message: BaseMessage, profile: ProviderProfile) -> None:
    """Take out settings of an integration that would be sent as a name or a role, if invalid."""
    more = message.additional_kwargs
    if "name" in more and not fits(more["name"], profile.speaker_name):
        del more["name"]
    is_developer = isinstance(message, SystemMessage) and more.get(_ROLE_KEY) == "developer"
    if _ROLE_KEY in more and not is_developer:
        del more[_ROLE_KEY]


def introduced(content: Any, name: str) -> Any:
    """Return a message's content with who says it in front."""
    label = f"{clean_text(' '.join(name.split()))}: "
    if isinstance(content, str):
        return label + content if content else content
    for number, block in enumerate(content):
        if block.get("type") == "text":
            said = {**block, "text": label + block["text"]}
            return [*content[:number], said, *content[number + 1 :]]
    return [{"type": "text", "text": label.rstrip()}, *content] if content else content
