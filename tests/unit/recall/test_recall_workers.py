"""Recalls run off the event loop, in workers of their own."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

from langchain_core.messages import HumanMessage

from langchain_convmem.logs import InMemoryLog
from langchain_convmem.recall import LineRecall
from langchain_convmem.records import Owner, ThreadKey
from langchain_convmem.views.codec import make_draft


async def test_a_recall_needs_no_thread_of_the_loops_own_executor():
    log = InMemoryLog()
    log.append(ThreadKey("ana", "t1"), [make_draft(HumanMessage("The bicycle is at the bakery."))])
    loop = asyncio.get_running_loop()
    gate = threading.Event()
    with ThreadPoolExecutor(1) as crowded:
        loop.set_default_executor(crowded)
        waiting = loop.run_in_executor(None, gate.wait)
        try:
            found = await LineRecall(log).arecall(Owner("ana"), "bicycle")
        finally:
            gate.set()
        assert await waiting
    assert "bakery" in found.blocks[0].text
