"""Pictures and sounds in a rendered prompt, each at the mark that its template writes for it."""

from __future__ import annotations

import base64
import re
from collections import Counter, deque
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from langchain_convmem.conversation.inputs import is_media, list_parts
from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.text.sessions import Media, Part
from langchain_convmem.views.media import detect_media_type, read_media

MEDIA_MARKS: Mapping[str, Sequence[str]] = {
    "image": (
        "<|image_pad|>",
        "<|image|>",
        "<|image_1|>",
        "<start_of_image>",
        "<image_soft_token>",
        "<image_placeholder>",
        "<IMG_CONTEXT>",
        "<|media_pad|>",
        "<image>",
        "[IMG]",
        "<__media__>",
    ),
    "audio": (
        "<|audio_pad|>",
        "<|audio|>",
        "<|AUDIO|>",
        "<|audio_1|>",
        "<start_of_audio>",
        "<audio_soft_token>",
        "<audio>",
        "[AUDIO]",
    ),
}
"""What templates of known families write for a medium; of several around a place, the innermost."""


def list_media(messages: Iterable[BaseMessage]) -> list[Media]:
    """Return the pictures and sounds of messages, in order, for a session that reads text.

    Raises:
        InvalidMessageError: If one is neither picture nor sound, or its bytes lie elsewhere.
    """
    return [
        _read_media(part, f"part {place} of message {number}")
        for number, message in enumerate(messages)
        for place, part in enumerate(list_parts(message))
        if is_media(part)
    ]


def _read_media(part: Mapping[str, Any], what: str) -> Media:
    found = read_media(part)
    if found is None or found.form != "base64" or not found.data:
        raise InvalidMessageError(
            f"{what} does not hold its bytes, which a text session needs; fetch it and pass it "
            "by 'path' or 'blob'"
        )
    data = base64.b64decode(found.data)
    # A container may be taken for video by how it begins; what came in was checked.
    kind = part["type"] if part.get("type") in ("image", "audio") else found.kind
    if kind not in ("image", "audio"):
        raise InvalidMessageError(
            f"{what} is {found.type or found.kind}; text sessions take pictures and sounds only"
        )
    return Media(kind, data, detect_media_type(data) or found.type)


def interleave(
    text: str,
    media: Sequence[Media],
    *,
    messages: Iterable[BaseMessage] = (),
    start: int = 0,
) -> list[Part]:
    """Return rendered text cut at its marks, with the media in their places.

    The first mark of a kind is the first medium of that kind, and so on. Without media the text is
    left alone.

    Args:
        text: What a template wrote.
        media: All that belong in `text`, in order.
        messages: What the text was made from: nothing in their own text is taken for a mark. What
            the model itself said of marks is passed over.
        start: Where to begin within `text`; media before it are left out.

    Returns:
        Texts and media in turns, no text empty; all of `text` from `start` on, but for the marks.

    Raises:
        InvalidMessageError: If the text has not exactly one mark for each medium, or a message
            that is not the model's says one.
    """
    given = list(messages)
    wanted: Counter[str] = Counter(one.kind for one in media)
    kinds = _choose_marks(text, wanted, given)
    quoted = _find_quotes(text, kinds, given)
    places = [(at, mark) for at, mark in _find_marks(text, kinds) if at not in quoted]
    found = Counter(kinds[mark] for _, mark in places)
    if found != wanted:
        raise InvalidMessageError(
            f"the template writes marks for {_describe_counts(found)}, but the messages hold "
            f"{_describe_counts(wanted)}; does the template take media, and are its marks given?"
        )
    return _cut(text, start, [(at, mark, kinds[mark]) for at, mark in places], media)


def _choose_marks(
    text: str, wanted: Mapping[str, int], messages: Sequence[BaseMessage]
) -> dict[str, str]:
    """Return the marks to look for, each with its kind."""
    if not wanted:
        return {}
    kinds = {mark: kind for kind, known in MEDIA_MARKS.items() for mark in known if mark in text}
    # A picture that another family's mark stands for may be spoken of.
    clear = {mark: kind for mark, kind in kinds.items() if not _has_mark(messages, mark)}
    if set(clear.values()) >= set(wanted):
        return clear
    others = [message for message in messages if not isinstance(message, AIMessage)]
    for mark in kinds:
        if _has_mark(others, mark):
            raise InvalidMessageError(
                f"a message says {mark!r}, which the model reads as a picture or sound; "
                "write it otherwise"
            )
    return kinds


def _has_mark(messages: Iterable[BaseMessage], mark: str) -> bool:
    return any(mark in piece for message in messages for piece in _list_texts(message))


def _find_quotes(
    text: str, marks: Iterable[str], messages: Iterable[BaseMessage]
) -> Container[int]:
    """Return the positions within what the model itself said of marks."""
    ranges: list[range] = []
    done = 0
    replies = (message for message in messages if isinstance(message, AIMessage))
    for piece in (piece.strip() for reply in replies for piece in _list_texts(reply)):
        if any(mark in piece for mark in marks) and (at := text.find(piece, done)) >= 0:
            done = at + len(piece)
            ranges.append(range(at, done))
    return {at for one in ranges for at in one}


def _list_texts(message: BaseMessage) -> Iterable[str]:
    yield from _list_strings(message.content)
    yield from _list_strings(message.name or "")
    yield from _list_strings(getattr(message, "tool_calls", ""))


def _list_strings(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _list_strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _list_strings(item)


def _find_marks(text: str, marks: Iterable[str]) -> list[tuple[int, str]]:
    # The longest first: a mark may begin another.
    patterns = [re.escape(mark) for mark in sorted(marks, key=len, reverse=True)]
    if not patterns:
        return []
    return [(match.start(), match[0]) for match in re.finditer("|".join(patterns), text)]


def _cut(
    text: str, start: int, places: Sequence[tuple[int, str, str]], media: Sequence[Media]
) -> list[Part]:
    waiting: dict[str, deque[Media]] = {}
    for one in media:
        waiting.setdefault(one.kind, deque()).append(one)
    parts: list[Part] = []
    done = start
    for at, mark, kind in places:
        one = waiting[kind].popleft()
        if at + len(mark) <= start:
            continue
        if at < start:
            raise InvalidMessageError(f"position {start} of the prompt lies within {mark!r}")
        parts += [text[done:at], one]
        done = at + len(mark)
    parts.append(text[done:])
    return [part for part in parts if part != ""]


def _describe_counts(kinds: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "no media"
