"""What describes how a reply is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from langchain_convmem.conversation.replies.syntaxes.bare import BareSyntax
from langchain_convmem.conversation.replies.syntaxes.calls import Syntax
from langchain_convmem.errors import ConfigError

__all__ = ["Channel", "Fence", "ReplyFormat", "checked_channels"]

_MERGED_OTHERWISE = {"id", "index", "model_provider", "output_version"}
"""Keys whose texts LangChain does not join when it adds up chunks."""


class Channel(NamedTuple):
    """A part of a reply that is not its text.

    Attributes:
        name: What it is called.
        start: What opens it.
        end: What closes it; the end of the reply does, too.
        reasoning: Whether it is what the model thought.
    """

    name: str
    start: str
    end: str
    reasoning: bool = True


class Fence(NamedTuple):
    """What stands around calls.

    Attributes:
        start: What opens it.
        end: What closes it, if not the next `start`; the end of the reply does, too.
        syntax: Reads what stands within.
        begins: How a call begins, as a pattern: what is never closed and begins otherwise is text.
        open_syntax: Reads what begins so and is never closed, if that cannot be told to be whole.
    """

    start: str
    end: str
    syntax: Syntax
    begins: str = r"\s*[\[{]"
    open_syntax: Syntax | None = None


@dataclass(frozen=True, kw_only=True)
class ReplyFormat:
    """How the replies of a family of models are written.

    Attributes:
        name: What it is called.
        channels: Where reasoning stands.
        fences: Where calls stand.
        bare: How calls without a fence look, which then open the reply; None if there are none.
        marks: Texts that say nothing, and are left out.
        stop: Texts that end a reply.
        has_short_ids: Whether ids of calls have to be nine letters and digits.
    """

    name: str
    channels: tuple[Channel, ...] = ()
    fences: tuple[Fence, ...] = ()
    bare: BareSyntax | None = None
    marks: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    has_short_ids: bool = False

    def __post_init__(self) -> None:
        checked_channels(self.channels)
        if not all(fence.start for fence in self.fences) or not all((*self.marks, *self.stop)):
            raise ConfigError(
                f"the format {self.name!r} has an empty mark, which stands everywhere"
            )


def checked_channels(channels: Sequence[Channel]) -> tuple[Channel, ...]:
    """Return channels.

    Raises:
        ConfigError: If one has an empty name or mark, or a name that chunks cannot carry.
    """
    for channel in channels:
        if not (channel.name and channel.start and channel.end):
            raise ConfigError(f"a channel needs a name, a start and an end, not {tuple(channel)}")
        if channel.name in _MERGED_OTHERWISE:
            raise ConfigError(f"a channel cannot be called {channel.name!r}; LangChain reserves it")
    return tuple(channels)
