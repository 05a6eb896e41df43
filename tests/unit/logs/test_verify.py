"""What a check of a whole log says of entries that were altered, and the kit that it is made of."""

from __future__ import annotations

import asyncio

import pytest
from sqlite_files import damage

from langchain_convmem.errors import LogError
from langchain_convmem.logs.base import decode_document, sign_document
from langchain_convmem.logs.checksums import Signer
from langchain_convmem.logs.verify import Finding, verify_log
from langchain_convmem.testing.log_contract import ANA, ANAS_OTHER, say, say_all

CHANGED = "it does not match its checksum"


def test_each_altered_entry_is_named_and_no_other(path, log):
    say_all(log, ANA, ["one", "two", "three"])
    say(log, ANAS_OTHER, "elsewhere")
    damage(path, "UPDATE entries SET body = replace(body, 'two', 'six')")
    seen = []
    report = verify_log(log, progress=lambda *numbers: seen.append(numbers))
    assert seen[-1] == (4, 4)
    altered = log.entries(ANA)[1]
    assert report.damaged == (Finding("ana", "t1", 2, altered.id, CHANGED),)
    assert report.problems == (f"position 2 of thread 't1' of user 'ana': {CHANGED}",)
    assert (report.owners, report.threads, report.entries, report.ok) == (1, 2, 4, False)
    assert asyncio.run(log.averify()) == log.verify() == report
    assert log.forget(ANA, [altered.id]).entries == 1
    assert verify_log(log).ok


def test_a_document_is_read_as_it_was_written_or_not_at_all():
    signer = Signer()
    checksum = sign_document(signer, ANA, "note", 7, "[1]")
    assert decode_document(ANA, "note", (7, "[1]", checksum), signer).value == [1]
    assert decode_document(ANA, "note", (7, b"[1]", checksum), signer).version == 7
    for stored in (
        (8, "[1]", checksum),
        (7, "[2]", checksum),
        (7, b"\xff secret", checksum),
        (7, "[1]", None),
        (7, "secret", sign_document(signer, ANA, "note", 7, "secret")),
    ):
        with pytest.raises(LogError, match="'note' of thread 't1' is damaged") as caught:
            decode_document(ANA, "note", stored, signer)
        assert "secret" not in str(caught.value)
        assert decode_document(ANA, "cache:note", stored, signer) is None
    with pytest.raises(LogError):
        decode_document(ANAS_OTHER, "note", (7, "[1]", checksum), signer)
    with pytest.raises(LogError):
        decode_document(ANA, "note", (7, "[1]", checksum), Signer("a secret of the operator"))
