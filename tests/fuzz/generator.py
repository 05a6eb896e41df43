"""Random histories of a thread: every kind of message, in every kind of disorder.

A seed decides everything, so a history that made trouble can be made again. Half of the histories
are what agents do, with accidents; the other half is anything a log accepts.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Any

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    HumanMessageChunk,
    SystemMessage,
    SystemMessageChunk,
    ToolMessage,
)
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import invalid_tool_call

from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.logs import InMemoryLog
from langchain_convmem.message_log import MessageLog
from langchain_convmem.records import Control, Cover, Draft, Entry, Metadata, ThreadKey
from langchain_convmem.views.codec import make_draft
from langchain_convmem.views.live import find_live_summary
from tests.fuzz.blocks import (
    BLANKS,
    COUNTED,
    PROVIDERS,
    TEXTS,
    assistant_blocks,
    keep_own,
    odd_value,
    tool_blocks,
    user_blocks,
)

KEY = ThreadKey("ana", "t1")

_NAMES = ("Ana", "Bo", "Ana María", "Dr. No", "x" * 80, "a\nb", " ", "李", "Bo\ud800")
_TOOLS = ("weather", "get-time", "1st", "my tool", "", "a.b:c", "t" * 90, "wetter_für_morgen")
_REASONS = ("undo", "rewind", "failed", "cancelled", "cleared")


def history(seed: int) -> list[Entry]:
    """Return the entries of a thread in which random things happened; the same for one seed."""
    with InMemoryLog() as log:
        fill(log, random.Random(seed))
        return log.entries(KEY)


def fill(log: MessageLog, rng: random.Random) -> None:
    """Let random things happen in a thread of a log."""
    _Thread(log, rng).live_through()


class _Thread:
    """One thread in the making."""

    def __init__(self, log: MessageLog, rng: random.Random) -> None:
        self._log = log
        self._rng = rng
        self._waiting: list[Draft] = []
        self._entries: dict[str, Entry] = {}
        self._open: list[str | None] = []
        self._used: list[str | None] = []
        self._turn: str | None = None
        self._is_wild = rng.random() < 0.5
        self._has_names = rng.random() < 0.3
        self._home = rng.choice(PROVIDERS)
        self._number = 0

    def live_through(self) -> None:
        step: dict[Callable[[], None], int] = {
            self._wild_message: 10 if self._is_wild else 1,
            self._exchange: 2 if self._is_wild else 8,
            self._retract: 1,
            self._edit: 1,
            self._summarise: 1,
            self._retry: 1,
            self._two_at_once: 1,
            self._gallery: 1,
        }
        for _ in range(self._rng.choice((1, 1, 2, 3, 4, 5, 10))):
            self._rng.choices(list(step), list(step.values()))[0]()
        # What a turn says that still goes on is sent as it is: it is plain where that is judged.
        self._turn = None
        self._say(HumanMessage("Thanks."))
        self._flush()

    def _say(self, message: BaseMessage) -> None:
        attributes = ("interrupted",) if self._rng.random() < 0.03 else ()
        metadata = Metadata(attributes=attributes)
        self._waiting.append(make_draft(message, turn_id=self._turn, metadata=metadata))

    def _flush(self) -> list[Entry]:
        waiting, self._waiting = self._waiting, []
        try:
            self._write(*waiting)
        except InvalidMessageError:
            for draft in waiting:
                # The log refuses what it could not give back.
                with contextlib.suppress(InvalidMessageError):
                    self._write(draft)
        return list(self._entries.values())

    def _write(self, *drafts: Draft) -> list[Entry]:
        written = self._log.append(KEY, drafts)
        self._entries.update((entry.id, entry) for entry in written)
        return written

    def _exchange(self) -> None:
        """Add a question, a tool loop with accidents, and a reply, or less of it."""
        rng = self._rng
        if rng.random() < 0.9:
            self._say(self._human())
        for _ in range(rng.choice((0, 0, 0, 1, 1, 2, 4))):
            self._say(self._asks(rng.choice((1, 1, 2, 3))))
            self._answer()
        if rng.random() < 0.85:
            self._say(self._reply())

    def _answer(self) -> None:
        rng = self._rng
        order = list(self._open)
        if rng.random() < 0.4:
            rng.shuffle(order)
        for call_id in order:
            chance = rng.random()
            if chance < 0.08:
                continue  # interrupted
            if chance < 0.12:
                self._say(self._human())
            self._say(self._result(call_id))
            if chance > 0.96:
                self._say(self._result(call_id))
        self._open = [] if rng.random() < 0.9 else self._open

    def _wild_message(self) -> None:
        make = self._rng.choice(
            (
                self._human,
                self._human,
                self._reply,
                lambda: self._asks(self._rng.choice((1, 2, 3))),
                lambda: self._result(self._rng.choice([*self._open, *self._used, "zz", ""])),
                self._system,
                self._chat,
                self._function,
                self._broken,
                self._chunk,
            )
        )
        self._say(make())

    def _retract(self) -> None:
        entries = self._flush()
        if not entries:
            return
        if self._rng.random() < 0.5:
            start = self._rng.randrange(max(0, len(entries) - 4), len(entries))
            gone = entries[start:]
        else:
            gone = self._rng.sample(entries, min(len(entries), self._rng.choice((1, 1, 2, 5))))
        reason = self._rng.choice(_REASONS)
        control = Control(tuple(entry.id for entry in gone), reason)  # type: ignore[arg-type]
        self._write(Draft(role="control", control=control))

    def _edit(self) -> None:
        spoken = [entry for entry in self._flush() if entry.message is not None]
        if not spoken:
            return
        old = self._rng.choice(spoken)
        new = self._human() if old.role == "user" else self._reply()
        try:
            [entry] = self._write(make_draft(new, turn_id=old.turn_id))
        except InvalidMessageError:
            return
        control = Control((old.id,), "replaced", entry.id)
        self._write(Draft(role="control", control=control))

    def _retry(self) -> None:
        """Let a turn be tried again: its replies are replaced by a new one."""
        entries = self._flush()
        if not entries:
            return
        turn = entries[-1].turn_id
        old = tuple(
            e.id for e in entries if e.turn_id == turn and e.role not in ("user", "control")
        )
        if old:
            self._write(Draft(role="control", control=Control(old, "replaced")))
        self._turn = turn
        self._say(self._reply())
        self._turn = None

    def _two_at_once(self) -> None:
        for turn in ("one", "two", "one", "two"):
            self._turn = turn if self._rng.random() < 0.9 else None
            self._say(self._human() if self._rng.random() < 0.5 else self._reply())
        self._turn = None

    def _gallery(self) -> None:
        """Show more pictures, files or marks of the cache than some provider takes at a time."""
        block, most = self._rng.choice(COUNTED)
        for _ in range(self._rng.choice((1, 2))):
            self._say(HumanMessage([block] * self._rng.randint(1, most + 2)))
            self._say(self._reply())

    def _summarise(self) -> None:
        entries = self._flush()
        if not entries:
            return
        numbers = sorted(self._rng.randrange(len(entries)) for _ in range(2))
        if self._rng.random() < 0.6:
            numbers[0] = 0
        before = find_live_summary([entry for entry in entries if entry.role == "summary"])
        chained = (before.id,) if before is not None and self._rng.random() < 0.8 else ()
        ranges = ((entries[numbers[0]].position, entries[numbers[1]].position),)
        summary = Draft(
            role="summary",
            contents=(self._rng.choice(("They met.", "It rained\ud83d again.")),),
            metadata=Metadata(summary_ids=chained),
            cover=Cover(ranges if self._rng.random() < 0.95 else ()),
        )
        self._write(summary)

    def _id(self) -> str | None:
        self._number += 1
        return self._rng.choice((None, None, None, f"m{self._number}", "m1", "m2", ""))

    def _speaker(self) -> str | None:
        return self._rng.choice((None, *_NAMES)) if self._has_names else None

    def _text(self) -> str:
        rng = self._rng
        text = rng.choice(BLANKS if rng.random() < 0.1 else TEXTS)
        return f"{text}\ud800" if rng.random() < 0.01 else text

    def _content(self, blocks: Callable[[random.Random], list[Any]]) -> str | list[Any]:
        return self._text() if self._rng.random() < 0.6 else blocks(self._rng)

    def _human(self) -> HumanMessage:
        return HumanMessage(self._content(user_blocks), id=self._id(), name=self._speaker())

    def _system(self) -> BaseMessage:
        kind = self._rng.choice((SystemMessage, SystemMessage, SystemMessageChunk))
        more = self._rng.choice(({}, {}, {"__openai_role__": "developer"}, {"__openai_role__": 7}))
        content = self._content(user_blocks)
        return kind(content=content, name=self._speaker(), additional_kwargs=more)

    def _provider(self) -> dict[str, Any]:
        home = self._home if self._rng.random() < 0.8 else self._rng.choice(PROVIDERS)
        more = {"output_version": "v1"} if self._rng.random() < 0.1 else {}
        return {**({"model_provider": home} if home else {}), **more}

    def _reply(self) -> AIMessage:
        usage = UsageMetadata(input_tokens=3, output_tokens=2, total_tokens=5)
        more: dict[str, Any] = {}
        chance = self._rng.random()
        if chance < 0.03:
            more["function_call"] = {"name": "weather", "arguments": self._rng.choice(("{}", "{"))}
        elif chance < 0.05:
            more["audio"] = {"id": "audio_1", "transcript": "I said so."}
        elif chance < 0.07:
            more["name"] = self._rng.choice(_NAMES)
        elif chance < 0.09:
            call = {"id": "c9", "function": {"name": "w", "arguments": "{"}, "type": "function"}
            more["tool_calls"] = [call]
        told = self._provider()
        return AIMessage(
            keep_own(self._content(assistant_blocks), told.get("model_provider")),
            id=self._id(),
            name=self._speaker(),
            usage_metadata=usage,
            response_metadata=told,
            additional_kwargs=more,
        )

    def _call_id(self) -> str | None:
        self._number += 1
        number = self._number
        fresh = (f"call_{number}", f"toolu_{number}", f"functions.weather:{number}")
        odd = ("", None, "0", "1", f"call {number}", "i" * 70, "ü", "a|b", *self._used[-3:])
        return self._rng.choice(fresh if self._rng.random() < 0.8 else odd)

    def _asks(self, number: int) -> AIMessage:
        rng = self._rng
        calls: list[dict[str, Any]] = [
            {
                "name": rng.choice(_TOOLS[:2] if rng.random() < 0.9 else _TOOLS),
                "args": {"city": "Genoa"} if rng.random() < 0.8 else {"odd": odd_value(rng)},
                "id": self._call_id(),
                "type": "tool_call",
            }
            for _ in range(number)
        ]
        content = rng.choice(("", "", self._content(assistant_blocks)))
        if rng.random() < 0.3:
            told = [
                {"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["args"]}
                for call in calls
            ]
            before = [{"type": "text", "text": content}] if isinstance(content, str) else content
            content = [*before, *told]
        if self._home == "anthropic" and rng.random() < 0.3:
            before = [content] if isinstance(content, str) else content
            content = [{"type": "thinking", "thinking": "", "signature": "sig"}, *before]
        self._open = [call["id"] for call in calls]
        self._used += self._open
        told_by = self._provider()
        content = keep_own(content, told_by.get("model_provider"))
        message = AIMessage(content, id=self._id(), response_metadata=told_by)
        message.tool_calls = calls  # type: ignore[assignment]  # the log takes them too
        return message

    def _result(self, call_id: str | None) -> ToolMessage:
        return ToolMessage(
            self._content(tool_blocks),
            tool_call_id=call_id or "",
            id=self._id(),
            name=self._rng.choice((None, "weather", "my tool")),
            status="error" if self._rng.random() < 0.15 else "success",
            artifact=self._rng.choice((None, {"rows": {1, 2}})),
        )

    def _chat(self) -> ChatMessage:
        roles = ("user", "Assistant", "developer", "tool", "narrator", "model", "Bo")
        role = self._rng.choice(roles)
        return ChatMessage(content=self._content(user_blocks), role=role, name=self._speaker())

    def _function(self) -> FunctionMessage:
        return FunctionMessage(content=self._text(), name=self._rng.choice(("weather", "w")))

    def _broken(self) -> AIMessage:
        message = self._asks(self._rng.choice((1, 2)))
        message.invalid_tool_calls = [
            invalid_tool_call(name="weather", args='{"ci', id=self._call_id(), error=None)
        ]
        if self._rng.random() < 0.5:
            message.tool_calls = []
            self._open = []
        return message

    def _chunk(self) -> BaseMessage:
        if self._rng.random() < 0.4:
            return HumanMessageChunk(content=self._text())
        args = self._rng.choice(('{"city": "Rome"}', '{"ci', "[1", ""))
        chunk = {"name": "weather", "args": args, "id": self._call_id(), "index": 0}
        return AIMessageChunk(
            content=self._text(),
            tool_call_chunks=[chunk] if self._rng.random() < 0.6 else [],  # type: ignore[list-item]
            response_metadata=self._provider(),
        )
