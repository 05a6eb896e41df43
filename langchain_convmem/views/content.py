"""The content of messages, fitted to a provider: what it takes stays, the rest becomes words.

Text stays text, whatever block it came in; media are kept where the provider takes them, else
replaced by a note; reasoning and blocks of tools that ran at a provider go back to that provider
only. Every change that loses something is reported.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage

from langchain_convmem.records import Entry
from langchain_convmem.views.media import (
    MediaBlock,
    format_media_note,
    is_accepted,
    read_media,
    read_text_file,
    write_block,
)
from langchain_convmem.views.messages import build_message, clean_text, get_block_type, make_plain
from langchain_convmem.views.providers import Kind, Place, ProviderProfile, fits
from langchain_convmem.views.reasoning import find_reasoning_blocks, has_reasoning, is_reasoning
from langchain_convmem.views.tool_calls import (
    CALL_BLOCKS,
    find_sendable_server_tool,
    is_server_tool,
    is_told_by_its_use,
    name_server_tool,
)

NO_OUTPUT = "[no output]"

_TEXT_BLOCKS = frozenset(
    {
        "guard_content",
        "input_text",
        "json",
        "output_text",
        "refusal",
        "search_result",
        "text",
        "text-plain",
        "tool_result",
        "toolResult",
    }
)

_NOT_IN_FILE_NAMES = re.compile(r"[^a-zA-Z0-9 ()\[\]-]+")
_LONGEST_FILE_NAME = 120
_MAX_NESTING = 8
_Place = Place | Literal["system"]
_Block = Mapping[Any, Any]


class BlockFitter:
    """Fits the content of one view's messages, in order. Not thread-safe."""

    def __init__(self, profile: ProviderProfile, repairs: list[str]) -> None:
        """Create a fitter that reports to `repairs` what was lost."""
        self._profile = profile
        self._repairs = repairs
        self._file_names: set[str] = set()

    def fit(self, message: BaseMessage, place: _Place, key: str, *, stale: bool = False) -> None:
        """Give the message content that the provider takes; blank text is left out.

        Args:
            message: The message; it is changed.
            place: Whose message it is.
            key: What the repairs call it.
            stale: Whether it was made after a beginning other than the view's.
        """
        lost: list[str] = []
        whole = _read_content(message)
        if isinstance(whole, str):
            message.content = self._clean(whole, lost) if whole.strip() else ""
        else:
            thoughts = self._find_reasoning(message, place, lost, stale=stale)
            fitted = [
                one
                for block in whole
                for one in self._fit_block(block, message, place, thoughts, lost)
            ]
            if place in ("user", "tool") and self._profile.files_need_text:
                fitted = _add_text(fitted)
            message.content = [*fitted] or ""
        self._repairs.extend(f"{what} of {key}" for what in dict.fromkeys(lost))
        if place == "tool":
            message.content = message.content or NO_OUTPUT

    def _clean(self, text: str, lost: list[str]) -> str:
        clean = clean_text(text)
        if clean != text:
            lost.append("replaced half characters")
        return clean

    # -- blocks -------------------------------------------------------------------------------

    def _fit_block(
        self,
        block: Any,
        message: BaseMessage,
        place: _Place,
        thoughts: Iterator[dict[str, Any]],
        lost: list[str],
    ) -> Iterator[dict[str, Any]]:
        """Yield what stands for one block; `thoughts` are the reasoning blocks to be kept."""
        block = _unwrap(block)
        if is_reasoning(block):
            yield from [shown] if (shown := next(thoughts, None)) is not None else ()
        elif place == "assistant" and get_block_type(block) in CALL_BLOCKS:
            yield block
        elif is_server_tool(block):
            yield from self._fit_server_tool(block, message, place, lost)
        else:
            yield from self._fit_said(block, message, place, lost)

    def _fit_said(
        self, block: Any, message: BaseMessage, place: _Place, lost: list[str]
    ) -> Iterator[dict[str, Any]]:
        if _is_refusal(block) and place == "assistant" and self._profile.takes_refusals:
            yield {"type": "refusal", "refusal": self._clean(block["refusal"], lost)}
            return
        text = _find_text(block)
        if text is not None:
            if text.strip():
                yield {**_make_text_block(self._clean(text, lost)), **self._copy_cache_mark(block)}
            return
        media = read_media(block) if isinstance(block, Mapping) else None
        if media is not None:
            yield self._fit_media(media, block, message, place, lost)
        elif not _is_mark(block):
            note = f"[{_name_kind(block)}: not shown]"
            lost.append(f"replaced the {_name_kind(block)} block")
            yield _make_text_block(note)

    def _copy_cache_mark(self, block: Any) -> dict[str, Any]:
        mark = block.get("cache_control") if isinstance(block, Mapping) else None
        is_mark = isinstance(mark, Mapping) and mark.get("type") == "ephemeral"
        if not self._profile.cache_marks or not is_mark or not isinstance(mark, Mapping):
            return {}
        ttl = {"ttl": mark["ttl"]} if mark.get("ttl") in ("5m", "1h") else {}
        return {"cache_control": {"type": "ephemeral", **ttl}}

    def _fit_media(
        self, media: MediaBlock, block: _Block, message: BaseMessage, place: _Place, lost: list[str]
    ) -> dict[str, Any]:
        text = None if self._is_taken(media, message, place) else read_text_file(media)
        if text is not None and text.strip():
            return _make_text_block(self._clean(text, lost))
        if not self._is_taken(media, message, place):
            lost.append(f"replaced the {media.kind}")
            return _make_text_block(format_media_note(media))
        if media.kind == "file":
            name = self._name_file(media) if self._profile.files_need_text else ""
            return write_block(media, name=name)
        return dict(block) if media.is_plain else write_block(media)

    def _is_taken(self, media: MediaBlock, message: BaseMessage, place: _Place) -> bool:
        if place == "system" or (
            self._profile.errors_are_text
            and isinstance(message, ToolMessage)
            and message.status == "error"
        ):
            return False
        rule = self._profile.media.get(place, {}).get(media.kind)
        return is_accepted(rule, media, self._profile)

    def _name_file(self, media: MediaBlock) -> str:
        """Return a name of letters and digits that no earlier file of the view has."""
        stem = media.name.rpartition(".")[0] or media.name or "file"
        plain = " ".join(_NOT_IN_FILE_NAMES.sub("-", stem).split())[:_LONGEST_FILE_NAME].strip()
        name = base = plain.strip("-") or "file"
        number = 1
        while name in self._file_names:
            number += 1
            name = f"{base}-{number}"
        self._file_names.add(name)
        return name

    # -- blocks that belong to one provider ---------------------------------------------------

    def _find_reasoning(
        self, message: BaseMessage, place: _Place, lost: list[str], *, stale: bool
    ) -> Iterator[dict[str, Any]]:
        """Return the message's reasoning blocks as they are shown: all of them, or none."""
        if not has_reasoning(message):
            return iter(())
        shown = None
        if place == "assistant" and isinstance(message, AIMessage) and not stale:
            shown = find_reasoning_blocks(message, self._profile)
        if shown is None:
            lost.append("left out the reasoning")
        return iter(shown or ())

    def _fit_server_tool(
        self, block: _Block, message: BaseMessage, place: _Place, lost: list[str]
    ) -> Iterator[dict[str, Any]]:
        if place == "assistant":
            whole = find_sendable_server_tool(block, message, self._profile)
            if whole is not None:
                yield whole
                return
        name = name_server_tool(block)
        lost.append(f"replaced the {name}")
        if not is_told_by_its_use(block, message):
            yield _make_text_block(f"[{name}: not shown]")


