from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.errors import ConfigError
from langchain_convmem.ids import make_ulid
from langchain_convmem.logs.base import RECORD_BYTES, SIGNATURE_BYTES, Row, Signer
from langchain_convmem.records import ThreadKey

SECRET = "a secret of enough bytes"
KEY = ThreadKey("ana", "garden")
SIGNERS = pytest.mark.parametrize("secret", [None, SECRET], ids=["no key", "a key"])

texts = st.text(max_size=40)
"""Any character, halves of characters among them."""
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).filter(str.strip)
keys = st.builds(ThreadKey, st.none() | names, names)
roles = st.sampled_from(["user", "assistant", "system", "tool", "summary", "control"])
turns = st.none() | names
"""The turn of a row; None is its own."""


@st.composite
def rows(draw):
    entry_id = make_ulid()
    turn = draw(turns) or entry_id
    metadata = draw(st.none() | texts)
    return Row(entry_id, draw(st.integers(1, 2**40)), turn, draw(roles), draw(texts), metadata)


@SIGNERS
@given(row=rows(), key=keys)
def test_what_was_signed_is_sound(secret, row, key):
    signer = Signer(secret)
    row.signature = signer.sign(key, row)
    assert len(row.signature) == SIGNATURE_BYTES
    assert signer.find_damage(key, row) == ""
    assert Signer(secret).find_damage(ThreadKey(key.user_id, key.thread_id), row) == ""


@SIGNERS
@given(
    row=rows(),
    other=rows(),
    field=st.sampled_from(["id", "position", "turn_id", "role", "body", "metadata"]),
)
def test_any_other_field_shows(secret, row, other, field):
    signer = Signer(secret)
    row.signature = signer.sign(KEY, row)
    altered = replace(row, **{field: getattr(other, field)})
    is_same = getattr(row, field) == getattr(other, field)
    assert bool(signer.find_damage(KEY, altered)) is not is_same


@SIGNERS
@given(row=rows(), key=keys, other=keys)
def test_a_row_of_another_thread_or_user_shows(secret, row, key, other):
    signer = Signer(secret)
    row.signature = signer.sign(key, row)
    assert bool(signer.find_damage(other, row)) is (key != other)


@given(row=rows(), first=texts, second=texts)
def test_no_part_of_a_row_can_be_taken_for_another(row, first, second):
    one = replace(row, turn_id=f"{first}\n{second}", body="")
    other = replace(row, turn_id=first, body=second)
    assert Signer().find_damage(KEY, replace(other, signature=Signer().sign(KEY, one)))


@given(row=rows())
def test_who_lacks_the_key_can_sign_nothing(row):
    for forger in (Signer(), Signer("another secret of bytes")):
        forged = replace(row, signature=forger.sign(KEY, row))
        assert Signer(SECRET).find_damage(KEY, forged)


@SIGNERS
@given(kind=names, covered=st.lists(st.none() | texts | st.integers() | st.binary(), max_size=4))
def test_a_record_has_a_checksum_of_all_that_it_covers(secret, kind, covered):
    signer = Signer(secret)
    checksum = signer.sign_record(kind, *covered)
    assert len(checksum) == RECORD_BYTES
    assert checksum == Signer(secret).sign_record(kind, *covered)
    others = [(f"{kind}x", *covered), (kind, *covered, None), (kind, covered)]
    assert checksum not in [signer.sign_record(*other) for other in others]
    assert checksum != Signer("another secret of bytes").sign_record(kind, *covered)


@pytest.mark.parametrize("key", ["short", b"x" * 15, "x" * 65, ""])
def test_a_key_has_16_to_64_bytes(key):
    with pytest.raises(ConfigError, match="16 to 64 bytes"):
        Signer(key)
