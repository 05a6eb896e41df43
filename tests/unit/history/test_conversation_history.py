import asyncio

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_convmem import ConversationHistory, InMemoryLog
from langchain_convmem.errors import ConfigError, InvalidMessageError
from langchain_convmem.ids import get_now_ms
from langchain_convmem.logs import SQLiteLog
from langchain_convmem.records import Cover, Draft


def shape(history):
    return [(turn.role, *turn.contents) for turn in history.turns]


def test_a_history_holds_nothing_of_its_own(history):
    history.add("user", "Hi")
    other = ConversationHistory(history.log, "t1", user_id="ana")
    other.add("assistant", "Ho")
    assert shape(history) == shape(other) == [("user", "Hi"), ("assistant", "Ho")]
    assert history.entries == history.log.entries(history.key)
    assert (history.thread_id, history.user_id) == ("t1", "ana")
    assert "t1" in repr(history)


def test_adding_returns_the_turn_that_holds_it(history):
    first = history.add("user", "a")
    assert (first.role, first.contents) == ("user", ("a",))
    merged = history.add("user", ["b", " ", "c"])
    assert merged.id == first.id
    assert merged.contents == ("a", "b", "c")
    assert merged.metadata.attributes == ("merged",)
    reply = history.add("assistant", "d")
    assert reply.contents == ("d",)
    assert reply.id == history.turns[-1].id


@pytest.mark.parametrize(
    ("role", "contents", "named"),
    [
        ("user", "", "blank"),
        ("user", " \n", "blank"),
        ("user", [], "blank"),
        ("user", {"a"}, "list of texts alone"),
        ("summary", "S", "summary"),
        ("tool", "t", "tool"),
        ("User", "a", "User"),
        ("user", ["a", 7], "list of texts alone"),
    ],
)
def test_what_nobody_said_is_refused_and_nothing_is_written(history, role, contents, named):
    with pytest.raises(InvalidMessageError, match=named):
        history.add(role, contents)
    assert history.entries == []


def test_an_added_turn_can_be_extended_durably(history):
    before = get_now_ms()
    history.add("user", "a").add_timing("playStart", 3)
    turn = history.add("user", "b")
    turn.add_timing("creation", 7)
    turn.add_attribute("seen")
    turn.add_attribute("seen")
    turn.add_timing("playStart", 5)
    turn.add_timing("playEnd")
    turn.add_data("mood", ["calm"])
    known = ConversationHistory(history.log, "t1", user_id="ana").turns[0].metadata
    assert known.attributes == ("seen", "seen", "merged")
    assert (known.timing["creation"], known.timing["playStart"]) == (7, 5)
    assert before <= known.timing["playEnd"] <= get_now_ms()
    assert known.aux == {"mood": ["calm"]}
    assert history.entries[0].metadata.attributes == ()


@pytest.mark.parametrize("wrong", ["", 5, None])
def test_marks_are_text_and_times_are_whole_numbers(history, wrong):
    turn = history.add("user", "a")
    with pytest.raises(ConfigError, match="a mark must be text"):
        turn.add_attribute(wrong)
    with pytest.raises(ConfigError, match="at_ms must be whole milliseconds"):
        turn.add_timing("playEnd", f"{wrong} o'clock")
    assert history.turns == [turn]


def test_adding_again_what_was_handed_out_changes_nothing(history):
    history.add_messages([HumanMessage("a"), AIMessage("b")])
    before = history.entries
    history.add_messages(history.messages)
    assert history.entries == before


def test_a_reply_that_a_cache_repeats_answers_each_question(history):
    for _ in range(2):
        history.add_messages([HumanMessage("Hi"), AIMessage("Hello.", id="run")])
    assert [one.text for one in history.messages] == ["Hi", "Hello."] * 2


def test_clearing_starts_every_view_anew_and_keeps_the_log(history):
    history.clear()
    assert history.entries == []
    history.add("user", "a")
    cover = Cover(((1, 10**9),))
    history.log.append(history.key, [Draft(role="summary", contents=("S",), cover=cover)])
    history.clear()
    assert (history.messages, history.turns) == ([], [])
    assert len(history.entries) == 3
    history.clear()
    assert len(history.entries) == 3
    assert history.add("assistant", "b").contents == ("b",)
    assert shape(history) == [("user", "..."), ("assistant", "b")]


