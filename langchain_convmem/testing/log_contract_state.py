"""The log contract: small documents beside a thread, with compare-and-set."""

from __future__ import annotations

from typing import Any

import pytest

from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.records import ThreadKey
from langchain_convmem.testing.log_contract_base import ANA, LONE, ContractLog, ContractPart
from langchain_convmem.testing.log_samples import ODD_IDS, ODD_TEXTS, identical

__all__ = ["StatePart"]


class StatePart(ContractPart):
    """`ThreadState`."""

    def test_a_document_is_written_over_just_the_version_that_was_read(
        self, log: ContractLog
    ) -> None:
        assert log.get_state(ANA, "buffer") is None
        assert log.set_state(ANA, "buffer", ["too early"], expected=1) is None
        assert log.get_state(ANA, "buffer") is None
        first = log.set_state(ANA, "buffer", ["a"], expected=None)
        assert first is not None
        assert log.get_state(ANA, "buffer") == first
        assert log.set_state(ANA, "buffer", ["too late"], expected=None) is None
        second = log.set_state(ANA, "buffer", ["a", "b"], expected=first.version)
        assert second is not None
        assert second.version != first.version
        assert log.set_state(ANA, "buffer", ["stale"], expected=first.version) is None
        assert log.get_state(ANA, "buffer") == second
        assert second.value == ["a", "b"]

    def test_a_deleted_document_is_gone_with_its_version(self, log: ContractLog) -> None:
        log.delete_state(ANA, "buffer")
        first = log.set_state(ANA, "buffer", 1, expected=None)
        log.delete_state(ANA, "buffer")
        log.delete_state(ANA, "buffer")
        assert log.get_state(ANA, "buffer") is None
        again = log.set_state(ANA, "buffer", 1, expected=None)
        assert first is not None
        assert again is not None
        assert log.set_state(ANA, "buffer", 2, expected=first.version) is None
        assert log.get_state(ANA, "buffer") == again

    def test_documents_are_kept_apart_by_thread_and_name(self, log: ContractLog) -> None:
        keys = [ThreadKey(user, odd) for odd in ODD_IDS for user in (None, "ana")]
        names = ["buffer", "Buffer", "buffer ", "b%", "🦊"]
        for key in keys:
            for name in names:
                log.set_state(key, name, [key.user_id, key.thread_id, name], expected=None)
        for key in keys:
            for name in names:
                found = log.get_state(key, name)
                assert found is not None
                assert found.value == [key.user_id, key.thread_id, name]
        log.delete_state(LONE, "buffer")
        assert log.get_state(ThreadKey("ana", "s"), "buffer") is not None

    def test_documents_come_back_exactly_and_unshared(self, log: ContractLog) -> None:
        value: dict[str, Any] = {"texts": list(ODD_TEXTS), "n": [1, 1.0, True, None], "$set": {}}
        written = log.set_state(ANA, "buffer", value, expected=None)
        value["n"].append("changed by the writer")
        assert written is not None
        for document in (written, log.get_state(ANA, "buffer"), log.get_state(ANA, "buffer")):
            assert document is not None
            assert identical(
                document.value, {"texts": list(ODD_TEXTS), "n": [1, 1.0, True, None], "$set": {}}
            )
            document.value["n"].append("changed by a reader")

    def test_a_document_that_cannot_be_kept_is_refused(self, log: ContractLog) -> None:
        with pytest.raises(InvalidMessageError):
            log.set_state(ANA, "buffer", {"client": object()}, expected=None)
        assert log.get_state(ANA, "buffer") is None

    def test_documents_are_no_entries(self, log: ContractLog) -> None:
        log.set_state(ANA, "buffer", 1, expected=None)
        assert log.entries(ANA) == []
        assert log.threads("ana") == []
        assert log.changes(ANA.owner).entries == ()
