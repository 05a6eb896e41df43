from importlib.metadata import version

import pytest
from host_promises import differs, kept_by_all
from langchain_core.messages import HumanMessage
from scripted_chat import ProviderError, ScriptedChatModel, at, entries
from turn_hosts import STREAMS
from watched_runs import AskingEmbeddings, RunWatcher

from langchain_convmem import ConversationMemory, InMemoryLog
from langchain_convmem.runnables import INTERNAL_TAGS

ASKED = "What is my bicycle like?"


def _watched(way, app, question=ASKED):
    watcher = RunWatcher()
    way(app, question, {**at(), "callbacks": [watcher]})
    return watcher


def _events(watcher):
    return [(name, data) for name, data, _ in watcher.events]


@kept_by_all("recall run")
def test_recall_is_a_retriever_run_under_the_one_of_the_host(host, run, told, model):
    watcher = _watched(run, host.app(told, model))
    [recall] = watcher.from_chain("retriever")
    assert (watcher.runs[recall]["name"], watcher.runs[recall]["query"]) == ("recall", ASKED)
    assert len(watcher.found[recall]) == 3
    assert watcher.parent(recall) in watcher.from_chain("chain")


@kept_by_all("events")
def test_two_events_tell_of_a_turn_in_counts(host, run, told, model):
    watcher = _watched(run, host.app(told, model))
    (first, context), (second, stored) = _events(watcher)
    assert (first, second) == ("convmem.context", "convmem.stored")
    assert (context["entries"], context["messages"]) == (3, 3)
    assert (context["blocks"], context["lines"], context["repairs"]) == (3, 3, 0)
    assert context["tokens"] > 0
    assert stored == {"messages": 1, "replaced": 0, "interrupted": 0}


@kept_by_all("log lines")
def test_turn_and_recall_are_a_line_of_figures_each_in_the_log(host, run, told, model, caplog):
    caplog.set_level("DEBUG", logger="langchain_convmem")
    run(host.app(told, model), ASKED, at())
    lines = [one.getMessage() for one in caplog.records if one.name == "langchain_convmem"]
    for begins in ("recall in t: ", "convmem.context in t: ", "convmem.stored in t: "):
        assert sum(line.startswith(begins) for line in lines) == 1
    assert any(", 3 lines, " in line and line.endswith(" ms") for line in lines)
    assert "bicycle" not in "".join(lines)


def _interrupted_events(host, way, memory, **options):
    model = ScriptedChatModel(replies=["One two three four"], breaks_after=2)
    watcher = RunWatcher()
    app = host.app(memory, model, recall=False, **options)
    with pytest.raises(ProviderError):
        STREAMS[way](app, "Count.", {**at(), "callbacks": [watcher]})
    return [data for name, data in _events(watcher) if name == "convmem.stored"]


@kept_by_all("interrupted event")
@pytest.mark.parametrize("way", STREAMS)
def test_an_event_counts_a_reply_that_was_cut(host, way, memory):
    stored = _interrupted_events(host, way, memory)
    assert stored == [{"messages": 1, "replaced": 0, "interrupted": 1}]


@differs("interrupted event", "conversation")
@pytest.mark.parametrize("way", STREAMS)
def test_no_event_tells_of_a_turn_that_is_taken_back(host, way, memory):
    assert _interrupted_events(host, way, memory) == []


@pytest.fixture
def asking():
    """Return a memory whose embedder asks a model."""
    rewriter = ScriptedChatModel(replies=["hidden words of a rewriter"])
    with ConversationMemory(InMemoryLog(), embeddings=AskingEmbeddings(rewriter)) as memory:
        memory.add_messages([HumanMessage("My bicycle is red.")], thread_id="old", user_id="ana")
        memory.refresh(user_id="ana")
        yield memory


@kept_by_all("own models")
def test_models_of_the_memorys_own_are_tagged_and_counted(host, run, asking, model):
    watcher = _watched(run, host.app(asking, model))
    models = watcher.from_chain("model")
    assert [INTERNAL_TAGS[0] in watcher.runs[one]["tags"] for one in models] == [True, False]
    own = [data for name, data in _events(watcher) if name == "convmem.own_models"]
    assert own == [{"calls": 1, "input_tokens": 1, "output_tokens": 2}]


@kept_by_all("models of the hook")
def test_models_of_the_write_hook_are_tagged_too(host, run, model):
    censor = ScriptedChatModel(replies=["fine"])

    def ask(message):
        censor.invoke([message])
        return message

    with ConversationMemory(InMemoryLog(), before_write=ask) as memory:
        watcher = _watched(run, host.app(memory, model, recall=False))
    tags = [watcher.runs[run_id]["tags"] for run_id in watcher.from_chain("model")]
    assert len(model.seen) == 1
    assert [INTERNAL_TAGS[0] in one for one in tags].count(False) == 1
    assert len(censor.seen) == len(tags) - 1 > 1


@kept_by_all("own tokens")
def test_tokens_of_the_memorys_own_models_are_in_its_stats(host, run, asking, model):
    run(host.app(asking, model), ASKED, at())
    assert asking.stats("t", user_id="ana").own_calls == 1


@kept_by_all("times")
def test_a_reply_tells_when_the_model_was_called_and_when_it_ended(host, run, memory, model):
    run(host.app(memory, model), "Hello", at())
    timing = entries(memory)[-1].metadata.timing
    assert timing["llmStart"] <= timing["llmEnd"]


@kept_by_all("first word")
@pytest.mark.parametrize("way", STREAMS)
def test_the_reply_of_a_stream_tells_when_its_first_word_came(host, way, memory, model):
    STREAMS[way](host.app(memory, model), "Hello", at())
    timing = entries(memory)[-1].metadata.timing
    assert timing["llmStart"] <= timing["firstToken"] <= timing["llmEnd"]


def _metadata(watcher):
    """Return what the runs of recall and of the model bear."""
    runs = [*watcher.from_chain("model"), *watcher.from_chain("retriever")]
    assert len(runs) == 2
    return [watcher.runs[run_id]["metadata"] for run_id in runs]


@kept_by_all("thread of runs")
def test_runs_bear_the_thread(host, run, memory, model):
    watcher = _watched(run, host.app(memory, model))
    assert [metadata["thread_id"] for metadata in _metadata(watcher)] == ["t", "t"]


@kept_by_all("version of runs")
def test_runs_bear_the_version_of_the_package(host, run, memory, model):
    watcher = _watched(run, host.app(memory, model))
    versions = [one["lc_versions"]["langchain-convmem"] for one in _metadata(watcher)]
    assert versions == [version("langchain-convmem")] * 2
