"""The content of messages, fitted to a provider: what it takes stays, the rest becomes words.

Text stays text, whatever block it came in; media are kept where the provider takes them, else
replaced by a note; reasoning and blocks of tools that ran at a provider go back to that provider
only. Every change that loses something is reported.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage

from langchain_convmem.records import Entry
from langchain_convmem.views.codec import clean_text, make_plain
from langchain_convmem.views.compactions import find_sendable_compaction, is_compaction
from langchain_convmem.views.lines import INDENT, clean_name, indent_text
from langchain_convmem.views.live import find_changes
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
    Kind,
    Origin,
    Place,
    ProviderProfile,
    find_origin,
    fits,
)
from langchain_convmem.views.tool_calls import CALL_BLOCKS

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

    def __init__(self, provider: ProviderProfile, repairs: list[str]) -> None:
        """Create a fitter that reports to `repairs` what was lost."""
        self._provider = provider
        self._repairs = repairs
        self._file_names: set[str] = set()
        self._takes_addresses = True
        self._takes_compactions = False

    def fit(
        self,
        message: BaseMessage,
        place: _Place,
        key: str,
        *,
        stale: bool = False,
        compacts: bool = False,
        is_old: bool = False,
    ) -> None:
        """Give the message content that the provider takes; blank text is left out.

        Args:
            message: The message; it is changed.
            place: Whose message it is.
            key: What the repairs call it.
            stale: Whether it was made after a beginning other than the view's.
            compacts: Whether its items of a compaction stand for what the view leaves out.
            is_old: Whether it is of an earlier turn than the view's last.
        """
        self._takes_compactions = compacts
        self._takes_addresses = not is_old or self._provider.old_addresses == "keep"
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
            if place in ("user", "tool") and self._provider.files_need_text:
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
        block = unwrap_block(block)
        if is_reasoning(block):
            yield from [shown] if (shown := next(thoughts, None)) is not None else ()
        elif place == "assistant" and get_block_type(block) in CALL_BLOCKS:
            yield block
        elif is_server_tool(block):
            yield from self._fit_server_tool(block, message, place, lost)
        elif is_compaction(block):
            yield from self._fit_compaction(block, message, lost)
        else:
            yield from self._fit_said(block, message, place, lost)

    def _fit_said(
        self, block: Any, message: BaseMessage, place: _Place, lost: list[str]
    ) -> Iterator[dict[str, Any]]:
        if _is_refusal(block) and place == "assistant" and self._provider.takes_refusals:
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
        if not self._provider.cache_marks or not is_mark or not isinstance(mark, Mapping):
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
            name = self._name_file(media) if self._provider.files_need_text else ""
            return write_block(media, name=name)
        return dict(block) if media.is_plain else write_block(media)

    def _is_taken(self, media: MediaBlock, message: BaseMessage, place: _Place) -> bool:
        if place == "system" or (
            self._provider.errors_are_text
            and isinstance(message, ToolMessage)
            and message.status == "error"
        ):
            return False
        if media.form == "url" and not self._takes_addresses:
            return False
        rule = self._provider.media.get(place, {}).get(media.kind)
        return is_accepted(rule, media, self._provider)

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
            shown = find_reasoning_blocks(message, self._provider)
        if shown is None:
            lost.append("left out the reasoning")
        return iter(shown or ())

    def _fit_server_tool(
        self, block: _Block, message: BaseMessage, place: _Place, lost: list[str]
    ) -> Iterator[dict[str, Any]]:
        if place == "assistant":
            whole = find_sendable_server_tool(block, message, self._provider)
            if whole is not None:
                yield whole
                return
        name = name_server_tool(block)
        lost.append(f"replaced the {name}")
        if not is_told_by_its_use(block, message):
            yield _make_text_block(f"[{name}: not shown]")

    def _fit_compaction(
        self, block: _Block, message: BaseMessage, lost: list[str]
    ) -> Iterator[dict[str, Any]]:
        whole = find_sendable_compaction(block, message, self._provider)
        if whole is not None and self._takes_compactions:
            yield whole
        else:  # what it stands for is shown, or told by the summary
            lost.append("left out the compaction")


# -- Shapes of blocks -----------------------------------------------------------------------------
def _read_content(message: BaseMessage) -> str | list[Any]:
    """Return the content; sound that a model spoke is its transcript."""
    spoken = message.additional_kwargs.pop("audio", None)  # sent back by an id that expires
    if isinstance(spoken, Mapping) and not message.content:
        return str(spoken.get("transcript") or "")
    return message.content


def _make_text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


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


def find_first_speakers(live: Iterable[Entry]) -> tuple[str, ...]:
    """Return the first two names that user messages among live entries bear, or fewer."""
    found: list[str] = []
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
    _drop_other_names(message, provider)
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


def _drop_other_names(message: BaseMessage, provider: ProviderProfile) -> None:
    """Take out settings of an integration that would be sent as a name or a role, if invalid."""
    more = message.additional_kwargs
    if "name" in more and not fits(more["name"], provider.speaker_name):
        del more["name"]
    is_developer = isinstance(message, SystemMessage) and more.get(_ROLE_KEY) == "developer"
    if _ROLE_KEY in more and not is_developer:
        del more[_ROLE_KEY]


def add_speaker(content: Any, name: str) -> Any:
    """Return a message's content with who says it in front; nobody else begins a line of it."""
    label = f"{clean_text(clean_name(name))}: "
    if isinstance(content, str):
        return label + indent_text(content) if content else content
    said = []
    for block in content:
        if block.get("type") == "text":
            said.append({**block, "text": label + indent_text(block["text"])})
            label = INDENT
        else:
            said.append(block)
    return (
        [{"type": "text", "text": label.rstrip()}, *said] if content and label != INDENT else said
    )


