"""Random threads whose views are compared with stored ones; a seed decides what happens in them.

Whatever changes here changes every digest after it: add a kind of step only with new digests. The
threads hold what a log keeps and gives back alike, so that a view of them changes only when the
view does. Everything is written through the public history, but for what it has no method for: see
`_append`.
"""

from __future__ import annotations

import base64
import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages.tool import invalid_tool_call

from langchain_convmem import ConversationHistory, ConversationMemory, ConvMemError, InMemoryLog
from langchain_convmem.records import Control, Draft
from langchain_convmem.views.codec import make_draft

__all__ = ["GoldenThread", "open_thread"]

_TEXTS = (
    "Where did I park?",
    "On level 3, next to the lift.",
    "Two figs, 250 g of rye and a lemon, please.",
    "汉字 and ไทย",
    "  padded \n",
    "First line.\nSecond line.",
    "🦊 at 07:30",
    "x" * 300,
    '{"json": 1}',
    "Bo: not Bo",
)
_BLANKS = ("", " ", "\n\t ", "\u3000")
_NAMES = ("Ana", "Bo", "Ana María", "Dr. No", "李")
_PROVIDERS = (None, "anthropic", "openai", "bedrock_converse", "google_genai", "groq")
_TOOLS = ("weather", "get-time", "my tool", "a.b:c", "t" * 90)
_REASONS = ("undo", "rewind", "failed", "cancelled", "cleared")

_PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
_PDF = base64.b64encode(b"%PDF-1.7\n" + bytes(20)).decode()
_WAV = base64.b64encode(b"RIFF\x00\x00\x00\x00WAVEfmt " + bytes(8)).decode()
_SIGNATURE = base64.b64encode(b"signed").decode()
_URL = "https://example.org/a.png"

_MEDIA: tuple[dict[str, Any], ...] = (
    {"type": "image", "base64": _PNG, "mime_type": "image/png"},
    {"type": "image", "url": _URL},
    {"type": "image", "file_id": "file-abc123"},
    {"type": "image_url", "image_url": {"url": _URL, "detail": "low"}},
    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{_PNG}"}},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": _PNG}},
    {"type": "audio", "base64": _WAV, "mime_type": "audio/wav"},
    {"type": "input_audio", "input_audio": {"data": _WAV, "format": "wav"}},
    {"type": "video", "url": "https://example.org/v.mp4"},
    {"type": "file", "base64": _PDF, "mime_type": "application/pdf", "filename": "year 1.pdf"},
    {"type": "file", "base64": "YSxi", "mime_type": "text/csv", "filename": "t.csv"},
    {"type": "text-plain", "text": "inside", "title": "notes"},
)
_THOUGHTS: tuple[dict[str, Any], ...] = (
    {"type": "thinking", "thinking": "Hm.", "signature": _SIGNATURE},
    {"type": "thinking", "thinking": "unsigned"},
    {"type": "redacted_thinking", "data": "abc"},
    {"type": "reasoning_content", "reasoning_content": {"text": "Hm.", "signature": "sig"}},
    {"type": "reasoning", "reasoning": "Hm.", "extras": {"signature": _SIGNATURE}},
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]},
)
_SERVED: tuple[dict[str, Any], ...] = (
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"q": "x"}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"url": _URL}]},
    {"type": "web_search_call", "id": "ws_1", "status": "completed"},
    {"type": "compaction", "content": "They spoke of snow.", "signature": "s"},
    {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA"},
    {"type": "refusal", "refusal": "I would rather not."},
)
_ODD: tuple[dict[str, Any], ...] = (
    {"type": "json", "json": {"a": [1]}},
    {"cachePoint": {"type": "default"}},
    {"type": "search_result", "source": _URL, "title": "T", "content": []},
    {"type": "non_standard", "value": {"type": "text", "text": "wrapped"}},
    {"type": "never heard of", "x": 1},
    {"type": "text"},
    {},
)
_DECORATED: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"index": 0},
    {"cache_control": {"type": "ephemeral"}},
    {"citations": [{"type": "char_location", "cited_text": "x"}]},
)