async def test_the_asynchronous_twins_do_the_same(tmp_path):
    with SQLiteLog(tmp_path / "log.db") as log:
        history = ConversationHistory(log, "t1")
        turn = await history.aadd("user", ["a", "b"])
        assert (turn.id, turn.entries) == (history.turns[0].id, history.turns[0].entries)
        await turn.aadd_attribute("seen")
        await turn.aadd_timing("playEnd", 7)
        await turn.aadd_data("mood", "calm")
        assert history.turns[0].metadata.attributes == ("seen",)
        assert history.turns[0].metadata.timing["playEnd"] == 7
        assert history.turns[0].metadata.aux == {"mood": "calm"}
        assert await history.aturns() == history.turns
        assert await history.amodel_turns() == history.model_turns
        await history.aadd_messages([AIMessage("c")])
        assert await history.aget_messages() == history.messages
        assert await history.acontext(max_tokens=50) == history.context(max_tokens=50)
        await history.aclear()
        assert history.messages == await history.aget_messages() == []
        await history.aclear()
        assert len(history.entries) == 3
        with pytest.raises(InvalidMessageError):
            await history.aadd("user", " ")


def test_pending_calls_are_open_in_messages(history):
    calls = [{"name": "send", "args": {}, "id": name} for name in ("c1", "c2")]
    history.add_messages([HumanMessage("Send both."), AIMessage("", tool_calls=calls)])
    assert [message.type for message in history.messages] == ["human", "ai"]
    assert len(history.messages[-1].tool_calls) == 2
    closed = [message.type for message in history.context().messages]
    assert closed == ["human", "ai", "tool", "tool"]


def _hook(message):
    """Store nothing of what is off the record, and no sums of money."""
    if "off the record" in message.text:
        return None
    message.content = str(message.text).replace("300", "[sum]")
    return message


@pytest.fixture
def hooked():
    return ConversationHistory(InMemoryLog(), "t1", user_id="ana", before_write=_hook)


@pytest.mark.parametrize("role", ["user", "assistant", "system"])
def test_a_turn_of_which_nothing_is_stored_has_no_entries(hooked, role):
    for turn in (
        hooked.add(role, "off the record: 300"),
        asyncio.run(hooked.aadd(role, "off the record: 300")),
    ):
        assert (turn.role, turn.entries, turn.contents) == (role, (), ())
        with pytest.raises(InvalidMessageError, match="not in the log"):
            turn.add_timing("playStart")
    assert hooked.entries == []


def test_a_summary_of_which_nothing_is_stored_is_refused(hooked):
    said = [HumanMessage("How much?", id="q1"), AIMessage("Let me see.", id="a1")]
    hooked.add_messages([*said, HumanMessage("And?", id="q2")])
    window = hooked.summary_window()
    with pytest.raises(InvalidMessageError, match="summary"):
        hooked.add_summary("off the record: 300", window)
    with pytest.raises(InvalidMessageError, match="summary"):
        asyncio.run(hooked.aadd_summary("off the record: 300", window))
    assert hooked.last_summary is None
    assert hooked.summary_window() == window


class CountingLog(InMemoryLog):
    """Counts the entries that it hands out."""

    read = 0

    def entries(self, key, **options):
        return self._count(super().entries(key, **options))

    def read_back(self, key, plan, *, page=64):
        return self._count(super().read_back(key, plan, page=page))

    def _count(self, found):
        self.read += len(found)
        return found


@pytest.fixture
def long():
    return ConversationHistory(CountingLog(), "t", user_id="ana")


def talk(long, exchanges, start=0):
    said = []
    for number in range(start, start + exchanges):
        said += [HumanMessage(f"question {number}"), AIMessage(f"answer {number}")]
    long.add_messages(said)


def test_a_view_within_a_budget_reads_what_the_budget_reaches(long):
    talk(long, 1000)
    first = long.context(max_tokens=100)
    assert 0 < long.log.read <= 150
    assert long.context(max_tokens=100).messages == first.messages
    talk(long, 5, start=1000)
    assert long.context(max_tokens=100).messages[-1].content == "answer 1004"


def test_adding_reads_a_page_however_long_the_thread_is(long):
    talk(long, 1000)
    long.log.read = 0
    long.add("user", "one more")
    assert 0 < long.log.read <= 64


def test_the_turn_of_a_long_run_is_whole_when_something_is_added_to_it(long):
    long.add_messages([AIMessage("Hello."), *[HumanMessage(f"{n}") for n in range(150)]])
    assert len(long.add("user", "last").entries) == 151
