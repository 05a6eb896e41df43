"""The content of messages, fitted to a provider: what it takes stays, the rest becomes words.

What the application and its model write in the turn that is going on goes on as it is, and so does
what the same provider wrote before. Of all else, text stays text, whatever block it came in; media
are kept where the provider takes them, else replaced by a note; what a model thought is left out.
Every change that loses something is reported.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Literal

from langchain_core.messages import BaseMessage, SystemMessage, ToolMessage

from langchain_convmem.records import Entry
from langchain_convmem.views.codec import TEXT_BLOCKS, clean_text, make_plain
from langchain_convmem.views.lines import INDENT, clean_name, indent_text
from langchain_convmem.views.media import (
    MediaBlock,
    format_media_note,
    is_accepted,
    read_media,
    read_text_file,
    write_block,
)
from langchain_convmem.views.messages import build_message, get_block_type, unwrap_block
from langchain_convmem.views.providers import (
    THOUGHTS,
    Kind,
    MediaRule,
    Origin,
    Place,
    ProviderProfile,
    find_origin,
    fits,
)
from langchain_convmem.views.tool_calls import CALL_BLOCKS

NO_OUTPUT = "[no output]"

_TEXTUAL_BLOCKS = frozenset(
    (*TEXT_BLOCKS, "json", "search_result", "text-plain", "tool_result", "toolResult")
)
"""Blocks that are shown as text; those of `TEXT_BLOCKS` were written as such."""

_TEXT_KEYS = ("text", "refusal", "content", "toolResult", "output")
_NOT_IN_FILE_NAMES = re.compile(r"[^a-zA-Z0-9 ()\[\]-]+")
_LONGEST_FILE_NAME = 120
_MARKS = frozenset({"cachePoint", "index"})
"""All that a block holds which says nothing but where a provider should cache."""
_NOT_SHOWN = ": not shown]"
_Place = Place | Literal["system"]
_Block = Mapping[Any, Any]


class BlockFitter:
    """Fits the content of one view's messages, in order. Not thread-safe."""

    def __init__(self, provider: ProviderProfile, repairs: list[str]) -> None:
        """Create a fitter that reports to `repairs` what was lost."""
        self._provider = provider
        self._repairs = repairs
        self._file_names: set[str] = set()
        self._lost: list[str] = []

    def goes_back(
        self, message: BaseMessage, *, stale: bool = False, is_current: bool = False
    ) -> bool:
        """Return whether the message's blocks go to the provider as they were written.

        Args:
            message: The message.
            stale: Whether it was made after a beginning other than the view's.
            is_current: Whether it is of the turn that is going on.
        """
        blocks = message.content if isinstance(message.content, list) else []
        if message.type == "system" and any(map(_is_media, blocks)):
            return False  # no provider takes a picture there
        origin = find_origin(message)
        if is_current and (origin is None or origin in self._provider.origins):
            return True
        if origin not in self._provider.takes_back:
            return is_current and not self._provider.origins
        if is_current:
            return True
        is_v1 = message.response_metadata.get("output_version") == "v1"
        thoughts = [block for block in message.content if is_reasoning(block)]
        is_whole = all(is_whole_thought(one, origin, is_v1=is_v1) for one in thoughts)
        is_stale = stale and any(map(is_signed, thoughts))
        return is_whole and not is_stale and not has_half_a_tool(message)

    def fit(
        self,
        message: BaseMessage,
        place: _Place,
        key: str,
        *,
        as_written: bool = False,
        compacts: bool = False,
        is_old: bool = False,
    ) -> None:
        """Give the message content that the provider takes; blank text is left out.

        Args:
            message: The message; it is changed.
            place: Whose message it is.
            key: What the repairs call it.
            as_written: Whether its blocks go back as they were written; see `goes_back`.
            compacts: Whether its items of a compaction stand for what the view leaves out.
            is_old: Whether it is of an earlier turn than the view's last.
        """
        self._lost = []
        rules = self._find_media_rules(message, place)
        whole = _read_content(message)
        fitted: list[dict[str, Any]] = []
        for block in [] if isinstance(whole, str) else whole:
            inner = unwrap_block(block)
            if is_compaction(inner):
                fitted += self._fit_compaction(inner, message, compacts=compacts)
            elif as_written:
                fitted += self._show_as_written(block)
            elif not (place == "assistant" and get_block_type(inner) in CALL_BLOCKS):
                fitted += self._fit_block(inner, rules, fitted, is_old=is_old)
        if place in ("user", "tool") and self._provider.files_need_text and not as_written:
            fitted = _add_text(fitted)
        message.content = [*fitted] or (self._clean(whole) if isinstance(whole, str) else "")
        self._repairs.extend(f"{what} of {key}" for what in dict.fromkeys(self._lost))
        if place == "tool":
            message.content = message.content or NO_OUTPUT

    def _find_media_rules(self, message: BaseMessage, place: _Place) -> Mapping[Kind, MediaRule]:
        is_error = isinstance(message, ToolMessage) and message.status == "error"
        if place == "system" or (is_error and self._provider.errors_are_text):
            return {}
        return self._provider.media.get(place, {})

    def _clean(self, text: str) -> str:
        """Return text that can be sent; empty where it is blank."""
        clean = clean_text(text)
        if clean != text:
            self._lost.append("replaced half characters")
        return clean if clean.strip() else ""

    # -- blocks -------------------------------------------------------------------------------

    def _show_as_written(self, block: Any) -> list[dict[str, Any]]:
        """Return a block as it is: text that no encoding carries is mended, blank text goes."""
        if isinstance(block, str):
            block = _make_text_block(block)
        kind = get_block_type(block)
        key = "refusal" if kind == "refusal" else "text"
        text = block.get(key) if isinstance(block, Mapping) else None
        if not isinstance(text, str):
            return [] if kind == key else [block]
        clean = self._clean(text)
        return [block if clean == text else {**block, key: clean}] if clean else []

    def _fit_block(
        self,
        block: Any,
        rules: Mapping[Kind, MediaRule],
        before: Sequence[dict[str, Any]],
        *,
        is_old: bool,
    ) -> Iterator[dict[str, Any]]:
        """Yield what stands for one block, behind those before it in the message."""
        if is_reasoning(block):
            self._lost.append("left out the reasoning")
        elif (text := _find_text(block)) is not None:
            if clean := self._clean(text):
                mark = block.get("cache_control") if isinstance(block, Mapping) else None
                is_marked = mark and self._provider.cache_marks
                yield _make_text_block(clean) | ({"cache_control": mark} if is_marked else {})
        elif isinstance(block, Mapping) and (media := read_media(block)) is not None:
            # An address that stopped working would make every later turn fail, whether the
            # integration or the provider downloads it.
            rule = None if is_old and media.form == "url" else rules.get(media.kind)
            yield self._fit_media(media, rule)
        elif block and not (isinstance(block, Mapping) and block.keys() <= _MARKS):
            name = _name_block(block)
            self._lost.append(f"replaced the {name}")
            # What a tool returned at a provider is told by the note on its use.
            is_told = before and str(before[-1].get("text")).endswith(_NOT_SHOWN)
            if not (is_told and get_block_type(block).endswith("_result")):
                yield _make_text_block(f"[{name}{_NOT_SHOWN}")

    def _fit_media(self, media: MediaBlock, rule: MediaRule | None) -> dict[str, Any]:
        if is_accepted(rule, media, self._provider):
            is_named = media.kind == "file" and self._provider.files_need_text
            return write_block(media, name=self._name_file(media) if is_named else "")
        if text := self._clean(read_text_file(media) or ""):
            return _make_text_block(text)
        self._lost.append(f"replaced the {media.kind}")
        return _make_text_block(format_media_note(media))

    def _name_file(self, media: MediaBlock) -> str:
        """Return a name of letters and digits that no earlier file of the view has."""
        stem = media.name.rpartition(".")[0] or media.name or "file"
        plain = " ".join(_NOT_IN_FILE_NAMES.sub("-", stem).split())[:_LONGEST_FILE_NAME].strip()
        base = plain.strip("-") or "file"
        names = (base if number == 1 else f"{base}-{number}" for number in count(1))
        name = next(name for name in names if name not in self._file_names)
        self._file_names.add(name)
        return name

    def _fit_compaction(
        self, block: _Block, message: BaseMessage, *, compacts: bool
    ) -> list[dict[str, Any]]:
        origin = find_origin(message)
        said = block.get("content" if origin == "anthropic" else "encrypted_content")
        # One without content stands for nothing: the provider failed to make it.
        if compacts and origin in self._provider.takes_back and isinstance(said, str) and said:
            return [{key: value for key, value in block.items() if key != "index"}]
        self._lost.append("left out the compaction")  # what it stands for is shown
        return []


