"""The part of a history that takes back and replaces what was said."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from langchain_core.messages import AIMessage, BaseMessage

from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.history.added_turn import AddedTurn
from langchain_convmem.history.thread import LogThread
from langchain_convmem.protocols import MessageLog
from langchain_convmem.records import Control, Draft, Entry, ThreadKey, Turn
from langchain_convmem.steps import Steps, arun, run, step
from langchain_convmem.views.drafting import Drafting
from langchain_convmem.views.editing import (
    clearing,
    find_reply,
    plan_cut,
    redoing,
    replacing,
    undoing,
)
from langchain_convmem.views.heard import Heard
from langchain_convmem.views.turns import runs, turn_of

__all__ = ["EditedThread", "cut_reply_steps"]


class EditedThread(LogThread):
    """Undo, redo, replace, cut and clear. Every view follows; the log keeps everything."""

    def undo(self, exchanges: int = 1) -> list[Turn]:
        """Take back the last exchanges: what the user said and all that followed.

        Several messages of the user in a row are one question. System messages stay. A summary
        that tells of what is taken back goes with it, so that what else it covers is shown again.

        Args:
            exchanges: How many; more than there are is all of them.

        Returns:
            What was taken back, in order; empty if nothing was said.

        Raises:
            ConfigError: If `exchanges` is not at least 1.
        """
        return run(self._undoing(exchanges))

    async def aundo(self, exchanges: int = 1) -> list[Turn]:
        """Take back the last exchanges; see `undo`."""
        return await arun(self._undoing(exchanges))

    def _undoing(self, exchanges: int) -> Steps[list[Turn]]:
        drafts, undone = undoing((yield from self._entries()), exchanges)
        yield from self._append(drafts)
        return [turn_of(parts) for parts in runs(undone)]

    def redo(self) -> bool:
        """Bring back what the latest undo or clear took out, summaries included.

        Returns:
            Whether anything came back: not if something was said since.
        """
        return bool(run(self._edited(redoing)))

    async def aredo(self) -> bool:
        """Bring back what the latest undo or clear took out; see `redo`."""
        return bool(await arun(self._edited(redoing)))

    def clear(self) -> None:
        """Let every view start anew; the log keeps what was said (`forget` erases)."""
        run(self._edited(clearing))

    async def aclear(self) -> None:
        """Let every view start anew; see `clear`."""
        await arun(self._edited(clearing))

    def _edited(self, edit: Callable[[Sequence[Entry]], list[Draft]]) -> Steps[list[Entry]]:
        return (yield from self._append(edit((yield from self._entries()))))

    def replace(
        self, message_id: str, message: BaseMessage | str, *, keep_later: bool = False
    ) -> AddedTurn:
        """Put another message in the place of one, and return the turn that now holds it.

        The message keeps its id, its place and its metadata: when it was said, marks, and what was
        added to it; a text keeps what else the message held, such as its usage. By default all that
        was said after it is taken back, since it answered something else; the same text again thus
        asks for a new answer. After a system message nothing is taken back. A summary that tells of
        anything replaced or taken back goes with it.

        Args:
            message_id: Id of the message, as `messages` show it.
            message: The new message, of the same role, or its text.
            keep_later: Keep what was said after it.

        Raises:
            ConfigError: If the thread shows no such message.
            InvalidMessageError: If the text is blank or the role another, or if the write hook
                stores nothing of the new message; nothing is written.
        """
        return run(self._replacing(message_id, message, keep_later=keep_later))

    async def areplace(
        self, message_id: str, message: BaseMessage | str, *, keep_later: bool = False
    ) -> AddedTurn:
        """Put another message in the place of one; see `replace`."""
        return await arun(self._replacing(message_id, message, keep_later=keep_later))

    def _replacing(
        self, message_id: str, message: BaseMessage | str, *, keep_later: bool
    ) -> Steps[AddedTurn]:
        entries = yield from self._entries()
        *edits, draft = replacing(entries, message_id, message, keep_later=keep_later)
        kept = self.drafting.kept(draft)
        if kept is None:
            msg = (
                f"nothing of the new message is to be stored, so {message_id!r} stays as it is; "
                "take it out with undo() or memory.forget()"
            )
            raise InvalidMessageError(msg)
        added = yield from self._append([*edits, kept])
        return AddedTurn.holding(added[-1], (yield from self._entries()), self.log)

    def cut_reply(self, heard_until: Heard, *, message_id: str | None = None) -> AddedTurn | None:
        """Cut a spoken reply to what was heard of it: the rest was never said.

        The reply keeps its id, its place and its metadata, and is marked `interrupted`, as an
        attribute and in the message's `response_metadata`. What was said after it stays. A summary
        that tells of it goes. The log keeps the reply as it was.

        Args:
            heard_until: How many characters of the stored text were heard, or the words that
                were; see `count_heard` in `views.heard` for how these are found, after the write
                hook was asked about them. 0 or blank text takes the reply out, but for its tool
                calls.
            message_id: Id of the reply; None is the latest one.

        Returns:
            The turn that holds the reply; None if nothing of it was heard.

        Raises:
            ConfigError: If the thread shows no such reply.
            InvalidMessageError: If the words are not in the reply; nothing is written.
        """
        return run(self._cut_steps(heard_until, message_id))

    async def acut_reply(
        self, heard_until: Heard, *, message_id: str | None = None
    ) -> AddedTurn | None:
        """Cut a spoken reply to what was heard of it; see `cut_reply`."""
        return await arun(self._cut_steps(heard_until, message_id))

    def _cut_steps(self, heard: Heard, message_id: str | None) -> Steps[AddedTurn | None]:
        cut = yield from cut_reply_steps(self.log, self.key, self.drafting, heard, message_id)
        if cut is None:
            return None
        return AddedTurn.holding(cut, (yield from self._entries()), self.log)


def cut_reply_steps(
    log: MessageLog, key: ThreadKey, drafting: Drafting, heard: Heard, message_id: str | None
) -> Steps[Entry | None]:
    """Cut a reply of a thread; return its entry, None if nothing is left of it.

    See `EditedThread.cut_reply`. If the write hook stores nothing of what is left, nothing is.
    """
    entries: list[Entry] = yield step(log, "entries", key)
    reply = find_reply(entries, message_id)
    drafts = plan_cut(entries, reply, _hook_words(heard, drafting))
    if not drafts:
        return reply
    kept = [one if one.message is None else drafting.kept(one) for one in drafts]
    if kept[-1] is None:
        kept[-1] = Draft(role="control", control=Control((reply.id,), "cancelled"))
    added: list[Entry] = yield step(log, "append", key, kept)
    return added[-1] if added[-1].control is None else None


def _hook_words(heard: Heard, drafting: Drafting) -> Heard:
    """Return words as the log would hold them: the reply that they are of was asked about, too."""
    if drafting.hook is None or not isinstance(heard, str) or not heard.strip():
        return heard
    kept = drafting.hooked(AIMessage(heard))
    return heard if kept is None else str(kept.text)
