from __future__ import annotations

import json

import pytest
from host_promises import differs, kept_by_all
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from pydantic import BaseModel
from scripted_chat import ScriptedChatModel, at, entries, talk, texts
from summaries import ScriptedSummarizer
from summary_trees import add_chat, add_leaf, add_parent
from topics import BOAT, DOG, memory_of_topics, memory_with_a_buffer
from turn_hosts import given
from watched_runs import RunWatcher

from langchain_convmem import ConversationMemory, InMemoryLog
from langchain_convmem.errors import ConvMemError
from langchain_convmem.records import ThreadKey
from langchain_convmem.summarizing import SummarySettings
from langchain_convmem.views.context import is_framing


@kept_by_all("one turn")
def test_question_and_reply_are_one_turn(host, run, memory, model):
    app = host.app(memory, model)
    run(app, "Hello", at())
    run(app, "Again", at())
    reply = ("assistant", "Yes.")
    assert talk(memory) == [("user", "Hello"), reply, ("user", "Again"), reply]
    first, second, third, fourth = (entry.turn_id for entry in entries(memory))
    assert first == second != third == fourth


@kept_by_all("durable")
def test_the_question_is_durable_before_the_model_is_called(host, run, memory):
    before = []

    def reply(_messages):
        before.extend(talk(memory))
        return "Yes."

    run(host.app(memory, ScriptedChatModel(replies=[reply])), "Hello", at())
    assert before == [("user", "Hello")]


@kept_by_all("blank")
@pytest.mark.parametrize("text", ["", " \n"])
def test_a_blank_question_is_refused_and_nothing_stored(host, run, text, memory, model):
    with pytest.raises(ConvMemError):
        run(host.app(memory, model), text, at())
    assert entries(memory) == []
    assert model.seen == []


@kept_by_all("marked")
def test_nothing_is_stored_of_a_turn_whose_question_says_so(host, run, memory, model):
    app = host.app(memory, model)
    said = HumanMessage("My code is 1234.", additional_kwargs={"remember": False})
    run(app, said, at())
    assert given(model) == "My code is 1234."
    assert entries(memory) == []
    run(app, "Hello", at())
    assert talk(memory) == [("user", "Hello"), ("assistant", "Yes.")]


def _redact(message):
    return message.model_copy(update={"content": message.text.replace("1234", "[code]")})


def _run_redacted(host, run, model, question):
    watcher = RunWatcher()
    with ConversationMemory(InMemoryLog(), before_write=_redact) as memory:
        run(host.app(memory, model), question, {**at(), "callbacks": [watcher]})
        said = talk(memory)
    [recall] = watcher.from_chain("retriever")
    return said, watcher.runs[recall]["query"]


@kept_by_all("write hook")
def test_the_write_hook_stands_before_log_and_search_and_not_before_the_model(host, run):
    model = ScriptedChatModel(replies=["It is 1234."])
    said, query = _run_redacted(host, run, model, "Is my code 1234?")
    assert said == [("user", "Is my code [code]?"), ("assistant", "It is [code].")]
    assert query == "Is my code [code]?"
    assert given(model) == "Is my code 1234?"


@kept_by_all("refused by the hook")
def test_nothing_is_stored_of_a_turn_whose_question_the_write_hook_drops(host, run):
    model = ScriptedChatModel(replies=["A secret about 1234.", "Yes."])

    def drop(message):
        return None if "1234" in message.text and message.type == "human" else message

    with ConversationMemory(InMemoryLog(), before_write=drop) as memory:
        app = host.app(memory, model)
        run(app, "My code is 1234.", at())
        assert given(model) == "My code is 1234."
        assert entries(memory) == []
        run(app, "Hello", at())
        assert talk(memory) == [("user", "Hello"), ("assistant", "Yes.")]


@kept_by_all("recalled text")
def test_recalled_lines_stand_in_the_question_and_not_in_the_log(host, run, told, model):
    run(host.app(told, model), "What is my bicycle like?", at())
    asked = model.seen[-1][-1]
    assert asked.type == "human"
    before, fence, after = str(asked.text).rpartition("</recalled>")
    assert before.startswith("<recalled>")
    assert before.count("My bicycle is") == 3
    assert (fence, after) == ("</recalled>", "\n\nWhat is my bicycle like?")
    assert talk(told)[2:] == [("user", "What is my bicycle like?"), ("assistant", "Yes.")]


@kept_by_all("in view")
def test_what_the_model_sees_anyway_is_not_recalled(host, run, memory, model):
    talk = [HumanMessage("My bicycle is red."), AIMessage("I see.")]
    memory.add_messages(talk, thread_id="t", user_id="ana")
    run(host.app(memory, model), "Which colour is my bicycle?", at())
    seen = [str(one.text) for one in model.seen[-1]]
    assert seen == ["My bicycle is red.", "I see.", "Which colour is my bicycle?"]
    memory.fork("t", new_thread_id="f", user_id="ana")
    run(host.app(memory, model), "Is my bicycle red?", at("f"))
    assert "<recalled>" not in str(model.seen[-1])


