"""The kit of which logs are made: what every log does alike stands here, and only here.

A log stores `Row`s. To write one on a storage of your own, derive it from `StoredLog` and supply
the abstract methods of `MessageLog`:

- `append` encodes the drafts (`encode_drafts`), reads what the thread holds of their ids, plans
  (`plan_append`), and writes `plan.added` in one transaction. The plan is void if another writer
  was faster: then read and plan anew.
- `entries`, `find` and `changes` read rows and turn them into entries (`decode_entry`,
  `build_changes`); `find` compares `read_message_id`, since a hash of an id is not the id.
- `annotate` puts `annotate_metadata` of the stored text in its place.
- `forget` checks what it was given (`check_scope`), raises the owner's generation, and gives no
  position again.
- A log may keep a checksum of each row (`Signer`): `plan_append(sign=...)` makes it, and what
  reads rows takes the signer. A row that is damaged becomes an entry that says so
  (`damage`) and takes nothing else down.
- `set_state` stores `encode_state` under `make_version`, if the version is the one expected.

What a log must promise, by value: positions rise in the order of commits, with no two alike for an
owner, so that a cursor of `changes` passes nothing that is still to come; a batch is stored whole
or not at all; what is acknowledged survives a crash; and no write that was acknowledged is lost to
another process. `langchain_convmem.testing.MessageLogContract` holds all of it as tests.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple, NoReturn

from langchain_convmem.background import run_in_thread
from langchain_convmem.causes import describe_value
from langchain_convmem.errors import ConfigError, InvalidMessageError, LogError
from langchain_convmem.ids import get_ulid_ms, is_ulid, make_ulid
from langchain_convmem.logs.verify import Progress, VerifyReport, verify_log
from langchain_convmem.message_log import CACHE_PREFIX, MessageLog
from langchain_convmem.records import (
    Changes,
    Control,
    DialogLine,
    Draft,
    Entry,
    LineChanges,
    Metadata,
    Owner,
    Role,
    StateDocument,
    ThreadKey,
)
from langchain_convmem.views.codec import (
    DecodedBody,
    decode_body,
    decode_metadata,
    dump_json,
    encode_body,
    encode_checked,
    encode_metadata,
    load_json,
)
from langchain_convmem.views.lines import make_dialog_lines
from langchain_convmem.views.live import find_retracted_ids

_LARGEST_INTEGER = 2**63 - 1
"""Of every database; positions and counts stay far below."""
DAMAGED_NAME = "damaged-"
"""With its position, the name of an entry whose id cannot be read."""
_ANY_THREAD = ThreadKey(None, "-")
"""Stands in for the thread where controls are judged: by their ids alone."""


# -- rows ---------------------------------------------------------------------------------------


# Not frozen: that makes each of many rows slower to make.
@dataclass(slots=True)
class Row:
    """An entry as it is stored: columns and JSON text. Treat it as read-only.

    Attributes:
        id: The entry's id, a ULID.
        position: Its place among its owner's entries.
        turn_id: The turn it belongs to; its own id where it opens one.
        role: Of whom it is.
        body: Message, contents, control and cover, as JSON text.
        metadata: As JSON text; None where there is nothing to keep.
        signature: What `Signer` made of it; empty in a log that signs nothing.
        damage: What is wrong with its columns, in a few words, without what they hold; empty
            where they can be read. The others then hold whatever could be read.
        key_hash: Of a row to be written: the hash of its message's id, None where no id finds it.
        decoded: What `body` reads as, where that is known.
    """

    id: str
    position: int
    turn_id: str
    role: Role
    body: str
    metadata: str | None
    signature: bytes = b""
    damage: str = ""
    key_hash: int | None = None
    decoded: DecodedBody | None = None


class EncodedDraft(NamedTuple):
    """A draft as it will be stored, and as it will be read back.

    Attributes:
        draft: What is to be appended.
        body: Its JSON text.
        decoded: What `body` reads as.
        metadata: Its metadata as JSON text, if there is any.
    """

    draft: Draft
    body: str
    decoded: DecodedBody
    metadata: str | None


def encode_drafts(drafts: Iterable[Draft]) -> list[EncodedDraft]:
    """Return drafts as they will be stored; raises before anything is written.

    Raises:
        InvalidMessageError: If a part of one cannot be kept, or could not be read back.
    """
    return [
        EncodedDraft(draft, *encode_checked(draft), encode_metadata(draft.metadata))
        for draft in drafts
    ]


def decode_entry(key: ThreadKey, row: Row, signer: Signer | None = None) -> Entry:
    """Return the entry of a row; one that is damaged is named so, and shows nothing it held.

    Args:
        key: The thread.
        row: The row.
        signer: Of a log that signs its rows.
    """
    damage = row.damage if signer is None else signer.find_damage(key, row)
    if damage:
        return build_damaged_entry(key, row, damage)
    try:
        message, contents, control, cover = row.decoded or decode_body(row.body)
        metadata = decode_metadata(row.metadata, created_ms=get_ulid_ms(row.id))
    except ValueError:  # which may quote what it could not read
        return build_damaged_entry(key, row, "its text is no stored message")
    return Entry(
        id=row.id,
        key=key,
        position=row.position,
        turn_id=row.turn_id,
        role=row.role,
        message=message,
        contents=contents,
        metadata=metadata,
        control=control,
        cover=cover,
        checksum=format_checksum(row.signature),
    )


def read_created_ms(entry_id: str) -> int:
    """Return when an entry was written, in milliseconds since the epoch; 0 for a damaged id."""
    return get_ulid_ms(entry_id) if is_ulid(entry_id) else 0


def build_damaged_entry(key: ThreadKey, row: Row, damage: str) -> Entry:
    """Return what stands in for an entry that cannot be read: a control entry without effect."""
    created_ms = read_created_ms(row.id)
    return Entry(
        id=row.id,
        key=key,
        position=row.position,
        turn_id=row.turn_id,
        role="control",
        metadata=Metadata(timing={"creation": created_ms}),
        control=Control((), "damaged"),
        damage=damage,
    )


def annotate_row(
    key: ThreadKey,
    row: Row,
    change: Callable[[str | None], str | None],
    signer: Signer,
) -> Row:
    """Return a row with other metadata, signed again; its checksum stays.

    Args:
        key: Its thread.
        row: The row.
        change: Returns the new metadata as JSON text; see `annotate_metadata`.
        signer: That of the log.

    Raises:
        LogError: If the row is damaged; a new signature would hide that.
    """
    damage = signer.find_damage(key, row)
    if damage:
        msg = f"entry {row.id!r} of thread {key.thread_id!r} is damaged: {damage}; forget it"
        raise LogError(msg, thread_id=key.thread_id, position=row.position)
    changed = replace(row, metadata=change(row.metadata))
    changed.signature = signer.sign(key, changed)
    return changed


def build_changes(
    rows: Iterable[tuple[ThreadKey, Row]],
    cursor: int,
    generation: int,
    signer: Signer | None = None,
) -> Changes:
    """Return rows after a cursor as entries; see `MessageLog.changes`."""
    entries = tuple(decode_entry(key, row, signer) for key, row in rows)
    return Changes(entries, entries[-1].position if entries else cursor, generation)


def build_line_changes(
    rows: Iterable[tuple[ThreadKey, Row]],
    cursor: int,
    generation: int,
    limit: int | None,
    signer: Signer | None = None,
) -> LineChanges:
    """Return the dialog lines of rows after a cursor; see `MessageLog.line_changes`.

    Args:
        rows: All that the log has after the cursor, but no more than the limit.
        cursor: Where they begin.
        generation: See `Changes`.
        limit: How many were asked for.
        signer: Of a log that signs its rows.
    """
    lines: list[DialogLine] = []
    controls: list[Entry] = []
    count = 0
    for count, (key, row) in enumerate(rows, 1):  # noqa: B007 - what is left of it counts
        cursor = row.position
        entry = decode_entry(key, row, signer)
        lines += make_dialog_lines(entry)
        if entry.control is not None:
            controls.append(entry)
    is_last = limit is None or count < limit
    return LineChanges(tuple(lines), tuple(controls), cursor, generation, is_last)


def annotate_metadata(
    text: str | None,
    *,
    attributes: Sequence[str],
    timing: Mapping[str, int] | None,
    aux: Mapping[str, Any] | None,
) -> str | None:
    """Return stored metadata with additions: attributes append, the others overwrite by name.

    Raises:
        InvalidMessageError: If an addition cannot be kept as JSON.
    """
    before: dict[str, Any] = load_json(text) if text else {}
    metadata = Metadata(
        attributes=(*before.get("a", ()), *attributes),
        timing={**before.get("t", {}), **(timing or {})},
        summary_ids=tuple(before.get("s", ())),
        aux={**before.get("x", {}), **(aux or {})},
    )
    return encode_metadata(metadata)


# -- checksums, so that nothing that was said can be altered unseen -------------------------------
# The checksum of a row covers its owner, thread, position, id, turn, role and body. Six more bytes
# cover the metadata; `annotate` renews those and leaves the checksum as it is.
#
# Without a key, a checksum shows that no bit has changed. With a key, it also shows that nobody has
# changed the row without knowing the key. Rows that are missing are counted, owner by owner: what
# an owner's row says about that has a checksum of its own.

CHECKSUM_BYTES = 10
"""Of the checksum of a row."""
RECORD_BYTES = 12
"""Of the checksum of what is kept beside the rows."""

_METADATA_BYTES = 6
SIGNATURE_BYTES = CHECKSUM_BYTES + _METADATA_BYTES
"""Of what is stored with a row: its checksum, and that of its metadata."""

_CHECKSUM = slice(CHECKSUM_BYTES)
_LEAST_KEY_BYTES = 16
_MOST_KEY_BYTES = 64
_PERSON = b"convmem row"
_PERSON_METADATA = b"convmem metadata"
_PERSON_RECORD = b"convmem record"


class Signer:
    """Signs the rows of one log and checks them. Thread-safe.

    Attributes:
        key_id: Tells keys apart without telling the key, 8 bytes; empty without a key.
    """

    def __init__(self, key: bytes | str | None = None) -> None:
        """Prepare to sign.

        Args:
            key: A secret of 16 to 64 bytes; text counts as UTF-8. None signs against accidents
                alone.

        Raises:
            ConfigError: If the key is too short or too long.
        """
        secret = key.encode() if isinstance(key, str) else key
        if secret is not None and not _LEAST_KEY_BYTES <= len(secret) <= _MOST_KEY_BYTES:
            bounds = f"{_LEAST_KEY_BYTES} to {_MOST_KEY_BYTES} bytes"
            raise ConfigError(f"a signing key has {bounds}, got {len(secret)}")
        self._key = secret or b""
        self.key_id = _digest(self._key, b"key", 8, _PERSON) if secret else b""
        self._latest: tuple[ThreadKey | None, blake2b] = (None, blake2b())

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied, and with it what holds the log; it holds the key."""
        raise ConfigError("a log cannot be pickled or copied; open it in each process that uses it")

    def sign(self, key: ThreadKey, row: Row) -> bytes:
        """Return the signature of a row: `SIGNATURE_BYTES` bytes.

        Most rows have no metadata, and a second hash would take as long as the first: then the
        first one stands for both. Every read of every row comes here.

        Args:
            key: Its thread.
            row: The row; what it carries as a signature is not looked at.
        """
        row_id, turn_id = row.id, row.turn_id
        # Only the turn may hold a line end, and its length is told: no part can be shifted. An
        # empty turn, which no row has, must not pass for the row's own.
        turn = "0\n" if turn_id == row_id else f"{len(turn_id) or '-'}\n{turn_id}"
        text = f"{row.position}\n{row.role}\n{row_id}\n{turn}\n{row.body}"
        known, begun = self._latest  # mostly the thread of the row before
        if known is not key:
            user = "-" if key.user_id is None else f"{len(key.user_id)}+{key.user_id}"
            name = _digest(b"", f"{user}\n{key.thread_id}".encode(), 16, _PERSON)
            begun = blake2b(name, digest_size=SIGNATURE_BYTES, key=self._key, person=_PERSON)
            self._latest = key, begun
        hashed = begun.copy()  # a fifth of the time of a new one
        hashed.update(text.encode("utf-8", "surrogatepass"))
        digest = hashed.digest()
        if row.metadata is None:
            return digest
        checksum = digest[_CHECKSUM]
        # As text, whatever an editor has put there.
        data = checksum + f"{row.metadata}".encode("utf-8", "surrogatepass")
        return checksum + _digest(self._key, data, _METADATA_BYTES, _PERSON_METADATA)

    def find_damage(self, key: ThreadKey, row: Row) -> str:
        """Return what is wrong with a row, in a few words; empty where nothing is."""
        computed, signature = self.sign(key, row), row.signature
        # Nobody who measures how long this takes could write what is compared.
        if row.damage or signature == computed:
            return row.damage
        is_metadata = signature[_CHECKSUM] == computed[_CHECKSUM]
        return f"{'its metadata' if is_metadata else 'it'} does not match its checksum"

    def sign_record(self, kind: str, *covered: object) -> bytes:
        """Return the checksum of what is kept beside the rows, `RECORD_BYTES` bytes.

        Args:
            kind: What it is; a record of one kind never passes for one of another.
            covered: Texts, numbers, bytes and None that it depends on. Of much data, pass a digest.
        """
        return _digest(self._key, repr((kind, *covered)).encode(), RECORD_BYTES, _PERSON_RECORD)


