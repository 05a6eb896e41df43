"""`ConversationStore`: a LangGraph store whose items are lines of the log.

What is put is an entry, what is searched is recalled, what was said in threads can be read and
searched as items, too. So the tools of deepagents and langmem, and whatever else works with a
store, reach the same memory as chains, graphs and agents do.

    ("threads", <thread>)    key: message id      what was said in a thread, whichever host wrote it
    any other namespace      key: the item's key  items; each namespace is a thread of its own
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage

from langchain_convmem.background import hop
from langchain_convmem.errors import ConfigError, InvalidMessageError, MissingExtraError
from langchain_convmem.ids import get_now_ms
from langchain_convmem.records import Entry, ThreadInfo, ThreadKey
from langchain_convmem.turns.memory import check_count, get_turn_memory
from langchain_convmem.views.edits import draft_retraction
from langchain_convmem.views.lines import format_iso_time, name_speaker
from langchain_convmem.views.live import find_live_entries
from langchain_convmem.views.messages import read_messages

if TYPE_CHECKING:
    from langchain_convmem.memory import ConversationMemory

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        ListNamespacesOp,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
        validate_op_namespace,
    )
    from langgraph.store.memory import InMemoryStore
except ImportError as error:
    raise MissingExtraError.build("A LangGraph store", "langgraph") from error

THREADS = "threads"
"""The namespace below which threads are read, one label a thread."""

Namespace: TypeAlias = tuple[str, ...]

_PREFIX = "store/"
"""Begins the id of a thread that holds the items of a namespace."""
_FIELD = "store_field"
"""In an item's message: the one field of its value that is text; empty where the text is JSON."""
_SAID = ("user", "assistant", "tool", "system")
_MOST_FILTERED = 200
"""So many lines are recalled at most, where a filter is to choose among them."""
_TTL = "store_ttl"
"""In an item's message: its minutes to live, and when they begin, in milliseconds."""
_READ = "store_read"
"""In the metadata of its entry: when they began anew."""


