"""Tool calls and their results as every provider wants them: each call answered right after it.

Results are matched by order, not only by id, since some models count their calls from zero in
every reply: a result belongs to the latest earlier call of its id that is still open.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage

from langchain_convmem.ids import derive_ulid, get_ulid_ms
from langchain_convmem.records import Entry
from langchain_convmem.views.codec import make_plain
from langchain_convmem.views.messages import build_message, get_block_type
from langchain_convmem.views.providers import ProviderProfile, fits

INTERRUPTED_RESULT = "[interrupted: the tool did not return]"
INTERRUPTED_SOURCE = "convmem_interrupted"
"""Marks the result of a call that nothing answered: `additional_kwargs["source"]`."""

CALL_BLOCKS = frozenset(
    {
        "custom_tool_call",
        "function_call",
        "input_json_delta",
        "invalid_tool_call",
        "tool_call",
        "tool_call_chunk",
        "tool_use",
    }
)
"""Types of content blocks that repeat what `tool_calls` says."""

_NOT_IN_NAMES = re.compile("[^a-zA-Z0-9_-]+")
_LONGEST_NAME = 64
_Place = tuple[str, int]
"""Id of the entry that made a call, and the call's number in it."""


class ToolCalls:
    """The tool loops of a view. Not thread-safe."""

    def __init__(
        self, entries: Sequence[Entry], repairs: list[str], provider: ProviderProfile
    ) -> None:
        """Match the results among `entries` with their calls.

        Args:
            entries: The view, in order.
            repairs: Receives a sentence for each repair.
            provider: Whose ids and names to use.
        """
        self._repairs = repairs
        self._provider = provider
        self._used_ids: set[str] = set()
        self._results: dict[_Place, Entry] = {}
        for entry, place in _match_results(entries):
            if place is not None:
                self._results[place] = entry
                continue
            call_id = _get_answered_id(entry)
            self._repairs.append(
                f"left out {entry.message_id}: no open tool call {call_id!r} precedes it"
            )

    # -- calls ----------------------------------------------------------------------------------

    def settle(self, message: BaseMessage, entry: Entry, *, as_written: bool = False) -> None:
        """Give every call of `message` an id of its own and take out what is not a whole call.

        Args:
            message: The message; it is changed.
            entry: Its entry.
            as_written: Whether blocks that repeat a call go back to who wrote them; they do so
                only where the calls are what they were.
        """
        if not isinstance(message, AIMessage):
            return
        whole = {call["id"] for call in message.tool_calls}
        changed = False
        for number, call in enumerate(message.tool_calls):
            is_valid = bool(call["id"]) and fits(call["id"], self._provider.call_id)
            if not is_valid or call["id"] in self._used_ids:
                changed = True
                self._rename(call, f"call_{entry.id}_{number}", entry.message_id, is_valid)
            self._used_ids.add(str(call["id"]))
            name, args = self._fit_name(call["name"], entry.message_id), make_plain(call["args"])
            changed = changed or (name, args) != (call["name"], call["args"])
            call["name"], call["args"] = name, args
        if _has_broken_calls(message, whole):
            self._repairs.append(f"left out the unparsable tool calls of {entry.message_id}")
        # What repeats a call that is no longer what it was would name it wrongly.
        _drop_calls(message, whole if as_written and not changed else ())

    def _rename(self, call: ToolCall, own: str, key: str, is_valid: bool) -> None:
        # Models that count their calls anew in every reply, or not at all, need no repair.
        if call["id"] and not is_valid:
            self._repairs.append(f"gave the tool call {call['id']!r} of {key} the id {own}")
        call["id"] = own

    def _fit_name(self, name: str, key: str) -> str:
        """Return the tool's name in letters the provider takes."""
        if fits(name, self._provider.tool_name):
            return name
        plain = _NOT_IN_NAMES.sub("_", str(name))[: _LONGEST_NAME - 1] or "tool"
        plain = plain if plain[0].isalpha() or plain[0] == "_" else f"_{plain}"
        self._repairs.append(f"wrote the tool name {name!r} of {key} as {plain!r}")
        return plain

    # -- results --------------------------------------------------------------------------------

    def find_results(
        self,
        message: BaseMessage,
        entry: Entry,
        fit: Callable[[BaseMessage, Entry], None],
    ) -> list[tuple[ToolMessage, set[int]]]:
        """Return one result per call of a settled message, each with the positions it shows.

        A call that nothing answered gets an interrupted result.

        Args:
            message: What was settled.
            entry: Its entry.
            fit: Gives a result the content that the provider takes.
        """
        found: list[tuple[ToolMessage, set[int]]] = []
        calls: Sequence[Any] = message.tool_calls if isinstance(message, AIMessage) else ()
        for number, call in enumerate(calls):
            answer = self._results.get((entry.id, number))
            if answer is None:
                self._repairs.append(
                    f"closed the unanswered tool call {call['id']} ({call['name']})"
                )
                found.append((_make_interrupted_result(call, entry), set()))
                continue
            result = build_message(answer)
            fit(result, answer)
            if isinstance(result, ToolMessage):  # every handed-out tool entry is one
                result.tool_call_id = call["id"]
                result.name = call["name"] if result.name else None
                found.append((result, {answer.position}))
        return found


