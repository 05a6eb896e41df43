"""The history of one thread: what was said, read and changed through the views.

`ConversationHistory` is the public class, and its methods return `AddedTurn`. The functions below
are shared with the hosts of turns: cutting a reply, and forking a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any, Literal

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import AIMessage, BaseMessage

from langchain_convmem.background import hop, to_async
from langchain_convmem.causes import describe_value, suggest_name
from langchain_convmem.errors import ConfigError, InvalidMessageError, StaleWindowError
from langchain_convmem.ids import get_now_ms, make_ulid
from langchain_convmem.message_log import MessageLog, append_messages
from langchain_convmem.records import TIMINGS, Draft, Entry, Metadata, ThreadKey
from langchain_convmem.turns.turn import assign_free_ids
from langchain_convmem.turns.view import read_further, read_live
from langchain_convmem.views import edits, live, summaries
from langchain_convmem.views.codec import get_role
from langchain_convmem.views.context import Context, SummaryPlace, build_context
from langchain_convmem.views.edits import Heard
from langchain_convmem.views.live import ExportCursor, Turn
from langchain_convmem.views.messages import (
    DraftBuilder,
    MessagesInput,
    TokenCounter,
    WriteHook,
    check_plain_function,
    count_tokens,
    make_content,
    read_messages,
)
from langchain_convmem.views.providers import Provider
from langchain_convmem.views.summaries import Pin, SummaryNode, SummaryWindow
from langchain_convmem.views.tool_calls import drop_open_notes

_ROLES = ("user", "human", "assistant", "ai", "system")


class ConversationHistory(BaseChatMessageHistory):
    """One thread of a log.

    Stores nothing itself: every read asks the log, so several histories of one thread, in several
    processes, agree. As thread-safe as the log.

    Attributes:
        log: The log that stores the entries.
        key: The thread and its user.
        thread_id: The thread.
        user_id: The thread's user, if it has one.
        drafting: Turns messages into drafts, using the write hook.
    """

    def __init__(
        self,
        log: MessageLog,
        thread_id: str,
        *,
        user_id: str | None = None,
        before_write: WriteHook | None = None,
        token_counter: TokenCounter = count_tokens,
    ) -> None:
        """Open the history of a thread, which need not exist yet.

        Args:
            log: The log that stores the entries; the caller closes it.
            thread_id: The thread.
            user_id: Its user; None is an anonymous thread, shared with nobody.
            before_write: Gets a copy of each message before it is stored, and returns what to
                store, or None; see `WriteHook`. A memory's histories use the memory's hook.
            token_counter: Counts the tokens of messages; a memory's histories use the memory's.

        Raises:
            ConfigError: If an id is empty, or `before_write` is not a plain function.
        """
        super().__init__()
        self.log = log
        self.key = ThreadKey(user_id, thread_id)
        self.thread_id, self.user_id = self.key.thread_id, self.key.user_id
        self.drafting = DraftBuilder(before_write)
        self._token_counter = token_counter

    def __repr__(self) -> str:
        return f"ConversationHistory({self.thread_id!r}, user_id={self.user_id!r})"

    # -- adding -----------------------------------------------------------------------------------

    def add(
        self,
        role: Literal["user", "human", "assistant", "ai", "system"] | Enum,
        contents: str | Sequence[str],
    ) -> AddedTurn:
        """Add a message and return the turn that contains it.

        If the write hook stores nothing, that turn has no entries.

        Args:
            role: The speaker's role, or an enum member with such a value. Use other methods to add
                summaries and tool results.
            contents: One text or several pieces; blank pieces are left out.

        Raises:
            InvalidMessageError: If the role is unknown or every piece is blank; nothing is written.
        """
        message = _make_text_message(role, contents)
        draft = self.drafting.build(message)
        if draft is None:
            return AddedTurn(make_ulid(), get_role(message), (), (), Metadata(), log=self.log)
        [entry] = self.log.append(self.key, [draft])
        # The turn is in the latest exchange, and all of that is read.
        return self._find_turn(entry, read_live(self.log, self.key, 1).entries)

    aadd = to_async(add)

    def add_messages(self, messages: MessagesInput) -> None:
        """Store messages verbatim, all or none.

        It accepts everything that a chain accepts: messages, the user's text, dicts and pairs of
        role and content, `{"messages": [...]}`, or a prompt value.

        A message whose id the thread already has is stored once; with different content, it
        replaces the earlier one, and summaries that cover that one are removed. What follows a
        question without an id is new, even if a cache repeats an id. Messages marked
        `additional_kwargs={"remember": False}`, those of a view's summary, and those for which the
        write hook stores nothing, are left out.

        Raises:
            InvalidMessageError: If one of them cannot be stored, or has the id of a message of
                another role; nothing is written.
        """
        said = read_messages(messages)
        if said and get_role(said[0]) == "user" and not said[0].id:
            found = self.log.find(self.key, [one.id for one in said if one.id])
            taken = [entry.message_id for entry in found]
            said = [*assign_free_ids(said, taken, lambda _: None)]
        append_messages(self.log, self.key, self.drafting.build_all(said))

    aadd_messages = to_async(add_messages)  # type: ignore[arg-type]  # takes more than the base's

    # -- what a model gets ------------------------------------------------------------------------

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]  # it is a view
        """The model's view: the summaries as one marked message, then the turns.

        Unanswered calls of the last reply, such as those that wait for approval, stay open here;
        `context()` closes them with a note, because providers require a result.
        """
        return drop_open_notes(self.context().messages)

    async def aget_messages(self) -> list[BaseMessage]:
        """Return what `messages` is."""
        return await hop(lambda: self.messages)

    def context(
        self,
        *,
        provider: Provider = "strict",
        max_tokens: int | None = None,
        summary: SummaryPlace = "user",
        token_counter: TokenCounter | None = None,
    ) -> Context:
        """Return the messages for a model: valid and within the budget, with a list of repairs.

        Args:
            provider: The provider whose rules the messages follow.
            max_tokens: Budget; whole exchanges are left out, oldest first.
            summary: Put the summaries into a user message or a system message, or leave them out.
            token_counter: Counts the tokens of messages; None uses the history's own.

        Raises:
            BudgetError: If the latest exchange alone is larger than the budget.
        """
        counter = token_counter or self._token_counter
        options: dict[str, Any] = {"provider": provider, "summary": summary}
        options |= {"max_tokens": max_tokens, "token_counter": counter}
        thread = read_live(self.log, self.key, max_tokens, counter)
        while (view := thread.build_view(**options)) is None and thread.floor:
            thread = read_further(self.log, thread, counter)
        return view or build_context(thread.entries, **options)

    acontext = to_async(context)

    # -- turns and entries ------------------------------------------------------------------------

    @property
    def turns(self) -> list[AddedTurn]:
        """The conversation in display order, summaries and placeholders included."""
        return list(map(self._wrap_turn, live.build_turns(self.entries)))

    aturns = to_async(turns)

    @property
    def model_turns(self) -> list[AddedTurn]:
        """The turns that no summary covers, in order; `messages` consist of them.

        Summaries are left out. If the assistant would speak first, there is a placeholder before.
        """
        return list(map(self._wrap_turn, live.build_model_turns(self.entries)))

    amodel_turns = to_async(model_turns)

    def _wrap_turn(self, one: Turn) -> AddedTurn:
        return AddedTurn(one.id, one.role, one.contents, one.entries, one.metadata, log=self.log)

    def _find_turn(self, added: Entry, entries: Sequence[Entry] | None = None) -> AddedTurn:
        """Return the turn that holds an entry, among all or some of the thread's entries."""
        shown = live.build_turns(self.entries if entries is None else entries)
        # Another process may have cleared or forgotten it already; it was added all the same.
        holders = (turn for turn in shown if added in turn.entries)
        return self._wrap_turn(next(holders, None) or live.make_turn([added]))

    @property
    def entries(self) -> list[Entry]:
        """All entries, in order of position, control entries included."""
        return self.log.entries(self.key)

    # -- taking back and replacing; the log keeps everything --------------------------------------

    def undo(self, exchanges: int = 1) -> list[Turn]:
        """Undo the last exchanges: a user message and everything after it.

        Several user messages in a row are one question. System messages stay. A summary that covers
        undone messages is removed, so that the other messages it covers are shown again.

        Args:
            exchanges: How many; a number that is too large undoes all of them.

        Returns:
            The undone turns, in order; empty if there were none.

        Raises:
            ConfigError: If `exchanges` is not at least 1.
        """
        drafts, undone = edits.plan_undo(self.entries, exchanges)
        self.log.append(self.key, drafts)
        return [live.make_turn(parts) for parts in live.split_runs(undone)]

    aundo = to_async(undo)

    def redo(self) -> bool:
        """Restore what the latest undo or clear removed, summaries included.

        Returns:
            Whether anything was restored; nothing is if a message was added since.
        """
        return bool(self.log.append(self.key, edits.plan_redo(self.entries)))

    aredo = to_async(redo)

    def clear(self) -> None:
        """Empty every view; the log keeps the messages (`forget` erases them)."""
        self.log.append(self.key, edits.plan_clear(self.entries))

    aclear = to_async(clear)  # type: ignore[arg-type]  # that of the base class comes first

    def replace(
        self, message_id: str, message: BaseMessage | str, *, keep_later: bool = False
    ) -> AddedTurn:
        """Replace a message, and return the turn that contains the new one.

        The message keeps its id, position and metadata, such as its time and marks. If you pass
        only text, other fields such as usage are kept. By default, all later messages are undone,
        because they followed a different message; the same text again thus asks for a new answer.
        After a system message, nothing is undone. A summary that covers replaced or undone messages
        is removed.

        Args:
            message_id: The message's id, as in `messages`.
            message: The new message, of the same role, or its text.
            keep_later: Keep later messages.

        Raises:
            ConfigError: If the thread shows no such message.
            InvalidMessageError: If the text is blank or the role differs, or if the write hook
                stores nothing of the new message; nothing is written.
        """
        entries = self.entries
        *gone, draft = edits.plan_replace(entries, message_id, message, keep_later=keep_later)
        kept = self.drafting.filter_draft(draft)
        if kept is None:
            msg = f"before_write stores nothing of the new message; {message_id!r} stays as it is"
            raise InvalidMessageError(msg)
        added = self.log.append(self.key, [*gone, kept])
        return self._find_turn(added[-1])

    areplace = to_async(replace)

    def cut_reply(self, heard_until: Heard, *, message_id: str | None = None) -> AddedTurn | None:
        """Cut a spoken reply to the part that the user heard.

        The reply keeps its id, position and metadata, and is marked `interrupted`, as an attribute
        and in the message's `response_metadata`. Later messages stay. A summary that covers it is
        removed. The log keeps the whole reply. If the user repeats the question, that is a new
        message, whereas the next reply would replace one whose stream broke off.

        Args:
            heard_until: The number of characters of the stored text that were heard, or the words,
                which first pass the write hook; `views.edits.count_heard` explains how they are
                found. 0 or blank text removes the reply except for its tool calls.
            message_id: The reply's id; None means the latest reply.

        Returns:
            The turn that contains the reply; None if nothing was heard.

        Raises:
            ConfigError: If the thread shows no such reply.
            InvalidMessageError: If the words are not in the reply; nothing is written.
        """
        cut = cut_reply(self.log, self.key, self.drafting, heard_until, message_id)
        return None if cut is None else self._find_turn(cut)

    acut_reply = to_async(cut_reply)

    # -- summaries --------------------------------------------------------------------------------

    def summary_window(self) -> SummaryWindow:
        """Return the turns that the next summary must cover.

        The window ends with the last reply that does not wait for tools, so the user's last message
        is left out, and so are placeholders and system messages. It is empty if there is nothing
        new. Taking a window changes nothing.
        """
        return summaries.find_summary_window(self.key, self.entries)

    asummary_window = to_async(summary_window)

    def add_summary(
        self,
        text: str | Sequence[str],
        window: SummaryWindow,
        *,
        model: str = "",
        prompt_version: str = "",
    ) -> AddedTurn:
        """Replace a window's turns with a summary, and return its turn.

        The log keeps the covered turns. Messages added after the window was taken follow the
        summary unchanged. Adding the same text to the same window again changes nothing.

        Args:
            text: The summary; blank pieces are left out.
            window: The summarised turns.
            model: Name of the model or procedure that wrote it.
            prompt_version: Version of the prompt that was used.

        Raises:
            InvalidMessageError: If the text is blank or the window empty, or if the write hook
                stores nothing of the text; nothing is written.
            StaleWindowError: If something in the window was undone, replaced, forgotten or
                summarised meanwhile; nothing is written.
            ConfigError: If the window belongs to another thread.
        """
        if not isinstance(window, SummaryWindow) or window.key != self.key:
            got = describe_value(window)
            raise ConfigError(f"window must be one of thread {self.thread_id!r}, got {got}")
        pieces = self._filter_summary(text)
        now = self.entries
        added = summaries.find_applied_summary(pieces, window, now)
        if added is None:
            writer: Any = {"model": model, "prompt_version": prompt_version}
            draft = summaries.draft_summary(pieces, window, now, **writer)
            added = self._append_about({*window.entry_ids, *window.summary_ids}, draft)
        return self._find_turn(added)

    aadd_summary = to_async(add_summary)

    @property
    def last_summary(self) -> Turn | None:
        """The latest summary that was written rather than made by rules, if any."""
        return _find_last_summary(self.entries)

    alast_summary = to_async(last_summary)

    @property
    def summaries(self) -> list[SummaryNode]:
        """The summaries that a model gets, each with the summaries below it.

        They are in thread order. Every entry is covered by one of them or shown.
        """
        return summaries.build_summary_tree(self.entries)

    asummaries = to_async(summaries)

    def undo_summary(self) -> Turn | None:
        """Undo the latest summary: its turns, or the summary before it, are shown again.

        Other summaries stay; if it was under a parent, they are shown side by side again.

        The restored turns stay visible: only `memory.summarize(force=True)` or a summary by hand
        covers them again. `redo` restores the summary.

        Returns:
            The undone summary; None if there was none.
        """
        entries = self.entries
        self.log.append(self.key, summaries.plan_undo_summary(entries))
        return _find_last_summary(entries)

    aundo_summary = to_async(undo_summary)

    def edit_summary(
        self, text: str | Sequence[str], *, summary_id: str | None = None
    ) -> AddedTurn:
        """Replace the text of a summary.

        The new summary's record and the name of its writer say `edited`. The next compaction
        rebuilds parents that contain it.

        Args:
            text: The new summary; blank pieces are left out.
            summary_id: The id of the summary's entry; None means `last_summary`.

        Returns:
            The turn of the new summary.

        Raises:
            ConfigError: If there is no such summary, or a later one continues it.
            InvalidMessageError: If the text is blank, or the write hook stores nothing of it;
                nothing is written.
            StaleWindowError: If the summary was forgotten meanwhile; nothing is written.
        """
        pieces = self._filter_summary(text)
        old, draft = summaries.plan_edit_summary(self.entries, pieces, summary_id)
        return self._find_turn(self._append_about({old.id}, draft))

    aedit_summary = to_async(edit_summary)

    def _filter_summary(self, text: str | Sequence[str]) -> tuple[str, ...]:
        """Return the pieces of a summary as the write hook leaves them."""
        pieces = self.drafting.filter_pieces(summaries.check_pieces(text, what="a summary"))
        if pieces is None:
            raise InvalidMessageError("before_write stores nothing of the summary; none was added")
        return pieces

    def _append_about(self, told: set[str], draft: Draft) -> Entry:
        """Append a summary or a pin; erase it again if an entry that it is about was erased.

        `forget` looks for summaries and pins after it has erased entries, and this looks for the
        entries after it has appended. So whichever comes last sees the other.

        Args:
            told: Ids of the entries that it is about.
            draft: The summary or pin.

        Raises:
            StaleWindowError: If one of these entries was erased.
        """
        [added] = self.log.append(self.key, [draft])
        gone = told.difference(entry.id for entry in self.entries)
        if not gone:
            return added
        self.log.forget(self.key, [added.id])
        msg = f"{len(gone)} of its messages or summaries were forgotten meanwhile; it was not added"
        raise StaleWindowError(msg, thread_id=self.thread_id)

    # -- pins -------------------------------------------------------------------------------------

    @property
    def pins(self) -> list[Pin]:
        """The pins, in the order of pinning."""
        return summaries.find_pins(self.entries)

    apins = to_async(pins)

    def pin(self, text: str | None = None, *, message_id: str | None = None) -> Pin:
        """Keep text unchanged in every context of the thread.

        Pinned text comes first in the summary's message. Text from a message belongs to it: the pin
        disappears if the message is undone, edited or forgotten, and returns with it. Other text is
        the application's own. Pinning the same text again changes nothing.

        Args:
            text: The text; None pins the whole message.
            message_id: The id of the message that contains the text, or of its entry. None means
                the latest such message, or else the summary.

        Returns:
            The pin, for `unpin`.

        Raises:
            ConfigError: If neither is given, or the thread shows no such message.
            InvalidMessageError: If the text is blank or not in the message, or if the write hook
                stores nothing of it; nothing is written.
            BudgetError: If the thread has too many pins, or they would be too long.
            StaleWindowError: If the message was forgotten meanwhile; nothing is pinned.
        """
        entries = self.entries
        words = self.drafting.filter_pieces([summaries.find_pinned_text(entries, text, message_id)])
        if not words:
            raise InvalidMessageError("before_write stores nothing of the words; none were pinned")
        source = summaries.find_pin_source(entries, words[0], message_id)
        known = summaries.find_pins(entries)
        draft = summaries.draft_pin(words[0], source, known)
        name, told = (None, set[str]()) if source is None else (source.message_id, {source.id})
        same = (pin for pin in known if (pin.text, pin.message_id) == (words[0], name))
        return next(same, None) or summaries.read_pin(self._append_about(told, draft))

    apin = to_async(pin)

    def unpin(self, pin: Pin | str) -> bool:
        """Remove a pin; the log keeps it, and `redo` restores it.

        Args:
            pin: The pin, its id, or its text.

        Returns:
            Whether there was such a pin.

        Raises:
            ConfigError: If it is neither a pin nor text.
        """
        return bool(self.log.append(self.key, summaries.plan_unpin(self.entries, pin)))

    aunpin = to_async(unpin)

    # -- maps for a NoSQL log, and tables for people ----------------------------------------------

    def to_maps(
        self,
        *,
        incremental: bool = True,
        exclude_last: bool = True,
        sink: str = "default",
        store: Callable[[list[dict[str, Any]]], object] | None = None,
    ) -> list[dict[str, Any]]:
        """Return the conversation's turns as maps, for storing by `id`.

        A map is `{"id", "message": {"role", "contents"}, "metadata"}`; `metadata` has `summaryIds`,
        `attribute` and `aux` if they are set, and `timing` in milliseconds since the epoch.
        `contents` is text; a turn that says more, such as a picture, calls, a name or usage, has
        all its parts in `message["messages"]`, for LangChain's `messages_from_dict`.

        An increment never skips or repeats a turn, even if others export or write meanwhile. If a
        turn changed after its export (it grew, was edited, or was split by a summary), it is
        exported again completely, with its id. If an exported turn was undone, cleared or replaced,
        it is exported once more unchanged, with `retracted` in its `attribute`; if the undo is
        undone, it is exported again without that mark. Metadata added after an export, and entries
        erased by `forget`, are not exported.

        Args:
            incremental: Return only turns that `sink` does not have yet, and record that it has
                them now. If False, return all current turns and record nothing.
            exclude_last: Leave out the last turn, which may still grow. Pass False when a
                conversation is over.
            sink: The receiver of the maps; each sink has its own cursor.
            store: A plain function that stores the maps of an increment, if there are any. The
                cursor moves when it returns; after an error or a crash, the same maps come again.

        Raises:
            ConfigError: If `sink` is empty, `store` is not a plain function, or the log cannot
                store cursors.
        """
        if not incremental:
            return live.export_maps(self.entries, ExportCursor(), exclude_last=exclude_last)[0]
        if not isinstance(sink, str) or not sink:
            raise ConfigError(f"sink must be a non-empty string, got {sink!r}")
        check_plain_function("store", store, of="a list of maps")
        name = f"export:{sink}"
        while True:
            # The cursor is read first, so that the entries include all that it counts.
            document = self.log.get_state(self.key, name)
            before = ExportCursor(**(document.value if document else {}))
            version = None if document is None else document.version
            maps, after = live.export_maps(self.entries, before, exclude_last=exclude_last)
            if store is not None and maps:
                store(maps)
            is_known = after == before
            if is_known or self.log.set_state(self.key, name, asdict(after), expected=version):
                return maps

    ato_maps = to_async(to_maps)

    def __str__(self) -> str:
        """Return the conversation as text, one line per turn."""
        return live.format_text_table(self.entries)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002 - IPython's
        printer.text(str(self))


