import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from scripted_chat import ProviderError, ScriptedChatModel, at, texts
from summaries import ForgetsMeanwhile, ScriptedSummarizer, bare

from langchain_convmem import ConversationMemory, InMemoryLog, SummarySettings
from langchain_convmem.errors import ConfigError, InvalidMessageError, StaleWindowError
from langchain_convmem.history import ConversationHistory
from langchain_convmem.views.edits import plan_undo
from langchain_convmem.views.messages import NOTED_TEXT

CALL = {"name": "weather", "args": {}, "id": "c1", "type": "tool_call"}


def test_undo_takes_back_the_last_exchange_and_the_log_keeps_it(history, say, shape):
    say("a", "b", "c", "d")
    assert [turn.contents for turn in history.undo()] == [("c",), ("d",)]
    assert shape() == ["a", "b"]
    assert [entry.contents for entry in history.entries[:4]] == [("a",), ("b",), ("c",), ("d",)]
    assert history.entries[4].control.reason == "undo"


def test_a_question_that_nobody_answered_is_an_exchange_of_its_own(memory):
    chain = memory.wrap(ScriptedChatModel(replies=[ProviderError(), "At noon."]), recall=False)
    with pytest.raises(ProviderError):
        chain.invoke("Where?", at())
    chain.invoke("When?", at())
    memory.history("t", user_id="ana").undo()
    assert texts(memory) == ["Where?"]


def test_what_was_undone_comes_back_until_something_else_is_said(history, say, shape):
    say("a", "b", "c", "d")
    history.undo()
    history.add_summary("S", history.summary_window())
    assert history.redo()
    assert shape()[-2:] == ["c", "d"]
    history.undo()
    say("e")
    assert not history.redo()


@pytest.mark.parametrize("exchanges", [0, -1, True, 1.5, "2"])
def test_an_odd_number_of_exchanges_is_refused(history, say, exchanges):
    say("a", "b")
    with pytest.raises(ConfigError, match="exchanges"):
        history.undo(exchanges)
    assert len(history.entries) == 2


def test_a_summary_that_tells_of_what_is_undone_goes_with_it(history, say, read):
    say("a", "b")
    history.add_summary("S", history.summary_window())
    say("c", "d", "e", "f")
    history.add_summary("T", history.summary_window())
    say("g", "h")
    history.undo()
    assert read() == ["T"]
    history.undo()
    assert read() == ["S", "c", "d"]
    undo, _ = plan_undo(history.entries, 2)
    history.add_summary("U", history.summary_window())
    history.log.append(history.key, undo)  # planned before that summary was there
    assert read() == []


def test_a_message_that_comes_in_other_words_takes_its_summary_with_it(history, read):
    history.add_messages([HumanMessage("a", id="m1"), AIMessage("b", id="m2")])
    history.add_summary("S", history.summary_window())
    history.add_messages([HumanMessage("a", id="m1")])
    assert read() == ["S"]
    history.add_messages([HumanMessage("A", id="m1"), HumanMessage("c")])
    assert read() == ["A", "b", "c"]


def test_an_edited_question_asks_anew(history, say, shape):
    say("a", "b", "c", "d", "e")
    edited = history.replace(history.turns[2].id, "C")
    assert edited.contents == ("C",)
    assert shape() == ["a", "b", "C"]
    controls = [entry.control and entry.control.reason for entry in history.entries[5:]]
    assert controls == ["rewind", "replaced", None]
    history.add("assistant", "D")
    assert shape() == ["a", "b", "C", "D"]


def test_an_edited_call_takes_its_results_with_it(history, read):
    broken = {"name": "look", "args": "{", "id": "c2", "error": None, "type": "invalid_tool_call"}
    calls = AIMessage("", tool_calls=[CALL], invalid_tool_calls=[broken], id="m2")
    result = ToolMessage("1", tool_call_id="c1")
    result.id = "m3"
    history.add_messages([HumanMessage("q"), calls, result, AIMessage("found")])
    history.replace("m3", "2")
    assert history.messages[-1].tool_call_id == "c1"
    assert read() == ["q", "", "2"]
    history.replace("m2", "I know")
    assert read() == ["q", "I know"]
    edited = history.entries[-1].message
    assert (edited.tool_calls, edited.invalid_tool_calls) == ([], [])