def drop_open_notes(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return messages whose last reply has its unanswered calls open, without notes for them."""
    end = len(messages)
    while end and isinstance(messages[end - 1], ToolMessage):
        end -= 1
    notes = [
        one for one in messages[end:] if one.additional_kwargs.get("source") != INTERRUPTED_SOURCE
    ]
    return [*messages[:end], *notes]


def _make_interrupted_result(call: ToolCall, entry: Entry) -> ToolMessage:
    own = str(call["id"])
    key = entry.key
    return ToolMessage(
        INTERRUPTED_RESULT,
        tool_call_id=own,
        name=call["name"],
        status="error",
        id=derive_ulid(get_ulid_ms(entry.id), key.user_id, key.thread_id, entry.id, own),
        additional_kwargs={"source": INTERRUPTED_SOURCE},
    )


# -- Which result answers which call --------------------------------------------------------------
def find_answered_calls(entries: Iterable[Entry]) -> list[tuple[str, str]]:
    """Return the entry ids of each answered call and its result, in the order of the results.

    Args:
        entries: Live entries in the order of the conversation.
    """
    return [(place[0], entry.id) for entry, place in _match_results(entries) if place is not None]


def _match_results(entries: Iterable[Entry]) -> Iterator[tuple[Entry, _Place | None]]:
    """Yield every result with the place of the call that it answers."""
    open_calls: dict[str, list[_Place]] = {}
    for entry in entries:
        if entry.role == "tool":
            waiting = open_calls.get(_get_answered_id(entry))
            yield entry, waiting.pop(0) if waiting else None
        elif entry.role == "assistant":
            made: dict[str, list[_Place]] = {}
            for number, call in enumerate(find_calls(entry.message)):
                made.setdefault(call["id"] or "", []).append((entry.id, number))
            open_calls.update(made)


def _get_answered_id(entry: Entry) -> str:
    return getattr(entry.message, "tool_call_id", "")


# -- Which calls a message makes ------------------------------------------------------------------
def find_calls(message: BaseMessage | None) -> list[ToolCall]:
    """Return the whole calls of a message."""
    return message.tool_calls if isinstance(message, AIMessage) else []


def _has_broken_calls(message: AIMessage, whole: Collection[str | None]) -> bool:
    """Return whether the message has calls that are not in `tool_calls`."""
    blocks = message.content if isinstance(message.content, list) else []
    repeated = [block for block in blocks if get_block_type(block) in CALL_BLOCKS]
    is_legacy = "function_call" in message.additional_kwargs  # of 2023, without an id
    is_broken = is_legacy or bool(message.invalid_tool_calls)
    return is_broken or not all(_is_named(one, whole) for one in repeated)


def _drop_calls(message: AIMessage, repeated: Collection[str | None]) -> None:
    """Take out calls that are not in `tool_calls`: providers would wait for their results.

    Blocks of content that repeat a call are kept where its id is in `repeated`.
    """
    message.invalid_tool_calls = []
    message.additional_kwargs.pop("function_call", None)
    raw = message.additional_kwargs.get("tool_calls")
    own = [call.get("id") for call in raw if isinstance(call, dict)] if type(raw) is list else []
    if raw is not None and own != [call["id"] for call in message.tool_calls]:
        del message.additional_kwargs["tool_calls"]
    if isinstance(message.content, list):
        message.content = [
            block
            for block in message.content
            if get_block_type(block) not in CALL_BLOCKS or _is_named(block, repeated)
        ] or ""


def _is_named(block: Any, names: Collection[str | None]) -> bool:
    own = [block.get("id"), block["call_id"] if "call_id" in block else block.get("id")]
    return any(isinstance(name, str | None) and name in names for name in own)


# -- Why a reply ended -----------------------------------------------------------------------
_CUT_OFF = frozenset({"length", "max_tokens", "MAX_TOKENS", "model_length", "incomplete"})
"""What providers give as the reason where a reply reached its limit, and where they give it."""
_REASONS = ("finish_reason", "stop_reason", "stopReason", "done_reason", "status")


def find_cut_off_reason(metadata: Mapping[str, Any]) -> str | None:
    """Return the provider's word for a limit that ended a reply; None if none did.

    Args:
        metadata: The reply's `response_metadata`.
    """
    told = (str(metadata.get(name)) for name in _REASONS)
    return next((reason for reason in told if reason in _CUT_OFF), None)