def check_key(stored: bytes, own: bytes, place: str) -> None:
    """Refuse a log that is signed with another key, or with none where there is one.

    Args:
        stored: The id of the key that signs it; empty where none does.
        own: That of the key that it is opened with.
        place: Names the log.

    Raises:
        ConfigError: If they differ.
    """
    if stored == own:
        return
    if not own:
        raise ConfigError(f"{place} is signed with a key; open it with its signing_key")
    if stored:
        raise ConfigError(f"{place} is signed with another key than the signing_key given")
    msg = f"{place} is not signed with a key; copy it into a new log that has a signing_key"
    raise ConfigError(msg)


def format_checksum(signature: bytes) -> str:
    """Return the checksum of a row from its signature, for `Entry.checksum`."""
    return signature[_CHECKSUM].hex()


def _digest(key: bytes, data: bytes, size: int, person: bytes) -> bytes:
    return blake2b(data, digest_size=size, key=key, person=person).digest()


# -- ids of messages ----------------------------------------------------------------------------


def get_own_id(draft: Draft) -> str | None:
    """Return the message's own id; an empty one, as some services send, is none."""
    return (draft.message.id or None) if draft.message is not None else None


def read_message_id(entry_id: str, body: str) -> str:
    """Return the key of a stored message within its thread: its own id, else the entry's."""
    try:
        return json.loads(body)["m"]["id"] or entry_id
    except (ValueError, TypeError, LookupError):
        # Without a message, without an id, or damaged: such an entry goes by its own id, so that
        # it can still be forgotten.
        return entry_id


