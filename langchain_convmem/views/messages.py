"""Messages: read out of whatever callers pass for them, handed out, drafted and counted.

The one place where forms become messages. LangChain's own conversion comes first; what it refuses
with the words of the message in its error is refused here by its type, since what was said belongs
in no error and no log.

The one place, too, where the write hook and `remember` are asked: whatever an application says on
its way into a log becomes a draft here. Control entries hold no words and pass; so does what is
copied out of a log, which was asked about before.
"""

from __future__ import annotations

import copy
import inspect
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVar, cast

from langchain_core.language_models import BaseLanguageModel
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
    message_chunk_to_message,
    messages_from_dict,
)
from langchain_core.messages.base import BaseMessageChunk
from langchain_core.prompt_values import PromptValue
from langchain_core.utils.utils import LC_ID_PREFIX

from langchain_convmem.causes import ErrorTrap, describe_name, describe_value
from langchain_convmem.errors import ConfigError, InvalidMessageError
from langchain_convmem.records import Draft, Entry, Metadata, Role
from langchain_convmem.views.codec import (
    CHAT_ROLES,
    clean_text,
    encode_checked,
    get_role,
    get_text_pieces,
    make_draft,
    make_storable,
    redraft,
)
from langchain_convmem.views.tokens import count_text_tokens

M = TypeVar("M", bound=BaseMessage)
OneMessage: TypeAlias = str | BaseMessage | Mapping[str, Any] | tuple[str, Any]
MessagesInput: TypeAlias = OneMessage | PromptValue | Sequence[OneMessage] | Iterator[OneMessage]
"""Text is the user's; a pair is role and content; a map holds `role` and `content`; or several."""

MESSAGE_FORMS = (
    "pass text, a LangChain message, a dict with 'role' and 'content', a pair of role and content, "
    "a list of these, {'messages': [...]}, or a prompt's value"
)
"""What callers may pass, for errors."""

_PAIR = 2


ReadMap: TypeAlias = Callable[[Mapping[Any, Any], str], BaseMessage]
"""Reads a map as a message; the text names the message in errors."""


def read_messages(value: Any, read_map: ReadMap | None = None) -> list[BaseMessage]:
    """Return what was passed as LangChain messages, in order.

    Messages that are whole come back as they are, not copied. Chunks that follow each other are
    summed to the message that they are pieces of.

    Args:
        value: Text, which is the user's; a message; a dict with `role` and `content`, or as
            LangChain writes messages down; a pair of role and content; a list of these;
            `{"messages": ...}` with any of these; or the value of a prompt.
        read_map: Reads the dicts and pairs; None reads them as LangChain does.

    Raises:
        InvalidMessageError: If a part of it is not a message. The error names types and places,
            never the text.
    """
    items = unpack_messages(value)
    items = [value] if items is None else items
    what, read = "the message" if len(items) == 1 else "message {}", read_map or _convert_map
    return [_read_message(item, what.format(n), read) for n, item in enumerate(items)]


def unpack_messages(value: Any) -> list[Any] | None:
    """Return the items of a list of messages, however it is packed; None for one item alone.

    Chunks that follow each other are one item: the message that they are pieces of.
    """
    if isinstance(value, PromptValue):
        return list(value.to_messages())
    if isinstance(value, Mapping):
        if "messages" not in value or "role" in value:
            return None
        inner = value["messages"]
        return [inner] if (items := unpack_messages(inner)) is None else items
    if isinstance(value, str | bytes | BaseMessage) or not isinstance(value, Sequence | Iterator):
        return None
    if isinstance(value, tuple) and _is_pair(value):
        return None
    return _merge_chunks(value)


def _is_pair(value: Sequence[Any]) -> bool:
    """Return whether a tuple is a role and a content, and not two texts."""
    return len(value) == _PAIR and isinstance(value[0], str) and value[0].lower() in CHAT_ROLES


def _read_message(item: Any, what: str, read_map: ReadMap) -> BaseMessage:
    if isinstance(item, RemoveMessage):
        raise InvalidMessageError(f"{what} is a RemoveMessage; take turns back with undo or rewind")
    if isinstance(item, BaseMessage):
        return message_chunk_to_message(item) if isinstance(item, BaseMessageChunk) else item
    if isinstance(item, str):
        return HumanMessage(str(item))
    if isinstance(item, tuple | list) and len(item) == _PAIR and isinstance(item[0], str):
        item = {"role": item[0], "content": item[1]}
    if not isinstance(item, Mapping):
        raise InvalidMessageError(f"{what} is of type {type(item).__name__}; {MESSAGE_FORMS}")
    return read_map(item, what)


