"""What is stored of a message: the one place where the write hook and `remember` are asked.

Whatever an application says on its way into a log becomes a draft here, and nowhere else. Control
entries hold no words and pass; so does what is copied out of a log, which was asked about before.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, cast

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from langchain_convmem.errors import ConfigError, InvalidMessageError
from langchain_convmem.records import Draft, Entry, Metadata
from langchain_convmem.views.codec import encode_checked, get_role, get_text_pieces, make_draft

WriteHook: TypeAlias = Callable[[BaseMessage], BaseMessage | None]
"""Gets a copy of a message before it is stored or embedded; returns what to store, or None.

A plain function, called in the writer's thread or event loop, so it must be quick; perhaps
more than once for one message. It must return equal messages for equal messages, or what is said
twice under one id is not recognised, and must leave alone what it returned itself. The message
keeps its role and, whatever the hook does, its id. What the hook raises goes to the caller as it
is, and nothing is written.
"""


class DraftBuilder:
    """Makes drafts of messages. Holds nothing but the hook; as thread-safe as that is."""

    def __init__(self, hook: WriteHook | None = None) -> None:
        """Take the hook; None stores every message as it is.

        Raises:
            ConfigError: If it is not a plain function.
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

    def build(
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
        return self.filter_draft(make_draft(message, turn_id=turn_id, metadata=metadata))

    def build_all(
        self,
        messages: Iterable[BaseMessage],
        *,
        turn_id: str | None = None,
        answers: Mapping[int, BaseMessage | None] | None = None,
    ) -> list[Draft]:
        """Return the drafts of those messages that are to be stored; see `build`.

        Args:
            messages: What is said.
            turn_id: The turn of all of them.
            answers: What `apply_hook` returned for some of them already, by their number; the hook
                is not asked about these again.
        """
        # The hook is not asked about any of them before all are known to be messages.
        given = [make_draft(message, turn_id=turn_id) for message in messages]
        known = answers or {}
        kept = [
            _apply_answer(draft, known[number]) if number in known else self.filter_draft(draft)
            for number, draft in enumerate(given)
        ]
        return [draft for draft in kept if draft is not None]

    def ask_hook(self, messages: Sequence[BaseMessage]) -> dict[int, BaseMessage | None]:
        """Return what the hook makes of messages that are to be stored, by number; see `build_all`.

        Raises:
            InvalidMessageError: If one of them cannot be stored, or the hook returned what it must
                not.
        """
        for message in messages:
            make_draft(
                message
            )  # the hook is not asked about any before all are known to be messages
        remembered = (pair for pair in enumerate(messages) if is_remembered(pair[1]))
        return {number: self.apply_hook(message) for number, message in remembered}

    def filter_draft(self, draft: Draft) -> Draft | None:
        """Return what is to be stored of a draft that says something, if anything is."""
        message = draft.message
        if message is None:
            contents = self.filter_pieces(draft.contents)
            return None if contents is None else replace(draft, contents=contents)
        if not is_remembered(message):
            return None
        return _apply_answer(draft, self.apply_hook(message))

    def filter_entry(self, entry: Entry) -> Entry | None:
        """Return what is to be stored of another log's entry, if anything is."""
        draft = Draft(role=entry.role, message=entry.message, contents=entry.contents)
        kept = self.filter_draft(draft)
        if kept is None:
            return None
        return replace(entry, message=kept.message, contents=kept.contents)

    # -- words ----------------------------------------------------------------------------------

    def filter_pieces(self, pieces: Sequence[str]) -> tuple[str, ...] | None:
        """Return what is to be stored of a summary's text, if anything is."""
        if self.hook is None or not pieces:
            return tuple(pieces)
        kept = self.apply_hook(SystemMessage(make_content(pieces)))
        return None if kept is None else get_text_pieces(kept)

    def filter_question(self, text: str) -> str:
        """Return what may be searched for instead of a text; empty if nothing may."""
        if self.hook is None:
            return text
        kept = self.apply_hook(HumanMessage(text))
        return "" if kept is None else "\n".join(get_text_pieces(kept))

    def apply_hook(self, message: BaseMessage) -> BaseMessage | None:
        """Return what the hook makes of a message, under the message's id.

        Raises:
            InvalidMessageError: If the message cannot be stored, which the hook is then not asked
                about, or if the hook returned what it must not.
        """
        if self.hook is None:
            return message
        # A copy that shares nothing with the caller's, and holds what would be stored.
        copy = encode_checked(make_draft(message))[1][0]
        new: Any = self.hook(copy)  # type: ignore[arg-type]  # a message was encoded
        if new is None:
            return None
        _check_returned(new, message)
        named: BaseMessage = new.model_copy(update={"id": message.id})
        make_draft(named)
        return named


def _apply_answer(draft: Draft, new: BaseMessage | None) -> Draft | None:
    """Return what is to be stored of a draft's message, which the hook has answered with another.

    Its id is that of the draft: the thread may have had the message's own.
    """
    message = cast("BaseMessage", draft.message)
    if new is None or not is_remembered(message) or not is_remembered(new):
        return None
    if new is message:
        return draft
    named = new if new.id == message.id else new.model_copy(update={"id": message.id})
    return replace(draft, message=named, contents=get_text_pieces(named))


def _check_returned(new: Any, message: BaseMessage) -> None:
    role = get_role(message)
    # Named, never quoted: what the hook takes out must not stand in an error either.
    name = f"the {role} message {message.id!r}" if message.id else f"a {role} message"
    if inspect.iscoroutine(new):
        new.close()
    if not isinstance(new, BaseMessage):
        msg = f"before_write returned a {type(new).__name__} for {name}; return a message or None"
        raise InvalidMessageError(msg)
    if get_role(new) != role:
        msg = f"before_write made {name} one of the role {get_role(new)}; the role must stay"
        raise InvalidMessageError(msg)


def is_remembered(message: BaseMessage | None) -> bool:
    """Return whether there is a message, and not one marked as not to be stored."""
    return message is not None and message.additional_kwargs.get("remember") is not False


def make_content(pieces: Sequence[str]) -> str | list[str | dict[str, str]]:
    """Return the content of a message that says these pieces."""
    if len(pieces) == 1:
        return pieces[0]
    return [{"type": "text", "text": piece} for piece in pieces]
