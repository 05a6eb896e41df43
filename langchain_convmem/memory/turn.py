"""One turn of a wrapped chain: what it reads, what it stores, and when.

Written as steps, so that the synchronous and the asynchronous Runnable run the very same turn.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from langchain_core.messages import (
    BaseMessage,
    HumanMessage,
    HumanMessageChunk,
    message_chunk_to_message,
)
from langchain_core.prompt_values import PromptValue

from langchain_convmem.errors import BudgetError, ConfigError, InvalidMessageError
from langchain_convmem.ids import new_ulid, now_ms
from langchain_convmem.memory.rendering import MessageList, fenced, folded, recalled_messages
from langchain_convmem.memory.replies import ReplyCollector, reply_messages
from langchain_convmem.records import Context, Control, Draft, Entry, Metadata, ThreadKey
from langchain_convmem.steps import Steps, step
from langchain_convmem.views.codec import draft_of, text_pieces
from langchain_convmem.views.context import SummaryPlace, context
from langchain_convmem.views.live import live_entries, live_summary
from langchain_convmem.views.tokens import count_tokens

if TYPE_CHECKING:
    from langchain_convmem.memory.conversation_memory import ConversationMemory

__all__ = ["Turn", "TurnSwitches"]

_ATTEMPT = "attempt_of"
"""Key in the user entry's `aux`: the run whose retries are the same turn."""


@dataclass(frozen=True, slots=True)
class TurnSwitches:
    """What a call may change under `configurable`."""

    recall: bool = True
    max_tokens: int = 1000
    k: int | None = None
    history_tokens: int | None = None
    remember: bool = True

    def overridden(self, configurable: Mapping[str, Any]) -> TurnSwitches:
        """Return the switches with what the call sets."""
        named = {
            name: configurable[name]
            for name in ("recall", "max_tokens", "k", "remember")
            if configurable.get(name) is not None
        }
        if "max_tokens" in named and "k" not in named:
            named["k"] = None  # a budget asked for by the call replaces a number set for the chain
        return replace(self, **named)