# -- Shapes of blocks -----------------------------------------------------------------------------
def _read_content(message: BaseMessage) -> str | list[Any]:
    """Return the content; sound that a model spoke is its transcript."""
    spoken = message.additional_kwargs.pop("audio", None)  # sent back by an id that expires
    if isinstance(spoken, Mapping) and not message.content:
        return str(spoken.get("transcript") or "")
    return message.content


def _is_media(block: object) -> bool:
    return isinstance(block, Mapping) and read_media(block) is not None


def _make_text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _name_block(block: Any) -> str:
    """Return what to call a block that is not shown: its tool, else its type."""
    if not isinstance(block, Mapping):
        return type(block).__name__
    kind = get_block_type(block).removesuffix("_call").removesuffix("_tool_result")
    told = str(block.get("name") or kind or next(iter(block), ""))
    return clean_text(" ".join(told.split())[:60]) or "content"


def _find_text(block: Any) -> str | None:
    """Return the text of a block that is nothing but text; None for other blocks."""
    if not isinstance(block, Mapping):
        return block if isinstance(block, str) else None
    kind, source = get_block_type(block), block.get("source")
    if kind == "document" and isinstance(source, Mapping) and source.get("type") == "text":
        return _add_title(block, source.get("data"))
    if kind == "text-plain" or block.get("source_type") == "text":
        return _add_title(block, block.get("text", block.get("data", "")))
    if kind and kind not in _TEXTUAL_BLOCKS:
        return None
    if "json" in block:
        return json.dumps(make_plain(block["json"]), ensure_ascii=False)
    inner = (block[key] for key in _TEXT_KEYS if block.get(key) is not None)
    return next((_flatten(one) for one in inner), "" if kind else None)