def hash_message_id(message_id: str) -> int:
    """Return 31 bits that find a message's id in an index without storing the id twice.

    Other ids may share them: compare the id of what was found.
    """
    digest = hashlib.blake2b(message_id.encode("utf-8", "surrogatepass"), digest_size=4)
    return int.from_bytes(digest.digest(), "big") >> 1


def list_own_ids(batch: Iterable[EncodedDraft]) -> list[str]:
    """Return the ids that messages of a batch have themselves, in order."""
    return [own_id for one in batch if (own_id := get_own_id(one.draft)) is not None]


def has_same_payload(first: str, second: str) -> bool:
    """Return whether two bodies hold the same message, its id aside."""
    return _drop_id(first) == _drop_id(second)


def _drop_id(body: str) -> str:
    fields = json.loads(body)
    fields.get("m", {}).pop("id", None)
    # As text, since True, 1 and 1.0 are equal as values.
    return json.dumps(fields, sort_keys=True)


# -- appending ----------------------------------------------------------------------------------


class AppendPlan(NamedTuple):
    """What one append writes, and which row stands for each draft; made by `plan_append`.

    Attributes:
        rows: One for each draft, in order: a new one, or the one that was there already.
        added: The new rows by position, control entries included; empty if all was there.
    """

    rows: Sequence[Row]
    added: Sequence[Row]

    def build_entries(self, key: ThreadKey) -> list[Entry]:
        """Return one entry for each draft, as it will be read."""
        return [decode_entry(key, row) for row in self.rows]