def _make_text_message(role: str | Enum, contents: str | Sequence[str]) -> BaseMessage:
    name = role.value if isinstance(role, Enum) else role
    if name not in _ROLES:
        msg = f"role must be one of {', '.join(_ROLES)}; got {describe_value(name)}"
        raise InvalidMessageError(msg)
    content = make_content(summaries.check_pieces(contents, what="contents"))
    return read_messages([(str(name), content)])[0]


def _find_last_summary(entries: Sequence[Entry]) -> Turn | None:
    summary = live.find_live_summary(live.find_live_entries(entries))
    return None if summary is None else live.make_turn([summary])


# -- A turn whose metadata can be extended, durably -----------------------------------------------
@dataclass(frozen=True, slots=True, repr=False)
class AddedTurn(Turn):
    """A turn whose metadata can be extended, durably.

    Marks, times and data go to the newest part of the turn, and replace what earlier parts have
    under the same name; a new `creation` goes to the first one. What this object itself shows stays
    what it was when it was read; read `turns` again to see them. A placeholder has no part in
    the log, so nothing can be added to it; nor has a turn of which the write hook stored nothing.
    """

    log: MessageLog = field(kw_only=True, repr=False, compare=False)

    def add_attribute(self, name: str) -> None:
        """Append a mark.

        Raises:
            ConfigError: If it is not text, or blank.
        """
        if not isinstance(name, str) or not name.strip():
            raise ConfigError(f"a mark must be text that is not blank, got {describe_value(name)}")
        self._annotate(attributes=(name,))

    aadd_attribute = to_async(add_attribute)

    def add_timing(self, name: str, at_ms: int | None = None) -> None:
        """Set a time.

        Args:
            name: One of `TIMINGS`, or a name of your own that begins with `x_` or `app.`.
            at_ms: Milliseconds since the epoch; None is now.

        Raises:
            ConfigError: If the name is neither, or the time is no whole number.
        """
        if name not in TIMINGS and not str(name).startswith(("x_", "app.")):
            near = suggest_name(str(name), TIMINGS)
            msg = f"timing {describe_value(name)} is none of {', '.join(TIMINGS)}, nor a name of "
            raise ConfigError(f"{msg}your own, which begins with x_ or app.{near}")
        if not isinstance(at_ms, int | None) or isinstance(at_ms, bool):
            raise ConfigError(f"at_ms must be whole milliseconds, got {describe_value(at_ms)}")
        place = 0 if name == "creation" else -1  # where the turn has it from
        self._annotate(place, timing={name: get_now_ms() if at_ms is None else at_ms})

    aadd_timing = to_async(add_timing)

    def add_data(self, name: str, value: Any) -> None:
        """Set a plain value under `aux`.

        Raises:
            InvalidMessageError: If the value is not made of plain values.
        """
        self._annotate(aux={name: value})

    aadd_data = to_async(add_data)

    def _annotate(self, place: int = -1, **changes: Any) -> None:
        if not self.entries:
            raise InvalidMessageError("a placeholder, or an unstored turn, is not in the log")
        part = self.entries[place]
        self.log.annotate(part.key, part.id, **changes)