def test_an_edited_instruction_takes_nothing_back(history, say, shape):
    history.add_messages([SystemMessage("Be brief.", id="s1")])
    say("a", "b")
    history.replace("s1", "Be kind.")
    assert shape() == ["Be kind.", "a", "b"]


@pytest.mark.parametrize("message", ["", " \n", AIMessage("x"), 7, ["x"]])
def test_what_cannot_take_the_place_is_refused(history, say, message):
    say("a", "b")
    before = history.entries
    with pytest.raises(InvalidMessageError):
        history.replace(history.turns[0].id, message)
    assert history.entries == before


USAGE = {"input_tokens": 3, "output_tokens": 20, "total_tokens": 23}
TOLD = {"model_name": "m", "finish_reason": "stop"}


def spoken(text="From platform 9, at noon.", **more):
    return AIMessage(text, id="r1", usage_metadata=USAGE, response_metadata=TOLD, **more)


@pytest.fixture
def asked(history):
    history.add_messages([HumanMessage("When?", id="q1"), spoken()])
    history.turns[-1].add_timing("playStart", 7)
    history.turns[-1].add_data("voice", "Alto")
    return history


def test_a_reply_is_cut_to_what_was_heard_and_the_log_keeps_it_whole(asked):
    created = asked.turns[-1].metadata.timing["creation"]
    turn = asked.cut_reply("from platform 9")
    assert turn.contents == ("From platform 9",)
    assert turn.metadata.attributes == ("interrupted", "kept")
    assert turn.metadata.timing == {"creation": created, "playStart": 7}
    assert turn.metadata.aux == {"voice": "Alto"}
    [_, reply] = asked.messages
    assert (reply.id, reply.text, reply.usage_metadata) == ("r1", "From platform 9", USAGE)
    assert reply.response_metadata == {**TOLD, "interrupted": True}
    assert asked.entries[1].contents == ("From platform 9, at noon.",)
    exported = asked.to_maps(exclude_last=False)[-1]["metadata"]
    assert exported["attribute"] == ["interrupted", "kept"]
    assert asked.cut_reply("From").metadata.attributes == ("interrupted", "kept")
    with pytest.raises(ConfigError, match="no reply"):
        ConversationHistory(InMemoryLog(), "t").cut_reply("From")


def test_a_reply_of_which_nothing_was_heard_is_taken_out(asked, shape):
    asked.add("user", "Hello?")
    assert asked.cut_reply("") is None
    assert shape() == ["When? Hello?"]
    assert not asked.redo()
    assert [entry.role for entry in asked.entries] == ["user", "assistant", "user", "control"]


def test_words_that_are_not_in_the_reply_change_nothing(asked):
    count = len(asked.entries)
    with pytest.raises(InvalidMessageError):
        asked.cut_reply("To Paris")
    assert len(asked.entries) == count


def test_a_reply_that_calls_a_tool_keeps_its_calls(history, shape):
    calls = AIMessage("Let me look that up.", id="r1", tool_calls=[CALL])
    result = ToolMessage("9", tool_call_id="c1")
    history.add_messages([HumanMessage("When?"), calls, result, AIMessage("Platform 9.")])
    history.cut_reply("Let me", message_id="r1")
    history.cut_reply(0, message_id="r1")
    assert [message.type for message in history.messages] == ["human", "ai", "tool", "ai"]
    assert history.messages[1].tool_calls == [CALL]


def test_the_words_that_were_heard_are_those_that_the_write_hook_let_through():
    def redact(message):
        return message.model_copy(update={"content": message.text.replace("9", "[number]")})

    history = ConversationHistory(InMemoryLog(), "t", before_write=redact)
    history.add_messages([HumanMessage("When?"), spoken()])
    assert history.cut_reply("From platform 9").contents == ("From platform [number]",)


def test_a_replacement_keeps_when_it_was_said_marks_and_data(asked):
    asked.turns[-1].add_attribute("speechInterrupted")
    before = asked.turns[-1].metadata
    for new in ("From platform 8.", AIMessage("From platform 7.")):
        assert asked.replace("r1", new).metadata == before


