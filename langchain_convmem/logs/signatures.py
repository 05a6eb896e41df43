"""Signatures of rows: what was said by whom and where can neither change nor go missing unseen.

A row's signature covers what never changes: owner, thread, position, id, turn, role and body, and
the checksum of the row before it in its thread. So it also chains the rows of a thread: one that
was altered, moved, swapped or taken away shows. Metadata may be added to later and is signed apart.

Checksums are salted by row. Whoever erases a row keeps its `Tombstone`, which holds both checksums
and not the salt: the chain stays whole, and nothing can be guessed from what is left. A tombstone
has a mark of its own, made with the key: who does not know the key cannot make a deletion look like
a forgetting. One whose mark does not fit joins nothing, so that the gap shows.

Without a key, a signature proves that no bit has changed. With a key it also proves that nobody
changed the store who does not know the key. What no signature shows from inside is a tail that is
gone: for that, compare with a head that somebody else holds (`Entry.checksum`).
"""

from __future__ import annotations

import hmac
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b, sha256
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from langchain_convmem.errors import ConfigError

if TYPE_CHECKING:
    from langchain_convmem.columns import Buffer
    from langchain_convmem.logs.base import Row
    from langchain_convmem.records import Owner, ThreadKey

CHECKSUM_BYTES = 10
"""Of the checksum of a row."""
START = bytes(CHECKSUM_BYTES)
"""Stands for the checksum before the first row of a chain."""
DOCUMENT_BYTES = 8
"""Of the checksum of a state document."""
SNAPSHOT_BYTES = 16
"""Of the checksum of an index's snapshot."""

_SALT_BYTES = 8
_METADATA_BYTES = 6
_MARK_BYTES = 8
_BEGIN_BYTES = _SALT_BYTES + CHECKSUM_BYTES
CHECKSUM_PLACE = _BEGIN_BYTES + 1
"""Of the first byte of the checksum in a signature, counted from 1 as databases count."""
_DIGEST_BYTES = CHECKSUM_BYTES + _METADATA_BYTES
SIGNATURE_BYTES = _BEGIN_BYTES + _DIGEST_BYTES
"""Salt, the checksum before, the checksum, and that of the metadata."""

_SALT = slice(_SALT_BYTES)
_BEGIN = slice(_BEGIN_BYTES)
_PREVIOUS = slice(_SALT_BYTES, _BEGIN_BYTES)
_CHECKSUM = slice(_BEGIN_BYTES, _BEGIN_BYTES + CHECKSUM_BYTES)
_LEAST_KEY_BYTES = 16
_MOST_KEY_BYTES = 64
_THREADS_AT_MOST = 2_000
_PERSON = b"convmem row"
_PERSON_METADATA = b"convmem metadata"
_PERSON_DOCUMENT = b"convmem document"
_PERSON_SNAPSHOT = b"convmem snapshot"
_PERSON_TOMBSTONE = b"convmem erased"


class Tombstone(NamedTuple):
    """What is kept of an erased row, so that its thread's chain stays whole.

    Attributes:
        position: Where it stood.
        previous: The checksum of the row before it.
        checksum: Its own.
        mark: Proves that the log made it; see `Signer.is_genuine`.
    """

    position: int
    previous: bytes
    checksum: bytes
    mark: bytes


