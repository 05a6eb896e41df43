import faulthandler
import os
import sys
import threading
import time
from contextlib import contextmanager

import pytest
from forked_processes import in_child

from langchain_convmem.forks import ForkGate, GatedLock, make_lock

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]


@contextmanager
def held_elsewhere(held):
    """Let another thread hold something for as long as the block."""
    holds, let_go = threading.Event(), threading.Event()

    def hold():
        with held:
            holds.set()
            let_go.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    holds.wait()
    yield
    let_go.set()
    thread.join()


def test_a_lock_that_another_thread_holds_is_free_in_a_child():
    lock = make_lock()
    with held_elsewhere(lock):
        assert not lock.acquire(blocking=False)
        assert in_child(lambda: lock.acquire(blocking=False)) == "True"
        assert not lock.acquire(blocking=False)


def test_who_is_inside_may_enter_again_while_a_fork_waits():
    gate = ForkGate()
    inside, forks, entered = threading.Event(), threading.Event(), []

    def work():
        with gate.hold():
            inside.set()
            forks.wait()
            with gate.hold():
                entered.append("again")

    def fork():
        inside.wait()
        forks.set()
        gate.prepare_fork()
        entered.append("fork")
        gate.resume_after_fork()

    threads = [threading.Thread(target=one) for one in (work, fork)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert entered == ["again", "fork"]


def test_a_fork_waits_neither_for_itself_nor_for_ever():
    gate = ForkGate(patience_s=0.01)
    with gate.hold():
        gate.prepare_fork()
        gate.resume_after_fork()
    with held_elsewhere(gate.hold()):
        gate.prepare_fork()
        gate.resume_after_fork()


def test_what_a_gated_lock_guards_is_whole_in_a_child():
    lock, whole = GatedLock(), [True]
    begun, may_end = threading.Event(), threading.Event()

    def change():
        with lock, lock:
            whole[0] = False
            begun.set()
            may_end.wait()
            whole[0] = True

    thread = threading.Thread(target=change)
    thread.start()
    begun.wait()
    end = threading.Thread(target=may_end.set)
    end.start()

    def look():
        with lock:
            return whole[0]

    assert in_child(look) == "True"
    thread.join()
    end.join()


def test_a_fork_waits_for_a_module_that_another_thread_imports(tmp_path, monkeypatch):
    (tmp_path / "slow_to_import.py").write_text("import time\ntime.sleep(0.3)\nDONE = True\n")
    monkeypatch.syspath_prepend(tmp_path)

    def is_imported():
        import slow_to_import

        return slow_to_import.DONE

    thread = threading.Thread(target=is_imported)
    thread.start()
    while "slow_to_import" not in sys.modules:
        time.sleep(0.001)
    done = in_child(lambda: faulthandler.dump_traceback_later(20, exit=True) or is_imported())
    assert done == "True"
    thread.join()
