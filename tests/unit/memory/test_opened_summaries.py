"""What summaries of summaries leave out is opened by a question, next to the recalled lines."""

from __future__ import annotations

import threading

import pytest
from langchain_core.prompts import ChatPromptTemplate
from scripted_chat import WAYS, ScriptedChatModel, at
from summaries import ScriptedSummarizer, bare
from summary_trees import add_chat, add_leaf, add_parent
from watched_runs import RunWatcher

from langchain_convmem import (
    ConversationMemory,
    InMemoryLog,
    SummarySettings,
)
from langchain_convmem.records import ThreadKey
from langchain_convmem.summarizing import explain_summary
from langchain_convmem.summarizing.branches import BRANCHES, find_folding
from langchain_convmem.testing import HashEmbeddings
from langchain_convmem.turns.memory import get_turn_memory
from langchain_convmem.views.tokens import count_text_tokens

KEY = ThreadKey("ana", "t")
QUESTION = "What does my aunt breed?"
OPENED = "[2026-05-01 to 2026-05-03, from a summary]\n- Aunt Ottilie breeds alpacas."


@pytest.fixture
def model():
    return ScriptedChatModel(replies=["I see."])


def _fold(memory, texts=("Aunt Ottilie breeds alpacas.", "The boat is at pier 14.")):
    leaves = [
        add_leaf(memory.log, KEY, text, add_chat(memory.log, KEY, [f"Line {number}"]))
        for number, text in enumerate(texts)
    ]
    add_parent(memory.log, KEY, "They talked about many things.", leaves)
    return leaves


def _shown(model):
    return str(model.seen[-1][-1].text)


@pytest.mark.parametrize("way", WAYS)
def test_a_question_opens_what_was_folded_in_front_of_itself(memory, model, way):
    _fold(memory)
    WAYS[way](memory.wrap(model), QUESTION, at())
    fence, question = model.seen[-1][-1].content
    assert fence["text"].startswith("<recalled>\n")
    assert fence["text"].endswith(f"\n\n{OPENED}\n</recalled>")
    assert "from a summary" in fence["text"].split("\n\n", maxsplit=1)[0], "the notice tells of it"
    assert question == {"type": "text", "text": QUESTION}
    stored = memory.history("t", user_id="ana").entries[-2].message
    assert stored.content == QUESTION, "only what was said is stored"


def test_what_stands_before_the_question_stays_the_same(memory, model):
    _fold(memory)
    chain = memory.wrap(model)
    for question in ("Good morning!", QUESTION):
        chain.invoke(question, at())
    first, second = model.seen
    assert second[: len(first) - 1] == first[:-1], "a provider's cache goes on"
    assert bare(str(first[0].text)) == "They talked about many things."


def test_summaries_that_the_model_sees_are_not_opened(memory, model):
    said = add_chat(memory.log, KEY, ["Line 0"])
    add_leaf(memory.log, KEY, "Aunt Ottilie breeds alpacas.", said)
    memory.wrap(model).invoke(QUESTION, at())
    assert "from a summary" not in _shown(model)
    assert "alpacas" in str(model.seen[-1][0].text)


def test_what_the_summary_in_view_says_is_not_repeated(memory, model):
    said = add_chat(memory.log, KEY, ["Line 0"])
    leaf = add_leaf(memory.log, KEY, "Aunt Ottilie breeds alpacas. My aunt breeds bees.", said)
    add_parent(memory.log, KEY, "Aunt Ottilie breeds alpacas.", [leaf])
    memory.wrap(model).invoke(QUESTION, at())
    assert _shown(model).count("alpacas") == 0
    assert "- My aunt breeds bees." in _shown(model)


def test_what_a_recalled_line_says_is_not_repeated(memory, model):
    said = add_chat(memory.log, KEY, ["Aunt Ottilie breeds alpacas."])
    text = "- User: Aunt Ottilie breeds alpacas.\nAunt Ottilie breeds camelids from Peru."
    leaf = add_leaf(memory.log, KEY, text, said)
    add_parent(memory.log, KEY, "They talked.", [leaf])
    memory.wrap(model).invoke("What does my aunt Ottilie breed?", at())
    assert _shown(model).count("breeds alpacas") == 1
    assert "- Aunt Ottilie breeds camelids from Peru." in _shown(model)


def test_a_summary_of_another_thread_is_not_opened(memory, model):
    _fold(memory)
    memory.wrap(model).invoke(QUESTION, at("elsewhere"))
    assert "from a summary" not in _shown(model)


@pytest.mark.parametrize("recall_tokens", [5, 20, 45, 75, 200])
def test_lines_and_sentences_share_one_budget(memory, model, recall_tokens):
    texts = [f"Aunt number {n} breeds alpacas in the village of Sankt Veit." for n in range(6)]
    _fold(memory, texts)
    memory.wrap(model).invoke(QUESTION, at(recall_tokens=recall_tokens))
    blocks = [part for part in _shown(model).split("\n\n") if part.startswith("[")]
    text = "\n\n".join(blocks).split("\n</recalled>")[0]
    assert count_text_tokens(text) <= recall_tokens
    assert ("alpacas" in text) == (recall_tokens >= 75)


def test_all_that_a_model_gets_stays_within_one_budget(memory, model):
    texts = [f"Aunt number {n} breeds alpacas in the village of Sankt Veit." for n in range(8)]
    _fold(memory, texts)
    for context_tokens in (70, 150, 200, 400):
        memory.wrap(model, context_tokens=context_tokens).invoke(QUESTION, at())
        given = "".join(str(message.text) for message in model.seen[-1])
        assert count_text_tokens(given) <= context_tokens
        memory.history("t", user_id="ana").undo()


