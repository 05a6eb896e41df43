from __future__ import annotations

import pytest

from langchain_convmem.integrations import BaseStoreLog
from langchain_convmem.testing.log_contract import MessageLogContract

memory = pytest.importorskip("langgraph.store.memory")


class TestBaseStoreLog(MessageLogContract):
    persistent = True
    several_handles = True  # they share the store object and, with it, a lock
    several_processes = False  # a store cannot write on a condition

    def make_log(self, tmp_path):
        store = memory.InMemoryStore()
        return lambda: BaseStoreLog(store)