# -- A spoken reply, cut to what was heard of it --------------------------------------------------
def cut_reply(
    log: MessageLog, key: ThreadKey, drafting: DraftBuilder, heard: Heard, message_id: str | None
) -> Entry | None:
    """Cut a reply of a thread; return its entry, or None if nothing is left of it.

    The write hook sees the words that were heard. It does not see the cut reply, which is part of
    one that it has seen. See `ConversationHistory.cut_reply`.
    """
    if isinstance(heard, str) and heard.strip():
        kept = drafting.apply_hook(AIMessage(heard))  # the words as the log holds them
        heard = heard if kept is None else str(kept.text)
    entries = log.entries(key)
    reply = edits.find_reply(entries, message_id)
    last = [reply, *log.append(key, edits.plan_cut(entries, reply, heard))][-1]
    if {edits.INTERRUPTED, edits.KEPT} & {*last.metadata.attributes} == {edits.INTERRUPTED}:
        last = log.annotate(key, last.id, attributes=[edits.KEPT])  # all that was written of it
    return last if last.control is None else None


# -- Forking: a new thread that goes on from a point of an old one --------------------------------
def fork_thread(
    log: MessageLog, origin: ThreadKey, at: str | Turn | None, new_thread_id: str | None
) -> ThreadKey:
    """Copy what a thread shows, up to a point, to a new thread of its user; return the new one.

    Messages are copied at once or not at all. Summaries follow one by one, because each names the
    positions of the copies that it covers. Pins go along, except those of messages that do not.

    Args:
        log: The log of both.
        origin: The thread to copy.
        at: The last message to copy; see `find_entries_until`.
        new_thread_id: The new thread, which must not be in use; None makes up an id.

    Raises:
        ConfigError: If `origin` does not show `at`, or the new thread is in use.
    """
    target = ThreadKey(origin.user_id, make_ulid() if new_thread_id is None else new_thread_id)
    entries = log.entries(origin)
    kept = edits.find_entries_until(entries, at)
    if log.entries(target, last=1):
        raise ConfigError(f"thread {target.thread_id!r} is in use; fork to one that is not")
    spoken = [entry for entry in kept if entry.role != "summary"]
    made = log.append(target, list(map(edits.fork_entry, spoken)))
    copies = {entry.id: copy for entry, copy in zip(spoken, made, strict=True)}
    told = [entry for entry in kept if entry.role == "summary"]
    for summary in sorted(told, key=lambda entry: entry.position):
        [copies[summary.id]] = log.append(target, [edits.fork_summary(summary, spoken, copies)])
    log.append(target, summaries.fork_pins(entries, copies))
    return target
