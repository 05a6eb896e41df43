"""What a wrapped chain is shown of other conversations and of folded summaries."""

from __future__ import annotations

from dataclasses import replace

import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnablePassthrough
from scripted_chat import ScriptedChatModel, at
from summaries import bare
from summary_trees import add_chat, add_leaf, add_parent
from watched_runs import RunWatcher

from langchain_convmem import ConversationMemory, RecallSettings
from langchain_convmem.records import ThreadKey
from langchain_convmem.turns.memory import get_turn_memory

LINES = [
    HumanMessage("My bicycle is chained to the oak behind the library."),
    AIMessage("Good to know, the oak behind the library."),
]


@pytest.fixture
def model():
    return ScriptedChatModel(replies=["I see."])


def _remembering(memory, thread_id="earlier", user_id="ana"):
    memory.add_messages(LINES, thread_id=thread_id, user_id=user_id)
    return memory


def _last_shown(model):
    return str(model.seen[-1][-1].text)


def test_what_no_longer_fits_the_context_is_recalled(memory, model):
    chain = _remembering(memory, "now").wrap(model, history_tokens=12)
    for number in range(4):
        chain.invoke(f"Something else, number {number}.", at("now"))
    chain.invoke("Where did I chain my bicycle?", at("now"))
    assert "User: My bicycle is chained to the oak" in _last_shown(model)


def test_an_earlier_turn_tried_again_does_not_recall_what_came_later(memory):
    model = ScriptedChatModel(replies=["No idea.", "It is in Paris.", "I see."])
    chain = memory.wrap(model)
    chain.invoke(HumanMessage("Where is my bicycle?", id="q1"), at("now"))
    chain.invoke(HumanMessage("And my other bicycle?", id="q2"), at("now"))
    chain.invoke(HumanMessage("Where is my bicycle?", id="q1"), at("now"))
    assert "Paris" not in str(model.seen[2])


SLOTTED = ChatPromptTemplate.from_messages(
    [MessagesPlaceholder("recalled", optional=True), ("human", "{input}")]
)


def test_a_place_for_recalled_lines_gets_them(memory, model):
    step = RunnablePassthrough.assign(note=lambda _: "n")
    chain = _remembering(memory).wrap(step | (SLOTTED | model).with_retry())
    chain.invoke("Where did I chain my bicycle?", at("now"))
    recalled, question = model.seen[0]
    assert recalled.text.startswith("<recalled>")
    assert question == HumanMessage("Where did I chain my bicycle?")


TOPICS = ("boat", "dog", "soup")
SETTINGS = replace(RecallSettings.spec(), window=1)
TALK = [
    HumanMessage("My boat has a red hull."),
    AIMessage("Red suits it."),
    HumanMessage("Nothing else is new."),
    AIMessage("I see, good night."),
    HumanMessage("My dog is called Rex."),
]


class TopicEmbeddings(Embeddings):
    """A text's vector says which of the topics it names; notes what it was asked to embed."""

    fingerprint = "topics"

    def __init__(self):
        self.lines = []

    def embed_documents(self, texts):
        self.lines += texts
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text):
        return [float(text.lower().count(topic)) for topic in TOPICS]


@pytest.fixture
def buffered():
    embeddings = TopicEmbeddings()
    with ConversationMemory.open(":memory:", embeddings=embeddings, settings=SETTINGS) as opened:
        opened.add_messages(TALK, thread_id="earlier", user_id="ana")
        yield opened


@pytest.fixture
def fine():
    return ScriptedChatModel(replies=["Fine."])


def test_recalled_text_is_never_indexed(buffered, fine):
    chain = buffered.wrap(fine)
    for number in range(3):
        chain.invoke(f"What about the boat, take {number}?", at("now"))
    buffered.refresh(user_id="ana")
    found = buffered.recall("boat", user_id="ana", k=10, threshold=-1.0)
    lines = [line for block in found.blocks for line in block.lines]
    assert [line.text for line in lines].count(str(TALK[0].content)) == 1
    kept = [
        piece
        for entry in buffered.history("now", user_id="ana").entries
        for piece in entry.contents
    ]
    embedded = get_turn_memory(buffered).line_recall.embeddings.lines
    assert not [text for text in (*kept, *embedded) if "recalled" in text]
    assert embedded.count(str(TALK[0].content)) == 1


KEY = ThreadKey("ana", "t")
QUESTION = "What does my aunt breed?"
OPENED = "[2026-05-01 to 2026-05-03, from a summary]\n- Aunt Ottilie breeds alpacas."


def _fold(memory, texts=("Aunt Ottilie breeds alpacas.", "The boat is at pier 14.")):
    leaves = [
        add_leaf(memory.log, KEY, text, add_chat(memory.log, KEY, [f"Line {number}"]))
        for number, text in enumerate(texts)
    ]
    add_parent(memory.log, KEY, "They talked about many things.", leaves)
    return leaves


def _shown(model):
    return str(model.seen[-1][-1].text)


def test_what_stands_before_the_question_stays_the_same(memory, model):
    _fold(memory)
    chain = memory.wrap(model)
    for question in ("Good morning!", QUESTION):
        chain.invoke(question, at())
    first, second = model.seen
    assert second[: len(first) - 1] == first[:-1], "a provider's cache goes on"
    assert bare(str(first[0].text)) == "They talked about many things."


def test_what_the_summary_in_view_says_is_not_repeated(memory, model):
    said = add_chat(memory.log, KEY, ["Line 0"])
    leaf = add_leaf(memory.log, KEY, "Aunt Ottilie breeds alpacas. My aunt breeds bees.", said)
    add_parent(memory.log, KEY, "Aunt Ottilie breeds alpacas.", [leaf])
    memory.wrap(model).invoke(QUESTION, at())
    assert _shown(model).count("alpacas") == 0
    assert "- My aunt breeds bees." in _shown(model)


def test_forgetting_what_a_summary_tells_of_closes_it(memory, model):
    _fold(memory)
    chain = memory.wrap(model)
    chain.invoke(QUESTION, at())
    assert OPENED in _shown(model)
    first = memory.history("t", user_id="ana").entries[0]
    memory.forget(user_id="ana", thread_id="t", entry_ids=[first.id])
    chain.invoke(QUESTION, at())
    assert "alpacas" not in "".join(str(message.text) for message in model.seen[-1])


def test_a_turn_counts_and_traces_what_it_opened(memory, model):
    _fold(memory)
    watcher = RunWatcher()
    memory.wrap(model).invoke(QUESTION, {**at(), "callbacks": [watcher]})
    [counts] = [data for name, data, *_ in watcher.events if name == "convmem.context"]
    assert counts["opened"] == 1
    [found] = watcher.found.values()
    assert OPENED in [document.page_content for document in found]
