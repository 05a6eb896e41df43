"""Messages, entries and plain values to JSON text and back, exactly.

The encoding keeps every field that differs from its default, under a fixed table of message types:
nothing is ever imported by a name found in data. What cannot be kept, or could not be read back,
is refused while writing.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from pathlib import PurePath
from types import NoneType
from typing import Any, TypeAlias
from uuid import UUID

from langchain_core import messages as lc
from langchain_core.messages import BaseMessage
from langchain_core.messages.base import BaseMessageChunk
from pydantic import BaseModel

from langchain_convmem.causes import UnreadableError, describe_error, describe_name, describe_value
from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.records import Control, Cover, Draft, Entry, Metadata, Role

CODEC_VERSION = 1
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_TYPES: dict[str, type[BaseMessage]] = {
    "human": lc.HumanMessage,
    "ai": lc.AIMessage,
    "system": lc.SystemMessage,
    "tool": lc.ToolMessage,
    "chat": lc.ChatMessage,
    "function": lc.FunctionMessage,
}

_NAMES = {cls: name for name, cls in _TYPES.items()}
_DERIVED = ("tool_calls", "invalid_tool_calls")

CHAT_ROLES: dict[str, Role] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}


# -- Messages -------------------------------------------------------------------------------------
def encode_message(message: BaseMessage) -> dict[str, Any]:
    """Return the message's type and every field that differs from its default."""
    defaults = _get_defaults(type(message))
    extra = message.__pydantic_extra__
    kept = {
        key: value
        # Foreign values may compare as they like: an array equals None element by element.
        for key, value in ({**message.__dict__, **extra} if extra else message.__dict__).items()
        if type(value) is not type(default := defaults.get(key, _REQUIRED)) or value != default
    }
    kept["type"] = _find_type_name(type(message))
    return kept


_REQUIRED = object()
"""Stands for the default of a field that has none."""


@cache
def _get_defaults(cls: type[BaseMessage]) -> dict[str, Any]:
    """Return a message type's defaults by field, for comparing only: asking pydantic is slow."""
    fields = cls.model_fields.items()
    return {name: field.get_default(call_default_factory=True) for name, field in fields}


def decode_message(fields: Mapping[str, Any]) -> BaseMessage:
    """Return a new message from what `encode_message` returned.

    Raises:
        ValueError: If the type is unknown or the fields do not make such a message.
    """
    name = fields.get("type")
    cls = _TYPES.get(name) if isinstance(name, str) else None
    if cls is None:
        raise UnreadableError(f"unknown message type {describe_value(name)}")
    values = {"content": "", **fields}
    del values["type"]
    # `cls(**values)` as pydantic makes it, past constructors that only hand on: they take a tenth
    # of the time in which an entry is read.
    message = cls.__new__(cls)
    cls.__pydantic_validator__.validate_python(values.copy(), self_instance=message)
    # Validation refuses what is not such a message, but also completes and derives fields
    # (tool calls from raw ones, for instance); what comes back is what was stored.
    own = message.__dict__
    for key, value in values.items():
        if key in own:
            own[key] = value
    own.update({key: [] for key in _DERIVED if key in own and key not in values})
    return message


@cache
def _find_type_name(cls: type[BaseMessage]) -> str | None:
    """Return the name of the nearest class of a message that can be stored."""
    return next((_NAMES[base] for base in cls.__mro__ if base in _NAMES), None)


def get_role(message: BaseMessage) -> Role:
    """Return the role a message is logged under; an unfamiliar chat role counts as a user's."""
    name = _find_type_name(type(message))
    if name is None or name == "chat":
        name = str(getattr(message, "role", "user")).lower()
    return CHAT_ROLES.get(name, "user")


TEXT_BLOCKS = ("guard_content", "input_text", "output_text", "refusal", "text")
"""Types of content blocks that are nothing but text; so are those of Bedrock, without a type."""


def get_block_text(block: object) -> str | None:
    """Return the text of a block of content that is nothing but text; None for other blocks."""
    if isinstance(block, Mapping):
        kind = block.get("type", "text")
        key = "refusal" if kind == "refusal" else "text"
        block = block.get(key) if kind in TEXT_BLOCKS else None
    return block if isinstance(block, str) else None


def get_text_pieces(message: BaseMessage) -> tuple[str, ...]:
    """Return the message's text, one string per piece of content, blank pieces left out."""
    content = message.content
    pieces = [content] if isinstance(content, str) else map(get_block_text, content)
    return tuple([piece for piece in pieces if piece and piece.strip()])