def _add_title(block: _Block, text: Any) -> str | None:
    title = block.get("title") or block.get("filename")
    is_named = isinstance(title, str) and isinstance(text, str) and text.strip()
    return f"[file {title}]\n{text}" if is_named else text if isinstance(text, str) else None


def _flatten(value: Any) -> str:
    """Return the text in a value, however deep it lies; media are notes."""
    if isinstance(value, list | tuple):
        return "\n".join(filter(None, map(_flatten, value)))
    said = _find_text(value)
    media = read_media(value) if said is None and isinstance(value, Mapping) else None
    return format_media_note(media) if media else said or ""


def _add_text(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the blocks with a text in front where they hold files and no text."""
    files = [block for block in blocks if block["type"] == "file"]
    if not files or any(block["type"] == "text" for block in blocks):
        return blocks
    names = ", ".join(str(block.get("filename", "file")) for block in files)
    return [_make_text_block(f"[attached: {names}]"), *blocks]


# -- Who speaks: the names of several people in one thread, visible to every provider -------------
def find_speaker(entry: Entry) -> str | None:
    """Return the name the entry's message bears, if any."""
    message = entry.message
    if message is None or message.name:
        return None if message is None else message.name
    return build_message(entry).name if message.type == "chat" else None


_ROLE_KEY = "__openai_role__"


def place_name(
    message: BaseMessage, provider: ProviderProfile, *, is_user: bool, several: bool
) -> str | None:
    """Put the speaker's name where the model will see it.

    Args:
        message: The message; it is changed.
        provider: Whose rules to keep.
        is_user: Whether a person speaks.
        several: Whether the thread has several named people.

    Returns:
        The name, where neither `name` nor the text could carry it.
    """
    own = message.additional_kwargs  # an integration would send what it knows of it
    if "name" in own and not fits(own["name"], provider.speaker_name):
        del own["name"]
    if not isinstance(message, SystemMessage) or own.get(_ROLE_KEY) != "developer":
        own.pop(_ROLE_KEY, None)
    name = message.name
    if not name:
        message.name = None
        return None
    is_valid = fits(name, provider.speaker_name)
    if is_valid and (provider.sends_names or not (is_user and several)):
        return None
    message.name = None
    if is_user and name.strip():
        message.content = add_speaker(message.content, name)
        return None
    return name


def add_speaker(content: Any, name: str) -> Any:
    """Return a message's content with who says it in front; nobody else begins a line of it."""
    label = f"{clean_text(clean_name(name))}: "
    if isinstance(content, str):
        return label + indent_text(content) if content else content
    said = []
    for block in content:
        is_text = block.get("type") == "text"
        said.append({**block, "text": label + indent_text(block["text"])} if is_text else block)
        label = INDENT if is_text else label
    is_named = label == INDENT or not content
    return said if is_named else [_make_text_block(label.rstrip()), *said]


# -- What a provider counts over a whole request --------------------------------------------------
def keep_newest(
    messages: Sequence[BaseMessage], provider: ProviderProfile, repairs: list[str]
) -> None:
    """Replace the oldest media above the provider's limits by notes, and drop old cache marks.

    Args:
        messages: The view, in order; the messages are changed.
        provider: Whose limits to keep.
        repairs: Receives a sentence for each kind of media that had to go.
    """
    room, gone = dict(provider.max_media), Counter[Kind]()
    room_bytes = math.inf if provider.max_bytes is None else provider.max_bytes
    for content, place in _walk_back(messages):
        media = read_media(content[place]) if isinstance(content[place], Mapping) else None
        if media is None:
            continue
        size = len(media.data) if media.form == "base64" else 0
        # Where one finds no room, no older one does.
        room_bytes = room_bytes - size if size <= room_bytes else -1
        is_over = size > 0 > room_bytes
        if not is_over and media.kind in room:
            room[media.kind] -= 1
            is_over = room[media.kind] < 0
        if is_over:
            gone[media.kind] += 1
            content[place] = _make_text_block(format_media_note(media))
    marks = provider.cache_marks
    for content, place in _walk_back(messages) if marks else ():
        block = content[place]
        if isinstance(block, dict) and "cache_control" in block:
            marks -= 1
            bare = {key: item for key, item in block.items() if key != "cache_control"}
            content[place] = block if marks >= 0 else bare
    repairs.extend(
        f"replaced the oldest {number} of kind {kind}: {provider.name} takes no more at a time"
        for kind, number in sorted(gone.items())
    )


def _walk_back(messages: Sequence[BaseMessage]) -> Iterator[tuple[list[Any], int]]:
    """Yield the content and the place of each block, the newest first."""
    for message in reversed(messages):
        if isinstance(message.content, list):
            for place in reversed(range(len(message.content))):
                yield message.content, place


# -- Reasoning blocks: which may be sent back to whom, and when they no longer may ----------------
# Reasoning is signed by the provider that made it; another one refuses it, and a provider may
# refuse it after a conversation other than the one it was made in, or when a part of it is missing.
# So a message's reasoning is shown whole to its own provider after an unchanged beginning, or not
# at all.
REASONING_BLOCKS = frozenset({"reasoning", "reasoning_content", "redacted_thinking", "thinking"})
"""Types of content blocks that hold what a model thought."""


def is_reasoning(block: object) -> bool:
    """Return whether a content block holds what a model thought."""
    kind = get_block_type(block)
    if kind:
        return kind in REASONING_BLOCKS
    return isinstance(block, dict) and "type" not in block and "reasoningContent" in block


def drop_reasoning(message: BaseMessage) -> bool:
    """Take out what a model thought after one beginning alone; return whether there was any."""
    if not isinstance(message.content, list):
        return False
    kept = [block for block in message.content if not is_signed(block)]
    had_any = len(kept) < len(message.content)
    if had_any:
        message.content = kept or ""
    return had_any


def forget_dialect(message: BaseMessage, provider: ProviderProfile) -> None:
    """Drop what a message says about the form of its content, where that is no longer so.

    Integrations read the blocks of another provider's message by it, and would lose those that
    they do not expect.
    """
    told = message.response_metadata
    if told.get("output_version") == "v1":
        del told["output_version"]
    if isinstance(message.content, list) and find_origin(message) not in provider.takes_back:
        told.pop("model_provider", None)


def drop_idle_reasoning(message: BaseMessage) -> bool:
    """Take out reasoning that nothing follows; return whether any was.

    Call it once the message holds all its blocks: what is thought must lead to a text or a call.
    """
    content = message.content
    if not isinstance(content, list) or not content or not is_reasoning(content[-1]):
        return False
    told = [block.get("id") for block in content if isinstance(block, Mapping)]
    if any(call["id"] not in told for call in getattr(message, "tool_calls", ())):
        return False  # integrations put calls without a block after the blocks
    message.content = [block for block in content if not is_reasoning(block)] or ""
    return True


# -- What may be sent back ------------------------------------------------------------------------
def is_signed(block: object) -> bool:
    """Return whether a block is reasoning that is signed together with what was said before it.

    Items of the Responses API stand for themselves.
    """
    own = block.get("id") if isinstance(block, Mapping) else None
    return is_reasoning(block) and not str(own).startswith("rs_")


def is_whole_thought(block: Any, origin: Origin | None, *, is_v1: bool) -> bool:
    """Return whether the provider that made a reasoning block takes it back in a later turn.

    Args:
        block: The block.
        origin: Who made it.
        is_v1: Whether the message's blocks are those of LangChain, which an integration translates.
    """
    kind = get_block_type(block)
    if origin is None or kind not in ({"reasoning"} if is_v1 else THOUGHTS[origin]):
        return False
    inner = block.get("reasoning_content", block)
    inner = inner if isinstance(inner, Mapping) else block
    # What a provider keeps at its own place alone is gone after a while.
    sealed = inner.get("encrypted_content" if origin == "openai" else "data")
    if origin == "openai" or kind == "redacted_thinking":
        return isinstance(sealed, str) and bool(sealed)
    extras = inner.get("extras")
    signature = inner.get("signature") or (isinstance(extras, Mapping) and extras.get("signature"))
    text = next((inner[key] for key in _THOUGHT_KEYS if key in inner), None)
    # Anthropic's models that keep their thoughts to themselves sign an empty text.
    is_told = isinstance(text, str) and (origin == "anthropic" or bool(text.strip()))
    return is_told and isinstance(signature, str) and bool(signature)


_THOUGHT_KEYS = ("thinking", "reasoning", "text")


# -- When it no longer may ------------------------------------------------------------------------
def find_stale(entries: Sequence[Entry], shown: Sequence[Entry], *, hoists: bool) -> frozenset[str]:
    """Return the ids of entries that were made when the view began differently.

    Reasoning in them, and items of a compaction, go back to nobody.

    Args:
        entries: The thread's entries, control entries included.
        shown: Those that the view shows, in its order.
        hoists: Whether the view puts system messages first, wherever they were written.
    """
    at = {entry.id: entry.position for entry in entries}
    # What is taken out or summarised was read by all that was said from there on until then.
    changes = [
        (min(at.get(one, 0) for one in entry.control.retracts), entry.position)
        for entry in entries
        if entry.control is not None and entry.control.retracts
    ]
    changes += [
        (entry.cover.ranges[0][0], entry.position)
        for entry in entries
        if entry.role == "summary" and entry.cover is not None and entry.cover.ranges
    ]
    latest = max((e.position for e in shown if hoists and e.role == "system"), default=0)
    stale = set()
    for entry in shown:
        is_changed = any(begun <= entry.position < done for begun, done in changes)
        if entry.role == "assistant" and (entry.position < latest or is_changed):
            stale.add(entry.id)
        latest = max(latest, entry.position)
    return frozenset(stale)


# -- Blocks of tools that ran at a provider -------------------------------------------------------
def has_half_a_tool(message: BaseMessage) -> bool:
    """Return whether a use stands in the message without its result behind it, or a result alone.

    Those are of Anthropic's tools; other providers tell of a tool's use in one block.
    """
    blocks: Sequence[Any] = message.content
    waiting: list[Any] = []
    for block in blocks:
        kind = get_block_type(block)
        if kind.endswith("_tool_use"):
            waiting.append(block.get("id"))
        elif kind.endswith("_tool_result"):
            if block.get("tool_use_id") not in waiting:
                return True
            waiting.remove(block.get("tool_use_id"))
    return bool(waiting)


def is_paused(message: BaseMessage | None) -> bool:
    """Return whether the provider broke off in a reply, to go on once it gets it back as it is."""
    return message is not None and message.response_metadata.get("stop_reason") == "pause_turn"


# -- What providers compact themselves: items that stand for all that was said before them ---------
# An item goes back, as it came, to the provider that made it, which then reads nothing before it.
# Everybody else gets the messages alone, and so does it once one of them is undone or replaced.


def is_compaction(block: object) -> bool:
    """Return whether a content block is a provider's item of a compaction."""
    return get_block_type(block) == "compaction"


def find_compactions(message: BaseMessage | None) -> list[Mapping[Any, Any]]:
    """Return the items of a message, in order."""
    content = None if message is None else message.content
    if not isinstance(content, list):
        return []
    return [inner for block in content if is_compaction(inner := unwrap_block(block))]


def drop_compactions(message: BaseMessage) -> BaseMessage:
    """Return a message that has items without them."""
    kept = [block for block in message.content if not is_compaction(unwrap_block(block))]
    return message.model_copy(update={"content": kept})
