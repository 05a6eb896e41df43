"""A message log in Redis, written with the kit `langchain_convmem.logs.base`.

    pip install langchain-convmem redis
    redis-server --appendonly yes --appendfsync always

    memory = ConversationMemory(log=RedisLog("redis://localhost:6379/0"))

The page "A log of your own" in the documentation walks through this file. These are the keys; their
names end with the ids of an owner, of a thread and of a message, as JSON:

    owner      hash        generation, and `writes`, which changes with every write: writers watch it
    threads    set         the owner's threads
    rows       hash        position -> a row as JSON
    order      sorted set  the owner's positions
    thread     sorted set  a thread's positions
    named      set         positions of the entries that go by an id, an entry's or a message's
    controls   set         positions of a thread's control entries
    documents  hash        a thread's state documents: name -> version and text

What is acknowledged survives a crash with `appendfsync always`. Clusters are not supported.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, replace
from typing import Any, Self, TypeVar

import redis

from langchain_convmem.errors import LogClosedError, LogError, LogUnavailableError
from langchain_convmem.ids import now_ms, ulid_ms
from langchain_convmem.logs.base import (
    AppendPlan,
    AsyncTwins,
    EncodedDraft,
    Row,
    annotate_metadata,
    build_changes,
    check_ids,
    check_scope,
    check_user,
    clamp_bound,
    decode_entry,
    encode_drafts,
    encode_state,
    get_own_id,
    make_twin,
    make_version,
    plan_append,
    read_message_id,
)
from langchain_convmem.protocols import CACHE_PREFIX
from langchain_convmem.records import (
    Changes,
    Draft,
    Entry,
    ForgetReceipt,
    Owner,
    StateDocument,
    ThreadInfo,
    ThreadKey,
)
from langchain_convmem.views.codec import loads

T = TypeVar("T")


class RedisLog(AsyncTwins):
    """A message log in Redis 6.2 or newer, for any number of threads and processes."""

    def __init__(self, url: str, *, prefix: str = "convmem") -> None:
        """Prepare the log; the first call connects.

        Args:
            url: As `redis.from_url` takes it.
            prefix: How the names of all keys begin.
        """
        self._redis: Any = redis.from_url(url)
        self._prefix = prefix
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; later calls raise `LogClosedError`. Idempotent."""
        self._closed = True
        self._redis.close()
        self._stop_workers()

    # -- writing --------------------------------------------------------------------------------

    def append(
        self, key: ThreadKey, drafts: Sequence[Draft], *, relaxed: bool = False
    ) -> list[Entry]:
        """Append all drafts in one transaction; see `MessageLog.append`."""
        del relaxed
        batch = encode_drafts(drafts)
        plan: AppendPlan | None = None

        def write(pipe: Any) -> AppendPlan:
            nonlocal plan
            if plan and plan.added and pipe.exists(self._key("named", key, plan.added[0].id)):
                return plan  # it was carried out, and only the answer was lost
            most = 2 * len(batch)  # a message that replaces another takes two positions
            first_position = pipe.incrby(self._key("positions"), most) - most + 1
            stored = self._read_stored(pipe, key, batch)
            plan = plan_append(batch, stored, first_position=first_position)
            self._begin(pipe, key)
            for row in plan.added:
                pipe.zadd(self._key("order", key.owner), {row.position: row.position})
                pipe.zadd(self._key("thread", key), {row.position: row.position})
                for name in self._list_names(key, row):
                    pipe.sadd(name, row.position)
                self._put(pipe, key, row)
            return plan

        with self._errors():
            return self._write(key.owner, write).build_entries(key) if batch else []

    def annotate(
        self,
        key: ThreadKey,
        entry_id: str,
        *,
        attributes: Sequence[str] = (),
        timing: Mapping[str, int] | None = None,
        aux: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Add to an entry's metadata; see `MessageLog.annotate`."""

        def write(pipe: Any) -> Row:
            for _, row in self._read_named(pipe, key, [entry_id]):
                if row.id == entry_id:
                    text = row.metadata
                    text = annotate_metadata(text, attributes=attributes, timing=timing, aux=aux)
                    self._begin(pipe, key)
                    return self._put(pipe, key, replace(row, metadata=text))
            msg = f"thread {key.thread_id!r} has no entry {entry_id!r}"
            raise LogError(msg, thread_id=key.thread_id)

        with self._errors():
            return decode_entry(key, self._write(key.owner, write))

    def _write(self, owner: Owner, write: Callable[[Any], T]) -> T:
        """Read, plan and write in one transaction, anew as long as other writers are faster."""
        watched = self._key("owner", owner)
        result: T = self._redis.transaction(write, watched, value_from_callable=True)
        return result

    def _begin(self, pipe: Any, key: ThreadKey) -> None:
        """End the reading part: what follows is done at once, unless another writer was faster."""
        epoch = pipe.get(self._key("epoch")) or 0
        pipe.multi()
        pipe.hincrby(self._key("owner", key.owner), "writes", 1)
        pipe.hsetnx(self._key("owner", key.owner), "generation", epoch)
        pipe.sadd(self._key("owners"), json.dumps([key.owner.user_id, key.owner.thread_id]))
        pipe.sadd(self._key("threads", key.owner), json.dumps(key.thread_id))

    def _put(self, pipe: Any, key: ThreadKey, row: Row) -> Row:
        text = json.dumps([key.thread_id, *astuple(row)])
        pipe.hset(self._key("rows", key.owner), row.position, text)
        return row

    # -- reading --------------------------------------------------------------------------------

    def entries(
        self,
        key: ThreadKey,
        *,
        after: int = 0,
        until: int | None = None,
        last: int | None = None,
    ) -> list[Entry]:
        """Return entries in order of position; see `MessageLog.entries`."""
        bounds = clamp_bound(until), f"({clamp_bound(after)}"
        count = -1 if last is None else max(last, 0)
        with self._errors():
            at = self._key("thread", key)
            positions = self._redis.zrevrangebyscore(at, *bounds, start=0, num=count)
            rows = self._read_rows(self._redis, key.owner, positions)
        return [decode_entry(key, row) for _, row in rows]

    def find(self, key: ThreadKey, message_ids: Collection[str]) -> list[Entry]:
        """Return the entries with these message ids; see `MessageLog.find`."""
        check_ids(message_ids)
        with self._errors():
            rows = self._read_named(self._redis, key, message_ids)
        spoken = [row for _, row in rows if row.role != "control"]
        return [
            decode_entry(key, row)
            for row in spoken
            if read_message_id(row.id, row.body) in message_ids
        ]

    def threads(self, user_id: str | None) -> list[ThreadInfo]:
        """Return a user's threads, latest first; see `MessageLog.threads`."""
        check_user(user_id)
        found: list[tuple[str, ThreadInfo]] = []
        with self._errors():
            for owner in self._read_owners():
                for key in self._read_threads(self._redis, owner):
                    at = self._key("thread", key)
                    ends = self._redis.zrange(at, 0, 0) + self._redis.zrange(at, -1, -1)
                    rows = self._read_rows(self._redis, owner, ends)
                    if owner.user_id == user_id and rows:
                        span = ulid_ms(rows[0][1].id), ulid_ms(rows[-1][1].id)
                        info = ThreadInfo(key, self._redis.zcard(at), *span)
                        found.append((rows[-1][1].id, info))
        return [info for _, info in sorted(found, key=lambda pair: pair[0], reverse=True)]

    def owners(self) -> list[Owner]:
        """Return every user and every thread of no user that has entries."""
        with self._errors():
            owners = self._read_owners()
            return [owner for owner in owners if self._redis.exists(self._key("order", owner))]

    aowners = make_twin(owners)

    def changes(self, owner: Owner, cursor: int = 0, *, limit: int | None = None) -> Changes:
        """Return entries behind the cursor in commit order; see `MessageLog.changes`."""
        count = -1 if limit is None else max(limit, 0)
        with self._errors():
            pipe = self._redis.pipeline(transaction=True)
            pipe.hget(self._key("owner", owner), "generation")
            pipe.get(self._key("epoch"))
            after = f"({clamp_bound(cursor)}"
            pipe.zrangebyscore(self._key("order", owner), after, "+inf", start=0, num=count)
            generation, epoch, positions = pipe.execute()
            # What is forgotten from here on is missing, and the generation will say so.
            rows = self._read_rows(self._redis, owner, positions)
        return build_changes(rows, cursor, int(generation or epoch or 0))

    # -- erasing --------------------------------------------------------------------------------

    def forget(
        self, scope: Owner | ThreadKey, entry_ids: Collection[str] | None = None
    ) -> ForgetReceipt:
        """Erase an owner, a thread or some of its entries; see `MessageLog.forget`."""
        check_scope(scope, entry_ids)
        owner = scope.owner if isinstance(scope, ThreadKey) else scope
        is_whole = entry_ids is None

        def write(pipe: Any) -> ForgetReceipt:
            epoch = pipe.incr(self._key("epoch"))
            there = self._read_threads(pipe, owner)
            keys = [key for key in there if scope in (key, owner)]
            rows = [found for key in keys for found in self._read_named(pipe, key, entry_ids)]
            documents = [
                (self._key("documents", key), name)
                for key in keys
                for name in pipe.hkeys(self._key("documents", key))
                if is_whole or json.loads(name).startswith(CACHE_PREFIX)
            ]
            pipe.multi()
            if there:
                pipe.hset(self._key("owner", owner), "generation", epoch)
            for key, row in rows:
                pipe.hdel(self._key("rows", owner), row.position)
                pipe.zrem(self._key("order", owner), row.position)
                pipe.zrem(self._key("thread", key), row.position)
                for name in self._list_names(key, row):
                    pipe.srem(name, row.position)
            for at, name in documents:
                pipe.hdel(at, name)
            if is_whole:
                for key in keys:
                    pipe.srem(self._key("threads", owner), json.dumps(key.thread_id))
                if keys == there:  # not even the name stays
                    pipe.srem(self._key("owners"), json.dumps([owner.user_id, owner.thread_id]))
                    pipe.delete(self._key("owner", owner))
            threads = len(keys) if is_whole else 0
            return ForgetReceipt(len(rows), threads, documents=len(documents), at_ms=now_ms())

        with self._errors():
            return self._write(owner, write)

    # -- state documents ------------------------------------------------------------------------

    def get_state(self, key: ThreadKey, name: str) -> StateDocument | None:
        """Return the document, or None."""
        with self._errors():
            found = self._redis.hget(self._key("documents", key), json.dumps(name))
        return None if found is None else _read_document(found)

    def set_state(
        self, key: ThreadKey, name: str, value: Any, *, expected: int | None
    ) -> StateDocument | None:
        """Write the document if its version is `expected`; see `ThreadState.set_state`."""
        text = json.dumps([encode_state(value), make_version(expected)]).encode()

        def write(pipe: Any) -> StateDocument | None:
            found = pipe.hget(self._key("documents", key), json.dumps(name))
            before = None if found is None else _read_document(found).version
            if found != text and before != expected:
                return None
            self._begin(pipe, key)
            pipe.hset(self._key("documents", key), json.dumps(name), text)
            return _read_document(text)

        with self._errors():
            return self._write(key.owner, write)

    def delete_state(self, key: ThreadKey, name: str) -> None:
        """Delete the document if there is one."""
        with self._errors():
            self._redis.hdel(self._key("documents", key), json.dumps(name))

    # -- keys and rows --------------------------------------------------------------------------

    def _key(self, kind: str, of: Owner | ThreadKey | None = None, name: str | None = None) -> str:
        ids = [] if of is None else [of.user_id, of.thread_id, name]
        return f"{self._prefix}:{kind}:{json.dumps(ids)}"

    def _list_names(self, key: ThreadKey, row: Row) -> list[str]:
        """Return the keys of the sets that list a row."""
        if row.role == "control":
            return [self._key("named", key, row.id), self._key("controls", key)]
        names = {row.id, read_message_id(row.id, row.body)}
        return [self._key("named", key, name) for name in names]

    def _read_stored(self, pipe: Any, key: ThreadKey, batch: Iterable[EncodedDraft]) -> list[Row]:
        """Return what `plan_append` asks for."""
        own_ids = [own for one in batch if (own := get_own_id(one.draft)) is not None]
        rows = self._read_named(pipe, key, own_ids)
        if rows:
            controls = pipe.smembers(self._key("controls", key))
            rows += self._read_rows(pipe, key.owner, controls)
        return [row for _, row in rows]

    def _read_named(
        self, client: Any, key: ThreadKey, names: Collection[str] | None
    ) -> list[tuple[ThreadKey, Row]]:
        """Return a thread's rows that go by one of the ids, an entry's or a message's; all: None."""
        if names is None:
            positions = client.zrange(self._key("thread", key), 0, -1)
        else:
            sets = [self._key("named", key, name) for name in names]
            positions = client.sunion(sets) if sets else ()
        return self._read_rows(client, key.owner, positions)

    def _read_rows(
        self, client: Any, owner: Owner, positions: Iterable[bytes]
    ) -> list[tuple[ThreadKey, Row]]:
        """Return the rows at positions, in order, each with its thread."""
        wanted = sorted({int(position) for position in positions})
        texts = client.hmget(self._key("rows", owner), wanted) if wanted else ()
        found = [json.loads(text) for text in texts if text is not None]
        return [(ThreadKey(owner.user_id, name), Row(*fields)) for name, *fields in found]

    def _read_threads(self, client: Any, owner: Owner) -> list[ThreadKey]:
        names = sorted(map(json.loads, client.smembers(self._key("threads", owner))))
        return [ThreadKey(owner.user_id, name) for name in names]

    def _read_owners(self) -> list[Owner]:
        return [Owner(*json.loads(name)) for name in self._redis.smembers(self._key("owners"))]

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn the driver's errors into those of a log."""
        if self._closed:
            raise LogClosedError("the log in Redis is closed; make a new one")
        try:
            yield
        except (redis.ConnectionError, redis.TimeoutError) as error:
            raise LogUnavailableError(f"Redis is unavailable: {error}; try again") from error
        except redis.RedisError as error:
            raise LogError(f"the log in Redis cannot be used: {error}") from error


def _read_document(stored: bytes) -> StateDocument:
    text, version = json.loads(stored)
    return StateDocument(loads(text), version)