@dataclass(slots=True)
class Turn:
    """A turn in the making. Not thread-safe: one turn, one caller."""

    memory: ConversationMemory
    key: ThreadKey
    human: HumanMessage
    extra: Mapping[str, Any]
    switches: TurnSwitches
    slots: frozenset[str] | None
    attempt_of: str | None
    turn_id: str = ""
    start: int = 0
    taken: Collection[str | None] = ()
    given: Sequence[BaseMessage] = ()
    started_ms: int = 0
    first_token_ms: int | None = None

    @classmethod
    def of(
        cls,
        memory: ConversationMemory,
        value: Any,
        configurable: Mapping[str, Any],
        *,
        defaults: TurnSwitches,
        slots: frozenset[str] | None,
        attempt_of: str | None,
    ) -> Turn:
        """Return the turn for one call.

        Raises:
            ConfigError: If the call names no thread.
            InvalidMessageError: If the input is not one message of the user.
        """
        if configurable.get("thread_id") is None:
            msg = (
                "thread_id is missing; call the chain with "
                'config={"configurable": {"thread_id": "...", "user_id": "..."}}'
            )
            raise ConfigError(msg)
        key = ThreadKey(configurable.get("user_id"), configurable["thread_id"])
        human, extra = _human_of(value)
        switches = defaults.overridden(configurable)
        return cls(memory, key, human, extra, switches, slots, attempt_of)

    # -- before the model -----------------------------------------------------------------------

    def begin(self) -> Steps[Any]:
        """Store the user's message, then gather what the inner chain is called with."""
        log = self.memory.log
        entries: list[Entry] = yield step(log, "entries", self.key)
        mine = self._earlier_attempt(entries)
        if mine is None and self.switches.remember:
            [mine] = yield step(log, "append", self.key, [self._user_draft()])
        before = _before(entries, mine)
        asked = mine or self._unstored(before)
        self.turn_id = asked.turn_id
        self.start = _start(entries, asked)
        self.taken = _taken_ids(entries, asked.turn_id)
        view = self._view(before, asked)
        recalled = ""
        if self.switches.recall:
            later = {entry.position for entry in entries if entry.position >= self.start}
            recalled = yield from self._recalled(view.positions | later)
        payload = self._payload(view, asked, recalled, _summary_text(before))
        self.started_ms = now_ms()
        return payload

    @property
    def place(self) -> tuple[Hashable, ThreadKey]:
        """The thread in its log; handles of one file are one log."""
        log = self.memory.log
        return getattr(log, "path", None) or id(log), self.key

    def _user_draft(self) -> Draft:
        aux = {} if self.attempt_of is None else {_ATTEMPT: self.attempt_of}
        return draft_of(self.human, turn_id=new_ulid(), metadata=Metadata(aux=aux))

    def _earlier_attempt(self, entries: Sequence[Entry]) -> Entry | None:
        """Return the user's entry of a turn that this call tries again, if it does."""
        if self.attempt_of is None or self.human.id is not None:
            return None  # a message with an id is recognised by the log itself
        live = live_entries(entries)
        for entry in reversed(live):
            if self._is_attempt(entry):
                return None if _answered(live, entry.turn_id) else entry
        return None

    def _is_attempt(self, entry: Entry) -> bool:
        return (
            entry.role == "user"
            and entry.metadata.aux.get(_ATTEMPT) == self.attempt_of
            and entry.message is not None
            and entry.message.content == self.human.content
        )

    def _unstored(self, before: Sequence[Entry]) -> Entry:
        """Return the user's message as the entry it would be, for a turn that is not stored."""
        entry_id = new_ulid()
        return Entry(
            id=entry_id,
            key=self.key,
            position=before[-1].position + 1 if before else 1,
            turn_id=entry_id,
            role="user",
            message=self.human,
            contents=text_pieces(self.human),
        )

    def _view(self, before: Sequence[Entry], asked: Entry) -> Context:
        """Return the messages up to the user's, which the history's budget does not count."""
        budget = self.switches.history_tokens
        if budget is not None:
            budget += count_tokens([self.human])
        place: SummaryPlace = "omit" if self.slots and "summary" in self.slots else "system"
        try:
            return context([*before, asked], max_tokens=budget, summary=place)
        except BudgetError:
            # What was said and never answered is one exchange with the new message, which is
            # never cut; but an old message must not block the thread for good.
            framing = [entry for entry in before if entry.role not in ("user", "assistant", "tool")]
            return context([*framing, asked], max_tokens=budget, summary=place)

    def _recalled(self, seen: Collection[int]) -> Steps[str]:
        """Return fenced lines of other places than the positions that the model sees anyway.

        A turn that is tried again must not quote its own earlier answer, nor what followed.
        """
        query = "\n".join(text_pieces(self.human))
        if not query:
            return ""
        max_tokens = self.switches.max_tokens if self.switches.k is None else None
        found = yield from self.memory.line_recall.recall_steps(
            self.key.owner,
            query,
            exclude={self.key: seen},
            k=self.switches.k,
            max_tokens=max_tokens,
        )
        return fenced(found.blocks)

    def _payload(
        self, view: Context, asked: Entry, recalled: str, summary: str
    ) -> list[BaseMessage] | dict[str, Any]:
        # The view joins what the user said since the last reply into one message, so that roles
        # alternate; it speaks under the name and id of the newest.
        *history, last = view.messages
        human = self.human.model_copy(
            update={"id": asked.message_id, "content": last.content}, deep=True
        )
        has_slot = self.slots is not None and "recalled" in self.slots
        spoken = human if has_slot else folded(human, recalled)
        self.given = [*history, spoken]
        if self.slots is None:
            return list(self.given)
        return {
            **self.extra,
            "history": MessageList(history),
            "input": MessageList([spoken]),
            "recalled": recalled_messages(recalled),
            "summary": summary,
            "messages": MessageList([*history, folded(human, recalled)]),
        }

    # -- after the model ------------------------------------------------------------------------

    def saw(self, reply: ReplyCollector, chunk: Any) -> None:
        """Take a chunk of the reply, and the time of the first one."""
        reply.add(chunk)
        if self.first_token_ms is None and reply.has_text:
            self.first_token_ms = now_ms()

    def finish(self, output: Any) -> Steps[None]:
        """Store a whole reply."""
        yield from self._store(reply_messages(output, self.given))

    def complete(self, reply: ReplyCollector) -> Steps[None]:
        """Store the reply of a stream that came to its end."""
        yield from self._store(reply.complete(self.given))

    def cut(self, reply: ReplyCollector) -> Steps[None]:
        """Store what a stream had brought before it was cut off, marked `interrupted`."""
        yield from self._store(reply.interrupted(self.given), attributes=("interrupted",))

    def _store(
        self, messages: Sequence[BaseMessage], attributes: tuple[str, ...] = ()
    ) -> Steps[None]:
        if not self.switches.remember or not messages:
            return
        metadata = Metadata(attributes=attributes, timing=self._timing())
        *plain, last = self._with_free_ids(messages)
        drafts = [draft_of(message, turn_id=self.turn_id) for message in plain]
        drafts.append(draft_of(last, turn_id=self.turn_id, metadata=metadata))
        log = self.memory.log
        entries: list[Entry] = yield step(log, "entries", self.key, after=self.start - 1)
        outdated = _replies(entries, self.turn_id)
        if outdated:
            drafts.insert(0, Draft(role="control", control=Control(outdated, "replaced")))
        yield step(log, "append", self.key, drafts)

    def _with_free_ids(self, messages: Sequence[BaseMessage]) -> Iterator[BaseMessage]:
        """Yield the messages; one whose id another message of the thread has goes without.

        A cached model repeats its ids, and an equal id would replace what was said before.
        """
        taken = set(self.taken)
        for message in messages:
            is_taken = message.id in taken
            taken |= {message.id}
            yield message.model_copy(update={"id": None}) if is_taken else message

    def _timing(self) -> dict[str, int]:
        timing = {"llmStart": self.started_ms, "llmEnd": now_ms()}
        if self.first_token_ms is not None:
            timing["firstToken"] = self.first_token_ms
        return timing