class Signer:
    """Signs the rows of one log and checks them. Thread-safe.

    Attributes:
        key_id: Tells keys apart without telling the key, 8 bytes; empty without a key.
        unsigned_until: The last position at which a row may have no signature, since an older
            release wrote it; None where any row may.
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
            msg = f"a signing key has {bounds}, got {len(secret)}"
            raise ConfigError(msg)
        self._key = secret or b""
        self.key_id = _digest(self._key, b"key", 8, b"", _PERSON) if secret else b""
        self.unsigned_until: int | None = None
        self._threads: dict[ThreadKey, blake2b] = {}
        self._latest: tuple[ThreadKey | None, blake2b | None] = (None, None)

    @property
    def has_key(self) -> bool:
        """Whether it signs against editors, too."""
        return bool(self._key)

    def chain(self, key: ThreadKey, head: bytes = START) -> Callable[[Row], bytes]:
        """Return what signs new rows of a thread, each after the one before.

        Args:
            key: The thread.
            head: The checksum of its last row or tombstone; see `get_head`.
        """

        def sign_next(row: Row) -> bytes:
            nonlocal head
            begin = os.urandom(_SALT_BYTES) + head
            digest = self._hash_row(key, row, begin)
            if row.metadata is not None:
                digest = self._add_metadata(begin, digest, row.metadata)
            head = digest[:CHECKSUM_BYTES]
            return begin + digest

        return sign_next

    def sign(self, key: ThreadKey, row: Row, previous: bytes) -> bytes:
        """Return the signature of a row: `SIGNATURE_BYTES` bytes.

        Args:
            key: Its thread.
            row: The row; what it carries as a signature is not looked at.
            previous: The checksum of the row before it.
        """
        return self.chain(key, previous)(row)

    def sign_metadata(self, key: ThreadKey, row: Row) -> bytes | None:
        """Return the signature of a row whose metadata alone changed; None for an unsigned one."""
        old = row.signature
        if old is None:
            return None
        digest = self._hash_row(key, row, old[_BEGIN])
        return old[_BEGIN] + self._add_metadata(old, digest, row.metadata)

    def find_damage(self, key: ThreadKey, row: Row) -> str:
        """Return what is wrong with a row, in a few words; empty where nothing is.

        A row without a signature, as older versions wrote it, passes unless there is a key.
        """
        signature = row.signature
        if row.damage or not is_whole(signature):
            return row.damage or self._find_damage_unsigned(row)
        digest = self._hash_row(key, row, signature[_BEGIN])
        if row.metadata is not None:
            digest = self._add_metadata(signature, digest, row.metadata)
        # Nobody who measures how long this takes could write what is compared.
        if signature.endswith(digest):
            return ""
        is_metadata = digest[:CHECKSUM_BYTES] == signature[_CHECKSUM]
        return f"{'its metadata' if is_metadata else 'it'} does not match its checksum"

    def _find_damage_unsigned(self, row: Row) -> str:
        """Return what is wrong with a row without a whole signature; empty where it needs none."""
        if row.signature is not None:
            return "its signature is damaged"
        if self.unsigned_until is not None and row.position > self.unsigned_until:
            return "its signature is missing"
        return "it is not signed with the log's key" if self._key else ""

    def make_tombstone(
        self, key: ThreadKey, position: int, previous: bytes, checksum: bytes
    ) -> Tombstone:
        """Return a tombstone with the mark that only this log's key makes.

        Args:
            key: Its thread.
            position: Where the erased row stood.
            previous: The checksum of the row before it.
            checksum: Its own.
        """
        data = _name_thread(key) + f"{position}\n".encode() + previous + checksum
        mark = _digest(self._key, data, _MARK_BYTES, b"", _PERSON_TOMBSTONE)
        return Tombstone(position, previous, checksum, mark)

    def bury(self, key: ThreadKey, position: int, signature: bytes | None) -> Tombstone | None:
        """Return what to keep of a row that is erased; None where it was never signed.

        Args:
            key: Its thread.
            position: Where it stood.
            signature: Its signature.
        """
        if not is_whole(signature):
            return None
        return self.make_tombstone(key, position, signature[_PREVIOUS], signature[_CHECKSUM])

    def is_genuine(self, key: ThreadKey, tombstone: Tombstone) -> bool:
        """Return whether a tombstone is one that the log made for this thread, unaltered."""
        position, previous, checksum, mark = tombstone
        if not (_is_checksum(previous) and _is_checksum(checksum) and isinstance(mark, bytes)):
            return False
        made = self.make_tombstone(key, position, previous, checksum)
        return hmac.compare_digest(made.mark, mark)

    def select_genuine(self, key: ThreadKey, tombstones: Iterable[Tombstone]) -> list[Tombstone]:
        """Return the tombstones of a thread that join what stands beside them."""
        return [one for one in tombstones if self.is_genuine(key, one)]

    def sign_document(self, key: ThreadKey, name: str, version: int, value: str) -> bytes:
        """Return the checksum of a state document, `DOCUMENT_BYTES` bytes.

        Args:
            key: Its thread.
            name: Its name.
            version: Its version.
            value: Its JSON text.
        """
        text = f"{version}\n{len(name)}\n{name}\n{value}".encode("utf-8", "surrogatepass")
        data = _name_thread(key) + text
        return _digest(self._key, data, DOCUMENT_BYTES, b"", _PERSON_DOCUMENT)

    def is_document_sound(
        self, key: ThreadKey, name: str, version: int, value: str, checksum: bytes | None
    ) -> bool:
        """Return whether a document is as it was written; one without a checksum is by default.

        With a key, every document has one.
        """
        if checksum is None:
            return not self._key
        computed = self.sign_document(key, name, version, value)
        return isinstance(checksum, bytes) and hmac.compare_digest(computed, checksum)

    def sign_snapshot(
        self, owner: Owner, name: str, generation: int, parts: Mapping[str, Buffer]
    ) -> bytes:
        """Return the checksum of an index's snapshot, `SNAPSHOT_BYTES` bytes.

        Args:
            owner: Whose lines it holds.
            name: How it was made.
            generation: The owner's when it was.
            parts: What it consists of, by name.
        """
        # Of long bytes, SHA-256 takes less than half as long as BLAKE2: processors know it.
        everything = sha256()
        for data in parts.values():
            everything.update(data)
        sizes = [[part, len(data)] for part, data in parts.items()]
        known = [owner.user_id, owner.thread_id, name, generation, sizes, everything.hexdigest()]
        text = json.dumps(known)
        return _digest(self._key, text.encode("ascii"), SNAPSHOT_BYTES, b"", _PERSON_SNAPSHOT)

    def _hash_row(self, key: ThreadKey, row: Row, begin: bytes) -> bytes:
        """Return the checksum of a row, and after it what stands for metadata where there is none.

        Most rows have none, and a second hash would take as long as the first. Every read of every
        row comes here.

        Args:
            key: The row's thread.
            row: The row.
            begin: Salt and the checksum before, as its signature begins.
        """
        row_id, turn_id = row.id, row.turn_id
        # Only the turn may hold a line end, and its length is told: no part can be shifted. An
        # empty turn, which no row has, must not pass for the row's own.
        turn = "0\n" if turn_id == row_id else f"{len(turn_id) or '-'}\n{turn_id}"
        text = f"{row.position}\n{row.role}\n{row_id}\n{turn}\n{row.body}"
        known, begun = self._latest  # mostly the thread of the row before
        if known is not key or begun is None:
            begun = self._begin_thread(key)
            self._latest = (key, begun)
        digest = begun.copy()  # a fifth of the time of a new one
        try:
            digest.update(begin + text.encode())
        except UnicodeEncodeError:
            digest.update(begin + text.encode("utf-8", "surrogatepass"))
        return digest.digest()

    def _add_metadata(self, signature: bytes, digest: bytes, metadata: str | None) -> bytes:
        """Return what `_hash_row` does with the checksum of the metadata, where there is any."""
        if metadata is None:
            return digest
        checksum = digest[:CHECKSUM_BYTES]
        data = checksum + metadata.encode("utf-8", "surrogatepass")
        salt = signature[_SALT]
        return checksum + _digest(self._key, data, _METADATA_BYTES, salt, _PERSON_METADATA)

    def _begin_thread(self, key: ThreadKey) -> blake2b:
        """Return a hash that has taken in the key and the thread's name."""
        begun = self._threads.get(key)
        if begun is None:
            begun = blake2b(digest_size=_DIGEST_BYTES, key=self._key, person=_PERSON)
            begun.update(_name_thread(key))
            if len(self._threads) > _THREADS_AT_MOST:
                self._threads.clear()
            self._threads[key] = begun
        return begun


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