class ConversationStore(BaseStore):
    """A LangGraph store over a memory. Thread-safe; sync and async.

    `put` appends: what it replaces stays in the log, and is out of every view. `delete` takes the
    item out of the views; only the memory's `forget` erases. `search` with a query is recall over
    the lines of the namespace, best first, with the cosine similarity as score; without one, items
    come latest first. An item of one text field is searched by that text, another by its JSON.
    With `index=False` it is found by its key alone. `index` with fields is refused.

    `ttl` is minutes, as in LangGraph: since the item was last put, or read where `refresh_on_read`
    holds. What has expired is read until `sweep_ttl` erases it, unless `omit_expired` is set.
    What is said in threads does not expire.
    """

    supports_ttl = True

    def __init__(
        self,
        memory: ConversationMemory,
        *,
        user_id: str | None = None,
        user_at: int | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        """Look at the memory of one user, or of the user that a label of each namespace names.

        Args:
            memory: The memory; the caller closes it.
            user_id: Whose memory it is; or
            user_at: which label of a namespace names the user, from 0: 1 for
                `("memories", "{user_id}")`. Such a store never looks at two users at once.
            ttl: LangGraph's defaults of expiry: `default_ttl`, `refresh_on_read`, `omit_expired`.

        Raises:
            ConfigError: If an argument is invalid, not exactly one of both is given, or `ttl` asks
                for a thread that sweeps.
        """
        get_turn_memory(memory)
        if (user_id is None) == (user_at is None):
            raise ConfigError("pass user_id, or as user_at the number of the label that names it")
        if user_at is not None:
            check_count("user_at", user_at, 0)
        if user_id is not None:
            ThreadKey(user_id, "-")
        if ttl and ttl.get("sweep_interval_minutes") is not None:
            msg = "this store starts no thread that sweeps: call sweep_ttl() from a job of yours"
            raise ConfigError(msg)
        self.ttl_config = ttl
        self._memory = memory
        self._user_id = user_id
        self._user_at = user_at

    def __repr__(self) -> str:
        whose = f"user_id={self._user_id!r}, user_at={self._user_at}"
        return f"ConversationStore({self._memory!r}, {whose})"

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations: what is read is as it was before what is put.

        Raises:
            ConfigError: If a namespace names no user, or an option is not supported.
            InvalidMessageError: If a value is not JSON; nothing of the batch is written.
        """
        ops = list(ops)
        for op in ops:
            validate_op_namespace(op)
        puts = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        planned = [self._plan_put(op) for op in puts.values()]
        results = [self._read(op) for op in ops]
        for op, (key, message) in zip(puts.values(), planned, strict=True):
            self._write(key, op.key, message)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations; see `batch`."""
        return await hop(lambda: self.batch(ops))

    def _read(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            item = self._read_items(self._find_place(op.namespace), op.namespace).get(op.key)
            self._renew([item] if item and op.refresh_ttl else [])
            return item
        if isinstance(op, SearchOp):
            found = self._search(op)
            self._renew(found if op.refresh_ttl else [])
            return list[SearchItem](found)
        if isinstance(op, ListNamespacesOp):
            return self._list(op)
        return None

    def _renew(self, items: Iterable[StoredItem]) -> None:
        """Let items that were read live on."""
        for entry in (item.entry for item in items):
            if _find_end(entry) < math.inf:
                self._memory.log.annotate(entry.key, entry.id, aux={_READ: get_now_ms()})

    # -- reading ----------------------------------------------------------------------------------

    def _read_items(self, key: ThreadKey, namespace: Namespace) -> dict[str, StoredItem]:
        """Return the live items of a namespace by their keys, in the order of their last change."""
        entries = self._memory.log.entries(key)
        first = {entry.message_id: entry for entry in reversed(entries)}
        omits_expired = (self.ttl_config or {}).get("omit_expired")
        items: dict[str, StoredItem] = {}
        for entry in find_live_entries(entries):
            name = entry.message_id
            items.pop(name, None)
            is_shown = not omits_expired or _find_end(entry) > get_now_ms()
            if entry.role in _SAID and entry.contents and is_shown:
                items[name] = StoredItem(entry, namespace, first[name])
        return items

    def _search(self, op: SearchOp) -> list[StoredItem]:
        threads = self._find_threads(op.namespace_prefix)
        is_blank = not (op.query or "").strip()
        found = self._read_latest(threads) if is_blank else self._recall(op, threads)
        wanted = op.filter or {}
        kept = [item for item in found if _fits_filter(item.value, wanted)] if wanted else found
        return kept[op.offset : op.offset + op.limit]

    def _read_latest(self, threads: Mapping[ThreadInfo, Namespace]) -> list[StoredItem]:
        read = (self._read_items(info.key, name) for info, name in threads.items())
        found = [item for items in read for item in reversed(items.values())]
        return sorted(found, key=lambda item: item.updated_at, reverse=True)

    def _recall(self, op: SearchOp, threads: Mapping[ThreadInfo, Namespace]) -> list[StoredItem]:
        if not threads or op.limit <= 0:
            return []
        names = {info.key.thread_id: namespace for info, namespace in threads.items()}
        recall = self._memory.recall(
            op.query or "",
            user_id=next(iter(threads)).key.user_id,
            filter={"thread_id": list(names)},
            k=_MOST_FILTERED if op.filter else op.offset + op.limit,
            remember=False,
        )
        read = cache(lambda key: self._read_items(key, names[key.thread_id]))
        hits = [hit for block in recall.blocks for hit in block.matches]
        hits.sort(key=lambda hit: -hit.relevance)
        found: list[StoredItem] = []
        for hit in hits:
            line = hit.line
            item = read(line.key).get(line.line_id.rpartition("#")[0] or line.line_id)
            if item is not None and item.score is None:
                item.score = hit.similarity
                found.append(item)
        return found

    def _list(self, op: ListNamespacesOp) -> list[Namespace]:
        conditions = op.match_conditions or ()
        prefix = next((one.path for one in conditions if one.match_type == "prefix"), ())
        threads = self._find_threads(tuple(takewhile(lambda label: label != "*", prefix)))
        names = [name for info, name in threads.items() if self._read_items(info.key, name)]
        known = InMemoryStore()
        known.batch([PutOp(name, "-", {}) for name in names])
        return known.batch([op])[0]  # type: ignore[return-value]

    # -- whose, and where -------------------------------------------------------------------------

    def _find_threads(self, prefix: Namespace) -> dict[ThreadInfo, Namespace]:
        """Return the threads below a prefix, latest first, and the namespace of each."""
        user = self._find_user(prefix)
        known = self._memory.threads(user)
        found = {info: self._name(prefix, info.key.thread_id) for info in known}
        return {info: name for info, name in found.items() if name[: len(prefix)] == prefix}

    def _find_user(self, namespace: Namespace) -> str:
        """Return the user of a namespace.

        Raises:
            ConfigError: If it does not name one.
        """
        if self._user_at is None:
            return str(self._user_id)
        if len(namespace) <= self._user_at or namespace[self._user_at] == "*":
            msg = (
                f"the namespace {namespace!r} names no user: label {self._user_at} should; "
                "a store over several users looks at one of them at a time"
            )
            raise ConfigError(msg)
        return unquote(namespace[self._user_at])

    def _find_place(self, namespace: Namespace) -> ThreadKey:
        """Return the thread in which a namespace lies."""
        user = self._find_user(namespace)
        path = list(namespace)
        if self._user_at is not None:
            del path[self._user_at]
        if path[:1] == [THREADS] and len(path) == 2:  # noqa: PLR2004 - the root and a thread
            return ThreadKey(user, unquote(path[1]))
        return ThreadKey(user, _PREFIX + "/".join(_quote(label, "/") for label in path))

    def _name(self, prefix: Namespace, thread_id: str) -> Namespace:
        """Return the namespace of a thread, as `_find_place` reads it; a prefix names the user."""
        if thread_id.startswith(_PREFIX):
            path = [unquote(label) for label in thread_id[len(_PREFIX) :].split("/")]
        else:
            path = [THREADS, _quote(thread_id, ".")]
        if self._user_at is not None:
            path.insert(self._user_at, prefix[self._user_at])
        return tuple(label for label in path if label)

    # -- writing ----------------------------------------------------------------------------------

    def _plan_put(self, op: PutOp) -> tuple[ThreadKey, BaseMessage | None]:
        """Return where an item goes, and its message; None for one to delete.

        Raises:
            ConfigError: If the key is empty or an option is not supported.
            InvalidMessageError: If the value cannot be stored.
        """
        if not op.key:
            raise ConfigError("the key of an item must not be empty")
        if isinstance(op.index, list):
            raise ConfigError("index with fields is not supported: all of an item is searched")
        is_number = type(op.ttl) in (int, float)
        if op.ttl is not None and not (is_number and 0 < op.ttl < math.inf):
            raise ConfigError(f"ttl must be a positive number of minutes, or None; got {op.ttl!r}")
        place = self._find_place(op.namespace)
        if op.value is None:
            return place, None
        if not isinstance(op.value, Mapping):
            raise InvalidMessageError(f"{_WANTED}, got {type(op.value).__name__}")
        if place.thread_id.startswith(_PREFIX):
            return place, _make_message(op, op.value)
        [message] = read_messages([dict(op.value)])
        return place, message.model_copy(update={"id": op.key})

    def _write(self, key: ThreadKey, name: str, message: BaseMessage | None) -> None:
        if message is not None:
            self._memory.add_messages([message], thread_id=key.thread_id, user_id=key.user_id)
            return
        live = find_live_entries(self._memory.log.entries(key))
        gone = [one.id for one in live if one.message_id == name]
        if gone:
            self._memory.log.append(key, draft_retraction(gone, "undo"))

    # -- what expires -----------------------------------------------------------------------------

    def sweep_ttl(self, namespace_prefix: Namespace = ()) -> int:
        """Erase what has expired below a prefix, with all that was put under its keys before.

        Call it from a job of yours. A store with `user_at` needs a prefix that names the user.

        Returns:
            How many items were erased.
        """
        swept = 0
        for info in self._find_threads(namespace_prefix):
            key = info.key
            entries = self._memory.log.entries(key) if key.thread_id.startswith(_PREFIX) else []
            over = [one for one in find_live_entries(entries) if _find_end(one) <= get_now_ms()]
            gone = {one.message_id for one in over}
            # By their own ids: what is put meanwhile is not among them.
            ids = [entry.id for entry in entries if entry.message_id in gone]
            if ids:
                self._memory.forget(user_id=key.user_id, thread_id=key.thread_id, entry_ids=ids)
            swept += len(gone)
        return swept


def _quote(text: str, special: str) -> str:
    """Return text with a character written as in URLs, which the percent sign then is as well."""
    return text.replace("%", "%25").replace(special, f"%{ord(special):02X}")


# -- When items expire ----------------------------------------------------------------------------
def _find_end(entry: Entry) -> float:
    """Return when an item is over, in milliseconds; infinite if never."""
    marks = {} if entry.message is None else entry.message.additional_kwargs
    minutes, began = marks.get(_TTL, (math.inf, 0))
    return float(entry.metadata.aux.get(_READ, began) + minutes * 60_000)


# -- Items and messages ---------------------------------------------------------------------------
_WANTED = "the value of an item must be a map of JSON: text, numbers, lists and maps of these"


class StoredItem(SearchItem):
    """An item, and the entry that holds it."""

    __slots__ = ("entry",)

    def __init__(self, entry: Entry, namespace: Namespace, first: Entry) -> None:
        """Read an entry, and when the item was made from its first one."""
        value, key = _read_value(entry), entry.message_id
        super().__init__(namespace, key, value, _get_time(first), _get_time(entry))
        self.entry = entry


def _make_message(op: PutOp, value: Mapping[str, Any]) -> BaseMessage:
    """Return the message of an item. What a tool puts was written by nobody in the dialog.

    Raises:
        InvalidMessageError: If the value is not JSON.
    """
    [field, text] = next(iter(value.items())) if len(value) == 1 else ("", "")
    if not field or not isinstance(text, str) or not text.strip():
        field = ""
        try:
            text = json.dumps(dict(value), ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InvalidMessageError(_WANTED) from error
    # A session of its own: what was put before and after an item says nothing of it.
    marks: dict[str, Any] = {"trust": "tool", "session": op.key, _FIELD: field}
    if op.ttl is not None:
        marks[_TTL] = [op.ttl, get_now_ms()]
    kind = SystemMessage if op.index is False else AIMessage
    return kind(text, id=op.key, additional_kwargs=marks)


def _read_value(entry: Entry) -> dict[str, Any]:
    """Return an item's value as it was put; of a line of a dialog, who said what and when."""
    text = "\n\n".join(entry.contents)
    marks = {} if entry.message is None else entry.message.additional_kwargs
    field = marks.get(_FIELD)
    if field:
        return {field: text}
    if field is not None:
        try:
            return dict(json.loads(text))
        except ValueError:  # a write hook has changed it since
            return {"content": text}
    return {
        "role": entry.role,
        "content": text,
        "speaker": name_speaker(entry),
        "time": format_iso_time(entry.metadata.timing.get("creation", 0)),
    }


def _get_time(entry: Entry) -> datetime:
    return datetime.fromtimestamp(entry.metadata.timing.get("creation", 0) / 1000, UTC)


def _fits_filter(value: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Return whether LangGraph's own store finds a value by a filter.

    Raises:
        ConfigError: If the filter has another operator, or compares with what is no number.
    """
    one = InMemoryStore()
    one.put(("-",), "-", value)
    try:
        return bool(one.search(("-",), filter=wanted))
    except TypeError:  # there is nothing to compare
        return False
    except ValueError:  # which may quote the value
        msg = f"the filter on {', '.join(wanted)} has no such operator, or compares no numbers"
        raise ConfigError(msg) from None
