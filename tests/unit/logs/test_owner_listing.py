"""Logs that can list their owners name everybody who has entries, and nobody else."""

from __future__ import annotations

import pytest
from langchain_core.messages import HumanMessage

from langchain_convmem.logs import InMemoryLog, SQLiteLog
from langchain_convmem.protocols import OwnerListing
from langchain_convmem.records import Owner, ThreadKey
from langchain_convmem.views.codec import draft_of


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_owners_are_those_who_have_entries(kind, tmp_path):
    log = InMemoryLog() if kind == "memory" else SQLiteLog(tmp_path / "log.db")
    with log:
        assert isinstance(log, OwnerListing)
        assert log.owners() == []
        for key in (ThreadKey("ana", "t"), ThreadKey("ana", "t2"), ThreadKey(None, "t")):
            log.append(key, [draft_of(HumanMessage("hi"))])
        log.set_state(ThreadKey("bob", "t"), "note", 1, expected=None)
        assert set(log.owners()) == {Owner("ana"), Owner(thread_id="t")}
        assert set(await log.aowners()) == set(log.owners())
        log.forget(Owner("ana"))
        assert log.owners() == [Owner(thread_id="t")]
