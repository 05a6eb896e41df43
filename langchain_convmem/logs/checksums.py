"""Checksums of what a log stores, so that nothing that was said can be altered unseen.

The checksum of a row covers its owner, thread, position, id, turn, role and body. Six more bytes
cover the metadata; `annotate` renews those and leaves the checksum as it is.

Without a key, a checksum shows that no bit has changed. With a key, it also shows that nobody has
changed the row without knowing the key. Rows that are missing are counted, owner by owner: what an
owner's row says about that has a checksum of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, NoReturn

from langchain_convmem.errors import ConfigError

if TYPE_CHECKING:
    from langchain_convmem.records import Role, ThreadKey
    from langchain_convmem.views.codec import DecodedBody

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