def _is_checksum(value: object) -> bool:
    return isinstance(value, bytes) and len(value) == CHECKSUM_BYTES


def _name_thread(key: ThreadKey) -> bytes:
    user = "-" if key.user_id is None else f"{len(key.user_id)}+{key.user_id}"
    return _digest(b"", f"{user}\n{key.thread_id}".encode(), 16, b"", _PERSON)


def _digest(key: bytes, data: bytes, size: int, salt: bytes, person: bytes) -> bytes:
    return blake2b(data, digest_size=size, key=key, salt=salt, person=person).digest()


# -- chains -------------------------------------------------------------------------------------


def get_head(signature: bytes | None) -> bytes:
    """Return the checksum of a row from its signature; `START` for an unsigned one."""
    return START if not is_whole(signature) else signature[_CHECKSUM]


def format_checksum(signature: bytes | None) -> str:
    """Return the checksum of a sound row from its signature; empty for an unsigned one."""
    return "" if signature is None else signature[_CHECKSUM].hex()


def get_previous(signature: bytes) -> bytes:
    """Return the checksum of the row before from a signature."""
    return signature[_PREVIOUS]


def is_whole(signature: bytes | None) -> TypeGuard[bytes]:
    """Return whether this has the form of a signature, whatever it says."""
    return isinstance(signature, bytes) and len(signature) == SIGNATURE_BYTES