def plan_append(
    batch: Sequence[EncodedDraft],
    stored: Sequence[Row] = (),
    *,
    first_position: int,
    make_id: Callable[[int], str] = lambda _position: make_ulid(),
    sign: Callable[[Row], bytes] | None = None,
) -> AppendPlan:
    """Return what an append of drafts writes to a thread. No I/O.

    A message whose own id is in the thread, or earlier in the batch, is stored once: with equal
    payload the row that is there stands for it; with another payload a control entry (`replaced`)
    retracts that row, and a new one takes its place in its turn. What was retracted does not count.

    Args:
        batch: The drafts, encoded.
        stored: Rows of the thread, by ascending position: every version of a message whose own id
            is among the drafts', and, if there is any, every control entry. Others do no harm, and
            none is damaged: whoever says that again puts it right.
        first_position: Of the first new row; the next ones count on.
        make_id: Returns the id of an entry from its position, ascending; a new ULID by default.
        sign: Returns the signature of a new row (`Signer.sign`); None signs nothing.
    """
    planner = _Planner(first_position, make_id, sign)
    if stored:
        planner.note(stored, frozenset(list_own_ids(batch)))
    for encoded in batch:
        planner.put(encoded)
    return AppendPlan(planner.rows, planner.added)


@dataclass
class _Planner:
    """A thread's rows with new ones after them, by message id."""

    next_position: int
    make_id: Callable[[int], str]
    sign: Callable[[Row], bytes] | None
    rows: list[Row] = field(default_factory=list)
    added: list[Row] = field(default_factory=list)
    versions: dict[str, list[Row]] = field(default_factory=dict)
    controls: list[Row] = field(default_factory=list)
    dead: frozenset[str] | None = None

    def note(self, stored: Iterable[Row], wanted: Collection[str]) -> None:
        for row in stored:
            if row.role == "control":
                self.controls.append(row)
            elif (message_id := read_message_id(row.id, row.body)) in wanted:
                self.versions.setdefault(message_id, []).append(row)

    def put(self, encoded: EncodedDraft) -> None:
        draft, body, decoded, metadata = encoded
        message_id = get_own_id(draft)
        before = None if message_id is None else self._find_live(message_id)
        if before is not None and has_same_payload(before.body, body):
            self.rows.append(before)
            return
        turn_id = draft.turn_id
        if before is not None and before.role != draft.role:
            told = f"{message_id!r} is the id of a message of the role {before.role!r}; one of the"
            raise InvalidMessageError(f"{told} role {draft.role!r} needs another id")
        if before is not None:
            turn_id, mark = before.turn_id, self._take_place()
        entry_id, position = self._take_place()
        if before is not None:
            control = Draft(role="control", control=Control((before.id,), "replaced", entry_id))
            self._add(Row(*mark, mark[0], "control", encode_body(control), None), None)
        row = Row(entry_id, position, turn_id or entry_id, draft.role, body, metadata)
        row.decoded = decoded
        self._add(row, message_id)
        self.rows.append(row)

    def _find_live(self, message_id: str) -> Row | None:
        """Return the version of a message that no control entry retracts."""
        versions = self.versions.get(message_id)
        if not versions:
            return None
        if self.dead is None:
            self.dead = find_retracted_ids(
                [decode_entry(_ANY_THREAD, row) for row in self.controls]
            )
        return next((row for row in reversed(versions) if row.id not in self.dead), None)

    def _take_place(self) -> tuple[str, int]:
        position = self.next_position
        self.next_position += 1
        return self.make_id(position), position

    def _add(self, row: Row, message_id: str | None) -> None:
        if self.sign is not None:
            row.signature = self.sign(row)
        self.added.append(row)
        if row.role == "control":  # the id of a control entry is no message's
            self.controls.append(row)
            self.dead = None
        else:
            name = message_id or row.id
            self.versions.setdefault(name, []).append(row)
            row.key_hash = hash_message_id(name)