# -- Shapes of blocks -----------------------------------------------------------------------------
def _read_content(message: BaseMessage) -> str | list[Any]:
    """Return the content; sound that a model spoke is its transcript."""
    spoken = message.additional_kwargs.pop("audio", None)  # sent back by an id that expires
    if isinstance(spoken, Mapping) and not message.content:
        return str(spoken.get("transcript") or "")
    return message.content


def _make_text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _unwrap(block: Any) -> Any:
    """Return a block that LangChain wrapped because it has no standard form."""
    inner = block.get("value") if get_block_type(block) == "non_standard" else None
    return inner if isinstance(inner, Mapping) else block


def _is_refusal(block: Any) -> bool:
    said = block.get("refusal") if get_block_type(block) == "refusal" else None
    return isinstance(said, str) and bool(said.strip())


def _is_mark(block: Any) -> bool:
    """Return whether the block says nothing but where a provider should cache, or is empty."""
    return not block or (isinstance(block, Mapping) and block.keys() <= {"cachePoint", "index"})


def _name_kind(block: Any) -> str:
    if not isinstance(block, Mapping):
        return type(block).__name__
    kind = get_block_type(block) or next(iter(block), "content")
    return clean_text(" ".join(str(kind).split())[:60]) or "content"


def _find_text(block: Any, nesting: int = 0) -> str | None:
    """Return the text of a block that is nothing but text; None for other blocks."""
    if not isinstance(block, Mapping):
        return block if isinstance(block, str) else None
    kind = get_block_type(block)
    source = block.get("source") if kind == "document" else None
    if isinstance(source, Mapping):
        return _add_title(block, source.get("data")) if source.get("type") == "text" else None
    if kind == "text-plain" or block.get("source_type") == "text":
        return _add_title(block, block.get("text", block.get("data", "")))
    return _find_inner_text(block, nesting) if not kind or kind in _TEXT_BLOCKS else None


