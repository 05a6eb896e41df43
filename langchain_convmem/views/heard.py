"""A spoken reply, cut to what was heard of it: the rest was never said. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from langchain_core.messages import BaseMessage

from langchain_convmem.errors import ConfigError, InvalidMessageError

__all__ = ["INTERRUPTED", "Heard", "count_heard", "cut_to_heard"]

INTERRUPTED = "interrupted"
"""Mark of a reply that was cut off: among the attributes of its entry, and in the message's
`response_metadata`."""

Heard = int | str
"""How much of a reply was heard: characters of its text, or the words themselves."""

_AUDIO = "audio"
"""Key of `additional_kwargs` by which a provider finds what it has spoken, all of it."""


def count_heard(text: str, heard: Heard) -> int:
    """Return how many characters of a text were heard.

    Words are found by their letters and digits alone: what speaks a text, or listens to it, is
    free with case, accents, spaces, punctuation and marks of emphasis. They stand at the beginning
    of the text or, where the voice reports its latest utterance only, at the first beginning of a
    word where they fit; what comes before them was heard as well.

    Args:
        text: What was to be said.
        heard: Characters (code points) from the beginning, or what was heard.

    Raises:
        ConfigError: If it is neither, or negative.
        InvalidMessageError: If the words are not in the text.
    """
    if isinstance(heard, str):
        return _find_end_of_words(text, heard)
    if isinstance(heard, bool) or not isinstance(heard, int) or heard < 0:
        raise ConfigError(
            f"heard_until must be a number of characters or the words heard, got {heard!r}"
        )
    return min(heard, len(text))


def cut_to_heard(message: BaseMessage, heard: Heard) -> BaseMessage | None:
    """Return a reply as far as it was heard, marked `interrupted`; its tool calls stay.

    Id, usage and what else the model's provider told are kept.

    Args:
        message: The reply.
        heard: See `count_heard`.

    Returns:
        A new message; the message itself if all of it was heard, None if nothing was.
    """
    text = str(message.text)
    count = count_heard(text, heard)
    if count >= len(text.rstrip()):
        return message
    content = _keep_characters(message.content, len(text[:count].rstrip()))
    if not text[:count].strip() and not getattr(message, "tool_calls", None):
        return None
    kwargs = {key: one for key, one in message.additional_kwargs.items() if key != _AUDIO}
    metadata = {**message.response_metadata, INTERRUPTED: True}
    return message.model_copy(
        update={"content": content, "additional_kwargs": kwargs, "response_metadata": metadata}
    )


def _keep_characters(content: str | list[str | dict[str, object]], count: int) -> object:
    """Return content with the first characters of its text; what is not text stays."""
    if isinstance(content, str):
        return content[:count]
    kept: list[object] = []
    for block in content:
        text = block if isinstance(block, str) else block.get("text")
        if not isinstance(text, str) or (isinstance(block, dict) and block.get("type") != "text"):
            kept.append(block)
        elif count:
            part = text[:count]
            kept.append(part if isinstance(block, str) else {**block, "text": part})
            count -= len(part)
    return kept


# -- words ----------------------------------------------------------------------------------------


def _find_end_of_words(text: str, heard: str) -> int:
    """Return where in a text the words end that were heard.

    Raises:
        InvalidMessageError: If they are not in it.
    """
    if text.startswith(heard):
        return len(heard)
    spoken = list(_iterate_letters(text))
    wanted = "".join(letter for _, letter in _iterate_letters(heard))
    if not wanted:
        return 0
    letters = "".join(letter for _, letter in spoken)
    place = letters.find(wanted)
    while place >= 0 and not _begins_word(text, spoken[place][0]):
        place = letters.find(wanted, place + 1)
    if place < 0:
        raise InvalidMessageError(
            "what was heard is not in the reply; pass the reply's own words, or how many of its "
            "characters were heard"
        )
    return _skip_marks(text, spoken[place + len(wanted) - 1][0] + 1, heard)


def _iterate_letters(text: str) -> Iterator[tuple[int, str]]:
    """Yield letters and digits without case and accents, each with its place."""
    for place, character in enumerate(text):
        for letter in unicodedata.normalize("NFKD", character).casefold():
            if letter.isalnum():
                yield place, letter


def _begins_word(text: str, place: int) -> bool:
    # In scripts without spaces a word may begin anywhere.
    return place == 0 or not (text[place - 1].isalnum() and text[place].isascii())


def _skip_marks(text: str, end: int, heard: str) -> int:
    """Return where the punctuation ends that was heard with the last word."""
    while end < len(text) and unicodedata.combining(text[end]):
        end += 1
    last = max(place for place, _ in _iterate_letters(heard))
    for mark in "".join(heard[last + 1 :].split()):
        if text.startswith(mark, end):
            end += 1
    return end