# -- checking and bounding ----------------------------------------------------------------------


def check_scope(scope: Owner | ThreadKey, entry_ids: Collection[str] | None) -> Owner:
    """Return whose the scope is; refuse what would forget something else than was meant.

    Raises:
        ConfigError: If entry ids come as one text or without their thread.
    """
    if entry_ids is not None:
        check_ids(entry_ids)
    if isinstance(scope, ThreadKey):
        return scope.owner
    if entry_ids is not None:
        raise ConfigError("entry_ids need the thread they belong to; pass a ThreadKey")
    return scope


def check_ids(ids: Collection[str]) -> None:
    """Refuse one text where several ids are meant: its letters would be taken for ids.

    Raises:
        ConfigError: If the ids come as one text.
    """
    if isinstance(ids, str):
        raise ConfigError(f"ids must be a collection of ids, got {describe_value(ids)}")


def check_user(user_id: str | None) -> None:
    """Refuse an id that no user can have, such as an empty one: it must not be taken for None.

    Raises:
        ConfigError: If it is empty, no text, or no valid Unicode.
    """
    if user_id is not None:
        Owner(user_id=user_id)


def cap_bound(number: int | None) -> int:
    """Return a bound of positions or of a count as an integer that a database takes; None: most."""
    if number is None:
        return _LARGEST_INTEGER
    return max(-_LARGEST_INTEGER, min(number, _LARGEST_INTEGER))