class GoldenThread:
    """A thread that lived through random things.

    Attributes:
        history: The thread.
        entries: What its log holds.
        increments: What was exported meanwhile, one list of maps for each export.
    """

    def __init__(self, memory: ConversationMemory, seed: int) -> None:
        """Let it live: half of the threads are what agents do, the others are in disorder."""
        self._memory = memory
        self._rng = random.Random(seed)
        self._open: list[str] = []
        self._used: list[str] = []
        self._number = 0
        self._is_wild = self._rng.random() < 0.5
        self._has_names = self._rng.random() < 0.3
        self._home = self._rng.choice(_PROVIDERS)
        self.history: ConversationHistory = memory.history("t1", user_id="ana")
        self.increments: list[list[dict[str, Any]]] = []
        self._live_through()
        self.entries = self.history.entries

    def _live_through(self) -> None:
        steps: dict[Callable[[], None], int] = {
            self._exchange: 3 if self._is_wild else 12,
            self._wild_message: 12 if self._is_wild else 1,
            self._same_role: 1,
            self._two_at_once: 1,
            self._retract: 1,
            self._replace: 1,
            self._undo: 1,
            self._cut_reply: 1,
            self._summarize: 3,
            self._change_summary: 1,
            self._pin: 1,
            self._annotate: 1,
            self._forget: 1,
            self._export: 2,
        }
        for _ in range(self._rng.choice((2, 4, 8, 8, 16, 30))):
            step = self._rng.choices(list(steps), list(steps.values()))[0]
            with contextlib.suppress(ConvMemError):  # such as a cut of a reply that is not there
                step()
        if self._rng.random() < 0.7:  # what is said last is shown in another way in some views
            self._add(HumanMessage("And what did I ask first?"), AIMessage("Where you parked."))

    # -- steps ------------------------------------------------------------------------------------

    def _add(self, *messages: BaseMessage) -> None:
        self.history.add_messages(list(messages))

    def _append(self, *drafts: Draft) -> None:
        """Append what the history has no method for: other turns, and taking back by id."""
        self.history.log.append(self.history.key, drafts)

    def _exchange(self) -> None:
        """Add a question, a tool loop with accidents, and a reply, or less of it."""
        rng = self._rng
        said = [self._human()] if rng.random() < 0.9 else []
        for _ in range(rng.choice((0, 0, 0, 1, 1, 2, 4))):
            said.append(self._asks(rng.choice((1, 1, 2, 3))))
            said += self._answers()
        if rng.random() < 0.85:
            said.append(self._reply())
        self._add(*said)

    def _wild_message(self) -> None:
        makers = (self._human, self._reply, self._any_call, self._any_result, self._system)
        self._add(self._rng.choice((*makers, self._chat, self._broken, self._old_call))())

    def _same_role(self) -> None:
        for _ in range(self._rng.randint(2, 4)):
            self.history.add(self._rng.choice(("user", "user", "assistant")), self._text())

    def _two_at_once(self) -> None:
        for turn in ("one", "two", "one", "two"):
            said = self._human() if self._rng.random() < 0.5 else self._reply()
            self._append(make_draft(said, turn_id=turn))

    def _retract(self) -> None:
        entries = self.history.entries
        gone = self._rng.sample(entries, min(len(entries), self._rng.choice((1, 1, 2, 5))))
        reason: Any = self._rng.choice(_REASONS)
        control = Control(tuple(entry.id for entry in gone), reason)
        self._append(Draft(role="control", control=control))

    def _replace(self) -> None:
        shown = [turn for turn in self.history.turns if turn.entries and turn.role == "user"]
        if shown:
            entry = self._rng.choice(shown).entries[0]
            keeps = self._rng.random() < 0.5
            self.history.replace(entry.message_id, self._human(), keep_later=keeps)

    def _undo(self) -> None:
        self._rng.choice((self.history.undo, self.history.undo, self.history.redo))()
        if self._rng.random() < 0.1:
            self.history.clear()

    def _cut_reply(self) -> None:
        self.history.cut_reply(self._rng.choice((0, 3, 10, 1000)))

    def _summarize(self) -> None:
        window = self.history.summary_window()
        texts = ("They met.", "Ana parked on level 3.", ["A first piece.", "A second one."])
        self.history.add_summary(self._rng.choice(texts), window, model="golden")

    def _change_summary(self) -> None:
        if self._rng.random() < 0.5:
            self.history.undo_summary()
        else:
            self.history.edit_summary("They never met.")

    def _pin(self) -> None:
        if self._rng.random() < 0.3 and self.history.pins:
            self.history.unpin(self._rng.choice(self.history.pins))
        self.history.pin(self._rng.choice(("level 3", "rye", "Where did I park?")))

    def _annotate(self) -> None:
        turn = self._rng.choice(self.history.turns or [self.history.add("user", "Hello.")])
        turn.add_attribute("starred")
        turn.add_timing("playStart", 1_700_000_000_000 + self._number)
        turn.add_data("score", {"value": 0.5, "tags": ["a"]})

    def _forget(self) -> None:
        entries = self.history.entries
        if entries:
            gone = [self._rng.choice(entries).id]
            self._memory.forget(user_id="ana", thread_id="t1", entry_ids=gone)

    def _export(self) -> None:
        self.increments.append(self.history.to_maps(exclude_last=self._rng.random() < 0.8))

    # -- messages ---------------------------------------------------------------------------------

    def _id(self) -> str | None:
        self._number += 1
        return self._rng.choice((*[None] * 8, *[f"m{self._number}"] * 6, "m1", "m2"))

    def _speaker(self) -> str | None:
        return self._rng.choice((None, *_NAMES)) if self._has_names else None

    def _text(self) -> str:
        return self._rng.choice(_BLANKS if self._rng.random() < 0.1 else _TEXTS)

    def _content(self, *pools: Sequence[dict[str, Any]]) -> str | list[Any]:
        rng = self._rng
        if rng.random() < 0.6:
            return self._text()
        blocks: list[Any] = []
        for _ in range(rng.choice((0, 1, 1, 2, 3, 5))):
            if rng.random() < 0.5:
                blocks.append(rng.choice(rng.choice(pools)))
            elif rng.random() < 0.2:
                blocks.append(self._text())
            else:
                blocks.append({"type": "text", "text": self._text(), **rng.choice(_DECORATED)})
        return blocks

    def _human(self) -> HumanMessage:
        more = {"timestamp": 1_700_000_000_000} if self._rng.random() < 0.1 else {}
        return HumanMessage(
            self._content(_MEDIA, _MEDIA, _ODD),
            id=self._id(),
            name=self._speaker(),
            additional_kwargs=more,
        )

    def _system(self) -> SystemMessage:
        return SystemMessage(self._content(_ODD), name=self._speaker())

    def _chat(self) -> ChatMessage:
        role = self._rng.choice(("user", "assistant", "developer", "narrator"))
        return ChatMessage(content=self._content(_MEDIA), role=role, name=self._speaker())

    def _origin(self) -> dict[str, Any]:
        home = self._home if self._rng.random() < 0.8 else self._rng.choice(_PROVIDERS)
        return {"model_provider": home} if home else {}

    def _reply(self) -> AIMessage:
        return AIMessage(
            self._content(_THOUGHTS, _SERVED, _ODD, _MEDIA),
            id=self._id(),
            name=self._speaker(),
            usage_metadata={"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
            response_metadata=self._origin(),
        )

    def _call_id(self) -> str:
        self._number += 1
        sound = (f"call_{self._number}", f"toolu_{self._number}", f"functions.w:{self._number}")
        odd = ("0", f"call {self._number}", "i" * 70, "ü", "a|b", *self._used[-3:])
        return self._rng.choice(sound if self._rng.random() < 0.85 else odd)

    def _asks(self, number: int) -> AIMessage:
        rng = self._rng
        calls = [
            {
                "name": rng.choice(_TOOLS[:2] if rng.random() < 0.9 else _TOOLS),
                "args": {"city": "Genoa", "days": [1, 2]},
                "id": self._call_id(),
                "type": "tool_call",
            }
            for _ in range(number)
        ]
        content = rng.choice(("", "", self._content(_THOUGHTS, _ODD)))
        if rng.random() < 0.3:
            before = [{"type": "text", "text": content}] if isinstance(content, str) else content
            content = [
                *before,
                *({"type": "tool_use", "input": {}} | _name(call) for call in calls),
            ]
        self._open = [call["id"] for call in calls]
        self._used += self._open
        return AIMessage(content, id=self._id(), tool_calls=calls, response_metadata=self._origin())

    def _answers(self) -> Iterator[BaseMessage]:
        rng = self._rng
        order = rng.sample(self._open, len(self._open)) if rng.random() < 0.4 else self._open
        for call_id in order:
            chance = rng.random()
            if chance < 0.08:
                continue  # interrupted
            if chance < 0.12:
                yield self._human()
            yield self._result(call_id)
            if chance > 0.96:
                yield self._result(call_id)
        self._open = []

    def _result(self, call_id: str) -> ToolMessage:
        return ToolMessage(
            self._content(_MEDIA, _ODD),
            tool_call_id=call_id,
            id=self._id(),
            name=self._rng.choice((None, "weather", "my tool")),
            status="error" if self._rng.random() < 0.15 else "success",
            artifact=self._rng.choice((None, {"rows": [1, 2]})),
        )

    def _any_call(self) -> AIMessage:
        return self._asks(self._rng.choice((1, 2, 3)))

    def _any_result(self) -> ToolMessage:
        return self._result(self._rng.choice([*self._open, *self._used, "zz"]))

    def _broken(self) -> AIMessage:
        message = self._asks(self._rng.choice((1, 2)))
        bad = invalid_tool_call(name="weather", args='{"ci', id=self._call_id(), error=None)
        return message.model_copy(update={"invalid_tool_calls": [bad]})

    def _old_call(self) -> AIMessage:
        call = {"name": "weather", "arguments": self._rng.choice(("{}", "{"))}
        return AIMessage(self._text(), additional_kwargs={"function_call": call})


def _name(call: dict[str, Any]) -> dict[str, Any]:
    return {"id": call["id"], "name": call["name"]}


@contextlib.contextmanager
def open_thread(seed: int) -> Iterator[GoldenThread]:
    """Yield the thread of a seed, in a memory of its own."""
    with InMemoryLog() as log, ConversationMemory(log=log) as memory:
        yield GoldenThread(memory, seed)
