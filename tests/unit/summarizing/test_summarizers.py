"""Whatever a summariser raises or returns becomes a text or an error of ours."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableLambda
from scripted_chat import ProviderError, ScriptedChatModel
from summaries import ScriptedSummarizer
from watched_runs import RunWatcher

from langchain_convmem.effects import arun, run
from langchain_convmem.errors import ConfigError, SummaryError
from langchain_convmem.offline import ExtractiveSummarizer
from langchain_convmem.records import SummaryRequest
from langchain_convmem.summarizing import ModelSummarizer, as_summarizer
from langchain_convmem.summarizing.summarizers import summary_steps

REQUEST = SummaryRequest(transcript="User: Hi.\n")


async def in_a_coroutine(asked):
    return f"{len(asked)} messages"


def model(reply="2 messages"):
    return ScriptedChatModel(replies=[reply])


def prompted():
    prompt = ChatPromptTemplate.from_messages([MessagesPlaceholder("all")])
    return RunnableLambda(lambda asked: {"all": asked}) | prompt | model() | StrOutputParser()


KINDS = {
    "a chat model": model,
    "a chain": prompted,
    "a runnable": lambda: RunnableLambda(lambda asked: f"{len(asked)} messages"),
    "a function": lambda: lambda asked: f"{len(asked)} messages",
    "an async function": lambda: in_a_coroutine,
    "a summarizer": lambda: ScriptedSummarizer("2 messages"),
}


def both(summarizer, request=REQUEST):
    """Return what a summariser says, the same in both worlds."""
    value = as_summarizer(summarizer)
    told = run(summary_steps(value, request))
    assert asyncio.run(arun(summary_steps(value, request))) == told
    return told


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_summariser_is_asked_in_both_worlds(kind):
    assert both(KINDS[kind]()) == "2 messages"


@pytest.mark.parametrize(
    "value", [None, "gpt", 7, [], ExtractiveSummarizer, dict], ids=lambda value: str(value)[:8]
)
def test_what_can_summarise_nothing_is_refused(value):
    with pytest.raises(ConfigError, match="summarizer"):
        as_summarizer(value)


def test_the_name_is_that_of_the_model_inside():
    chain = RunnableLambda(lambda asked: asked) | ScriptedChatModel(replies=["x"])
    assert as_summarizer(chain).name == "ScriptedChatModel"
    assert ModelSummarizer(chain, name="mine").name == "mine"
    assert as_summarizer(ExtractiveSummarizer()).name == "extractive"


def test_blanks_around_a_summary_are_taken_off():
    assert both(model("\n They met. \n")) == "They met."
    assert both(model(AIMessage([{"type": "text", "text": "They met."}]))) == "They met."


@pytest.mark.parametrize("reply", ["", " \n\t", AIMessage([]), AIMessage([{"type": "image"}])])
def test_a_blank_summary_is_an_error(reply):
    with pytest.raises(SummaryError, match="no summary"):
        both(model(reply))


@pytest.mark.parametrize("value", [None, 7, {"summary": "x"}, [AIMessage("x")]])
def test_what_is_no_text_is_an_error_that_names_its_type(value):
    with pytest.raises(SummaryError, match=type(value).__name__):
        both(RunnableLambda(lambda _: value))
    with pytest.raises(SummaryError):
        both(ScriptedSummarizer(value))


@pytest.mark.parametrize(
    "told",
    [
        {"finish_reason": "length"},
        {"finish_reason": "MAX_TOKENS"},
        {"stop_reason": "max_tokens"},
        {"stopReason": "max_tokens"},
        {"done_reason": "length"},
        {"status": "incomplete"},
    ],
    ids=lambda told: "=".join(next(iter(told.items()))),
)
def test_a_summary_that_was_cut_off_is_an_error(told):
    with pytest.raises(SummaryError, match="cut off"):
        both(model(AIMessage("They met and", response_metadata=told)))


@pytest.mark.parametrize("told", [{"finish_reason": "stop"}, {"stop_reason": "end_turn"}, {}])
def test_a_summary_that_came_to_its_end_is_none(told):
    assert both(model(AIMessage("They met.", response_metadata=told))) == "They met."


@pytest.mark.parametrize("error", [ProviderError("overloaded"), KeyError("x"), TimeoutError()])
def test_what_it_raises_is_the_cause_of_an_error_of_ours(error):
    for value in (model(error), ScriptedSummarizer(error)):
        with pytest.raises(SummaryError, match=type(error).__name__) as caught:
            both(value)
        assert caught.value.__cause__ is error


def test_what_stops_the_process_is_passed_on():
    with pytest.raises(KeyboardInterrupt):
        run(summary_steps(ScriptedSummarizer(KeyboardInterrupt()), REQUEST))


async def test_an_async_function_called_within_a_loop_is_an_error_and_leaves_nothing_behind():
    with pytest.raises(SummaryError, match="RuntimeError"):
        run(summary_steps(as_summarizer(in_a_coroutine), REQUEST))


def test_its_runs_are_marked_as_no_part_of_the_reply():
    watcher = RunWatcher()
    asked = model().with_config(callbacks=[watcher])
    run(summary_steps(as_summarizer(asked), REQUEST))
    [run_id] = watcher.of("model")
    assert {"langchain_convmem:internal", "nostream"} <= set(watcher.runs[run_id]["tags"])
    assert watcher.runs[run_id]["metadata"]["lc_source"] == "convmem"
