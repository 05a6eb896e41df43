from __future__ import annotations

import asyncio
import inspect

import pytest

from langchain_convmem.effects import Effect, Steps, perform, run_async, run_sync, sync, twin
from langchain_convmem.message_log import MessageLog


class Log:
    """Has one call in both forms."""

    def __init__(self):
        self.calls = []

    def add(self, number, *, more=0):
        self.calls.append(("add", number, more))
        if number < 0:
            raise ValueError(f"negative: {number}")
        return number + more

    async def aadd(self, number, *, more=0):
        await asyncio.sleep(0)
        self.calls.append(("aadd", number, more))
        if number < 0:
            raise ValueError(f"negative: {number}")
        return number + more


def adding(log, *numbers):
    total = 0
    for number in numbers:
        total = yield from perform(log.add, log.aadd, number, more=total)
    return total


def forgiving(log):
    try:
        yield from perform(log.add, log.aadd, -1)
    except ValueError as error:
        again = yield from perform(log.add, log.aadd, 7)
        return f"{error}, then {again}"


def drivers():
    return [
        pytest.param(run_sync, "add", id="run"),
        pytest.param(lambda job: asyncio.run(run_async(job)), "aadd", id="arun"),
    ]


@pytest.mark.parametrize(("drive", "form"), drivers())
def test_a_job_gets_the_results_of_its_calls(drive, form):
    log = Log()
    assert drive(adding(log, 1, 2, 3)) == 6
    assert log.calls == [(form, 1, 0), (form, 2, 1), (form, 3, 3)]


@pytest.mark.parametrize(("drive", "form"), drivers())
def test_a_job_without_calls_has_a_result_too(drive, form):
    assert drive(adding(Log())) == 0


@pytest.mark.parametrize(("drive", "form"), drivers())
def test_a_job_may_catch_what_its_call_raised(drive, form):
    log = Log()
    assert drive(forgiving(log)) == "negative: -1, then 7"
    assert [name for name, *_ in log.calls] == [form] * 2


@pytest.mark.parametrize(("drive", "form"), drivers())
def test_what_a_job_does_not_catch_is_raised(drive, form):
    log = Log()
    with pytest.raises(ValueError, match="negative: -2"):
        drive(adding(log, 1, -2, 3))
    assert len(log.calls) == 2


@pytest.mark.parametrize(("drive", "form"), drivers())
def test_a_call_that_raises_stop_iteration_does_not_end_the_job_as_if_done(drive, form):
    def stop():
        raise StopIteration("not the result")

    async def astop():
        raise KeyError("not the result")

    def job():
        yield Effect(stop, astop)

    with pytest.raises((RuntimeError, KeyError)):
        drive(job())


def test_a_cancelled_job_can_tidy_up_with_further_calls():
    log = Log()
    started = asyncio.Event()

    async def wait():
        started.set()
        await asyncio.Event().wait()

    def job():
        try:
            yield Effect(lambda: None, wait)
        finally:
            yield from perform(log.add, log.aadd, 1)

    async def scenario():
        task = asyncio.create_task(run_async(job()))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    assert log.calls == [("aadd", 1, 0)]


# -- what the two forms of a method are called ----------------------------------------------------


class Tally:
    """Has a procedure in both forms."""

    def __init__(self, log):
        self.log = log

    @sync
    def add_one(self, *, more: int = 0) -> Steps[int]:
        """Return one and more."""
        return perform(self.log.add, self.log.aadd, 1, more=more)

    aadd_one = twin(add_one)


def test_both_forms_do_the_same_by_calls_of_their_own():
    log = Log()
    tally = Tally(log)
    assert tally.add_one(more=2) == asyncio.run(tally.aadd_one(more=2)) == 3
    assert log.calls == [("add", 1, 2), ("aadd", 1, 2)]


def test_both_forms_show_what_their_steps_return():
    plain, awaited = inspect.signature(Tally.add_one), inspect.signature(Tally.aadd_one)
    assert plain == awaited
    assert (str(plain), plain.return_annotation) == ("(self, *, more: 'int' = 0) -> 'int'", "int")


@pytest.mark.parametrize(
    ("awaited", "name", "begins"),
    [
        (Tally.add_one, "Tally.add_one", "Return one and more."),
        (Tally.aadd_one, "Tally.aadd_one", "Async `add_one`; blocks no event loop.\n\nReturn one"),
        (MessageLog.aappend, "MessageLog.aappend", "Async `append`; blocks no event loop.\n\nApp"),
    ],
)
def test_a_twin_is_named_and_documented_after_its_method(awaited, name, begins):
    assert (awaited.__qualname__, awaited.__name__) == (name, name.partition(".")[2])
    assert awaited.__doc__.startswith(begins)