# -- What a provider counts over a whole request --------------------------------------------------
_KINDS = {
    "image": "image",
    "image_url": "image",
    "audio": "audio",
    "video": "video",
    "file": "file",
}


def keep_newest(
    messages: Sequence[BaseMessage], provider: ProviderProfile, repairs: list[str]
) -> None:
    """Replace the oldest media above the provider's limits by notes, and drop old cache marks.

    Args:
        messages: The view, in order; the messages are changed.
        provider: Whose limits to keep.
        repairs: Receives a sentence for each kind of media that had to go.
    """
    newest = _MediaLimiter(provider)
    for message in reversed(messages):
        if isinstance(message.content, list):
            kept = [newest.show_block(block) for block in reversed(message.content)]
            message.content = kept[::-1]
    repairs.extend(newest.list_repairs())


class _MediaLimiter:
    """Counts from the newest block on. Not thread-safe."""

    def __init__(self, provider: ProviderProfile) -> None:
        self._provider = provider
        self._room = dict(provider.max_media)
        self._marks = provider.cache_marks
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
            limit = self._provider.max_media[kind]
            yield (
                f"replaced the oldest {number} of kind {kind}: "
                f"{self._provider.name} takes {limit} at a time"
            )


# -- Reasoning blocks: which may be sent back to whom, and when they no longer may ----------------
# Reasoning is signed by the provider that made it; another one refuses it, and a provider may
# refuse it after a conversation other than the one it was made in, or when a part of it is missing.
# So a message's reasoning is shown whole to its own provider after an unchanged beginning, or not
# at all.
REASONING_BLOCKS = frozenset({"reasoning", "reasoning_content", "redacted_thinking", "thinking"})
"""Types of content blocks that hold what a model thought."""

_BY_TYPE: Mapping[str, Origin] = {
    "redacted_thinking": "anthropic",
    "reasoning_content": "bedrock_converse",
    "thinking": "anthropic",
}


def is_reasoning(block: object) -> bool:
    """Return whether a content block holds what a model thought."""
    kind = get_block_type(block)
    if kind:
        return kind in REASONING_BLOCKS
    return isinstance(block, dict) and "type" not in block and "reasoningContent" in block


def has_reasoning(message: BaseMessage | None) -> bool:
    """Return whether a message holds reasoning."""
    content = "" if message is None else message.content
    return isinstance(content, list) and any(map(is_reasoning, content))


def drop_reasoning(message: BaseMessage) -> bool:
    """Take the reasoning out of a message; return whether there was any."""
    if not isinstance(message.content, list):
        return False
    kept = [block for block in message.content if not is_reasoning(block)]
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
    if isinstance(message.content, list) and find_origin(message) not in provider.reasoning:
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
    return drop_reasoning(message)


# -- What may be sent back ------------------------------------------------------------------------
def find_reasoning_blocks(
    message: AIMessage, provider: ProviderProfile
) -> list[dict[str, Any]] | None:
    """Return the message's reasoning as the provider takes it back, block for block.

    None where it has none or where a block of it may not be sent.
    """
    blocks = [block for block in message.content if is_reasoning(block)]
    shown = [
        _show_block(block, find_origin(message, _BY_TYPE.get(get_block_type(block))), provider)
        for block in blocks
    ]
    whole = [block for block in shown if block is not None]
    return whole if whole and len(whole) == len(shown) else None


def _show_block(
    block: Any, origin: Origin | None, provider: ProviderProfile
) -> dict[str, Any] | None:
    if origin is None or origin not in provider.reasoning:
        return None
    if get_block_type(block) == "redacted_thinking":
        data = block.get("data")
        is_whole = origin == "anthropic" and isinstance(data, str) and bool(data)
        return {"type": "redacted_thinking", "data": data} if is_whole else None
    text, signature = _read_signed(block)
    if not isinstance(text, str) or not isinstance(signature, str) or not signature.isascii():
        return None
    return _write_signed(origin, clean_text(text), signature) if signature else None


def _read_signed(block: Mapping[Any, Any]) -> tuple[Any, Any]:
    inner = block.get("reasoning_content")
    if isinstance(inner, Mapping):
        return inner.get("text"), inner.get("signature")
    extras = block.get("extras")
    signature = extras.get("signature") if isinstance(extras, Mapping) else None
    return block.get("thinking", block.get("reasoning")), block.get("signature", signature)


