"""Messages, entries and plain values to JSON text and back, exactly.

The encoding keeps every field that differs from its default, under a fixed table of message types:
nothing is ever imported by a name found in data. What cannot be kept, or could not be read back,
is refused while writing.
"""

from __future__ import annotations

import base64
import copy
import dataclasses
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from pathlib import PurePath
from types import NoneType
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

from langchain_core import messages as lc
from langchain_core.messages import BaseMessage
from pydantic import BaseModel

from langchain_convmem.causes import (
    ErrorTrap,
    UnreadableError,
    describe_error,
    describe_name,
    describe_value,
)
from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.records import Control, Cover, Draft, Entry, Metadata, Role

V = TypeVar("V")

CODEC_VERSION = 1
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_TYPES: dict[str, type[BaseMessage]] = {
    "human": lc.HumanMessage,
    "ai": lc.AIMessage,
    "system": lc.SystemMessage,
    "tool": lc.ToolMessage,
    "chat": lc.ChatMessage,
    "function": lc.FunctionMessage,
    "HumanMessageChunk": lc.HumanMessageChunk,
    "AIMessageChunk": lc.AIMessageChunk,
    "SystemMessageChunk": lc.SystemMessageChunk,
    "ToolMessageChunk": lc.ToolMessageChunk,
    "ChatMessageChunk": lc.ChatMessageChunk,
    "FunctionMessageChunk": lc.FunctionMessageChunk,
}

_NAMES = {cls: name for name, cls in _TYPES.items()}
_DERIVED = frozenset({"tool_calls", "invalid_tool_calls", "tool_call_chunks"})

_ROLES: dict[type[BaseMessage], Role] = {
    lc.HumanMessage: "user",
    lc.AIMessage: "assistant",
    lc.SystemMessage: "system",
    lc.ToolMessage: "tool",
    lc.FunctionMessage: "tool",
}

