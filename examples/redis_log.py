"""A message log in Redis, written with the kit `langchain_convmem.logs.base`.

The page "Your own log" walks through it. Its keys end with the ids of an owner, of a thread
and of a message, as JSON:

    owner      hash        generation, and `writes`, which every write changes: writers watch it
    threads    set         the owner's threads
    rows       hash        position -> thread and row as JSON
    order      sorted set  the owner's positions
    thread     sorted set  a thread's positions
    named      set         positions of the entries that go by an id, an entry's or a message's
    controls   set         positions of a thread's control entries
    documents  hash        a thread's state documents: name -> text and version
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import redis

from langchain_convmem.errors import LogClosedError, LogError, LogUnavailableError
from langchain_convmem.ids import get_now_ms, get_ulid_ms
from langchain_convmem.logs import base as kit
from langchain_convmem.message_log import CACHE_PREFIX
from langchain_convmem.records import ForgetReceipt, Owner, StateDocument, ThreadInfo, ThreadKey
from langchain_convmem.views.codec import load_json

if TYPE_CHECKING:
    from langchain_convmem.records import Changes, Draft, Entry

T = TypeVar("T")


class RedisLog(kit.StoredLog):
    """A message log in one Redis server (6.2 or newer), for any number of threads and processes."""

    def __init__(self, url: str, *, prefix: str = "convmem") -> None:
        """Prepare a log at an address, as `redis.from_url` takes it; the first call connects."""
        self._redis: Any = redis.from_url(url)
        self._prefix, self._closed = prefix, False

    def close(self) -> None:
        """Close the connections; later calls raise `LogClosedError`. Idempotent."""
        self._closed = True
        self._redis.close()
        super().close()

    def append(
        self, key: ThreadKey, drafts: Sequence[Draft], *, durable: bool = True
    ) -> list[Entry]:
        """Append all drafts in one transaction; see `MessageLog.append`."""
        del durable
        batch = kit.encode_drafts(drafts)
        plan = kit.plan_append((), first_position=0)

        def write(pipe: Any) -> kit.AppendPlan:
            nonlocal plan
            if any(pipe.exists(self._key("named", key, row.id)) for row in plan.added[:1]):
                return plan  # it was carried out, and only the answer was lost
            stored = self._read_named(pipe, key, kit.list_own_ids(batch))
            if stored:
                controls = pipe.smembers(self._key("controls", key))
                stored += [row for _, row in self._read_rows(pipe, key.owner, controls)]
            most = 2 * len(batch)  # a message that replaces another takes two positions
            first_position = pipe.incrby(self._key("positions"), most) - most + 1
            plan = kit.plan_append(batch, stored, first_position=first_position)
            if plan.added:
                self._begin_write(pipe, key)
            for row in plan.added:
                pipe.zadd(self._key("order", key.owner), {row.position: row.position})
                pipe.zadd(self._key("thread", key), {row.position: row.position})
                for name in self._list_names(key, row):
                    pipe.sadd(name, row.position)
                self._put_row(pipe, key, row)
            return plan

        return self._transact(key.owner, write).build_entries(key)

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

        def write(pipe: Any) -> kit.Row:
            found = [row for row in self._read_named(pipe, key, [entry_id]) if row.id == entry_id]
            if not found:
                msg = f"thread {key.thread_id!r} has no entry {entry_id!r}"
                raise LogError(msg, thread_id=key.thread_id)
            before = found[0].metadata
            text = kit.annotate_metadata(before, attributes=attributes, timing=timing, aux=aux)
            self._begin_write(pipe, key)
            return self._put_row(pipe, key, replace(found[0], metadata=text))

        return kit.decode_entry(key, self._transact(key.owner, write))

    def entries(
        self,
        key: ThreadKey,
        *,
        after: int = 0,
        until: int | None = None,
        last: int | None = None,
    ) -> list[Entry]:
        """Return entries in order of position; see `MessageLog.entries`."""
        bounds = kit.cap_bound(until), f"({kit.cap_bound(after)}", 0, kit.cap_count(last)
        with self._translate_errors():
            positions = self._redis.zrevrangebyscore(self._key("thread", key), *bounds)
            rows = self._read_rows(self._redis, key.owner, positions)
        return [kit.decode_entry(key, row) for _, row in rows]

    def find(self, key: ThreadKey, message_ids: Collection[str]) -> list[Entry]:
        """Return the entries with these message ids; see `MessageLog.find`."""
        kit.check_ids(message_ids)
        with self._translate_errors():
            rows = self._read_named(self._redis, key, message_ids)
        rows = [row for row in rows if kit.read_message_id(row.id, row.body) in message_ids]
        return [kit.decode_entry(key, row) for row in rows if row.role != "control"]

    def threads(self, user_id: str | None) -> list[ThreadInfo]:
        """Return a user's threads, latest first; see `MessageLog.threads`."""
        kit.check_user(user_id)
        found: list[tuple[str, ThreadInfo]] = []
        with self._translate_errors():
            owners = [owner for owner in self.owners() if owner.user_id == user_id]
            for key in [key for owner in owners for key in self._read_threads(owner)]:
                positions = self._redis.zrange(self._key("thread", key), 0, -1)
                ends = self._read_rows(self._redis, key.owner, positions[:1] + positions[-1:])
                if ends:  # else there are documents alone
                    span = get_ulid_ms(ends[0][1].id), get_ulid_ms(ends[-1][1].id)
                    found.append((ends[-1][1].id, ThreadInfo(key, len(positions), *span)))
        return [info for _, info in sorted(found, key=lambda pair: pair[0], reverse=True)]

    def owners(self) -> list[Owner]:
        """Return every user and every thread of no user that has entries."""
        with self._translate_errors():
            names = self._redis.smembers(self._key("owners"))
            owners = [Owner(*json.loads(name)) for name in names]
            return [owner for owner in owners if self._redis.exists(self._key("order", owner))]

    def changes(self, owner: Owner, cursor: int = 0, *, limit: int | None = None) -> Changes:
        """Return entries after the cursor in commit order; see `MessageLog.changes`."""
        bounds = f"({kit.cap_bound(cursor)}", "+inf", 0, kit.cap_count(limit)
        with self._translate_errors():
            pipe = self._redis.pipeline().hget(self._key("owner", owner), "generation")
            pipe.get(self._key("epoch")).zrangebyscore(self._key("order", owner), *bounds)
            generation, epoch, positions = pipe.execute()
            # What is forgotten from here on is missing, and the next generation will say so.
            rows = self._read_rows(self._redis, owner, positions)
        return kit.build_changes(rows, cursor, int(generation or epoch or 0))

    def forget(
        self, scope: Owner | ThreadKey, entry_ids: Collection[str] | None = None
    ) -> ForgetReceipt:
        """Erase an owner, a thread or some of its entries; see `MessageLog.forget`."""
        kit.check_scope(scope, entry_ids)
        owner = scope.owner if isinstance(scope, ThreadKey) else scope
        is_whole = entry_ids is None

        def write(pipe: Any) -> ForgetReceipt:
            epoch = pipe.incr(self._key("epoch"))
            there = self._read_threads(owner)
            keys = [key for key in there if scope in (key, owner)]
            rows = [(key, row) for key in keys for row in self._read_named(pipe, key, entry_ids)]
            homes = [self._key("documents", key) for key in keys]
            documents = [(home, name) for home in homes for name in pipe.hkeys(home)]
            caches = [one for one in documents if json.loads(one[1]).startswith(CACHE_PREFIX)]
            documents = documents if is_whole else caches
            pipe.multi()
            if there:
                pipe.hset(self._key("owner", owner), "generation", epoch)
            for key, row in rows:
                pipe.hdel(self._key("rows", owner), row.position)
                pipe.zrem(self._key("order", owner), row.position)
                pipe.zrem(self._key("thread", key), row.position)
                for name in self._list_names(key, row):
                    pipe.srem(name, row.position)
            for home, name in documents:
                pipe.hdel(home, name)
            for key in keys if is_whole else ():
                pipe.srem(self._key("threads", owner), json.dumps(key.thread_id))
            if is_whole and keys == there:  # not even the name stays
                pipe.srem(self._key("owners"), json.dumps([owner.user_id, owner.thread_id]))
                pipe.delete(self._key("owner", owner))
            counts = len(rows), len(keys) * is_whole, 0, len(documents)
            return ForgetReceipt(*counts, at_ms=get_now_ms())

        return self._transact(owner, write)

    def get_state(self, key: ThreadKey, name: str) -> StateDocument | None:
        """Return the document, or None."""
        with self._translate_errors():
            return _read_document(self._redis.hget(self._key("documents", key), json.dumps(name)))

    def set_state(
        self, key: ThreadKey, name: str, value: Any, *, expected: int | None, durable: bool = True
    ) -> StateDocument | None:
        """Write the document if its version is `expected`; see `MessageLog.set_state`."""
        del durable
        text = json.dumps([kit.encode_state(value), kit.make_version(expected)])

        def write(pipe: Any) -> StateDocument | None:
            found = _read_document(pipe.hget(self._key("documents", key), json.dumps(name)))
            if (None if found is None else found.version) != expected:
                return found if found == _read_document(text) else None  # the answer was lost
            self._begin_write(pipe, key)
            pipe.hset(self._key("documents", key), json.dumps(name), text)
            return _read_document(text)

        return self._transact(key.owner, write)

    def delete_state(self, key: ThreadKey, name: str) -> None:
        """Delete the document if there is one."""
        with self._translate_errors():
            self._redis.hdel(self._key("documents", key), json.dumps(name))

    def _transact(self, owner: Owner, write: Callable[[Any], T]) -> T:
        """Read, plan and write in one transaction, anew as long as other writers are faster."""
        watched, result = self._key("owner", owner), []
        with self._translate_errors():
            self._redis.transaction(lambda pipe: result.append(write(pipe)), watched)
        return result[-1]

    def _begin_write(self, pipe: Any, key: ThreadKey) -> None:
        """End the reading: what follows is done at once, unless another writer was faster."""
        epoch = pipe.get(self._key("epoch")) or 0
        pipe.multi()
        pipe.hincrby(self._key("owner", key.owner), "writes", 1)
        pipe.hsetnx(self._key("owner", key.owner), "generation", epoch)
        pipe.sadd(self._key("owners"), json.dumps([key.owner.user_id, key.owner.thread_id]))
        pipe.sadd(self._key("threads", key.owner), json.dumps(key.thread_id))

    def _put_row(self, pipe: Any, key: ThreadKey, row: kit.Row) -> kit.Row:
        columns = row.id, row.position, row.turn_id, row.role, row.body, row.metadata
        text = json.dumps([key.thread_id, *columns])
        pipe.hset(self._key("rows", key.owner), row.position, text)
        return row

    def _read_rows(
        self, client: Any, owner: Owner, positions: Iterable[bytes]
    ) -> list[tuple[ThreadKey, kit.Row]]:
        wanted = sorted(map(int, positions))
        texts = client.hmget(self._key("rows", owner), wanted) if wanted else ()
        found = [json.loads(text) for text in texts if text is not None]
        return [(ThreadKey(owner.user_id, name), kit.Row(*fields)) for name, *fields in found]

    def _read_named(
        self, client: Any, key: ThreadKey, names: Collection[str] | None
    ) -> list[kit.Row]:
        """Return a thread's rows that go by one of these ids, entries' or messages'; None: all."""
        if names is None:
            positions = client.zrange(self._key("thread", key), 0, -1)
        else:
            sets = [self._key("named", key, name) for name in names]
            positions = client.sunion(sets) if sets else ()
        return [row for _, row in self._read_rows(client, key.owner, positions)]

    def _list_names(self, key: ThreadKey, row: kit.Row) -> set[str]:
        """Return the keys of the sets that a row's position is in."""
        message_id = kit.read_message_id(row.id, row.body)
        by_kind = ("controls", key) if row.role == "control" else ("named", key, message_id)
        return {self._key("named", key, row.id), self._key(*by_kind)}

    def _read_threads(self, owner: Owner) -> list[ThreadKey]:
        names = map(json.loads, self._redis.smembers(self._key("threads", owner)))
        return [ThreadKey(owner.user_id, name) for name in names]

    def _key(self, kind: str, of: Owner | ThreadKey | None = None, name: str | None = None) -> str:
        ids = [] if of is None else [of.user_id, of.thread_id, name]
        return f"{self._prefix}:{kind}:{json.dumps(ids)}"

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        if self._closed:
            raise LogClosedError("the log in Redis is closed; make a new one")
        try:
            yield
        except (redis.ConnectionError, redis.TimeoutError) as error:
            raise LogUnavailableError(f"Redis is unavailable: {error}; try again") from error
        except redis.RedisError as error:
            raise LogError(f"the log in Redis cannot be used: {error}") from error


def _read_document(stored: bytes | str | None) -> StateDocument | None:
    if stored is None:
        return None
    text, version = json.loads(stored)
    return StateDocument(load_json(text), version)