def _human_of(value: Any) -> tuple[HumanMessage, Mapping[str, Any]]:
    """Return the user's message and whatever else a dict input carries."""
    extra: Mapping[str, Any] = {}
    if isinstance(value, Mapping):
        if "input" not in value:
            msg = f"a dict input needs the key 'input'; got {sorted(map(str, value))}"
            raise InvalidMessageError(msg)
        extra = {name: item for name, item in value.items() if name != "input"}
        value = value["input"]
    if isinstance(value, PromptValue):
        value = value.to_messages()
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 1:
        value = value[0]
    if isinstance(value, str):
        value = HumanMessage(value)
    if not isinstance(value, HumanMessage):
        msg = (
            f"the input must be text or one HumanMessage, got {type(value).__name__}: "
            f"{value!r:.80}; put more messages into the thread with memory.add_messages()"
        )
        raise InvalidMessageError(msg)
    if isinstance(value, HumanMessageChunk):
        value = message_chunk_to_message(value)
    if _is_blank(value):
        raise InvalidMessageError("the user's message is blank; there is nothing to answer")
    return value, extra


def _is_blank(message: HumanMessage) -> bool:
    """Return whether a message has neither text nor media."""
    content = message.content
    if isinstance(content, str):
        return not content.strip()
    media = [b for b in content if not isinstance(b, str) and b.get("type") != "text"]
    return not media and not text_pieces(message)


def _before(entries: Sequence[Entry], mine: Entry | None) -> list[Entry]:
    """Return what was said before this turn began: a retry does not see its own answer."""
    if mine is None:
        return list(entries)
    start = _start(entries, mine)
    began: dict[str, int] = {}
    for entry in entries:
        began.setdefault(entry.turn_id, entry.position)
    return [entry for entry in entries if entry.control is not None or began[entry.turn_id] < start]


def _start(entries: Sequence[Entry], mine: Entry) -> int:
    """Return the position at which the turn of `mine` began."""
    turn = [entry.position for entry in entries if entry.turn_id == mine.turn_id]
    return min(turn, default=mine.position)


def _taken_ids(entries: Sequence[Entry], turn_id: str) -> frozenset[str | None]:
    """Return the message ids that the other turns of the thread use."""
    return frozenset(
        entry.message.id
        for entry in entries
        if entry.turn_id != turn_id and entry.message is not None
    )


def _answered(live: Sequence[Entry], turn_id: str) -> bool:
    return any(
        entry.turn_id == turn_id
        and entry.role == "assistant"
        and "interrupted" not in entry.metadata.attributes
        for entry in live
    )


def _replies(entries: Sequence[Entry], turn_id: str) -> tuple[str, ...]:
    """Return the ids of the live replies that a turn stored before."""
    return tuple(
        entry.id
        for entry in live_entries(entries)
        if entry.turn_id == turn_id and entry.role != "user"
    )


def _summary_text(entries: Sequence[Entry]) -> str:
    summary = live_summary(live_entries(entries))
    return "" if summary is None else "\n".join(summary.contents)