def test_without_recall_nothing_is_opened(memory, model):
    _fold(memory)
    memory.wrap(model, recall=False).invoke(QUESTION, at())
    assert _shown(model) == QUESTION


def test_a_prompt_with_a_place_for_recalled_lines_gets_them_there(memory, model):
    _fold(memory)
    prompt = ChatPromptTemplate.from_messages(
        [
            ("system", "Sum: {summary}"),
            ("placeholder", "{recalled}"),
            ("placeholder", "{history}"),
            ("placeholder", "{input}"),
        ]
    )
    memory.wrap(prompt | model).invoke(QUESTION, at())
    assert [OPENED in str(message.text) for message in model.seen[-1]] == [False, True, False]


def test_a_turn_counts_and_traces_what_it_opened(memory, model):
    _fold(memory)
    watcher = RunWatcher()
    memory.wrap(model).invoke(QUESTION, {**at(), "callbacks": [watcher]})
    [counts] = [data for name, data, *_ in watcher.events if name == "convmem.context"]
    assert counts["opened"] == 1
    [found] = watcher.found.values()
    assert OPENED in [document.page_content for document in found]


def test_forgetting_what_a_summary_tells_of_closes_it(memory, model):
    _fold(memory)
    chain = memory.wrap(model)
    chain.invoke(QUESTION, at())
    assert OPENED in _shown(model)
    first = memory.history("t", user_id="ana").entries[0]
    memory.forget(user_id="ana", thread_id="t", entry_ids=[first.id])
    chain.invoke(QUESTION, at())
    assert "alpacas" not in "".join(str(message.text) for message in model.seen[-1])


def test_forgetting_drops_what_this_process_keeps(memory, model):
    _fold(memory)
    memory.wrap(model).invoke(QUESTION, at())
    place = get_turn_memory(memory).log_place
    kept = BRANCHES.get(place, KEY)
    memory.forget(user_id="ben")
    assert BRANCHES.get(place, KEY) is kept
    memory.forget(user_id="ana")
    assert BRANCHES.get(place, KEY) is not kept


def test_what_was_folded_in_the_background_is_taken_up_there(monkeypatch):
    embedded = []

    def embed(self, texts, make=HashEmbeddings.embed_documents):
        embedded.append((threading.current_thread().name, list(texts)))
        return make(self, texts)

    monkeypatch.setattr(HashEmbeddings, "embed_documents", embed)
    settings = SummarySettings(
        trigger=("messages", 6), keep=("messages", 2), max_summary_tokens=40, facts_tokens=0
    )
    with ConversationMemory(
        InMemoryLog(),
        summarizer=ScriptedSummarizer(lambda request: request.transcript[-100:]),
        summary_settings=settings,
    ) as memory:
        chain = memory.wrap(ScriptedChatModel(replies=["Noted."]))
        for number in range(60):
            chain.invoke(f"Parcel {number} of cousin N{number} waits in Oslo.", at())
            memory.flush()
        assert find_folding(memory.history("t", user_id="ana").entries)
        assert any(name.startswith("convmem-compaction") for name, _ in embedded)
        embedded.clear()
        question = "Who else sent something to us?"
        chain.invoke(question, at())
        assert all(question in texts for _, texts in embedded), "no sentence of a summary"


def test_what_real_compactions_folded_is_opened_and_explained():
    def quote_first(request):
        said = [one for one in request.transcript.splitlines() if one.startswith("User: ")]
        return "\n".join(one.removeprefix("User: ") for one in said)

    settings = SummarySettings(
        trigger=("messages", 6), keep=("messages", 2), max_summary_tokens=40, facts_tokens=0
    )
    memory = ConversationMemory(
        InMemoryLog(),
        summarizer=ScriptedSummarizer(quote_first),
        summary_settings=settings,
        summarize_when="foreground",
    )
    places = ["Oslo", "Bergen", "Turku", "Riga", "Malmo", "Tartu", "Kaunas", "Lodz", "Brno", "Graz"]
    model = ScriptedChatModel(replies=["Noted."])
    with memory:
        chain = memory.wrap(model, recall=False)
        for number, place in enumerate(places * 5):
            name = f"{place[:3]}{number}"
            chain.invoke(f"Parcel {number} of cousin {name} waits in {place}.", at())
        view = bare(str(model.seen[-1][0].text))
        hidden = [n for n in range(24) if f"Parcel {n} " not in view]
        assert hidden
        for number in hidden[:6]:
            name = f"{places[number % 10][:3]}{number}"
            memory.wrap(model).invoke(f"Where is the parcel of {name}?", at())
            assert f"of cousin {name} waits in" in _shown(model)
        shown = explain_summary(memory, "t", user_id="ana")
        entries = {one.id: one for one in memory.history("t", user_id="ana").entries}
        assert len(shown) > 5
        for sentence in shown:
            cover = entries[sentence.summary_id].cover
            positions = [source.position for source in sentence.sources]
            assert positions
            assert all(any(a <= place <= b for a, b in cover.ranges) for place in positions)
            said = [entries[source.entry_id].contents[0] for source in sentence.sources]
            assert any(sentence.text.strip("- .").removeprefix("User: ") in text for text in said)
