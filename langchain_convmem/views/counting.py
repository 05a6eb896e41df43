"""What counts tokens, and long texts that are shown cut to what has room.

One counter serves every place that counts: the estimate of this package, a function of the
application, or a model's own.

The log keeps every message whole. Of those that a view cannot leave out, the longest are shown by
their beginning and their end, where a question often stands; a note between the two says how much
is left out, and how to read it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

from langchain_core.language_models import BaseLanguageModel
from langchain_core.messages import BaseMessage, HumanMessage

from langchain_convmem.causes import describe_value
from langchain_convmem.errors import ConfigError
from langchain_convmem.views.messages import (
    TextCounter,
    TokenCounter,
    count_tokens,
)
from langchain_convmem.views.tokens import count_text_tokens

TokenCounterLike: TypeAlias = TokenCounter | BaseLanguageModel[Any] | Literal["auto"]
"""What may count: a function of messages, a model that counts for itself, or `"auto"`, which is the
estimate of this package."""

_CHARACTERS_PER_TOKEN = 16
"""No token of a budget holds more characters than this on average."""


def read_counter(value: TokenCounterLike | None) -> TokenCounter:
    """Return what counts messages; without a counter of the application's, the estimate.

    Raises:
        ConfigError: If it can count nothing.
    """
    if value is None or (isinstance(value, str) and value == "auto"):
        return count_tokens
    if isinstance(value, BaseLanguageModel):
        return partial(_count_checked, value.get_num_tokens_from_messages)
    if callable(value) and not isinstance(value, type):
        return partial(_count_checked, value)
    msg = (
        "token_counter must be a function of messages, a model that counts tokens, or None, "
        f"got {describe_value(value)}"
    )
    raise ConfigError(msg)


def _count_checked(function: Any, messages: Sequence[BaseMessage]) -> int:
    """Return the tokens of messages by a function of the application.

    Raises:
        ConfigError: If the function returns anything but a whole number from 0 on.
    """
    count = function(list(messages)) if messages else 0
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        got = describe_value(count)
        msg = f"token_counter must return a whole number of tokens from 0 on, got {got}"
        raise ConfigError(msg)
    return count


def get_text_counter(counter: TokenCounter) -> TextCounter:
    """Return what counts texts as a counter counts messages.

    One that knows messages alone counts a text as what a user says, the frame included.
    """
    if counter is count_tokens:
        return count_text_tokens
    return lambda text: counter([HumanMessage(text)]) if text else 0


def find_prefix(text: str, room: int, count: TextCounter) -> int:
    """Return how many of the first characters of a text fit into so many tokens; 0 if none do."""
    return _find_most(text, room, lambda most: count(text[:most]))


def find_suffix(text: str, room: int, count: TextCounter) -> int:
    """Return how many of the last characters of a text fit into so many tokens; 0 if none do."""
    return _find_most(text, room, lambda most: count(text[len(text) - most :]))


def _find_most(text: str, room: int, count: Callable[[int], int]) -> int:
    sizes = range(1, min(len(text), max(room, 0) * _CHARACTERS_PER_TOKEN) + 1)
    return bisect_right(sizes, room, key=count)


# -- Long texts, cut: what a user pasted or a tool returned ----------------------------------------
LEAST_SHOWN = 96
"""A text of no more tokens than this is never cut, and one that is takes no fewer, the note
included."""

READ_TOOL = "read_message"
"""Name of the tool that notes tell of."""

_MOST_PASSES = 6
_MARGIN = 4
_SHARE_OF_BEGINNING = 2 / 3


def describe_cut(message_id: str, start: int, left_out: int) -> str:
    """Return the note in the middle of a text that is shown cut.

    Args:
        message_id: The message.
        start: The first character that is not shown.
        left_out: How many are not.
    """
    return (
        f'\n[... {left_out:,} more characters here; read on with {READ_TOOL}("{message_id}",'
        f" start={start})]\n"
    )


def shorten_messages(
    messages: Sequence[BaseMessage], excess: int, counter: TokenCounter
) -> list[BaseMessage]:
    """Return messages, the longest as cut copies, so that all are smaller by an excess.

    The longest texts are cut to one length, so that short ones stay whole. Where that does not
    suffice, all of them are cut as far as they may be.

    Args:
        messages: What may be cut.
        excess: So many tokens are to be saved.
        counter: Counts the tokens of messages.
    """
    count = get_text_counter(counter)
    sizes = [count(text) for one in messages for text in map(_get_text, _list_blocks(one)) if text]
    whole, shown = counter(messages), _find_level(sizes, sum(sizes) - excess)
    cut = list(messages)
    for _ in range(_MOST_PASSES):
        cut = [_shorten(message, shown, count) for message in messages]
        saved = whole - counter(cut)
        if saved >= excess or shown <= LEAST_SHOWN:
            break
        # What is said in parts need not count as their sum: what is too much is taken from each.
        longer = sum(size > shown for size in sizes)
        shown = max(shown - (excess - saved) // max(longer, 1) - _MARGIN, LEAST_SHOWN)
    return cut


def _find_level(sizes: Sequence[int], room: int) -> int:
    """Return to how many tokens the longest are cut so that all fit into a room."""
    left = sorted(sizes)
    while left:
        level = room // len(left)
        if left[0] > level:
            return max(level, LEAST_SHOWN)
        room -= left.pop(0)
    return max(sizes, default=LEAST_SHOWN)


def _shorten(message: BaseMessage, shown: int, count: TextCounter) -> BaseMessage:
    """Return a message whose texts of more tokens are cut; itself where there are none."""
    blocks = _list_blocks(message)
    offset, is_cut = 0, False
    for place, block in enumerate(blocks):
        text = _get_text(block)
        if text and count(text) > shown:
            piece = _cut_text(text, str(message.id), offset, shown, count)
            blocks[place] = piece if isinstance(block, str) else {**block, "text": piece}
            is_cut = True
        offset += len(text) + 1 if text else 0  # as in `get_text`
    content = blocks[0] if isinstance(message.content, str) else blocks
    return message.model_copy(update={"content": content}) if is_cut else message


def _cut_text(text: str, name: str, offset: int, tokens: int, count: TextCounter) -> str:
    """Return a text's beginning and its end around a note, in about so many tokens.

    Args:
        text: The text.
        name: The message's id.
        offset: How many characters of the message stand before it.
        tokens: How many tokens are shown.
        count: Counts the tokens of texts.
    """
    room = max(tokens - count(describe_cut(name, offset + len(text), len(text))), 2)
    first = find_prefix(text, round(room * _SHARE_OF_BEGINNING), count)
    rest = text[first:]
    last = find_suffix(rest, room - count(text[:first]), count)
    left_out = len(rest) - last
    return f"{text[:first]}{describe_cut(name, offset + first, left_out)}{rest[left_out:]}"


def _list_blocks(message: BaseMessage) -> list[str | dict[str, object]]:
    content = message.content
    return [content] if isinstance(content, str) else list(content)


def _get_text(block: str | dict[str, object]) -> str:
    text = block if isinstance(block, str) else block.get("text")
    return text if isinstance(text, str) else ""


def get_text(message: BaseMessage) -> str:
    """Return the text of a message whose characters notes count: its pieces, line by line."""
    return "\n".join(filter(None, map(_get_text, _list_blocks(message))))