def _convert_map(item: Mapping[Any, Any], what: str) -> BaseMessage:
    """Return the message that LangChain reads a map as."""
    with ErrorTrap(ValueError, TypeError, LookupError, NotImplementedError, AttributeError):
        if "role" not in item and isinstance(item.get("data"), Mapping):
            [message] = messages_from_dict([dict(item)])
        else:
            [message] = convert_to_messages([_complete(item)])
        return _lift_fields(message) if isinstance(message, AIMessage) else message
    keys = ", ".join(sorted(map(describe_name, item))) or "none"
    is_odd = "role" in item and str(item["role"]).lower() not in CHAT_ROLES
    more = f"; roles are {', '.join(sorted(CHAT_ROLES))}" if is_odd else ""
    if "type" in item and not item.keys() & {"role", "content"}:
        more = "; pass content blocks as HumanMessage(content=[...])"
    msg = f"{what} is a dict that is no message (keys: {keys}{more}); {MESSAGE_FORMS}"
    raise InvalidMessageError(msg)


_LIFTED: Mapping[str, Any] = {"invalid_tool_calls": list, "usage_metadata": dict | None}


def _lift_fields(message: AIMessage) -> AIMessage:
    """Return a reply with the fields that LangChain leaves among the extras of a dict."""
    extra = dict(message.additional_kwargs)
    own = {k: extra.pop(k) for k, kind in _LIFTED.items() if isinstance(extra.get(k, 0), kind)}
    return message.model_copy(update={**own, "additional_kwargs": extra})


