"""Calls that are made in threads of our own."""

from __future__ import annotations

import contextvars
import threading

from langchain_convmem.workers import run_in_worker


async def test_a_worker_sees_the_callers_context_and_is_another_thread():
    name = contextvars.ContextVar("name", default="nobody")
    name.set("ana")
    seen = await run_in_worker(lambda: (name.get(), threading.get_ident()))
    assert seen[0] == "ana"
    assert seen[1] != threading.get_ident()
