"""What signatures prove of a thread's rows, whatever they hold, and what they do not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.errors import ConfigError
from langchain_convmem.ids import make_ulid
from langchain_convmem.logs.base import Row, annotate_row, mark_missing
from langchain_convmem.logs.signatures import (
    CHECKSUM_BYTES,
    DOCUMENT_BYTES,
    SIGNATURE_BYTES,
    START,
    Signer,
    Tombstone,
    close_gap,
    find_breaks,
    find_head,
    get_head,
    is_linked,
    make_head,
)
from langchain_convmem.records import ThreadKey

SECRET = "a secret of enough bytes"
KEY = ThreadKey("ana", "garden")
SIGNERS = pytest.mark.parametrize("secret", [None, SECRET], ids=["no key", "a key"])

texts = st.text(max_size=40)
"""Any character, halves of characters among them."""
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
keys = st.builds(ThreadKey, st.none() | names, names)
roles = st.sampled_from(["user", "assistant", "system", "tool", "summary", "control"])
fields = st.sampled_from(["id", "position", "turn_id", "role", "body"])
turns = st.none() | names
"""The turn of a row; None is its own."""


@st.composite
def rows(draw, metadata=None):
    entry_id = make_ulid()
    turn = draw(turns) or entry_id
    kept = draw(st.none() | texts if metadata is None else metadata)
    return Row(entry_id, draw(st.integers(1, 2**40)), turn, draw(roles), draw(texts), kept)


def sign_thread(signer, count, key=KEY):
    sign = signer.chain(key)
    signed = []
    for position in range(1, count + 1):
        row = Row(make_ulid(), position, "turn", "user", f"text {position}", None)
        row.signature = sign(row)
        signed.append(row)
    return signed


@SIGNERS
@given(row=rows(), key=keys, previous=st.binary(min_size=CHECKSUM_BYTES, max_size=CHECKSUM_BYTES))
def test_what_was_signed_is_sound(secret, row, key, previous):
    signer = Signer(secret)
    row.signature = signer.sign(key, row, previous)
    assert len(row.signature) == SIGNATURE_BYTES
    assert signer.find_damage(key, row) == ""
    assert Signer(secret).find_damage(ThreadKey(key.user_id, key.thread_id), row) == ""


@SIGNERS
@given(
    row=rows(), other=rows(), field=st.sampled_from(["id", "position", "turn_id", "role", "body"])
)
def test_any_other_field_shows(secret, row, other, field):
    signer = Signer(secret)
    row.signature = signer.sign(KEY, row, START)
    altered = replace(row, **{field: getattr(other, field)})
    is_same = getattr(row, field) == getattr(other, field)
    assert bool(signer.find_damage(KEY, altered)) is not is_same


@SIGNERS
@given(row=rows(), other=st.none() | texts)
def test_other_metadata_shows_and_is_named(secret, row, other):
    signer = Signer(secret)
    row.signature = signer.sign(KEY, row, START)
    altered = replace(row, metadata=other)
    expected = "" if other == row.metadata else "its metadata does not match its checksum"
    assert signer.find_damage(KEY, altered) == expected


@SIGNERS
@given(row=rows(), key=keys, other=keys)
def test_a_row_of_another_thread_or_user_shows(secret, row, key, other):
    signer = Signer(secret)
    row.signature = signer.sign(key, row, START)
    assert bool(signer.find_damage(other, row)) is (key != other)


@SIGNERS
@given(row=rows(), bit=st.integers(0, 8 * SIGNATURE_BYTES - 1))
def test_any_bit_of_a_signature_shows(secret, row, bit):
    signer = Signer(secret)
    flipped = bytearray(signer.sign(KEY, row, START))
    flipped[bit // 8] ^= 1 << bit % 8
    assert signer.find_damage(KEY, replace(row, signature=bytes(flipped)))


@given(row=rows(), size=st.integers(0, 80).filter(lambda size: size != SIGNATURE_BYTES))
def test_a_signature_of_another_length_is_damaged(row, size):
    altered = replace(row, signature=bytes(size))
    assert Signer().find_damage(KEY, altered) == "its signature is damaged"


@given(row=rows(), previous=st.binary(min_size=CHECKSUM_BYTES, max_size=CHECKSUM_BYTES))
def test_two_signatures_of_one_row_have_nothing_in_common(row, previous):
    first, second = (Signer().sign(KEY, row, previous) for _ in range(2))
    assert get_head(first) != get_head(second)
    assert first[:8] != second[:8]


@given(row=rows(), first=texts, second=texts)
def test_no_part_of_a_row_can_be_taken_for_another(row, first, second):
    one = replace(row, turn_id=f"{first}\n{second}", body="")
    other = replace(row, turn_id=first, body=second)
    one.signature = Signer().sign(KEY, one, START)
    assert Signer().find_damage(KEY, replace(other, signature=one.signature))


@given(row=rows())
def test_who_lacks_the_key_can_sign_nothing(row):
    for forger in (Signer(), Signer("another secret of bytes")):
        forged = replace(row, signature=forger.sign(KEY, row, START))
        assert Signer(SECRET).find_damage(KEY, forged)


def test_unsigned_rows_pass_without_a_key_up_to_where_older_releases_wrote():
    row = Row(make_ulid(), 5, "turn", "user", "text", None)
    signer = Signer()
    assert signer.find_damage(KEY, row) == ""
    signer.unsigned_until = 5
    assert signer.find_damage(KEY, row) == ""
    signer.unsigned_until = 4
    assert signer.find_damage(KEY, row) == "its signature is missing"
    assert Signer(SECRET).find_damage(KEY, row) == "it is not signed with the log's key"


@SIGNERS
@given(row=rows(), added=texts)
def test_metadata_is_signed_anew_and_the_chain_stays(secret, row, added):
    signer = Signer(secret)
    row.signature = signer.sign(KEY, row, START)
    changed = annotate_row(KEY, row, lambda _: added, signer)
    assert signer.find_damage(KEY, changed) == ""
    assert get_head(changed.signature) == get_head(row.signature)


@given(st.data(), st.integers(2, 12))
def test_a_missing_middle_shows_where_it_was(data, count):
    thread = sign_thread(Signer(), count)
    gone = data.draw(st.sets(st.integers(1, count - 1), min_size=1))
    left = [row for row in thread if row.position not in gone]
    assert not is_linked([row.signature for row in left], START)
    after = [row.position for row in left if row.position - 1 in gone]
    assert find_breaks(left, after=START) == after


@given(st.data(), st.integers(2, 12))
def test_two_rows_that_swapped_places_show(data, count):
    signer = Signer()
    thread = sign_thread(signer, count)
    first, second = sorted(
        data.draw(st.lists(st.integers(0, count - 1), min_size=2, max_size=2, unique=True))
    )
    swapped = list(thread)
    swapped[first] = replace(thread[second], position=first + 1)
    swapped[second] = replace(thread[first], position=second + 1)
    damaged = [row.position for row in swapped if signer.find_damage(KEY, row)]
    assert damaged == [first + 1, second + 1]
    assert not is_linked([row.signature for row in swapped], START)


@given(st.data(), st.integers(1, 12))
def test_a_tombstone_closes_the_gap_that_it_leaves(data, count):
    signer = Signer()
    thread = sign_thread(signer, count)
    gone = data.draw(st.sets(st.integers(1, count), min_size=1))
    stones = [signer.bury(KEY, n, thread[n - 1].signature) for n in gone]
    left = [row for row in thread if row.position not in gone]
    assert find_breaks(left, stones, after=START) == []
    assert mark_missing(signer, KEY, left, stones, is_start=True) == left if left else not left
    assert find_head(left, stones) == get_head(thread[-1].signature)
    salts = {row.signature[:8] for row in thread if row.position in gone}
    assert not any(
        salt in stone.previous + stone.checksum + stone.mark for salt in salts for stone in stones
    )


@given(st.integers(3, 12), st.data())
def test_a_gap_that_is_forgotten_is_closed(count, data):
    signer = Signer()
    thread = sign_thread(signer, count)
    gone = data.draw(st.integers(1, count - 1))
    left = [row for row in thread if row.position != gone]
    stone = close_gap(signer, KEY, left, [], gone)
    assert stone is not None
    assert signer.is_genuine(KEY, stone)
    assert find_breaks(left, [stone], after=START) == []
    assert close_gap(signer, KEY, left, [stone], gone) is None


@SIGNERS
@given(
    position=st.integers(1, 2**53),
    previous=st.binary(min_size=CHECKSUM_BYTES, max_size=CHECKSUM_BYTES),
    checksum=st.binary(min_size=CHECKSUM_BYTES, max_size=CHECKSUM_BYTES),
    place=st.integers(0, 8 * (2 * CHECKSUM_BYTES + 8) - 1),
)
def test_a_tombstone_is_genuine_as_it_was_made_alone(secret, position, previous, checksum, place):
    signer = Signer(secret)
    stone = signer.make_tombstone(KEY, position, previous, checksum)
    assert len(stone.mark) == 8
    assert signer.is_genuine(KEY, stone)
    assert not signer.is_genuine(ThreadKey("ana", "other"), stone)
    assert not signer.is_genuine(ThreadKey("ben", "garden"), stone)
    assert not signer.is_genuine(KEY, stone._replace(position=position + 1))
    assert not Signer("another key of sixteen").is_genuine(KEY, stone)
    assert Signer().is_genuine(KEY, stone) is (secret is None)
    flipped = bytearray(b"".join(stone[1:]))
    flipped[place // 8] ^= 1 << place % 8
    size = CHECKSUM_BYTES
    parts = bytes(flipped[:size]), bytes(flipped[size : 2 * size]), bytes(flipped[2 * size :])
    assert not signer.is_genuine(KEY, Tombstone(position, *parts))


@pytest.mark.parametrize("value", [None, 7, "text", b"", START[1:], START + b"x"])
@pytest.mark.parametrize("name", ["previous", "checksum", "mark"])
def test_a_tombstone_of_a_wrong_form_is_not_genuine(name, value):
    stone = Signer().make_tombstone(KEY, 1, START, START)
    assert not Signer().is_genuine(KEY, stone._replace(**{name: value}))


@given(st.integers(2, 12), st.data())
def test_a_tombstone_made_without_the_key_joins_nothing(count, data):
    signer = Signer(SECRET)
    thread = sign_thread(signer, count)
    gone = data.draw(st.integers(1, count - 1))
    forged = Signer().bury(KEY, gone, thread[gone - 1].signature)
    left = [row for row in thread if row.position != gone]
    assert signer.select_genuine(KEY, [forged]) == []
    marked = mark_missing(signer, KEY, left, [forged], is_start=True)
    assert [row.id for row in marked if row.damage] == [f"missing-{gone}"]
    bridge = close_gap(signer, KEY, left, [forged], gone)
    assert mark_missing(signer, KEY, left, [bridge], is_start=True) == left


@given(st.integers(2, 12), st.data())
def test_a_lost_tail_is_whole_from_inside_and_shows_against_a_head(count, data):
    thread = sign_thread(Signer(), count)
    head = make_head(KEY, thread, [])
    left = thread[: data.draw(st.integers(1, count - 1))]
    assert is_linked([row.signature for row in left], START)
    assert find_breaks(left, after=START) == []
    assert make_head(KEY, left, []) != head
    assert head.position == count
    assert head.checksum == get_head(thread[-1].signature).hex()


@SIGNERS
@given(name=names, value=texts, other=texts, version=st.integers(1, 2**50))
def test_a_document_is_what_was_written_under_its_name(secret, name, value, other, version):
    signer = Signer(secret)
    checksum = signer.sign_document(KEY, name, version, value)
    assert len(checksum) == DOCUMENT_BYTES
    assert signer.is_document_sound(KEY, name, version, value, checksum)
    assert signer.is_document_sound(KEY, name, version, other, checksum) is (other == value)
    assert not signer.is_document_sound(KEY, name, version + 1, value, checksum)
    assert not signer.is_document_sound(KEY, f"{name}x", version, value, checksum)
    assert not signer.is_document_sound(ThreadKey("ben", "garden"), name, version, value, checksum)
    assert signer.is_document_sound(KEY, name, version, value, None) is (secret is None)


@pytest.mark.parametrize("key", ["short", b"x" * 15, "x" * 65, ""])
def test_a_key_has_16_to_64_bytes(key):
    with pytest.raises(ConfigError, match="16 to 64 bytes"):
        Signer(key)