def _complete(item: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the map of a message with the role and content that LangChain asks for."""
    fields = {key: one for key, one in item.items() if key != "tool_calls" or one is not None}
    role = str(fields.get("role")).lower()
    if role in CHAT_ROLES:
        fields["role"] = "assistant" if role == "model" else role
        if fields.get("tool_calls") or "tool_call_id" in fields:
            fields.setdefault("content", "")
    return fields


# -- Chunks ---------------------------------------------------------------------------------------
def _merge_chunks(items: Iterable[Any]) -> list[Any]:
    """Return the items, chunks of one message as their sum."""
    groups: list[list[Any]] = []
    for item in items:
        if groups and is_continued_by(groups[-1], item):
            groups[-1].append(item)
        else:
            groups.append([item])
    return list(map(merge_pieces, groups))


def is_continued_by(pieces: Sequence[Any], piece: Any) -> bool:
    """Return whether a piece belongs to the message whose pieces came so far.

    A message has at most one id of its provider, and one that LangChain gives to the chunks of a
    run. LangChain marks its last chunk; one with the usage may follow, under an id of the message.
    """
    if not isinstance(piece, BaseMessageChunk) or type(pieces[-1]) is not type(piece):
        return False
    known = {one.id: one.id.startswith(LC_ID_PREFIX) for one in (pieces[0], pieces[-1]) if one.id}
    is_over = any(getattr(one, "chunk_position", None) == "last" for one in pieces[-2:])
    is_new = piece.id is not None and piece.id.startswith(LC_ID_PREFIX) in known.values()
    return piece.id in known or not (is_over or is_new)


def change_class(message: BaseMessage, kind: type[M], **more: Any) -> M:
    """Return a message as one of another class, which says the same under the same id and name."""
    return kind(
        message.content,
        id=message.id,
        name=message.name,
        additional_kwargs=message.additional_kwargs,
        response_metadata=message.response_metadata,
        **more,
    )


def merge_pieces(pieces: Sequence[M]) -> M:
    """Return the sum of the chunks of one message; nothing of their text is lost.

    An empty list as first content would swallow text that follows; so all empty contents are made
    of the kind that the first real one has. Adding also forgets the speaker's name.
    """
    if len(pieces) == 1:
        return pieces[0]
    kind = next((type(piece.content) for piece in pieces if piece.content), str)
    even = [
        piece if piece.content else piece.model_copy(update={"content": kind()}) for piece in pieces
    ]
    total: M = even[0] + even[1:]  # type: ignore[assignment]  # chunks add up
    total.name = next((piece.name for piece in pieces if piece.name), None)
    return total


# -- Messages as they are handed out --------------------------------------------------------------
_PLAIN: dict[Role, type[BaseMessage]] = {
    "user": HumanMessage,
    "assistant": AIMessage,
    "system": SystemMessage,
    "tool": ToolMessage,
}


def build_message(entry: Entry) -> BaseMessage:
    """Return a whole message of the entry's role, with an id.

    Nothing in it is shared with the entry.
    """
    said: BaseMessage = entry.message or HumanMessage("\n".join(entry.contents))
    message = copy_detached(said, id=entry.message_id)
    plain = _PLAIN.get(entry.role)
    if plain is not None and not isinstance(message, plain):
        role = getattr(message, "role", "user")
        more = {"tool_call_id": ""} if plain is ToolMessage else {}
        message = change_class(message, plain, **more)
        if entry.role == "user" and role.lower() not in ("user", "human"):
            message.name = message.name or role  # one that no model knows says who speaks
    return message


def is_plain_text(message: BaseMessage) -> bool:
    """Return whether a message is text that every provider takes, and nothing beside it."""
    content = message.content
    return (
        isinstance(content, str)
        and not message.additional_kwargs
        and message.name is None
        and "output_version" not in message.response_metadata
        and (content.isascii() or clean_text(content) == content)
        and not (content.isspace() or not content)
        and not (isinstance(message, AIMessage) and message.tool_calls)
        and not (isinstance(message, AIMessage) and message.invalid_tool_calls)
    )


def is_blank_message(message: BaseMessage) -> bool:
    """Return whether a message that was handed out has neither content nor tool calls."""
    return not message.content and not getattr(message, "tool_calls", None)


def copy_detached(message: M, shared: Collection[str] = (), **update: Any) -> M:
    """Return a message that shares nothing with another but the fields named in `shared`.

    Args:
        message: The other one.
        shared: Names of fields whose values are not copied.
        update: Fields that differ, as for `model_copy`.
    """
    # What `model_copy(deep=True)` does, in a third of the time.
    fields, put = message.__dict__ | update, object.__setattr__
    for name, value in fields.items():
        if value is not None and type(value) is not str and name not in shared:
            fields[name] = _copy_value(value)
    twin, private = object.__new__(type(message)), message.__pydantic_private__
    put(twin, "__dict__", fields)
    put(twin, "__pydantic_extra__", _copy_value(message.__pydantic_extra__))
    put(twin, "__pydantic_fields_set__", message.__pydantic_fields_set__.union(update))
    put(twin, "__pydantic_private__", None if private is None else _copy_value(private))
    return twin


def _copy_value(value: Any) -> Any:
    """Return a deep copy; lists, mappings and texts, which is nearly all, without `deepcopy`."""
    kind = type(value)
    if kind is dict:
        return {key: _copy_value(item) for key, item in value.items()} if value else {}
    if kind is list:
        return [_copy_value(item) for item in value] if value else []
    return value if value is None or isinstance(value, _FIXED) else copy.deepcopy(value)


_FIXED = (str, int, float, bytes)
"""Types whose values cannot be changed."""


def get_block_type(block: object) -> str:
    """Return what a content block says it is; empty where it is plain text or says nothing."""
    # Nearly every block is a dict, and whether something is a mapping is slow to find out.
    if not isinstance(block, dict) and not isinstance(block, Mapping):
        return ""
    kind = block.get("type")
    return kind if isinstance(kind, str) else ""


def unwrap_block(block: Any) -> Any:
    """Return a block that LangChain wrapped because it has no standard form."""
    inner = block.get("value") if get_block_type(block) == "non_standard" else None
    return inner if isinstance(inner, Mapping) else block


_FENCE_TAGS = ("recalled", "summary", "context")
"""The tags of recalled lines, of summaries and of sections of a prompt file."""
_UNSEEN = "[\\s\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]*"


def escape_tag(text: str, *tags: str) -> str:
    """Return text in which no tag of these names opens or closes: quoted words end no fence.

    Without names, those are meant that fence recalled lines, summaries and sections of a prompt
    file. Wide signs, and characters in between that nobody sees, do not hide one.
    """
    return re.sub(f"[<\uff1c]{_match_tag(tags)}", "&lt;", text, flags=re.IGNORECASE)


def restore_tag(text: str, *tags: str) -> str:
    """Return text as it was before `escape_tag`, but for wide signs."""
    return re.sub(f"&lt;{_match_tag(tags)}", "<", text, flags=re.IGNORECASE)


def _match_tag(tags: Sequence[str]) -> str:
    names = "|".join(map(_UNSEEN.join, tags or _FENCE_TAGS))
    return rf"(?={_UNSEEN}(?:[/\uff0f]{_UNSEEN})?(?:{names})\b)"


# -- What is stored of a message ------------------------------------------------------------------
WriteHook: TypeAlias = Callable[[BaseMessage], BaseMessage | None]
"""Gets a copy of a message before it is stored or embedded; returns what to store, or None.

A plain function, called in the writer's thread or event loop, so it must be quick; perhaps
more than once for one message. It must return equal messages for equal messages, or what is said
twice under one id is not recognised, and must leave alone what it returned itself. The message
keeps its role and, whatever the hook does, its id. What the hook raises goes to the caller as it
is, and nothing is written.
"""


def check_plain_function(name: str, function: object, *, of: str) -> None:
    """Refuse what is neither None nor a plain function.

    Args:
        name: The option that it is given as.
        function: What was given.
        of: What the function gets.

    Raises:
        ConfigError: If it cannot be called, or has to be awaited.
    """
    if not callable(function) and function is not None:
        raise ConfigError(f"{name} must be a function of {of}, got {describe_value(function)}")
    if any(map(inspect.iscoroutinefunction, (function, getattr(function, "__call__", None)))):  # noqa: B004
        msg = (
            f"{name} must be a plain function, got the coroutine function "
            f"{describe_value(function)}; synchronous calls write, too"
        )
        raise ConfigError(msg)


class DraftBuilder:
    """Makes drafts of messages. Holds nothing but the hook; as thread-safe as that is."""

    def __init__(self, hook: WriteHook | None = None) -> None:
        """Take the hook; None stores every message as it is.

        Raises:
            ConfigError: If it is not a plain function.
        """
        check_plain_function("before_write", hook, of="a message")
        self.hook = hook

    # -- drafts ---------------------------------------------------------------------------------

    def build(
        self,
        message: BaseMessage,
        *,
        turn_id: str | None = None,
        metadata: Metadata | None = None,
    ) -> Draft | None:
        """Return the draft that logs a message; None if nothing of it is to be stored.

        Raises:
            InvalidMessageError: If it cannot be stored, or the hook returned what it must not.
        """
        return self.filter_draft(make_draft(message, turn_id=turn_id, metadata=metadata))

    def build_all(
        self, messages: Iterable[BaseMessage], *, turn_id: str | None = None
    ) -> list[Draft]:
        """Return the drafts of those messages that are to be stored; see `build`."""
        # The hook is not asked about any of them before all are known to be messages.
        given = [make_draft(message, turn_id=turn_id) for message in messages]
        return [kept for draft in given if (kept := self.filter_draft(draft)) is not None]

    def filter_draft(self, draft: Draft) -> Draft | None:
        """Return what is to be stored of a draft that says something, if anything is."""
        if draft.message is None:
            contents = self.filter_pieces(draft.contents)
            return None if contents is None else replace(draft, contents=contents)
        if not is_remembered(draft.message):
            return None
        if self.hook is None:
            return draft
        kept = self._call(draft, self.hook)
        if kept is None or not is_remembered(kept):
            return None
        return replace(draft, message=kept, contents=get_text_pieces(kept))

    def filter_message(self, message: BaseMessage) -> BaseMessage | None:
        """Return what is to be stored of a message; None, and nothing is asked, if it is not to be.

        Raises:
            InvalidMessageError: If it cannot be stored, or the hook returned what it must not.
        """
        return self.apply_hook(message) if is_remembered(message) else None

    def filter_entry(self, entry: Entry) -> Entry | None:
        """Return what is to be stored of another log's entry, if anything is."""
        kept = self.filter_draft(redraft(entry))
        if kept is None:
            return None
        return replace(entry, message=kept.message, contents=kept.contents)

    # -- words ----------------------------------------------------------------------------------

    def filter_pieces(self, pieces: Sequence[str]) -> tuple[str, ...] | None:
        """Return what is to be stored of a summary's text, if anything is."""
        if self.hook is None or not pieces:
            return tuple(pieces)
        kept = self.apply_hook(SystemMessage(make_content(pieces)))
        return None if kept is None else get_text_pieces(kept)

    def filter_question(self, text: str) -> str:
        """Return what may be searched for instead of a text; empty if nothing may."""
        kept = self.apply_hook(HumanMessage(text))
        return "" if kept is None else "\n".join(get_text_pieces(kept))

    def apply_hook(self, message: BaseMessage) -> BaseMessage | None:
        """Return what the hook makes of a message, under the message's id.

        Raises:
            InvalidMessageError: If the message cannot be stored, which the hook is then not asked
                about, or if the hook returned what it must not.
        """
        if self.hook is None:
            return make_storable(message)
        return self._call(make_draft(message), self.hook)

    def _call(self, draft: Draft, hook: WriteHook) -> BaseMessage | None:
        # A copy that shares nothing with the caller's, and holds what would be stored.
        message = cast("BaseMessage", encode_checked(draft)[1][0])
        own_id, role = message.id, get_role(message)  # a draft of a summary has one of its own
        new: Any = hook(message)
        if new is None:
            return None
        if inspect.iscoroutine(new):
            new.close()
        # Named, never quoted: what the hook takes out must not stand in an error either.
        name = f"the {role} message {own_id!r}" if own_id else f"a {role} message"
        if not isinstance(new, BaseMessage):
            kind = type(new).__name__
            msg = f"before_write returned a {kind} for {name}; return a message or None"
            raise InvalidMessageError(msg)
        if get_role(new) != role:
            msg = f"before_write made {name} one of the role {get_role(new)}; the role must stay"
            raise InvalidMessageError(msg)
        return make_draft(new.model_copy(update={"id": own_id})).message


def is_remembered(message: BaseMessage | None) -> bool:
    """Return whether there is a message, and it is to be stored: not marked, nor of a summary."""
    more = {} if message is None else message.additional_kwargs
    return message is not None and more.get("remember") is not False and not is_of_summary(message)


SUMMARY_SOURCE = "convmem_summary"
"""Marks the message that carries the summary: `additional_kwargs["source"]`."""
NOTED_SOURCE = "convmem_summary_noted"
"""Marks the assistant's answer to it, after which the user speaks."""
NOTED_TEXT = "Noted."


def is_of_summary(message: BaseMessage) -> bool:
    """Return whether a message tells a summary, or answers it: a log has what it stands for."""
    return message.additional_kwargs.get("source") in (SUMMARY_SOURCE, NOTED_SOURCE)


def make_summary_messages(text: str, ids: Sequence[str | None]) -> list[BaseMessage]:
    """Return the messages that tell a summary.

    Args:
        text: The summary as `format_summary` writes it.
        ids: Two for a message of the user's, and for the assistant's answer to it, so that the
            roles alternate whatever follows. What users and tools said must not speak as the
            application. One is for a message of the system's, for whoever wants that.
    """
    mark = {"source": SUMMARY_SOURCE}
    if len(ids) == 1:
        return [SystemMessage(text, id=ids[0], additional_kwargs=mark)]
    noted = {"source": NOTED_SOURCE}
    return [
        HumanMessage(text, id=ids[0], additional_kwargs=mark),
        AIMessage(NOTED_TEXT, id=ids[1], additional_kwargs=noted),
    ]


def make_content(pieces: Sequence[str]) -> str | list[str | dict[str, str]]:
    """Return the content of a message that says these pieces."""
    if len(pieces) == 1:
        return pieces[0]
    return [{"type": "text", "text": piece} for piece in pieces]


# -- Tokens: by one default counter everywhere, without a network; see `views.tokens` --------------
TokenCounter: TypeAlias = Callable[[Sequence[BaseMessage]], int]
"""Counts the tokens of messages; it need not be additive."""
TextCounter: TypeAlias = Callable[[str], int]
"""Counts the tokens of a text."""
TokenCounterLike: TypeAlias = TokenCounter | BaseLanguageModel[Any] | Literal["auto"]
"""What may count: a function of messages, a model that counts for itself, or `"auto"`, which is the
estimate of this package."""
TOKENS_PER_MESSAGE = 3
"""Role and separators that every chat format adds."""
TOKENS_PER_MEDIA = 85
"""An image, audio clip or file; its bytes are not text and are not counted as text."""
_BLOCK_TEXTS = ("text", "reasoning", "thinking", "refusal")
_COMPACTED_TEXTS = ("content", "encrypted_content")
_COUNTED_WITH_CALLS = frozenset({"function_call", "tool_call", "tool_call_chunk", "tool_use"})
"""Blocks that repeat what a message's tool calls say."""


def count_tokens(
    messages: Iterable[BaseMessage], count_text: TextCounter = count_text_tokens
) -> int:
    """Return about how many tokens messages take, tool calls and media included.

    Args:
        messages: The messages.
        count_text: What counts their texts.
    """
    listed = list(map(list_counted, messages))
    texts = sum(count_text(text) for own, _ in listed for text in own)
    return texts + sum(TOKENS_PER_MESSAGE + TOKENS_PER_MEDIA * media for _, media in listed)


def list_counted(message: BaseMessage) -> tuple[list[str], int]:
    """Return the texts of a message that take tokens, and how many media it holds."""
    content = message.content
    blocks: Sequence[Any] = [content] if isinstance(content, str) else content
    texts = list(map(_get_block_text, blocks))
    media = texts.count(None)
    texts.append(message.name)
    if isinstance(message, AIMessage):
        calls = (*message.tool_calls, *message.invalid_tool_calls)
        texts += [json.dumps(call, default=str, ensure_ascii=False) for call in calls]
    elif isinstance(message, ToolMessage):
        texts.append(message.tool_call_id)
    return list(filter(None, texts)), media


def _get_block_text(block: Any) -> str | None:
    """Return what counts of a block; None for media."""
    if isinstance(block, str):
        return block
    if not isinstance(block, Mapping):
        return None
    kind = get_block_type(block)
    for key in _COMPACTED_TEXTS if kind == "compaction" else _BLOCK_TEXTS:
        if isinstance(block.get(key), str):
            return str(block[key])
    if kind in _COUNTED_WITH_CALLS:
        return ""
    if kind.endswith(("_tool_use", "_tool_result")):  # tools that ran at a provider
        return json.dumps(block, default=str, ensure_ascii=False)
    return None


# -- Who counts: the estimate of this package, a function of the application, a model itself ------
_CHARACTERS_PER_TOKEN = 16
"""No token of a budget holds more characters than this on average."""


def read_counter(value: TokenCounterLike | None) -> TokenCounter:
    """Return what counts messages; without a counter of the application's, the estimate.

    Raises:
        ConfigError: If it can count nothing.
    """
    if value is None or (isinstance(value, str) and value == "auto"):
        return count_tokens
    if isinstance(value, BaseLanguageModel):
        return partial(_count_checked, value.get_num_tokens_from_messages)
    if callable(value) and not isinstance(value, type):
        return partial(_count_checked, value)
    msg = (
        "token_counter must be a function of messages, a model that counts tokens, or None, "
        f"got {describe_value(value)}"
    )
    raise ConfigError(msg)


def _count_checked(function: Any, messages: Sequence[BaseMessage]) -> int:
    """Return the tokens of messages by a function of the application.

    Raises:
        ConfigError: If the function returns anything but a whole number from 0 on.
    """
    count = function(list(messages)) if messages else 0
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        got = describe_value(count)
        msg = f"token_counter must return a whole number of tokens from 0 on, got {got}"
        raise ConfigError(msg)
    return count


def get_text_counter(counter: TokenCounter) -> TextCounter:
    """Return what counts texts as a counter counts messages.

    One that knows messages alone counts a text as what a user says, the frame included.
    """
    if counter is count_tokens:
        return count_text_tokens
    return lambda text: counter([HumanMessage(text)]) if text else 0


def find_prefix(text: str, room: int, count: TextCounter) -> int:
    """Return how many of the first characters of a text fit into so many tokens; 0 if none do."""
    return _find_most(text, room, lambda most: count(text[:most]))


def find_suffix(text: str, room: int, count: TextCounter) -> int:
    """Return how many of the last characters of a text fit into so many tokens; 0 if none do."""
    return _find_most(text, room, lambda most: count(text[len(text) - most :]))


def _find_most(text: str, room: int, count: Callable[[int], int]) -> int:
    sizes = range(1, min(len(text), max(room, 0) * _CHARACTERS_PER_TOKEN) + 1)
    return bisect_right(sizes, room, key=count)
