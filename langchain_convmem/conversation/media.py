"""Pictures and sounds in a rendered prompt, each at the mark that its template writes for it."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_convmem.conversation.inputs import is_media, list_parts
from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.text import RenderState
from langchain_convmem.text.control_tokens import MEDIA_MARKS
from langchain_convmem.text.sessions import Media, Part
from langchain_convmem.views.media import detect_media_type, read_media

_KINDS: Mapping[str, str] = {mark: kind for kind, marks in MEDIA_MARKS.items() for mark in marks}


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


def interleave(render: RenderState, media: Sequence[Media], start: int = 0) -> list[Part]:
    """Return rendered text cut at its marks, with the media in their places.

    The first mark of a kind is the first medium of that kind, and so on.

    Args:
        render: What a template wrote. Marks in what was said in messages are none: they are sealed,
            as all control tokens are, and what the model itself wrote is passed over.
        media: All that belong in the text, in order.
        start: Where to begin within the text; media before it are left out.

    Returns:
        Texts and media in turns, no text empty; all of the text from `start` on, but for the marks.

    Raises:
        InvalidMessageError: If the text has not exactly one mark for each medium.
    """
    marks = [(at, mark, _KINDS[mark]) for at, mark in render.find_tokens(_KINDS)]
    found = Counter(kind for *_, kind in marks)
    wanted: Counter[str] = Counter(one.kind for one in media)
    if found != wanted:
        raise InvalidMessageError(
            f"the template writes marks for {_describe_counts(found)}, but the messages hold "
            f"{_describe_counts(wanted)}; does the template take media, and are its marks given?"
        )
    waiting = {kind: iter([one for one in media if one.kind == kind]) for kind in wanted}
    parts: list[Part] = []
    text, done = render.read_text(), start
    for at, mark, kind in marks:
        one = next(waiting[kind])
        if at >= start:
            parts += [text[done:at], one]
            done = at + len(mark)
    return [part for part in [*parts, text[done:]] if part != ""]


def _describe_counts(kinds: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "no media"