def _write_signed(origin: Origin, text: str, signature: str) -> dict[str, Any] | None:
    if origin == "bedrock_converse":
        inner = {"text": text, "signature": signature}
        return {"type": "reasoning_content", "reasoning_content": inner} if text.strip() else None
    if origin == "gemini" and not (text.strip() and _is_base64(signature)):
        return None
    # Models that keep their thoughts to themselves sign an empty text.
    return {"type": "thinking", "thinking": text, "signature": signature}


def _is_base64(text: str) -> bool:
    try:
        return bool(base64.b64decode(text, validate=True))
    except binascii.Error:
        return False


# -- When it no longer may ------------------------------------------------------------------------
def find_stale_reasoning(
    entries: Sequence[Entry], live: Sequence[Entry], shown: Sequence[Entry], *, hoists: bool
) -> frozenset[str]:
    """Return the ids of entries whose reasoning was made when the view began differently.

    Args:
        entries: The thread's entries, control entries included.
        live: Those that count, summaries included.
        shown: Those that the view shows, in its order.
        hoists: Whether the view puts system messages first, wherever they were written.
    """
    if not any(has_reasoning(entry.message) for entry in shown if entry.role == "assistant"):
        return frozenset()
    changes = find_changes(entries)
    changes += [
        (first, entry.position)
        for entry in live
        if entry.role == "summary" and entry.cover is not None
        for first, _last in entry.cover.ranges[:1]
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
_USES = frozenset(
    {
        "code_interpreter_call",
        "computer_call",
        "executable_code",
        "file_search_call",
        "image_generation_call",
        "local_shell_call",
        "mcp_approval_request",
        "mcp_call",
        "mcp_list_tools",
        "mcp_tool_use",
        "server_tool_call",
        "server_tool_call_chunk",
        "server_tool_use",
        "web_search_call",
    }
)

_RESULTS = frozenset(
    {
        "bash_code_execution_tool_result",
        "code_execution_result",
        "code_execution_tool_result",
        "mcp_tool_result",
        "server_tool_result",
        "text_editor_code_execution_tool_result",
        "tool_search_tool_result",
        "web_fetch_tool_result",
        "web_search_tool_result",
    }
)

_PREFIXES = {"server_tool_use": "srvtoolu_", "mcp_tool_use": "mcptoolu_"}
"""How Anthropic's ids of such uses begin, by the type of their block."""
_OWN_ID = re.compile("[a-zA-Z0-9_]{1,64}")
_KEYS = ("type", "id", "name", "input", "server_name", "tool_use_id", "content", "is_error")


def is_server_tool(block: object) -> bool:
    """Return whether a content block is of a tool that ran at a provider."""
    kind = get_block_type(block)
    return kind in _USES or kind in _RESULTS


def name_server_tool(block: Mapping[Any, Any]) -> str:
    """Return what to call the tool."""
    name = block.get("name")
    if isinstance(name, str) and name.strip():
        return clean_text(" ".join(name.split())[:64])
    return get_block_type(block).removesuffix("_call").removesuffix("_tool_result")


def is_told_by_its_use(block: Mapping[Any, Any], message: BaseMessage) -> bool:
    """Return whether the block is a result whose use stands in the same message."""
    if get_block_type(block) in _USES:
        return False
    uses = [other for other in message.content if get_block_type(other) in _USES]
    if get_block_type(block) == "code_execution_result":
        return any(get_block_type(other) == "executable_code" for other in uses)
    own = block.get("tool_use_id", block.get("tool_call_id"))
    return any(isinstance(other, Mapping) and other.get("id") == own for other in uses)


def find_sendable_server_tool(
    block: Mapping[Any, Any], message: BaseMessage, provider: ProviderProfile
) -> dict[str, Any] | None:
    """Return the use or result as its provider takes it back; None where it may not be sent.

    It must be whole, have its other half in the message, and go to the provider that ran it.
    """
    own = _find_whole_id(block)
    is_own = find_origin(message, "anthropic") in provider.server_tools
    if not is_own or own is None:
        return None
    pair = [
        get_block_type(other) in _PREFIXES
        for other in message.content
        if isinstance(other, Mapping) and is_server_tool(other) and _find_whole_id(other) == own
    ]
    if pair != [True, False]:
        return None
    return {key: make_plain(block[key]) for key in _KEYS if key in block}


def _find_whole_id(block: Mapping[Any, Any]) -> str | None:
    """Return the id of a use or result in Anthropic's form; None where it is not whole."""
    prefix = _PREFIXES.get(get_block_type(block))
    if prefix is not None:
        own = block.get("id")
        is_whole = bool(block.get("name")) and isinstance(block.get("name"), str)
        is_whole = is_whole and isinstance(block.get("input"), Mapping)
    else:
        own = block.get("tool_use_id")
        is_whole = bool(block.get("content")) and isinstance(block["content"], list | Mapping)
    if not is_whole or not isinstance(own, str) or not _OWN_ID.fullmatch(own):
        return None
    return own if own.startswith(prefix or tuple(_PREFIXES.values())) else None
