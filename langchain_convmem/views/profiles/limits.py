"""What a provider counts over a whole request: media and marks of its cache. The newest stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_convmem.views.copies import block_type
from langchain_convmem.views.profiles.media import media_note, read_media
from langchain_convmem.views.profiles.rules import Kind, ProviderProfile

__all__ = ["keep_newest"]

_KINDS = {
    "image": "image",
    "image_url": "image",
    "audio": "audio",
    "video": "video",
    "file": "file",
}


def keep_newest(
    messages: Sequence[BaseMessage], profile: ProviderProfile, repairs: list[str]
) -> None:
    """Replace the oldest media above the provider's limits by notes, and drop old cache marks.

    Args:
        messages: The view, in order; the messages are changed.
        profile: Whose limits to keep.
        repairs: Receives a sentence for each kind of media that had to go.
    """
    newest = _Newest(profile)
    for message in reversed(messages):
        if isinstance(message.content, list):
            kept = [newest.shown(block) for block in reversed(message.content)]
            message.content = kept[::-1]
    repairs.extend(newest.repairs())


class _Newest:
    """Counts from the newest block on. Not thread-safe."""

    def __init__(self, profile: ProviderProfile) -> None:
        self._profile = profile
        self._room = dict(profile.max_media)
        self._marks = profile.cache_marks
        self._gone: Counter[Kind] = Counter()

    def shown(self, block: Any) -> Any:
        """Return the block, or what stands in its place."""
        kind = _KINDS.get(block_type(block))
        if kind in self._room:
            self._room[kind] -= 1
            if self._room[kind] < 0:
                self._gone[kind] += 1
                media = read_media(block)
                note = media_note(media) if media is not None else f"[{kind}: not shown]"
                return {"type": "text", "text": note}
        if isinstance(block, dict) and "cache_control" in block:
            self._marks -= 1
            if self._marks < 0:
                return {key: item for key, item in block.items() if key != "cache_control"}
        return block

    def repairs(self) -> Iterator[str]:
        """Yield a sentence for each kind of which some had to go."""
        for kind, number in sorted(self._gone.items()):
            limit = self._profile.max_media[kind]
            yield (
                f"replaced the oldest {number} of kind {kind}: "
                f"{self._profile.name} takes {limit} at a time"
            )