def _add_title(block: _Block, text: Any) -> str | None:
    if not isinstance(text, str):
        return None
    title = block.get("title") or block.get("filename")
    return f"[file {title}]\n{text}" if isinstance(title, str) and text.strip() else text


def _find_inner_text(block: _Block, nesting: int) -> str | None:
    """Return the text under one of a text block's keys, however deep it lies."""
    if "json" in block:
        return json.dumps(make_plain(block["json"]), ensure_ascii=False)
    for key in ("text", "refusal", "content", "toolResult", "output"):
        if block.get(key) is not None:
            return _flatten(block[key], nesting + 1)
    return "" if get_block_type(block) in _TEXT_BLOCKS else None


def _flatten(value: Any, nesting: int) -> str:
    if isinstance(value, str):
        return value
    if nesting > _MAX_NESTING:
        return "[...]"
    if isinstance(value, Mapping):
        text = _find_text(value, nesting)
        media = read_media(value) if text is None else None
        return text or (format_media_note(media) if media else "")
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return "\n".join(text for item in value if (text := _flatten(item, nesting + 1)))
    return ""


def _add_text(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the blocks with a text in front where they hold files and no text."""
    files = [block for block in blocks if block["type"] == "file"]
    if not files or any(block["type"] == "text" for block in blocks):
        return blocks
    names = ", ".join(str(block.get("filename", "file")) for block in files)
    return [_make_text_block(f"[attached: {names}]"), *blocks]


# -- Who speaks: the names of several people in one thread, visible to every provider -------------
_ROLE_KEY = "__openai_role__"
_SEVERAL = 2


def find_first_speakers(live: Iterable[Entry], earlier: Collection[str] = ()) -> tuple[str, ...]:
    """Return the first two names that user messages of the thread bear, or fewer.

    Args:
        live: Live entries.
        earlier: Names that entries before these bear.
    """
    found = list(earlier)
    for entry in live:
        if len(found) >= _SEVERAL:
            break
        name = find_speaker(entry) if entry.role == "user" else None
        if name and name not in found:
            found.append(name)
    return tuple(found[:_SEVERAL])


def find_speaker(entry: Entry) -> str | None:
    """Return the name the entry's message bears, if any."""
    message = entry.message
    if message is None or message.name:
        return None if message is None else message.name
    return build_message(entry).name if message.type == "chat" else None


def place_name(
    message: BaseMessage, profile: ProviderProfile, *, is_user: bool, several: bool
) -> str | None:
    """Put the speaker's name where the model will see it.

    Args:
        message: The message; it is changed.
        profile: Whose rules to keep.
        is_user: Whether a person speaks.
        several: Whether the thread has several named people.

    Returns:
        The name, where neither `name` nor the text could carry it.
    """
    _drop_other_names(message, profile)
    name = message.name
    if not name:
        message.name = None
        return None
    is_valid = fits(name, profile.speaker_name)
    if is_valid and (profile.sends_names or not (is_user and several)):
        return None
    message.name = None
    if is_user and name.strip():
        message.content = add_speaker(message.content, name)
        return None
    return name


def _drop_other_names(message: BaseMessage, profile: ProviderProfile) -> None:
    """Take out settings of an integration that would be sent as a name or a role, if invalid."""
    more = message.additional_kwargs
    if "name" in more and not fits(more["name"], profile.speaker_name):
        del more["name"]
    is_developer = isinstance(message, SystemMessage) and more.get(_ROLE_KEY) == "developer"
    if _ROLE_KEY in more and not is_developer:
        del more[_ROLE_KEY]


def add_speaker(content: Any, name: str) -> Any:
    """Return a message's content with who says it in front."""
    label = f"{clean_text(' '.join(name.split()))}: "
    if isinstance(content, str):
        return label + content if content else content
    for number, block in enumerate(content):
        if block.get("type") == "text":
            said = {**block, "text": label + block["text"]}
            return [*content[:number], said, *content[number + 1 :]]
    return [{"type": "text", "text": label.rstrip()}, *content] if content else content


# -- What a provider counts over a whole request --------------------------------------------------
_KINDS = {
    "image": "image",
    "image_url": "image",
    "audio": "audio",
    "video": "video",
    "file": "file",
}


def keep_newest(
    messages: Sequence[BaseMessage], profile: ProviderProfile, repairs: list[str]
) -> None:
    """Replace the oldest media above the provider's limits by notes, and drop old cache marks.

    Args:
        messages: The view, in order; the messages are changed.
        profile: Whose limits to keep.
        repairs: Receives a sentence for each kind of media that had to go.
    """
    newest = _MediaLimiter(profile)
    for message in reversed(messages):
        if isinstance(message.content, list):
            kept = [newest.show_block(block) for block in reversed(message.content)]
            message.content = kept[::-1]
    repairs.extend(newest.list_repairs())


class _MediaLimiter:
    """Counts from the newest block on. Not thread-safe."""

    def __init__(self, profile: ProviderProfile) -> None:
        self._profile = profile
        self._room = dict(profile.max_media)
        self._marks = profile.cache_marks
        self._gone: Counter[Kind] = Counter()

    def show_block(self, block: Any) -> Any:
        """Return the block, or what stands in its place."""
        kind = _KINDS.get(get_block_type(block))
        if kind in self._room:
            self._room[kind] -= 1
            if self._room[kind] < 0:
                self._gone[kind] += 1
                media = read_media(block)
                note = format_media_note(media) if media is not None else f"[{kind}: not shown]"
                return {"type": "text", "text": note}
        if isinstance(block, dict) and "cache_control" in block:
            self._marks -= 1
            if self._marks < 0:
                return {key: item for key, item in block.items() if key != "cache_control"}
        return block

    def list_repairs(self) -> Iterator[str]:
        """Yield a sentence for each kind of which some had to go."""
        for kind, number in sorted(self._gone.items()):
            limit = self._profile.max_media[kind]
            yield (
                f"replaced the oldest {number} of kind {kind}: "
                f"{self._profile.name} takes {limit} at a time"
            )