def test_a_text_in_the_place_of_a_message_keeps_what_is_known_of_it(history):
    asked = HumanMessage("When?", id="q1", additional_kwargs={"session": "s1"})
    reply = spoken(additional_kwargs={"reasoning_content": "hm", "voice": "alto"})
    history.add_messages([asked, reply])
    history.replace("r1", "At one.", keep_later=True)
    history.replace("q1", "When, please?", keep_later=True)
    question, reply = history.messages
    assert question.additional_kwargs == {"session": "s1"}
    assert (reply.usage_metadata, reply.response_metadata) == (USAGE, TOLD)
    assert reply.additional_kwargs == {"voice": "alto"}


SETTINGS = SummarySettings(
    trigger=("messages", 4), keep=("messages", 2), max_summary_tokens=4000, first_pause_s=0.001
)


def exchange(history, *numbers):
    for number in numbers:
        asked = HumanMessage(f"question {number}", id=f"q{number}")
        history.add_messages([asked, AIMessage(f"answer {number}")])


def compact(log):
    memory = ConversationMemory(log, summarizer=ScriptedSummarizer(), summary_settings=SETTINGS)
    return memory.summarize("t1", user_id="ana")


def shown(history):
    return [bare(message.text) for message in history.messages]


def test_what_is_summarised_anew_takes_no_other_summary_out_of_view():
    memory = ConversationMemory(InMemoryLog(), summarizer=ScriptedSummarizer())
    history = memory.history("t1", user_id="ana")
    for numbers in [(1, 2), (3, 4)]:
        exchange(history, *numbers)
        memory.summarize("t1", user_id="ana", force=True)
    history.replace("q1", "question 5", keep_later=True)
    memory.summarize("t1", user_id="ana", force=True)
    assert all(f"question {number}" in shown(history)[0] for number in (2, 3, 4, 5))


@pytest.fixture
def told(history):
    exchange(history, 1, 2)
    history.add_summary(["They talked."], history.summary_window(), model="m")
    exchange(history, 3)
    return history


def test_an_edited_summary_stands_for_the_same_in_other_words(told):
    old = told.last_summary
    turn = told.edit_summary(["They met.", " ", "In Rome."])
    assert turn.contents == ("They met.", "In Rome.")
    assert shown(told) == ["They met.\nIn Rome.", NOTED_TEXT, "question 3", "answer 3"]
    [new] = turn.entries
    assert new.cover.ranges == old.entries[0].cover.ranges
    assert new.cover.model == "edited"
    assert new.metadata.aux["summary"] == {"edited": True}
    assert new.metadata.summary_ids == old.metadata.summary_ids
    assert told.last_summary.id == turn.id


@pytest.mark.parametrize("text", [" ", [], 3, [3], None])
def test_what_is_no_summary_changes_nothing(told, text):
    before = told.entries
    with pytest.raises(InvalidMessageError):
        told.edit_summary(text)
    assert told.entries == before


def test_a_summary_that_a_later_one_retells_is_not_edited(told):
    first = told.last_summary
    told.add_summary("More.", told.summary_window())
    with pytest.raises(ConfigError, match="edit that one"):
        told.edit_summary("New.", summary_id=first.id)
    assert told.edit_summary("Other.").contents == ("Other.",)


def test_what_is_forgotten_while_it_is_edited_stays_forgotten():
    with ForgetsMeanwhile("summary") as log:
        history = ConversationHistory(log, "t")
        exchange(history, 1)
        history.add_summary("They talked.", history.summary_window())
        with pytest.raises(StaleWindowError, match="forgotten"):
            history.edit_summary("They whispered.")
        assert "whispered" not in str(history.entries)


def test_what_an_undo_shows_again_is_not_compacted_by_turns_to_come():
    log = InMemoryLog()
    history = ConversationHistory(log, "t1", user_id="ana")
    exchange(history, 1, 2, 3)
    assert compact(log)
    history.undo_summary()
    before = shown(history)
    assert compact(log).outcome == "not_due", "another memory reads it from the log"
    exchange(history, 4, 5, 6)
    assert compact(log)
    assert shown(history)[1:6] == [NOTED_TEXT, *before[:4]]
    assert "question 3" in shown(history)[0]
    assert shown(history)[-1] == "answer 6"
