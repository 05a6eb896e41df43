"""Two processes take a turn of the same chat."""

from __future__ import annotations

import multiprocessing
import threading
from contextlib import suppress
from multiprocessing.synchronize import Barrier
from pathlib import Path

from benchmarks.loss.judging import Happened
from benchmarks.loss.models import GRACE_S, ScriptedModel
from benchmarks.loss.scenarios import THREAD, said
from benchmarks.loss.systems import Setup, System

__all__ = ["turns_at_once_in_processes"]

_START_S = 60.0


def turns_at_once_in_processes(system: System) -> Happened:
    """Two processes take a turn of the same chat."""
    system.chat(Setup(ScriptedModel())).ask(THREAD, said(1))
    context = multiprocessing.get_context("spawn")
    both_started, both_asked = context.Barrier(2), context.Barrier(2)
    workers = [
        context.Process(
            target=_turn, args=(type(system), system.folder, number, both_started, both_asked)
        )
        for number in (2, 3)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(2 * _START_S)
    failed = [worker.exitcode for worker in workers if worker.exitcode]
    if failed:
        raise RuntimeError(f"a process ended with exit code {failed[0]}")
    return Happened(("Q1", "A1", "Q2", "A2", "Q3", "A3"))


def _turn(
    system: type[System], folder: Path, number: int, both_started: Barrier, both_asked: Barrier
) -> None:
    def together() -> None:
        with suppress(threading.BrokenBarrierError):
            both_asked.wait(GRACE_S)

    with system(folder) as opened:
        chat = opened.chat(Setup(ScriptedModel(during=together)))
        both_started.wait(_START_S)
        chat.ask(THREAD, said(number))
