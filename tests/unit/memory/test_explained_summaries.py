import pytest
from langchain_core.messages import AIMessage, HumanMessage
from scripted_chat import ScriptedChatModel, at
from summary_trees import add_chat, add_leaf, add_parent

from langchain_convmem import ConversationMemory, InMemoryLog
from langchain_convmem.errors import ConfigError
from langchain_convmem.records import ThreadKey
from langchain_convmem.summarizing import aexplain_summary, explain_summary
from langchain_convmem.summarizing.citations import SentenceSource

KEY = ThreadKey("ana", "t")
SAID = [
    HumanMessage("My rent is 1,240 euros.", additional_kwargs={"timestamp": "2026-05-08T10:00"}),
    AIMessage("That is a lot."),
    HumanMessage("The landlord is called Petrov."),
    AIMessage("I see."),
]
TEXT = "The rent is 1240 EUR. Petrov is the landlord. A parrot sings."
WHOLE = [1, 2, 3, 4]


def _explain(memory, summary_id=None):
    return explain_summary(memory, "t", user_id="ana", summary_id=summary_id)


def _positions(sentences):
    return [[source.position for source in sentence.sources] for sentence in sentences]


@pytest.fixture
def memory():
    """Return a memory whose thread a summary by hand covers."""
    with ConversationMemory(InMemoryLog()) as opened:
        opened.add_messages(SAID, thread_id="t", user_id="ana")
        history = opened.history("t", user_id="ana")
        history.add_summary(TEXT, history.summary_window())
        yield opened


async def test_each_sentence_comes_with_its_entries(memory):
    first, second, third = _explain(memory)
    entries = memory.history("t", user_id="ana").entries
    assert first.text == "The rent is 1240 EUR."
    assert first.summary_id == entries[-1].id
    assert first.sources[0] == SentenceSource(
        entries[0].id, entries[0].message_id, entries[0].position, "user", "2026-05-08"
    )
    assert _positions([first, second, third]) == [WHOLE] * 3
    assert await aexplain_summary(memory, "t", user_id="ana") == [first, second, third]


def test_what_is_taken_back_or_forgotten_is_no_source_any_more(memory):
    history = memory.history("t", user_id="ana")
    summary = history.last_summary
    history.undo(2)
    assert _positions(_explain(memory, summary.id)) == [[], [], []]
    history.redo()
    assert _positions(_explain(memory, summary.id)) == [WHOLE] * 3


@pytest.mark.parametrize("summary_id", ["nobody", "", 3])
def test_an_unknown_summary_is_an_error_that_names_the_way_out(memory, summary_id):
    with pytest.raises(ConfigError, match="last_summary"):
        _explain(memory, summary_id)
    entry = memory.history("t", user_id="ana").entries[0]
    with pytest.raises(ConfigError):
        _explain(memory, entry.id)


@pytest.fixture
def folded():
    """Return a memory whose thread shows a summary of two others; what came first is gone."""
    with ConversationMemory(InMemoryLog()) as opened:
        gone = add_chat(opened.log, KEY, ["so that positions differ"])
        opened.log.forget(KEY, [entry.id for entry in gone])
        leaves = []
        for text in ("The boat lies at pier 14.", "Aunt Ottilie breeds alpacas."):
            said = add_chat(opened.log, KEY, [f"Well: {text}"])
            leaves.append(add_leaf(opened.log, KEY, text, said, cites=[[said[0].position]]))
        cites = leaves[0].metadata.aux["summary"]["cites"]
        add_parent(opened.log, KEY, "The boat lies at pier 14.", leaves, cites=cites)
        yield opened


def test_a_fork_cites_and_folds_its_own_entries(folded):
    fork = folded.fork("t", user_id="ana")
    by_id = {entry.id: entry for entry in fork.entries}
    assert by_id.keys().isdisjoint(one.id for one in folded.log.entries(KEY))
    [sentence] = explain_summary(folded, fork.thread_id, user_id="ana")
    [source] = sentence.sources
    assert by_id[source.entry_id].contents == ("Well: The boat lies at pier 14.",)
    summaries = [entry.metadata.aux.get("summary", {}) for entry in fork.entries]
    [children] = [one["children"] for one in summaries if one.get("level")]
    assert [[name, by_id[name].position] for name, _ in children] == children
    model = ScriptedChatModel(replies=["Yes."])
    folded.wrap(model).invoke("What does Ottilie breed?", at(fork.thread_id))
    assert "The boat lies" in str(model.seen[-1][0].text)
    assert "alpacas" in str(model.seen[-1][-1].text)