def get_line_time_ms(message: BaseMessage) -> int | None:
    """Return the time a message itself names (`additional_kwargs["timestamp"]`), if any.

    Returns:
        Milliseconds since the epoch; a time without a zone counts as UTC. None if it is neither
        ISO 8601 nor a number of milliseconds; a recent date in seconds is neither.
    """
    stamp: Any = message.additional_kwargs.get("timestamp")
    is_number = isinstance(stamp, int | float) and not isinstance(stamp, bool)
    if is_number and math.isfinite(stamp) and not 10**9 <= stamp < 10**10:
        return int(stamp)
    with suppress(TypeError, ValueError, OverflowError):
        moment = stamp if isinstance(stamp, datetime) else datetime.fromisoformat(stamp)
        zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return (zoned - EPOCH) // timedelta(milliseconds=1)
    return None


def make_draft(
    message: BaseMessage, *, turn_id: str | None = None, metadata: Metadata | None = None
) -> Draft:
    """Return the draft that logs `message` verbatim, a chunk as a whole message.

    See `make_storable` for its side fields.

    Raises:
        InvalidMessageError: If it is not a message, or if it is the user's and carries a timestamp
            that cannot be read. A reply is kept whatever a model puts beside it.
    """
    if not isinstance(message, BaseMessage) or _find_type_name(type(message)) is None:
        msg = (
            f"a value of type {type(message).__name__} cannot be stored; store human, ai, system, "
            "tool, chat or function messages (removals are made with undo or forget)"
        )
        raise InvalidMessageError(msg)
    if isinstance(message, BaseMessageChunk):
        message = lc.message_chunk_to_message(message)
    message = make_storable(message)
    if not isinstance(message.content, str | list):
        kind = type(message.content).__name__
        raise InvalidMessageError(f"the content of a message must be text or a list, got {kind}")
    role, stamp = get_role(message), message.additional_kwargs.get("timestamp")
    if stamp is not None and role == "user" and get_line_time_ms(message) is None:
        raise InvalidMessageError(
            f'additional_kwargs["timestamp"] is {describe_value(stamp)}; pass ISO 8601 text such '
            "as '2026-09-03T18:20:00+02:00' or milliseconds since the epoch"
        )
    return Draft(
        role=role,
        message=message,
        contents=get_text_pieces(message),
        turn_id=turn_id,
        metadata=metadata or Metadata(),
    )


def redraft(entry: Entry) -> Draft:
    """Return the draft that would make an entry like this one."""
    return Draft(**{one.name: getattr(entry, one.name) for one in dataclasses.fields(Draft)})


# -- Entries --------------------------------------------------------------------------------------
DecodedBody: TypeAlias = tuple[BaseMessage | None, tuple[str, ...], Control | None, Cover | None]
"""Message, contents, control and cover of an entry."""


def encode_body(draft: Draft) -> str:
    """Return what a log stores of a draft beside its columns and its metadata, as JSON text.

    Raises:
        InvalidMessageError: If a part of it cannot be kept, or could not be read back.
    """
    return encode_checked(draft)[0]


def encode_checked(draft: Draft) -> tuple[str, DecodedBody]:
    """Return what `encode_body` does, and what `decode_body` makes of it.

    It is decoded in any case, to see that it can be: who needs both need not do it twice.

    Raises:
        InvalidMessageError: If a part of it cannot be kept, or could not be read back.
    """
    body: dict[str, Any] = {"v": CODEC_VERSION}
    if draft.message is not None:
        body["m"] = encode_message(draft.message)
    if draft.contents != (get_text_pieces(draft.message) if draft.message is not None else ()):
        body["c"] = list(draft.contents)
    if draft.control is not None:
        fields = {**dataclasses.asdict(draft.control), "retracts": list(draft.control.retracts)}
        body["k"] = {name: value for name, value in fields.items() if value is not None}
    if draft.cover is not None:
        body["o"] = {
            **dataclasses.asdict(draft.cover),
            "ranges": [list(pair) for pair in draft.cover.ranges],
        }
    text = dump_json(body, what="message")
    try:
        return text, decode_body(text)
    except ValueError as error:
        # One entry that cannot be read would make its whole thread unreadable.
        raise InvalidMessageError(f"a malformed message cannot be stored: {error}") from error


def decode_body(text: str) -> DecodedBody:
    """Return message, contents, control and cover from what `encode_body` wrote.

    Raises:
        ValueError: If the text is not such a body, or of a newer version of the codec.
    """
    try:
        body = load_json(text)
        if (version := body["v"]) != CODEC_VERSION:
            found = describe_value(version)
            raise UnreadableError(f"version {found}; this release reads version {CODEC_VERSION}")
        message = decode_message(body["m"]) if "m" in body else None
        contents = () if message is None else get_text_pieces(message)
        contents = tuple(body["c"]) if "c" in body else contents
        control, cover = body.get("k"), body.get("o")
        if control is not None:
            control = Control(**{**control, "retracts": tuple(control["retracts"])})
        if cover is not None:
            ranges = tuple((first, last) for first, last in cover["ranges"])
            cover = Cover(**{**cover, "ranges": ranges})
    except _DAMAGE as error:
        reason = describe_error(error)
    else:
        return message, contents, control, cover
    raise UnreadableError(f"not the body of an entry ({reason})")


