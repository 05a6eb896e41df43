import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.output_parsers import JsonOutputParser
from scripted_chat import ScriptedChatModel, at
from summaries import ScriptedSummarizer

from langchain_convmem import Conversation, ConversationMemory, InMemoryLog, SummarySettings
from langchain_convmem.errors import ConfigError, LogUnavailableError
from langchain_convmem.ids import get_ulid_ms
from langchain_convmem.records import ThreadKey
from langchain_convmem.titles import shorten_title


async def test_users_are_listed_and_threads_of_nobody_are_not_theirs(memory):
    for user in ("bo", 7, None, "ana"):
        memory.add_messages(["Hello."], thread_id="t", user_id=user)
    assert memory.users() == await memory.ausers() == ["7", "ana", "bo"]
    assert [one.key for one in memory.threads()] == [ThreadKey(None, "t")]


@pytest.mark.parametrize(
    ("make", "way"),
    [
        (lambda: ConversationMemory.open("sqlite:///x.db"), r"open\('x\.db'\)"),
        (lambda: SummarySettings(trigger=4000), r'trigger must look like \("tokens", 4000\)'),
        (lambda: SummarySettings(keep=900), r'keep must look like \("tokens", 900\)'),
        (lambda: Conversation(ScriptedChatModel(replies=[]), system="Be brief."), "system_prompt="),
        (lambda: Conversation(ScriptedChatModel(replies=[]), preface="Brief."), "system_prompt="),
        (lambda: Conversation(ScriptedChatModel(replies=[]), on_cancl="keep"), "'on_cancel'"),
    ],
)
def test_an_error_names_the_way_out(make, way):
    with pytest.raises(ConfigError, match=way):
        make()


def test_a_title_is_listed_and_taken_away_and_a_bad_one_is_refused(memory):
    def titles():
        return {info.key.thread_id: info.title for info in memory.threads("ana")}

    for thread in ("t1", "t2"):
        memory.add_messages("Hi", thread_id=thread, user_id="ana")
    memory.set_title("t1", "  Parking in Lyon ", user_id="ana")
    for title in ("x" * 201, "a\nb", "\x1b[2J", 7):
        with pytest.raises(ConfigError, match="one line of text, at most 200"):
            memory.set_title("t1", title, user_id="ana")
    assert titles() == {"t1": "Parking in Lyon", "t2": ""}
    assert memory.get_title("t1", user_id="ana") == "Parking in Lyon"
    memory.set_title("t1", "", user_id="ana")
    assert titles() == {"t1": "", "t2": ""}


async def test_titles_and_archives_of_a_thread_may_be_set_at_once(memory):
    memory.add_messages("Hi", thread_id="t", user_id="ana")
    titles = [f"title {number}" for number in range(20)]
    named = [memory.aset_title("t", title, user_id="ana") for title in titles]
    await asyncio.gather(*named, *(memory.aarchive("t", user_id="ana") for _ in titles))
    [info] = memory.threads("ana")
    assert info.title in titles
    assert info.archived


def test_a_title_of_any_length_becomes_one_line():
    assert shorten_title("a \n\t b\x1b") == "a b"
    assert shorten_title("x" * 300) == "x" * 199 + "…"


def _usage(read, written):
    return {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}


def _stats(memory, thread_id="t"):
    found = memory.stats(thread_id, user_id="ana")
    assert asyncio.run(memory.astats(thread_id, user_id="ana")) == found
    return found


def test_messages_are_counted_by_role_and_turns_as_the_history_shows_them(memory):
    call = {"name": "look", "args": {}, "id": "c1", "type": "tool_call"}
    said = [SystemMessage("Be brief."), HumanMessage("Where"), HumanMessage("did I park?")]
    said.append(AIMessage("", tool_calls=[call], usage_metadata=_usage(10, 2)))
    said.append(ToolMessage("level 3", tool_call_id="c1"))
    said.append(AIMessage("On level 3.", usage_metadata=_usage(20, 5)))
    memory.add_messages([*said, AIMessage("Anything else?")], thread_id="t", user_id="ana")
    found = _stats(memory)
    assert found.messages == {"system": 1, "user": 2, "tool": 1, "assistant": 3}
    assert found.turns == len(memory.history("t", user_id="ana").turns)
    assert (found.input_tokens, found.output_tokens) == (30, 7)
    assert (found.entries, found.retracted, found.summaries) == (7, 0, 0)


def test_what_a_reply_took_is_counted_once_however_often_it_is_cut_or_edited(memory):
    history = memory.history("t", user_id="ana")
    reply = AIMessage("On level 3.", id="r1", usage_metadata=_usage(20, 5))
    history.add_messages([HumanMessage("Where?"), reply])
    history.cut_reply("On level")
    history.cut_reply("On")
    history.replace("r1", "On level 4.")
    found = _stats(memory)
    assert (found.input_tokens, found.output_tokens) == (20, 5)
    assert (found.interrupted, found.retracted) == (1, 3)
    history.replace("r1", AIMessage("No.", usage_metadata=_usage(30, 1)))
    assert _stats(memory).input_tokens == 50


class StructuredModel(ScriptedChatModel):
    def with_structured_output(self, schema, **_):
        return self | JsonOutputParser()


async def test_what_a_summariser_and_a_profiler_take_is_counted():
    texts = ("They live.", '{"items": []}')
    replies = [AIMessage(text, usage_metadata=_usage(90, 10)) for text in texts]
    model = StructuredModel(replies=replies)
    with ConversationMemory(InMemoryLog(), summarizer=model, profiler=model) as memory:
        memory.history("t").add("user", "I live in Porto, near the river.")
        memory.history("t").add("assistant", "Noted.")
        assert await memory.asummarize("t", force=True)
        assert (await memory.aupdate_profile(thread_id="t")).calls == 1
        found = memory.stats("t")
    assert (found.own_calls, found.own_input_tokens, found.own_output_tokens) == (2, 180, 20)


def fill(memory, thread_id="visit", user_id=None):
    history = memory.history(thread_id, user_id=user_id)
    history.add("user", "My cat is called Mitzi.")
    history.add("assistant", "A fine name.")
    history.add_summary("The cat is called Mitzi.", history.summary_window())
    question = history.add("user", "Where is the harbuor?")
    history.replace(question.id, "Where is the harbour?")
    history.add("assistant", "At the end of the quay.")
    history.pin("Answer in one sentence.")
    memory.set_title(thread_id, "Cat and harbour", user_id=user_id)
    return history


def show(history):
    said = [(message.type, message.content) for message in history.messages]
    return said, history.messages[-2].id, [pin.text for pin in history.pins]


@pytest.mark.parametrize("before", [None, "guest"])
def test_a_thread_moves_whole_and_is_signed(tmp_path, before):
    path = tmp_path / "chat.db"
    with ConversationMemory.open(path, signing_key=b"0123456789abcdef") as memory:
        shown = show(fill(memory, user_id=before))
        moved = memory.assign_user("visit", "ana", from_user_id=before)
        assert show(moved) == shown
        assert memory.get_title("visit", user_id="ana") == "Cat and harbour"
        assert memory.threads(before) == []
        assert memory.get_title("visit", user_id=before) == ""
        [block] = memory.recall("Where is the harbour?", user_id="ana", k=1).blocks
        assert any("harbour" in line.text for line in block.lines)
        assert memory.log.verify().ok


def test_a_move_that_is_refused_changes_nothing(memory):
    fill(memory)
    fill(memory, user_id="ana")
    for thread_id, user_id, before, problem in (
        ("visit", "ana", None, "has a thread 'visit' already"),
        ("visit", "ana", "ana", "has a thread 'visit' already"),
        ("other", "ana", None, "no thread 'other'"),
        ("visit", None, None, "user_id must be text"),
    ):
        with pytest.raises(ConfigError, match=problem):
            memory.assign_user(thread_id, user_id, from_user_id=before)
    assert len(memory.log.entries(memory.threads()[0].key)) == memory.threads()[0].entries


@pytest.mark.parametrize("step", range(1, 11))
def test_a_move_that_was_cut_short_goes_on_and_doubles_nothing(step):
    class Failing(InMemoryLog):
        left = 99

        def check(self):
            self.left -= 1
            if not self.left:
                raise LogUnavailableError("the disk is full")
            return super()

        def append(self, *given, **options):
            return self.check().append(*given, **options)

        def forget(self, *given):
            return self.check().forget(*given)

    with ConversationMemory(Failing()) as memory:
        history = fill(memory)
        history.unpin("Answer in one sentence.")
        history.add("user", "Thanks.")
        history.undo()
        shown, memory.log.left = show(history), step
        with pytest.raises(LogUnavailableError):
            memory.assign_user("visit", "ana")
        assert show(memory.assign_user("visit", "ana")) == shown


def test_a_user_who_goes_on_with_what_a_guest_said_keeps_one_thread(memory):
    said = [("user", "A table for two?"), ("ai", "At eight."), ("user", "And a high chair.")]
    memory.add_messages(said[:2], thread_id="booking")
    memory.add_messages(said, thread_id="booking", user_id="ana")
    moved = memory.assign_user("booking", "ana")
    assert [one.content for one in moved.messages] == [text for _, text in said]
    assert memory.threads() == []


@pytest.fixture
def middle(memory):
    """A time between the older and the newer half of four threads."""
    threads = [("ana", "a"), ("ana", "b"), ("bo", "a"), (None, "c")]
    for user, name in threads:
        memory.add_messages(["The old code is 4711."], thread_id=name, user_id=user)
    time.sleep(0.005)
    newer = [
        memory.add_messages(["The new code is 815."], thread_id=name, user_id=user)[0]
        for user, name in threads[1:]
    ]
    return datetime.fromtimestamp(get_ulid_ms(newer[0].id) / 1000, UTC)


@pytest.mark.parametrize(
    ("scope", "erased", "rest"),
    [
        ({"user_id": "ana"}, 2, {("ana", "b"): 1, ("bo", "a"): 2, (None, "c"): 2}),
        (
            {"user_id": "ana", "thread_id": "b"},
            1,
            {("ana", "a"): 1, ("ana", "b"): 1, ("bo", "a"): 2, (None, "c"): 2},
        ),
        ({"thread_id": "c"}, 1, {("ana", "a"): 1, ("ana", "b"): 2, ("bo", "a"): 2, (None, "c"): 1}),
        ({"all_users": True}, 4, {("ana", "b"): 1, ("bo", "a"): 1, (None, "c"): 1}),
    ],
)
def test_what_is_older_goes_and_the_receipt_counts_it(memory, middle, scope, erased, rest):
    memory.set_title("a", "Codes", user_id="ana")
    receipt = memory.forget(before=middle, **scope)
    assert (receipt.entries, receipt.threads) == (erased, 4 - len(rest))
    keys = [info.key for user in ("ana", "bo", None) for info in memory.threads(user)]
    assert {(key.user_id, key.thread_id): len(memory.log.entries(key)) for key in keys} == rest
    assert memory.get_title("a", user_id="ana") == ("Codes" if ("ana", "a") in rest else "")
    found = memory.recall("What is the code?", user_id="ana", k=3)
    anas = sum(count for (user, _), count in rest.items() if user == "ana")
    assert ("4711" in str(found.blocks)) is (anas > 1)
    assert memory.forget(before=middle, **scope).entries == 0


async def test_a_summary_of_what_is_older_goes_with_it():
    with ConversationMemory(InMemoryLog(), summarizer=ScriptedSummarizer()) as memory:
        for text in ("I live in Porto.", "The tram is late."):
            memory.history("t").add("user", text)
            memory.history("t").add("assistant", "Noted.")
        assert memory.summarize("t", force=True)
        later = datetime.now(UTC) + timedelta(minutes=1)
        assert (await memory.aforget(thread_id="t", before=later)).threads == 1
        assert memory.threads() == []


@pytest.mark.parametrize(
    "call",
    [
        {"all_users": True},
        {"user_id": "ana", "entry_ids": ["e"]},
        {"thread_id": "t", "entry_ids": "q1"},
        {"before": 5},
        {"before": 5, "user_id": "ana", "all_users": True},
        {"before": 5, "thread_id": "t", "entry_ids": ["m1"]},
        {"before": "yesterday", "thread_id": "t"},
        {"before": datetime(2026, 5, 1), "thread_id": "t"},  # noqa: DTZ001 - without a zone
    ],
)
def test_a_call_that_names_nobody_or_no_time_is_refused(memory, call):
    memory.add_messages(["Hello."], thread_id="t")
    with pytest.raises(ConfigError):
        memory.forget(**call)
    assert len(memory.history("t").messages) == 1


def test_a_reply_to_a_forgotten_question_is_not_stored(memory):
    chain = memory.wrap(FakeListChatModel(responses=["The code is 4711."]))
    stream = chain.stream("What is the code?", at())
    next(stream)
    memory.forget(user_id="ana")
    assert "".join(chunk.content for chunk in stream)  # the caller has all of it
    assert memory.threads("ana") == []
    assert memory.recall("code", user_id="ana").blocks == ()