_CHAT_ROLES: dict[str, Role] = {
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
        msg = f"unknown message type {describe_value(name)}"
        raise UnreadableError(msg)
    values = dict(fields)
    del values["type"]
    values.setdefault("content", "")
    # Chunks change their content while they are made.
    own_copy = copy.deepcopy(values) if cls is lc.AIMessageChunk else values.copy()
    # `cls(**values)` as pydantic makes it, past constructors that only hand on: they take a tenth
    # of the time in which an entry is read.
    message = cls.__new__(cls)
    cls.__pydantic_validator__.validate_python(own_copy, self_instance=message)
    # Validation refuses what is not such a message, but also completes and derives fields
    # (tool calls from raw ones, for instance); what comes back is what was stored.
    own = message.__dict__
    for key, value in values.items():
        if key in own:
            own[key] = value
    for key in _list_derived(cls):
        if key not in values:
            own[key] = []
    return message


@cache
def _list_derived(cls: type[BaseMessage]) -> tuple[str, ...]:
    """Return the fields of a message type that its constructor may derive from others."""
    return tuple(name for name in cls.model_fields if name in _DERIVED)


@cache
def _find_type_name(cls: type[BaseMessage]) -> str | None:
    """Return the name of the nearest class of a message that can be stored."""
    return next((_NAMES[base] for base in cls.__mro__ if base in _NAMES), None)


@cache
def _find_role(cls: type[BaseMessage]) -> Role | None:
    return next((_ROLES[base] for base in cls.__mro__ if base in _ROLES), None)


def get_role(message: BaseMessage) -> Role:
    """Return the role a message is logged under; an unfamiliar chat role counts as a user's."""
    role = _find_role(type(message))
    return role or _CHAT_ROLES.get(str(getattr(message, "role", "user")).lower(), "user")


def get_text_pieces(message: BaseMessage) -> tuple[str, ...]:
    """Return the message's text, one string per piece of content, blank pieces left out."""
    content = message.content
    if isinstance(content, str):
        return (content,) if content.strip() else ()
    pieces = (
        block.get("text") if isinstance(block, Mapping) and block.get("type") == "text" else block
        for block in content
    )
    return tuple(piece for piece in pieces if isinstance(piece, str) and piece.strip())


def holds_more_than_text(message: BaseMessage) -> bool:
    """Return whether a message has calls, answers one, or has blocks that are no text."""
    blocks = [] if isinstance(message.content, str) else message.content
    calls = (getattr(message, name, None) for name in ("tool_calls", "invalid_tool_calls"))
    if any(calls) or isinstance(message, lc.ToolMessage):
        return True
    return any(not isinstance(one, str) and one.get("type") != "text" for one in blocks)


def get_line_time_ms(message: BaseMessage) -> int | None:
    """Return the time a message itself names (`additional_kwargs["timestamp"]`), if any.

    Returns:
        Milliseconds since the epoch; a time without a zone counts as UTC.

    Raises:
        InvalidMessageError: If the timestamp is neither ISO 8601 nor a number of milliseconds.
    """
    stamp = message.additional_kwargs.get("timestamp")
    return None if stamp is None else parse_time_ms(stamp)


def parse_time_ms(stamp: Any) -> int:
    """Return the time that a message's timestamp stands for; see `get_line_time_ms`."""
    if isinstance(stamp, int | float) and not isinstance(stamp, bool) and math.isfinite(stamp):
        return int(stamp)
    with ErrorTrap(TypeError, ValueError, OverflowError):
        moment = stamp if isinstance(stamp, datetime) else datetime.fromisoformat(stamp)
        zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return (zoned - EPOCH) // timedelta(milliseconds=1)
    msg = (
        f'additional_kwargs["timestamp"] is {describe_value(stamp)}; pass ISO 8601 text such as '
        "'2026-09-03T18:20:00+02:00' or milliseconds since the epoch"
    )
    raise InvalidMessageError(msg)


def make_draft(
    message: BaseMessage, *, turn_id: str | None = None, metadata: Metadata | None = None
) -> Draft:
    """Return the draft that logs `message` verbatim; see `make_storable` for its side fields.

    Raises:
        InvalidMessageError: If it is not a message or carries a timestamp that cannot be read.
    """
    if not isinstance(message, BaseMessage):
        msg = f"expected a LangChain message, got a value of type {type(message).__name__}"
        raise InvalidMessageError(msg)
    if _find_type_name(type(message)) is None:
        msg = (
            f"a {type(message).__name__} cannot be stored; store human, ai, system, tool, chat or "
            "function messages (removals are made with undo or forget)"
        )
        raise InvalidMessageError(msg)
    message = make_storable(message)
    if not isinstance(message.content, str | list):
        kind = type(message.content).__name__
        raise InvalidMessageError(f"the content of a message must be text or a list, got {kind}")
    if message.additional_kwargs:
        get_line_time_ms(message)
    return Draft(
        role=get_role(message),
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
        control = draft.control
        body["k"] = {"retracts": list(control.retracts), "reason": control.reason}
        if control.replacement is not None:
            body["k"]["replacement"] = control.replacement
    if draft.cover is not None:
        cover = draft.cover
        body["o"] = {
            "ranges": [list(pair) for pair in cover.ranges],
            "digest": cover.digest,
            "model": cover.model,
            "prompt_version": cover.prompt_version,
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
    version = CODEC_VERSION
    reason = ""
    try:  # what `ErrorTrap` does, at every read of every entry
        body = load_json(text)
        version = body["v"]
        if version == CODEC_VERSION:
            message = decode_message(body["m"]) if "m" in body else None
            contents = () if message is None else get_text_pieces(message)
            contents = tuple(body["c"]) if "c" in body else contents
            control = _decode_control(body["k"]) if "k" in body else None
            cover = _decode_cover(body["o"]) if "o" in body else None
            return message, contents, control, cover
    except _DAMAGE as error:
        reason = describe_error(error)
    if version == CODEC_VERSION:
        raise UnreadableError(f"not the body of an entry ({reason})")
    found = describe_value(version)
    raise UnreadableError(
        f"entry body of version {found}; this release reads version {CODEC_VERSION}"
    )


_DAMAGE = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError)
"""What reading something else than we wrote may raise."""


def _decode_control(fields: Any) -> Control:
    return Control(tuple(fields["retracts"]), fields["reason"], fields.get("replacement"))


def _decode_cover(fields: Any) -> Cover:
    ranges = tuple((first, last) for first, last in fields["ranges"])
    return Cover(ranges, fields["digest"], fields["model"], fields["prompt_version"])


def encode_metadata(metadata: Metadata) -> str | None:
    """Return metadata as JSON text, or None when there is nothing to keep."""
    attributes, timing = metadata.attributes, metadata.timing
    summary_ids, aux = metadata.summary_ids, metadata.aux
    if not (attributes or timing or summary_ids or aux):  # mostly
        return None
    fields = {"a": list(attributes), "t": dict(timing), "s": list(summary_ids), "x": dict(aux)}
    return dump_json({key: value for key, value in fields.items() if value}, what="metadata")


def decode_metadata(text: str | None, *, created_ms: int) -> Metadata:
    """Return metadata; the creation time stands first unless one was set on purpose.

    Raises:
        ValueError: If the text is not what `encode_metadata` wrote.
    """
    if not text:
        return Metadata(timing={"creation": created_ms})
    with ErrorTrap(*_DAMAGE) as trap:
        fields = load_json(text)
        return Metadata(
            attributes=tuple(fields.get("a", ())),
            timing={"creation": created_ms, **fields.get("t", {})},
            summary_ids=tuple(fields.get("s", ())),
            aux=fields.get("x", {}),
        )
    raise UnreadableError(f"not the metadata of an entry ({trap.reason})")


# -- Plain values to JSON text and back, exactly --------------------------------------------------
MAX_DEPTH = 100
"""Levels of lists and maps within each other."""
_PLAIN = frozenset({str, int, bool, type(None)})
"""What JSON has too, subclasses apart."""
# What is tagged is a tree of known depth: nothing in it can hold itself.
_to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode
_to_ascii_json = json.JSONEncoder(separators=(",", ":")).encode
_SECOND_TIME = "~"
"""Behind an hour that the clock shows twice, when summer time ends."""
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def _tag_float(value: float) -> Any:
    # A subclass may print itself otherwise: np.float64("nan") as "np.float64(nan)".
    return value if math.isfinite(value) else {"$float": float.__repr__(value)}


def _get_plain_text(value: str) -> str:
    return str.__str__(value)  # str() of a mixed-in enum names the member, not its value


_ENCODERS: dict[type, Callable[[Any], Any]] = {
    float: _tag_float,
    bytes: lambda value: {"$bytes": base64.b64encode(value).decode()},
    datetime: lambda value: {"$datetime": value.isoformat() + _SECOND_TIME * value.fold},
    date: lambda value: {"$date": value.isoformat()},
    Decimal: lambda value: {"$decimal": str(value)},
}

_COLLECTIONS: dict[type, str] = {tuple: "$tuple", set: "$set", frozenset: "$frozenset"}

_DECODERS: dict[str, Callable[[Any], Any]] = {
    "$float": float,
    "$bytes": base64.b64decode,
    "$datetime": lambda text: datetime.fromisoformat(text.rstrip(_SECOND_TIME)).replace(
        fold=text.count(_SECOND_TIME)
    ),
    "$date": date.fromisoformat,
    "$decimal": Decimal,
    "$tuple": tuple,
    "$set": set,
    "$frozenset": frozenset,
    "$points": lambda points: "".join(map(chr, points)),
    "$map": dict,
}


_Path: TypeAlias = "str | tuple[_Path, str | int]"
"""What an error names a value by: where it is, and its key or number there."""


def _format_path(path: _Path) -> str:
    if isinstance(path, str):
        return path
    outer, step = path
    name = f"[{step}]" if isinstance(step, int) else f".{describe_name(step)}"
    return f"{_format_path(outer)}{name}"


def _tag(value: Any, path: _Path, depth: int = 0) -> Any:
    """Return `value` in plain JSON; `path` names it in an error."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if depth > MAX_DEPTH:
        place = _format_path(path)
        msg = f"{place} is nested deeper than {MAX_DEPTH} levels; flatten it before storing"
        raise InvalidMessageError(msg)
    if kind is dict or isinstance(value, Mapping):
        return _tag_mapping(value, path, depth)
    if isinstance(value, list):
        return _tag_items(value, path, depth)
    tag = next((tag for base, tag in _COLLECTIONS.items() if isinstance(value, base)), None)
    if tag is not None:
        items = _tag_items(value, path, depth)
        # Equal sets must make equal text, whatever order they are walked in.
        return {tag: items if tag == "$tuple" else sorted(items, key=json.dumps)}
    for base, encode in _ENCODERS.items():
        if isinstance(value, base):
            return encode(value)
    if isinstance(value, str | int):  # subclasses such as enums keep their plain value
        return _get_plain_text(value) if isinstance(value, str) else int(value)
    msg = (
        f"{_format_path(path)} holds a {kind.__module__}.{kind.__qualname__}, which cannot be "
        "stored; convert it to text, numbers, lists or dicts first"
    )
    raise InvalidMessageError(msg)


def _tag_items(items: Iterable[Any], path: _Path, depth: int) -> list[Any]:
    return [
        item if type(item) in _PLAIN else _tag(item, (path, n), depth + 1)
        for n, item in enumerate(items)
    ]


def _tag_mapping(value: Mapping[Any, Any], path: _Path, depth: int) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for key, item in value.items():
        name = key if type(key) is str else _get_plain_key(key, path)
        plain[name] = item if type(item) in _PLAIN else _tag(item, (path, name), depth + 1)
    # A caller's own mapping may look like one of our tags; as pairs it cannot. Pairs also keep
    # keys that a JSON reader would change.
    looks_tagged = len(plain) == 1 and next(iter(plain)).startswith("$")
    keys = "".join(plain)
    if looks_tagged or not (keys.isascii() or _SURROGATE_PAIR.search(keys) is None):
        return {"$map": [[key, item] for key, item in plain.items()]}
    return plain


def _get_plain_key(key: Any, path: _Path) -> str:
    if isinstance(key, str):
        return _get_plain_text(key)
    place = _format_path(path)
    msg = f"{place} has the key {describe_value(key)}; only text keys can be stored"
    raise InvalidMessageError(msg)


def _decode_tags(found: dict[str, Any]) -> Any:
    """Return what a map of the text stands for; the maps within it have been asked already."""
    if len(found) == 1:
        [(tag, inner)] = found.items()
        decode = _DECODERS.get(tag)
        if decode is not None:
            return decode(inner)
    return found


_DECODER = json.JSONDecoder(object_hook=_decode_tags)
_UNTAGGED_DECODER = json.JSONDecoder()
"""For texts without a tag, as most are: no map of theirs has to be looked at."""


def dump_json(value: Any, *, what: str = "value") -> str:
    """Return `value` as compact JSON text that `load_json` restores exactly.

    Raises:
        InvalidMessageError: If a part of it cannot be kept; the message names the part.
    """
    plain = _tag(value, what)
    text = ""
    try:  # what `ErrorTrap` does, at every write of every entry
        text = _to_json(plain)
        text.encode()
    except UnicodeEncodeError:  # lone surrogates survive as escapes only
        text = _to_ascii_json(_split_surrogates(plain))
    except ValueError:
        pass
    if text:
        return text
    most = sys.get_int_max_str_digits()
    raise InvalidMessageError(
        f"{what} cannot be stored: it holds a number of more than {most} digits"
    )


def _split_surrogates(plain: Any) -> Any:
    """Return tagged values with texts of two surrogates in a row as code points.

    A JSON reader would join the escapes of a high and a low one to a single character.
    """
    if isinstance(plain, str):
        return {"$points": list(map(ord, plain))} if _SURROGATE_PAIR.search(plain) else plain
    if isinstance(plain, list):
        return [_split_surrogates(item) for item in plain]
    if isinstance(plain, dict):
        return {key: _split_surrogates(item) for key, item in plain.items()}
    return plain


def load_json(text: str) -> Any:
    """Return the value that `dump_json` wrote."""
    return (_DECODER if '"$' in text else _UNTAGGED_DECODER).decode(text)


# -- Values that are not messages, as a log keeps them --------------------------------------------
def describe_as_json(value: Any) -> str:
    """Return a value as JSON; what has no plain form is named by its type."""
    try:
        return json.dumps(make_plain(_convert_to_maps(value)), ensure_ascii=False)
    except (RecursionError, TypeError, ValueError, AttributeError):
        return f"[{type(value).__name__}]"


def make_storable(message: BaseMessage) -> BaseMessage:
    """Return a message that a log can keep, whatever objects its side fields hold.

    Parsed objects and artifacts are for programs: models become maps, arrays lists, and of what
    JSON has no form for stays a note of its type. Nothing is read of iterators. A missing count of
    tokens is 0.
    """
    changed: dict[str, Any] = {}
    for name in _SIDE_FIELDS:
        value = getattr(message, name, None)
        if value is None or (type(value) is dict and not value):
            continue
        try:
            dump_json(value)
        except InvalidMessageError:
            with suppress(RecursionError):  # refused for its depth
                changed[name] = make_plain(_convert_to_maps(value))
    usage = getattr(message, "usage_metadata", None)
    if usage and (filled := _fill_counts(usage)) != usage:
        changed["usage_metadata"] = filled
    return message.model_copy(update=changed) if changed else message


_SIDE_FIELDS = ("additional_kwargs", "response_metadata", "artifact")


def _fill_counts(usage: Any) -> Any:
    if isinstance(usage, Mapping):
        return {name: _fill_counts(count) for name, count in usage.items()}
    return 0 if usage is None else usage


_WRITTEN = (str, int, float, NoneType, AbstractSet, date, time, Decimal, UUID, PurePath)
"""What is written as it is, or as text says it."""


def _convert_to_maps(value: Any) -> Any:
    if isinstance(value, BaseModel):
        value = value.model_dump()
    elif isinstance(value, Enum):
        value = value.value
    elif callable(getattr(value, "tolist", None)):  # arrays and numbers of NumPy and its kin
        value = value.tolist()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = (one.name for one in dataclasses.fields(value))
        return {name: _convert_to_maps(getattr(value, name)) for name in names}
    if isinstance(value, list | tuple):
        return [_convert_to_maps(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _convert_to_maps(item) for key, item in value.items()}
    return value if isinstance(value, _WRITTEN) else f"[{type(value).__name__}]"


def clean_text(text: str) -> str:
    """Return text that can be sent: half characters, which no encoding carries, are replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def make_plain(value: Any) -> Any:
    """Return `value` as JSON can carry it; what JSON has no form for becomes text."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, Mapping):
        return {clean_text(str(key)): make_plain(item) for key, item in value.items()}
    if isinstance(value, AbstractSet):
        return sorted((make_plain(item) for item in value), key=repr)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return [make_plain(item) for item in value]
    return clean_text(str(value))