_DAMAGE = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError)
"""What reading something else than we wrote may raise."""


def encode_metadata(metadata: Metadata) -> str | None:
    """Return metadata as JSON text, or None when there is nothing to keep."""
    marks, ids = list(metadata.attributes), list(metadata.summary_ids)
    fields = {"a": marks, "t": dict(metadata.timing), "s": ids, "x": dict(metadata.aux)}
    kept = {key: value for key, value in fields.items() if value}
    return dump_json(kept, what="metadata") if kept else None


def decode_metadata(text: str | None, *, created_ms: int) -> Metadata:
    """Return metadata; the creation time stands first unless one was set on purpose.

    Raises:
        ValueError: If the text is not what `encode_metadata` wrote.
    """
    if not text:
        return Metadata(timing={"creation": created_ms})
    try:
        fields = load_json(text)
        return Metadata(
            attributes=tuple(fields.get("a", ())),
            timing={"creation": created_ms, **fields.get("t", {})},
            summary_ids=tuple(fields.get("s", ())),
            aux=fields.get("x", {}),
        )
    except _DAMAGE as error:
        reason = describe_error(error)
    raise UnreadableError(f"not the metadata of an entry ({reason})")


# -- Plain values to JSON text and back, exactly --------------------------------------------------
MAX_DEPTH = 100
"""Levels of lists and maps within each other."""
_PLAIN = frozenset({str, int, bool, type(None)})
"""What JSON has too, subclasses apart."""
# What is tagged is a tree of known depth: nothing in it can hold itself.
_to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode
_to_ascii_json = json.JSONEncoder(separators=(",", ":")).encode


# A subclass may print itself otherwise: np.float64("nan") as "np.float64(nan)".
_ENCODERS: dict[type, Callable[[Any], Any]] = {
    float: lambda value: value if math.isfinite(value) else {"$float": float.__repr__(value)},
    bytes: lambda value: {"$bytes": base64.b64encode(value).decode()},
    datetime: lambda value: {"$datetime": value.isoformat()},
    date: lambda value: {"$date": value.isoformat()},
    Decimal: lambda value: {"$decimal": str(value)},
    str: str.__str__,  # str() of a mixed-in enum names the member, not its value
    int: int,
}

_DECODERS: dict[str, Callable[[Any], Any]] = {
    "$float": float,
    "$bytes": base64.b64decode,
    "$datetime": datetime.fromisoformat,
    "$date": date.fromisoformat,
    "$decimal": Decimal,
    "$tuple": tuple,
    "$set": set,
    "$frozenset": frozenset,
    "$map": dict,
}


def _describe(path: tuple[str | int, ...]) -> str:
    """Return where a value is, for an error: in what, then keys and numbers."""
    steps = (f"[{one}]" if isinstance(one, int) else f".{describe_name(one)}" for one in path[1:])
    return "".join([str(path[0]), *steps])


