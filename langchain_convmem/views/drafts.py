"""What is stored of a message: the one place where the write hook and `remember` are asked.

Whatever an application says on its way into a log becomes a draft here, and nowhere else. Control
entries hold no words and pass; so does what is copied out of a log, which was asked about before.
"""

from __future__ import annotations

import inspect
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, cast

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from langchain_convmem.errors import ConfigError, InvalidMessageError
from langchain_convmem.records import Draft, Entry, Metadata
from langchain_convmem.views.codec import draft_of, encode_checked, role_of, text_pieces

WriteHook: TypeAlias = Callable[[BaseMessage], BaseMessage | None]


"""Gets a copy of a message before it is stored or embedded; returns what to store, or None.

A plain function, called in the thread or event loop of whoever writes, so it must be quick; perhaps
more than once for one message. It must return equal messages for equal messages, or what is said
twice under one id is not recognised, and must leave alone what it returned itself. The message
keeps its role and, whatever the hook does, its id. What the hook raises goes to the caller as it
is, and nothing is written.
"""


def is_remembered(message: BaseMessage | None) -> bool:
    """Return whether there is a message, and not one marked as not to be stored."""
    return message is not None and message.additional_kwargs.get("remember") is not False


def content_of(pieces: Sequence[str]) -> str | list[str | dict[str, str]]:
    """Return the content of a message that says these pieces."""
    if len(pieces) == 1:
        return pieces[0]
    return [{"type": "text", "text": piece} for piece in pieces]


class Drafting:
    """Makes drafts of messages. Holds nothing but the hook; as thread-safe as that is."""

    def __init__(self, hook: WriteHook | None = None) -> None:
        """Take the hook; None stores every message as it is.

        Raises:
            ConfigError: If it is no plain function.
        """
        if hook is not None and not callable(hook):
            raise ConfigError(f"before_write must be a function of a message, got {hook!r:.80}")
        if any(map(inspect.iscoroutinefunction, (hook, getattr(hook, "__call__", None)))):  # noqa: B004
            msg = (
                f"before_write must be a plain function, got the coroutine function {hook!r:.80}; "
                "synchronous calls write, too"
            )
            raise ConfigError(msg)
        self.hook = hook

    # -- drafts ---------------------------------------------------------------------------------

    def draft(
        self,
        message: BaseMessage,
        *,
        turn_id: str | None = None,
        metadata: Metadata | None = None,
    ) -> Draft | None:
        """Return the draft that logs a message; None if nothing of it is to be stored.

        Raises:
            InvalidMessageError: If it cannot be stored, or the hook returned what it must not.
        """
        return self.kept(draft_of(message, turn_id=turn_id, metadata=metadata))

    def drafts(
        self,
        messages: Iterable[BaseMessage],
        *,
        turn_id: str | None = None,
        answers: Mapping[int, BaseMessage | None] | None = None,
    ) -> list[Draft]:
        """Return the drafts of those messages that are to be stored; see `draft`.

        Args:
            messages: What is said.
            turn_id: The turn of all of them.
            answers: What `hooked` returned for some of them already, by their number; the hook is
                not asked about these again.
        """
        # The hook is not asked about any of them before all are known to be messages.
        given = [draft_of(message, turn_id=turn_id) for message in messages]
        known = answers or {}
        kept = [
            _answered(draft, known[number]) if number in known else self.kept(draft)
            for number, draft in enumerate(given)
        ]
        return [draft for draft in kept if draft is not None]

    def answers(self, messages: Sequence[BaseMessage]) -> dict[int, BaseMessage | None]:
        """Return what the hook makes of messages that are to be stored, by number; see `drafts`.

        Raises:
            InvalidMessageError: If one of them cannot be stored, or the hook returned what it must
                not.
        """
        for message in messages:
            draft_of(message)  # the hook is not asked about any before all are known to be messages
        remembered = (pair for pair in enumerate(messages) if is_remembered(pair[1]))
        return {number: self.hooked(message) for number, message in remembered}

    def kept(self, draft: Draft) -> Draft | None:
        """Return what is to be stored of a draft that says something, if anything is."""
        message = draft.message
        if message is None:
            contents = self.pieces(draft.contents)
            return None if contents is None else replace(draft, contents=contents)
        if not is_remembered(message):
            return None
        return _answered(draft, self.hooked(message))

    def entry(self, entry: Entry) -> Entry | None:
        """Return what is to be stored of another log's entry, if anything is."""
        draft = Draft(role=entry.role, message=entry.message, contents=entry.contents)
        kept = self.kept(draft)
        if kept is None:
            return None
        return replace(entry, message=kept.message, contents=kept.contents)

    # -- words ----------------------------------------------------------------------------------

    def pieces(self, pieces: Sequence[str]) -> tuple[str, ...] | None:
        """Return what is to be stored of a summary's text, if anything is."""
        if self.hook is None or not pieces:
            return tuple(pieces)
        kept = self.hooked(SystemMessage(content_of(pieces)))
        return None if kept is None else text_pieces(kept)

    def question(self, text: str) -> str:
        """Return what may be searched for instead of a text; empty if nothing may."""
        if self.hook is None:
            return text
        kept = self.hooked(HumanMessage(text))
        return "" if kept is None else "\n".join(text_pieces(kept))

    def hooked(self, message: BaseMessage) -> BaseMessage | None:
        """Return what the hook makes of a message, under the message's id.

        Raises:
            InvalidMessageError: If the message cannot be stored, which the hook is then not asked
                about, or if the hook returned what it must not.
        """
        if self.hook is None:
            return message
        # A copy that shares nothing with the caller's, and holds what would be stored.
        copy = encode_checked(draft_of(message))[1][0]
        new: Any = self.hook(copy)  # type: ignore[arg-type]  # a message was encoded
        if new is None:
            return None
        _check_returned(new, message)
        named: BaseMessage = new.model_copy(update={"id": message.id})
        draft_of(named)
        return named


def _answered(draft: Draft, new: BaseMessage | None) -> Draft | None:
    """Return what is to be stored of a draft's message, which the hook has answered with another.

    Its id is that of the draft: the thread may have had the message's own.
    """
    message = cast("BaseMessage", draft.message)
    if new is None or not is_remembered(message) or not is_remembered(new):
        return None
    if new is message:
        return draft
    named = new if new.id == message.id else new.model_copy(update={"id": message.id})
    return replace(draft, message=named, contents=text_pieces(named))


def _check_returned(new: Any, message: BaseMessage) -> None:
    role = role_of(message)
    # Named, never quoted: what the hook takes out must not stand in an error either.
    name = f"the {role} message {message.id!r}" if message.id else f"a {role} message"
    if inspect.iscoroutine(new):
        new.close()
    if not isinstance(new, BaseMessage):
        msg = f"before_write returned a {type(new).__name__} for {name}; return a message or None"
        raise InvalidMessageError(msg)
    if role_of(new) != role:
        msg = f"before_write made {name} one of the role {role_of(new)}; the role must stay"
        raise InvalidMessageError(msg)


# -- A spoken reply, cut to what was heard of it: the rest was never said -------------------------


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