def is_linked(signatures: Sequence[bytes | None], head: bytes | None) -> bool:
    """Return whether each row is signed and follows the one before; one alone follows any.

    The quick form of `find_breaks`; where it says no, ask that.

    Args:
        signatures: Of a thread's rows, with none left out between them.
        head: The checksum before the first one; None where it is not known.
    """
    if head is None and len(signatures) == 1:
        return True
    try:
        before = [signature[_PREVIOUS] for signature in signatures]  # type: ignore[index]
        own = [signature[_CHECKSUM] for signature in signatures]  # type: ignore[index]
    except TypeError:  # some are not signed
        return False
    return before[1:] == own[:-1] and (head is None or before[:1] in ([], [head]))


@dataclass(frozen=True, slots=True)
class ThreadHead:
    """How far a thread's chain had come when somebody noted it: proof against a lost tail.

    Attributes:
        user_id: Of the thread; None where it belongs to no user.
        thread_id: Of the thread.
        position: Of its last entry, erased ones included.
        checksum: Of that entry, 20 hexadecimal digits.
    """

    user_id: str | None
    thread_id: str
    position: int
    checksum: str


def find_breaks(
    rows: Sequence[Row], tombstones: Iterable[Tombstone] = (), *, after: bytes | None = None
) -> list[int]:
    """Return positions of rows before which others of the thread are missing.

    Args:
        rows: A thread's rows by ascending position, with none left out between them.
        tombstones: Genuine ones of the thread, in any order. Ask first without: mostly none is
            needed.
        after: The checksum before the first row, if it is known: `START` where the rows are those
            from the thread's beginning.
    """
    links = _list_links(rows, tombstones)
    breaks = []
    head = after
    for position, previous, checksum in links:
        if head is not None and previous is not None and previous != head:
            breaks.append(position)
        head = checksum
    return breaks


def close_gap(
    signer: Signer,
    key: ThreadKey,
    rows: Sequence[Row],
    tombstones: Iterable[Tombstone],
    position: int,
) -> Tombstone | None:
    """Return what closes a gap that is to be forgotten; None where nothing is missing there.

    It takes the place of a tombstone that stands at the same position.

    Args:
        signer: That of the log.
        key: The thread.
        rows: All rows of the thread by ascending position.
        tombstones: Those of the thread, in any order.
        position: That of the gap, as `mark_breaks` names it.
    """
    before = head = START
    is_known = True
    for at, previous, checksum in _list_links(rows, signer.select_genuine(key, tombstones)):
        if at == position + 1:
            if not is_known or previous in (None, head):
                return None
            return signer.make_tombstone(key, position, before, previous or START)
        is_known, head = checksum is not None, checksum or START
        before = previous or START if at == position else head
    return None


def _list_links(
    rows: Sequence[Row], tombstones: Iterable[Tombstone]
) -> list[tuple[int, bytes | None, bytes | None]]:
    """Return position, the checksum before and the own one; None stands for one not known."""
    links: list[tuple[int, bytes | None, bytes | None]] = []
    for row in rows:
        signature = row.signature
        if row.damage or not (signature is None or is_whole(signature)):
            links.append((row.position, None, None))
        elif signature is None:
            links.append((row.position, None, START))
        else:
            links.append((row.position, signature[_PREVIOUS], signature[_CHECKSUM]))
    known = {position for position, _, _ in links}
    erased = [one[:3] for one in tombstones if one.position not in known]
    return sorted([*links, *erased], key=lambda link: link[0]) if erased else links


def find_head(rows: Sequence[Row], tombstones: Sequence[Tombstone]) -> bytes:
    """Return the checksum that a thread's next row follows.

    Args:
        rows: The last ones of the thread, by ascending position.
        tombstones: The same of its tombstones.
    """
    links = _list_links(rows[-1:], tombstones[-1:])
    checksum = links[-1][2] if links else None
    return START if checksum is None else checksum


def make_head(key: ThreadKey, rows: Sequence[Row], tombstones: Sequence[Tombstone]) -> ThreadHead:
    """Return how far a thread's chain has come; both lists as for `find_head`."""
    position = max([row.position for row in rows[-1:]] + [one.position for one in tombstones[-1:]])
    checksum = find_head(rows, tombstones).hex()
    return ThreadHead(key.user_id, key.thread_id, position, checksum)


_GAP_NAME = "missing-"
_MOST_DIGITS = 18


def name_gap(position: int) -> str:
    """Return the id of what stands for missing entries, by which the gap can be forgotten."""
    return f"{_GAP_NAME}{position}"


def read_gap_positions(ids: Iterable[str]) -> list[int]:
    """Return the positions of the gaps among some ids of entries."""
    found = (name.removeprefix(_GAP_NAME) for name in ids if name.startswith(_GAP_NAME))
    return sorted(int(digits) for digits in found if _is_position(digits))


def _is_position(digits: str) -> bool:
    return digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS
