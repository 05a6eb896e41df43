import asyncio
import contextlib
import signal
import sys

import pytest
from host_promises import differs, kept_by_all
from langchain_core.messages import AIMessage, HumanMessage
from scripted_chat import FailingLog, ProviderError, ScriptedChatModel, at, entries, talk, texts
from turn_hosts import STREAMS, given
from watched_embedder import WordEmbeddings

from langchain_convmem import ConversationMemory, InMemoryLog
from langchain_convmem.errors import LogError, LogUnavailableError, ThreadBusyError

CUT = [("user", "Count."), ("assistant", "One two ", "interrupted")]


def _fail(host, run, memory, said="Where is it?"):
    """Ask a model that is down; return the app and the model, which is up from then on."""
    model = ScriptedChatModel(replies=[ProviderError("down"), "Yes."])
    app = host.app(memory, model)
    with pytest.raises(ProviderError, match="down"):
        run(app, said, at())
    return app, model


@kept_by_all("failing model")
def test_the_question_stays_when_the_model_fails(host, run, memory):
    app, model = _fail(host, run, memory)
    assert texts(memory) == ["Where is it?"]
    run(app, "Are you there?", at())
    assert "Where is it?" in str(model.seen[-1][0].text), "the next turn sees it"
    asked = [("user", "Where is it?"), ("user", "Are you there?")]
    assert talk(memory) == [*asked, ("assistant", "Yes.")]


@differs("failing model", "conversation")
def test_a_conversation_is_as_before_when_the_model_fails(host, run, memory):
    app, _ = _fail(host, run, memory)
    assert texts(memory) == []
    assert talk(memory) == [("user", "Where is it?")]
    run(app, "Are you there?", at())
    assert texts(memory) == ["Are you there?", "Yes."]


@kept_by_all("sent again")
def test_a_message_sent_again_by_its_id_after_a_failure_is_one_turn(host, run, memory):
    said = HumanMessage("Where is it?", id="m1")
    app, model = _fail(host, run, memory, said)
    run(app, said, at())
    assert texts(memory) == ["Where is it?", "Yes."]
    assert [str(one.text) for one in model.seen[-1]] == ["Where is it?"]
    counted = [one for one in entries(memory) if one.control is None]
    assert len({one.turn_id for one in counted if one.role == "assistant"}) == 1
    assert counted[-1].turn_id in {one.turn_id for one in counted if one.role == "user"}


@kept_by_all("text sent again")
def test_a_text_sent_again_after_a_failure_is_one_turn(host, run, memory):
    app, model = _fail(host, run, memory)
    run(app, "Where is it?", at())
    assert texts(memory) == ["Where is it?", "Yes."]
    assert [str(one.text) for one in model.seen[-1]] == ["Where is it?"]


@kept_by_all("another id")
def test_the_same_text_under_another_id_is_another_message(host, run, memory):
    app, _ = _fail(host, run, memory, HumanMessage("Where is it?", id="m1"))
    run(app, HumanMessage("Where is it?", id="m2"), at())
    assert talk(memory) == [*[("user", "Where is it?")] * 2, ("assistant", "Yes.")]


@kept_by_all("retried")
@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_a_turn_that_is_retried_is_stored_once(host, way, memory):
    model = ScriptedChatModel(replies=[ProviderError("down"), ProviderError("down"), "Yes."])
    retrying = host.app(memory, model).runnable.with_retry(wait_exponential_jitter=False)
    if way == "invoke":
        retrying.invoke("Where is it?", at())
    else:
        asyncio.run(retrying.ainvoke("Where is it?", at()))
    assert texts(memory) == ["Where is it?", "Yes."]
    assert [str(one.text) for one in model.seen[-1]] == ["Where is it?"]


@kept_by_all("failed question")
def test_a_question_that_cannot_be_stored_is_raised_before_the_model_is_called(host, run, model):
    memory = ConversationMemory(FailingLog(InMemoryLog(), fails_at=1))
    with pytest.raises(LogError, match="disk is full"):
        run(host.app(memory, model, recall=False), "Hello", at())
    assert model.seen == []


@kept_by_all("failed reply")
def test_a_reply_that_cannot_be_stored_is_raised(host, run, model):
    memory = ConversationMemory(FailingLog(InMemoryLog(), fails_at=2))
    with pytest.raises(LogError, match="disk is full") as raised:
        run(host.app(memory, model, recall=False), "Hello", at())
    assert len(model.seen) == 1
    causes = [raised.value, raised.value.__cause__]
    assert any(isinstance(error, LogUnavailableError) for error in causes)


def _break(host, way, memory, reply="One two three four", after=2, **values):
    """Run a turn whose stream breaks after so many chunks."""
    model = ScriptedChatModel(replies=[reply], breaks_after=after)
    app = host.app(memory, model, recall=False)
    with pytest.raises(ProviderError, match="connection broke"):
        STREAMS[way](app, HumanMessage("Count.", id=values.pop("id", "q1")), at(**values))


@kept_by_all("broken stream")
@pytest.mark.parametrize("way", STREAMS)
def test_the_words_of_a_stream_that_breaks_stay(host, way, memory):
    _break(host, way, memory)
    assert talk(memory) == CUT
    assert texts(memory) == ["Count.", "One two "]
    [asked, reply] = [one for one in entries(memory) if one.control is None]
    assert type(reply.message) is AIMessage
    assert reply.turn_id == asked.turn_id
    assert reply.metadata.timing.keys() >= {"llmStart", "llmEnd"}


@differs("broken stream", "conversation")
@pytest.mark.parametrize("way", STREAMS)
def test_the_words_of_a_turn_that_is_taken_back_are_in_the_log(host, way, memory):
    _break(host, way, memory)
    assert talk(memory) == CUT
    assert texts(memory) == []
    [reply] = [one for one in entries(memory) if one.role == "assistant"]
    assert "finish_reason" not in reply.message.response_metadata, "nobody cancelled it"


def _run_whole(host, memory, said, reply):
    """Run a turn of which all comes; return what its model got."""
    model = ScriptedChatModel(replies=[reply])
    host.app(memory, model, recall=False).invoke(said, at())
    return [str(one.text) for one in model.seen[-1]]


@kept_by_all("after a broken stream")
@pytest.mark.parametrize("way", STREAMS)
def test_the_next_turn_sees_the_words_of_a_stream_that_broke(host, way, memory):
    _break(host, way, memory)
    assert _run_whole(host, memory, "Go on.", "Three.") == ["Count.", "One two ", "Go on."]


@kept_by_all("after a broken stream")
@pytest.mark.parametrize("said_id", ["q1", None])
@pytest.mark.parametrize("way", STREAMS)
def test_a_whole_reply_takes_the_place_of_what_broke(host, way, said_id, memory):
    _break(host, way, memory, id=said_id)
    _break(host, way, memory, "Four five six seven", id=said_id)
    assert texts(memory) == ["Count.", "Four five "]
    said = HumanMessage("Count.", id=said_id)
    assert _run_whole(host, memory, said, "One two three.") == ["Count."]
    assert texts(memory) == ["Count.", "One two three."]


@kept_by_all("broken again")
@pytest.mark.parametrize("way", STREAMS)
def test_an_attempt_that_breaks_leaves_the_whole_reply_before_it(host, way, memory):
    _run_whole(host, memory, HumanMessage("Count.", id="q1"), "One two three.")
    _break(host, way, memory)
    assert texts(memory) == ["Count.", "One two three."]


@differs("broken again")
@pytest.mark.parametrize("way", STREAMS)
def test_a_chain_shows_the_words_of_the_attempt_that_broke(host, way, memory):
    _run_whole(host, memory, HumanMessage("Count.", id="q1"), "One two three.")
    _break(host, way, memory)
    assert texts(memory) == ["Count.", "One two "]
    assert ("assistant", "One two three.") in talk(memory)


@kept_by_all("interrupted message")
@pytest.mark.parametrize("way", STREAMS)
def test_a_message_that_was_cut_says_so(host, way, memory):
    _break(host, way, memory)
    asked, cut = memory.history("t", user_id="ana").messages
    assert (cut.response_metadata["interrupted"], asked.response_metadata) == (True, {})


@kept_by_all("half a call")
@pytest.mark.parametrize("way", STREAMS)
@pytest.mark.parametrize("after", [2, 3])
def test_half_a_call_is_no_call(host, way, after, memory):
    call = {"name": "erase", "args": {"all": 1}, "id": "c1", "type": "tool_call"}
    _break(host, way, memory, AIMessage("Erasing. ", tool_calls=[call]), after)
    [cut] = [one.message for one in entries(memory) if one.role == "assistant"]
    assert (cut.text, cut.tool_calls, cut.invalid_tool_calls) == ("Erasing. ", [], [])
    assert "erase" not in str(cut)


@kept_by_all("remember")
@pytest.mark.parametrize("way", STREAMS)
def test_of_a_stream_that_is_not_to_be_stored_no_words_are(host, way, memory):
    _break(host, way, memory, remember=False)
    assert entries(memory) == []


async def _leave(app, how):
    stream = app.astream("Count.", at())
    await anext(stream)
    if how == "closed":
        await stream.aclose()
        return
    reading = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    reading.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await reading
    await stream.aclose()


def _left(host, how, memory, **options):
    async def leave():
        model = ScriptedChatModel(replies=["One two three"], turnstile=asyncio.Event())
        await _leave(host.app(memory, model, recall=False, **options), how)

    asyncio.run(leave())


@kept_by_all("left stream")
@pytest.mark.parametrize("how", ["closed", "cancelled"])
def test_the_words_of_a_stream_that_is_left_stay(host, how, memory):
    _left(host, how, memory)
    assert talk(memory) == [("user", "Count."), ("assistant", "One ", "interrupted")]
    assert texts(memory) == ["Count.", "One "]


@differs("left stream", "conversation")
@pytest.mark.parametrize("how", ["closed", "cancelled"])
@pytest.mark.parametrize(
    ("on_cancel", "shown"), [("keep", ["Count.", "One "]), ("discard", [])], ids=["keep", "discard"]
)
def test_a_conversation_that_is_left_does_as_it_was_told(host, how, on_cancel, shown, memory):
    _left(host, how, memory, on_cancel=on_cancel)
    marks = ["interrupted", "kept"][: 1 + (on_cancel == "keep")]
    assert talk(memory) == [("user", "Count."), ("assistant", "One ", *marks)]
    assert texts(memory) == shown


def _close(host, memory):
    """Close a stream behind its first word; return what is stored then."""
    model = ScriptedChatModel(replies=["One two three"])
    stream = host.app(memory, model, recall=False).stream("Count.", at())
    next(stream)
    stream.close()
    return talk(memory)


@kept_by_all("closed in a thread")
def test_the_words_of_a_stream_that_is_closed_at_once_stay(host, memory):
    assert _close(host, memory) == [("user", "Count."), ("assistant", "One ", "interrupted")]


@differs("closed in a thread", "conversation")
def test_a_conversation_that_is_closed_at_once_takes_the_turn_back(host, memory):
    assert _close(host, memory) == [("user", "Count."), ("assistant", "One ", "interrupted")]
    assert texts(memory) == []


@differs("closed in a thread", "graph", "nodes", "agent", "deep agent")
def test_a_state_whose_stream_is_closed_at_once_leaves_the_whole_reply(host, memory):
    assert _close(host, memory) == [("user", "Count."), ("assistant", "One two three")]


@kept_by_all("failing embedder")
def test_a_failing_embedder_costs_neither_the_message_nor_the_turn(host, run, model):
    embeddings = WordEmbeddings()
    embeddings.failing = ProviderError("no service")
    with ConversationMemory.open(":memory:", embeddings=embeddings) as memory:
        said = HumanMessage("I chained my bicycle to the oak.")
        memory.add_messages([said], thread_id="old", user_id="ana")
        run(host.app(memory, model), "Where did I chain my bicycle?", at())
        assert texts(memory) == ["Where did I chain my bicycle?", "Yes."]
        assert "to the oak" in given(model), "words still find it"


class _EndingChatModel(ScriptedChatModel):
    """Its process is asked to end after the second word."""

    def _chunks(self, messages):
        for number, chunk in enumerate(super()._chunks(messages)):
            if number == 2:
                signal.raise_signal(signal.SIGTERM)
            yield chunk


@pytest.fixture
def exits():
    """Let the process exit on SIGTERM, as a handler of an application does."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def exit_within(exits, memory):
    """Exit within a turn; return what is stored then, and what is shown."""

    def run(host, way):
        model = _EndingChatModel(replies=["One two three four"])
        with pytest.raises(SystemExit):
            STREAMS[way](host.app(memory, model, recall=False), "Count.", at())
        return talk(memory), texts(memory)

    return run


@kept_by_all("exit")
def test_the_words_of_a_stream_stay_when_the_process_exits(host, exit_within):
    assert exit_within(host, "astream") == (CUT, ["Count.", "One two "])


@kept_by_all("exit in a thread")
def test_the_words_of_a_stream_of_direct_calls_stay_when_the_process_exits(host, exit_within):
    assert exit_within(host, "stream") == (CUT, ["Count.", "One two "])


@differs("exit", "conversation")
def test_a_conversation_takes_the_turn_back_when_the_process_exits(host, exit_within):
    assert exit_within(host, "astream") == (CUT, [])


@differs("exit in a thread", "conversation")
def test_a_conversation_of_direct_calls_takes_it_back_when_the_process_exits(host, exit_within):
    assert exit_within(host, "stream") == (CUT, [])


@differs("exit in a thread", "graph", "nodes", "agent", "deep agent")
def test_a_state_of_direct_calls_has_the_whole_reply_when_the_process_exits(host, exit_within):
    whole = [("user", "Count."), ("assistant", "One two three four")]
    assert exit_within(host, "stream")[0] == whole


@kept_by_all("busy thread")
def test_a_turn_within_a_turn_of_its_thread_is_an_error(host, run, memory):
    raised = []

    def reply(_messages):
        with pytest.raises(ThreadBusyError) as caught:
            app.invoke("Again", at())
        raised.append(caught.value)
        return "Yes."

    app = host.app(memory, ScriptedChatModel(replies=[reply]))
    run(app, "Hello", at())
    assert len(raised) == 1
    assert texts(memory) == ["Hello", "Yes."]


@differs("busy thread")
def test_a_turn_within_a_turn_of_its_thread_is_a_turn_of_its_own(host, run, memory):
    def reply(_messages):
        app.invoke("Again", at())
        return "Yes."

    model = ScriptedChatModel(replies=[reply, "Inner.", "Never."])
    app = host.app(memory, model)
    run(app, "Hello", at())
    assert sorted(texts(memory)) == ["Again", "Hello", "Inner.", "Yes."]
