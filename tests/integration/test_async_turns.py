"""Many asynchronous turns at once, few workers, and tasks that are cancelled anywhere."""

import asyncio
from collections import Counter

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable

from langchain_convmem import ConversationMemory, ThreadKey, background


@pytest.fixture(autouse=True)
def two_workers(monkeypatch):
    monkeypatch.setattr(background, "HOPS_AT_ONCE", 2)


@pytest.fixture
async def memory(tmp_path):
    async with ConversationMemory.open(tmp_path / "log.db") as memory:
        yield memory


class Model(Runnable):
    """Answers each question by its own words, and notes what its caller got."""

    def __init__(self):
        self.given = []

    def invoke(self, given, config=None, **kwargs):
        raise NotImplementedError

    async def ainvoke(self, given, config=None, **kwargs):
        await asyncio.sleep(0)
        content = given["input"][-1].content  # with recalled lines before the question
        reply = f"re: {content if isinstance(content, str) else content[-1]['text']}"
        self.given.append(reply)
        return AIMessage(reply)


def config(thread):
    return {"configurable": {"thread_id": thread, "user_id": "ana"}}


async def read(memory, thread):
    return [entry.message.content for entry in await memory.log.aentries(ThreadKey("ana", thread))]


@pytest.mark.parametrize(("threads", "turns"), [(1, 200), (50, 4)])
async def test_all_turns_end_and_each_thread_is_in_order(memory, threads, turns):
    chain = memory.wrap(Model())
    async with asyncio.timeout(120):
        await asyncio.gather(
            *(
                chain.ainvoke(f"q{number}", config(str(thread)))
                for number in range(turns)
                for thread in range(threads)
            )
        )
    told = [text for number in range(turns) for text in (f"q{number}", f"re: q{number}")]
    for thread in range(threads):
        assert await read(memory, str(thread)) == told


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_turn_that_is_cancelled_anywhere_keeps_what_it_got_and_doubles_nothing(
    memory, is_streamed
):
    model = Model()
    chain = memory.wrap(model)

    async def run(number):
        if not is_streamed:
            return await chain.ainvoke(f"q{number}", config("t"))
        return [chunk async for chunk in chain.astream(f"q{number}", config("t"))]

    await run("first")  # what is loaded by a first turn would hide the others
    for number in range(60):
        task = asyncio.create_task(run(number))
        for _ in range(2 * number):
            if task.done():
                break
            await asyncio.sleep(0.0005)
        task.cancel()
        await asyncio.wait([task])
    stored = await read(memory, "t")
    assert set(model.given) <= set(stored)
    assert Counter(stored).most_common(1)[0][1] == 1
    questions = [text for text in stored if not text.startswith("re: ")]
    numbers = [int(text[1:]) for text in questions[1:]]
    assert numbers == sorted(numbers)
    assert len(model.given) > 1, "nothing came to its end: the drill shows nothing"