def cap_count(wanted: int | None) -> int:
    """Return how many rows are wanted as a database takes it; a negative limit would be none."""
    return max(cap_bound(wanted), 0)


# -- state documents ----------------------------------------------------------------------------


def encode_state(value: Any) -> str:
    """Return a state document as JSON text.

    Raises:
        InvalidMessageError: If JSON cannot keep it.
    """
    return dump_json(value, what="state document")


def sign_document(signer: Signer, key: ThreadKey, name: str, version: int, text: object) -> bytes:
    """Return the checksum of a state document from its JSON text."""
    return signer.sign_record("document", key.user_id, key.thread_id, name, version, text)


def read_document(
    key: ThreadKey, name: str, stored: Sequence[Any], signer: Signer
) -> StateDocument | None:
    """Return a stored document; None if it is damaged.

    Args:
        key: Its thread.
        name: Its name.
        stored: Version, JSON text (or the bytes of it), and what `sign_document` made of both.
        signer: That of the log.
    """
    version, value, checksum = stored
    text = value.decode(errors="replace") if isinstance(value, bytes) else value
    if checksum == sign_document(signer, key, name, version, text):
        with suppress(ValueError):  # which may quote what it could not read
            return StateDocument(load_json(text), version)
    return None


def decode_document(
    key: ThreadKey, name: str, stored: Sequence[Any], signer: Signer
) -> StateDocument | None:
    """Return what `read_document` does; only a cache, which can be made again, may be damaged.

    Raises:
        LogError: If it is damaged and no cache.
    """
    document = read_document(key, name, stored, signer)
    if document is None and not name.startswith(CACHE_PREFIX):
        msg = f"state document {name!r} of thread {key.thread_id!r} is damaged"
        msg += "; restore it from a backup, or delete it with delete_state"
        raise LogError(msg, thread_id=key.thread_id)
    return document


def make_version(before: int | None) -> int:
    """Return a version greater than `before`, and than any deleted document's version was."""
    return max((before or 0) + 1, time.time_ns() // 1000)


class StoredLog(MessageLog):
    """A message log that checks itself."""

    def verify(self, progress: Progress | None = None) -> VerifyReport:
        """Check the whole log: every entry is read, and what is missing is counted where it can be.

        Others may write meanwhile. Nothing is changed, and no message text is shown.

        Args:
            progress: Called with the entries checked so far and the entries there are.
        """
        return verify_log(self, progress)

    async def averify(self, progress: Progress | None = None) -> VerifyReport:
        """Check the whole log, without blocking the event loop or other calls of this log."""
        return await run_in_thread(partial(self.verify, progress))