def tag_json(value: Any, path: tuple[str | int, ...] = ("value",)) -> Any:
    """Return `value` in plain JSON, as `dump_json` writes it; what JSON lacks is tagged."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if len(path) > MAX_DEPTH + 1:
        msg = f"{_describe(path)} is nested deeper than {MAX_DEPTH} levels; flatten it first"
        raise InvalidMessageError(msg)
    if kind is dict or isinstance(value, Mapping):
        plain: dict[str, Any] = {}
        for key, item in value.items():
            if not isinstance(key, str):
                where = f"{_describe(path)} has the key {describe_value(key)}"
                raise InvalidMessageError(f"{where}; only text keys can be stored")
            plain[str.__str__(key)] = item if type(item) in _PLAIN else tag_json(item, (*path, key))
        # A caller's own mapping may look like one of our tags; as pairs it cannot.
        if len(plain) == 1 and next(iter(plain)).startswith("$"):
            return {"$map": [[key, item] for key, item in plain.items()]}
        return plain
    if isinstance(value, list | tuple | set | frozenset):
        return _tag_items(value, path)
    for base, encode in _ENCODERS.items():
        if isinstance(value, base):
            return encode(value)
    msg = (
        f"{_describe(path)} holds a {kind.__module__}.{kind.__qualname__}, which cannot be "
        "stored; convert it to text, numbers, lists or dicts first"
    )
    raise InvalidMessageError(msg)


def _tag_items(value: Iterable[Any], path: tuple[str | int, ...]) -> Any:
    items = [
        item if type(item) in _PLAIN else tag_json(item, (*path, number))
        for number, item in enumerate(value)
    ]
    if isinstance(value, list | tuple):
        return items if isinstance(value, list) else {"$tuple": items}
    # Equal sets must make equal text, whatever order they are walked in.
    tag = "$set" if isinstance(value, set) else "$frozenset"
    return {tag: sorted(items, key=json.dumps)}


def _decode_tags(found: dict[str, Any]) -> Any:
    """Return what a map of the text stands for; the maps within it have been asked already."""
    [tag] = found if len(found) == 1 else [""]
    return _DECODERS[tag](found[tag]) if tag in _DECODERS else found


_DECODER = json.JSONDecoder(object_hook=_decode_tags)
_UNTAGGED_DECODER = json.JSONDecoder()
"""For texts without a tag, as most are: no map of theirs has to be looked at."""


def dump_json(value: Any, *, what: str = "value") -> str:
    """Return `value` as compact JSON text that `load_json` restores exactly.

    Raises:
        InvalidMessageError: If a part of it cannot be kept; the message names the part.
    """
    plain = tag_json(value, (what,))
    with suppress(ValueError):
        try:
            text = _to_json(plain)
            text.encode()
        except UnicodeEncodeError:  # lone surrogates survive as escapes only
            text = _to_ascii_json(plain)
        return text
    most = sys.get_int_max_str_digits()
    raise InvalidMessageError(
        f"{what} cannot be stored: it holds a number of more than {most} digits"
    )


def load_json(text: str) -> Any:
    """Return the value that `dump_json` wrote."""
    return (_DECODER if '"$' in text else _UNTAGGED_DECODER).decode(text)


# -- Values that are not messages, as a log keeps them --------------------------------------------
def describe_as_json(value: Any) -> str:
    """Return a value as JSON; what has no plain form is named by its type."""
    try:
        return json.dumps(make_plain(value), ensure_ascii=False)
    except (RecursionError, TypeError, ValueError, AttributeError):
        return f"[{type(value).__name__}]"


def make_storable(message: BaseMessage) -> BaseMessage:
    """Return a message that a log can keep, whatever objects its side fields hold.

    Parsed objects and artifacts are for programs: models become maps, arrays lists, and of what
    JSON has no form for stays a note of its type. Nothing is read of iterators. A missing count of
    tokens is 0, and usage without a count, as LangChain's cache makes it, is none.
    """
    changed: dict[str, Any] = {}
    for name in _SIDE_FIELDS:
        value = getattr(message, name, None)
        if value is None or (type(value) is dict and not value):
            continue
        try:
            tag_json(value, (name,))
        except InvalidMessageError:
            with suppress(RecursionError):  # refused for its depth
                changed[name] = make_plain(value)
    usage = getattr(message, "usage_metadata", None)
    if usage and (repaired := _repair_usage(usage)) != usage:
        changed["usage_metadata"] = repaired
    return message.model_copy(update=changed) if changed else message


_SIDE_FIELDS = ("additional_kwargs", "response_metadata", "artifact")


def _repair_usage(usage: Any) -> Any:
    """Return usage as LangChain declares it; None if it counts neither input nor output."""
    if not any(isinstance(usage.get(f"{kind}_tokens"), int) for kind in ("input", "output")):
        return None
    counts = _fill_counts(usage)
    read, written = counts.get("input_tokens", 0), counts.get("output_tokens", 0)
    total = counts.get("total_tokens") or read + written
    return {**counts, "input_tokens": read, "output_tokens": written, "total_tokens": total}


def _fill_counts(usage: Any) -> Any:
    if isinstance(usage, Mapping):
        return {name: _fill_counts(count) for name, count in usage.items()}
    return 0 if usage is None else usage


_WRITTEN = (str, int, float, NoneType, date, time, Decimal, UUID, PurePath)
"""What is written as it is, or as text says it."""


def clean_text(text: str) -> str:
    """Return text that can be sent: half characters, which no encoding carries, are replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def make_plain(value: Any) -> Any:
    """Return `value` as JSON can carry it.

    Models and data classes become maps, arrays lists, times and numbers that JSON lacks text; of
    other objects stays a note of their type. Nothing is read of iterators.
    """
    if isinstance(value, BaseModel):
        value = value.model_dump()
    elif isinstance(value, Enum):
        value = value.value
    elif callable(getattr(value, "tolist", None)):  # arrays and numbers of NumPy and its kin
        value = value.tolist()
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {clean_text(str(key)): make_plain(item) for key, item in value.items()}
    if isinstance(value, AbstractSet):
        return sorted((make_plain(item) for item in value), key=repr)
    if isinstance(value, list | tuple):
        return [make_plain(item) for item in value]
    is_number = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    if value is None or is_number:
        return value
    return clean_text(str(value)) if isinstance(value, _WRITTEN) else f"[{type(value).__name__}]"