@kept_by_all("summaries")
def test_a_summary_that_is_due_is_made_and_shown_from_then_on(host, run, model):
    settings = SummarySettings(
        trigger=("messages", 4), keep=("messages", 2), max_summary_tokens=4000
    )
    options = {"summary_settings": settings, "summarize_when": "foreground"}
    with ConversationMemory(InMemoryLog(), summarizer=ScriptedSummarizer(), **options) as memory:
        app = host.app(memory, model, recall=False)
        for number in range(3):
            run(app, f"message {number}", at())
        assert memory.history("t", user_id="ana").last_summary is not None
        run(app, "message 3", at())
    said = [one for one in model.seen[-1] if not is_framing(one)]
    assert "message 0" not in "\n".join(str(one.text) for one in said)
    assert "message 0" in str(model.seen[-1][0].text), "the summary stands before what follows"
    assert str(said[-1].text) == "message 3"


@kept_by_all("opened")
def test_a_question_opens_the_summaries_that_others_stand_for(host, run, memory, model):
    key = ThreadKey("ana", "t")
    leaves = [
        add_leaf(memory.log, key, text, add_chat(memory.log, key, [f"Line {number}"]))
        for number, text in enumerate(["Aunt Ottilie breeds alpacas.", "The boat is at pier 14."])
    ]
    add_parent(memory.log, key, "They talked about many things.", leaves)
    app = host.app(memory, model)
    run(app, "What does my aunt breed?", at())
    assert "from a summary]\n- Aunt Ottilie breeds alpacas.\n</recalled>" in given(model)
    assert "pier" not in given(model)
    run(app, "Good morning!", at())
    shown = given(model)
    assert "They talked about many things." in shown
    assert "alpacas" not in shown


@kept_by_all("buffer")
def test_what_was_found_stays_in_sight_of_later_turns_latest_first(host, run, model):
    with memory_with_a_buffer() as memory:
        app = host.app(memory, model)
        for text in ("What colour is my boat?", "How is my dog called?", "Thanks!"):
            run(app, text, at())
        recalled, _, _ = str(model.seen[-1][-1].text).rpartition("</recalled>")
        assert 0 < recalled.index(DOG) < recalled.index(BOAT)
        run(app, "And soup?", at(remember=False))
        buffered = memory.recall("Thanks!", user_id="ana", thread_id="t").buffer
    assert [block.lines[0].text for block in buffered] == [DOG, BOAT]


@kept_by_all("follow-up")
def test_a_follow_up_recalls_what_its_topic_recalls(host, run, model):
    with memory_of_topics() as memory:
        app = host.app(memory, model)
        for text in ("What colour is my boat?", "and since when?"):
            run(app, text, at())
        assert BOAT in str(model.seen[-1][-1].text)


class Level(BaseModel):
    """On which level something is."""

    level: int


@kept_by_all("structured output")
def test_an_answer_that_is_an_object_is_kept(host, run, memory):
    call = {"name": "Level", "args": {"level": 3}, "id": "c1", "type": "tool_call"}
    model = ScriptedChatModel(replies=[AIMessage("", tool_calls=[call])])
    run(host.structured(memory, model, Level), "On which level is it?", at())
    shown = memory.history("t", user_id="ana").context()
    assert shown.repairs == ()
    asked, *kept = shown.messages
    assert asked.text == "On which level is it?"
    calls = [call for one in kept for call in getattr(one, "tool_calls", ())]
    told = [str(one.text) for one in kept] + [json.dumps(call["args"]) for call in calls]
    assert '{"level": 3}' in told


USAGE = {"input_tokens": 12, "output_tokens": 3, "total_tokens": 15}


def _reply_behind_a_parser(host, run, memory):
    """Return what is kept of a message of which a parser handed on the text alone."""
    model = ScriptedChatModel(replies=[AIMessage("On level 3.", usage_metadata=USAGE)])
    app = host.app(memory, model | StrOutputParser(), recall=False)
    run(app, "On which level is it?", at())
    reply = memory.history("t", user_id="ana").messages[-1]
    assert str(reply.text) == "On level 3."
    return reply


@kept_by_all("parsed text")
def test_a_text_that_a_parser_took_out_of_a_message_is_kept_as_that_message(host, run, memory):
    assert _reply_behind_a_parser(host, run, memory).usage_metadata == USAGE


@differs("parsed text", "conversation")
def test_a_conversation_keeps_the_text_that_it_replies(host, run, memory):
    assert _reply_behind_a_parser(host, run, memory).usage_metadata is None


FORMS = {
    "pairs": lambda role, text: (role, text),
    "the same objects": lambda role, text: (HumanMessage if role == "user" else AIMessage)(text),
}


@kept_by_all("whole chat")
@pytest.mark.parametrize("form", FORMS)
def test_each_thing_of_a_chat_that_is_sent_whole_is_stored_once(host, run, form, memory, model):
    app = host.app(memory, model, recall=False)
    chat, said = [], []
    for text in ("Hello", "yes", "yes"):
        chat.append(FORMS[form]("user", text))
        run(app, list(chat), at())
        chat.append(FORMS[form]("assistant", "Yes."))
        said += [text, "Yes."]
    assert texts(memory) == said
    assert [str(one.text) for one in model.seen[-1]] == said[:-1]
