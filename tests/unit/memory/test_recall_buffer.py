"""The relevance buffer behind `memory.recall` and in a wrapped chain."""

from __future__ import annotations

from dataclasses import replace

import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, HumanMessage
from scripted_chat import WAYS, ScriptedChatModel, at

from langchain_convmem import ConversationMemory, RecallSettings
from langchain_convmem.turns.memory import get_turn_memory

TOPICS = ("boat", "dog", "soup")
SETTINGS = replace(RecallSettings.spec(), window=1)
TALK = [
    HumanMessage("My boat has a red hull."),
    AIMessage("Red suits it."),
    HumanMessage("Nothing else is new."),
    AIMessage("I see, good night."),
    HumanMessage("My dog is called Rex."),
]
BOAT = ["User: My boat has a red hull.", "Assistant: Red suits it."]
DOG = ["Assistant: I see, good night.", "User: My dog is called Rex."]


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
def memory():
    embeddings = TopicEmbeddings()
    with ConversationMemory.open(":memory:", embeddings=embeddings, settings=SETTINGS) as opened:
        opened.add_messages(TALK, thread_id="earlier", user_id="ana")
        yield opened


@pytest.fixture
def model():
    return ScriptedChatModel(replies=["Fine."])


def said(blocks):
    return [[f"{line.speaker}: {line.text}" for line in block.lines] for block in blocks]


def shown(model):
    """Return the recalled lines that the model saw last, block by block."""
    text = str(model.seen[-1][-1].text)
    if "<recalled>" not in text:
        return []
    body = text.partition("<recalled>\n")[2].partition("\n</recalled>")[0]
    return [block.splitlines()[1:] for block in body.split("\n\n")[1:]]


# -- asked directly -----------------------------------------------------------------------------


def test_a_recall_updates_the_buffer_of_its_thread_and_returns_it(memory):
    first = memory.recall("What about the boat?", user_id="ana", thread_id="now")
    assert said(first.buffer) == said(first.blocks) == [BOAT]
    second = memory.recall("And the dog?", user_id="ana", thread_id="now")
    assert (said(second.blocks), said(second.buffer)) == ([DOG], [DOG, BOAT])
    third = memory.recall("What else?", user_id="ana", thread_id="now")
    assert (said(third.blocks), said(third.buffer)) == ([], [DOG, BOAT])


def test_a_question_that_the_write_hook_takes_away_shows_the_buffer_all_the_same(tmp_path):
    def hook(message):
        return None if "secret" in str(message.text) else message

    with ConversationMemory.open(
        tmp_path / "m.db", embeddings=TopicEmbeddings(), settings=SETTINGS, before_write=hook
    ) as memory:
        memory.add_messages(TALK, thread_id="earlier", user_id="ana")
        memory.recall("What about the boat?", user_id="ana", thread_id="now")
        found = memory.recall("A secret about my dog", user_id="ana", thread_id="now")
        assert (found.blocks, said(found.buffer)) == ((), [BOAT])
        assert memory.recall("A secret about my dog", user_id="ana").buffer == ()


# -- in a chain ---------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["invoke", "astream"])
def test_a_model_is_shown_the_buffer_latest_find_first(memory, model, way):
    chain = memory.wrap(model)
    asked = ["And the dog?", "What about the boat?", "What else?"]
    seen = []
    for question in asked:
        WAYS[way](chain, question, at("now"))
        seen.append(shown(model))
    assert seen == [[DOG], [BOAT, DOG], [BOAT, DOG]]


def test_a_message_without_words_is_shown_the_buffer_too(memory, model):
    chain = memory.wrap(model)
    chain.invoke("And the dog?", at("now"))
    picture = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
    chain.invoke(HumanMessage([picture]), at("now"))
    assert shown(model) == [DOG]


def test_a_turn_that_is_not_remembered_reads_the_buffer_and_leaves_it(memory, model):
    chain = memory.wrap(model)
    chain.invoke("And the dog?", at("now"))
    chain.invoke("What about the boat?", at("now", remember=False))
    assert shown(model) == [BOAT, DOG]
    chain.invoke("What else?", at("now"))
    assert shown(model) == [DOG]


def test_a_turn_without_recall_is_shown_nothing(memory, model):
    chain = memory.wrap(model)
    chain.invoke("And the dog?", at("now"))
    chain.invoke("What about the boat?", at("now", recall=False))
    assert shown(model) == []


def test_a_turn_tried_again_is_shown_the_same(memory, model):
    chain = memory.wrap(model)
    for question in ("And the dog?", "What about the boat?", "What about the boat?"):
        chain.invoke(HumanMessage(question, id=question), at("now"))
    assert shown(model) == [BOAT, DOG]


def test_the_budget_of_a_call_holds_for_the_buffer(memory, model):
    chain = memory.wrap(model)
    for question in ("And the dog?", "What about the boat?"):
        chain.invoke(question, at("now"))
    chain.invoke("What else?", at("now", recall_tokens=50))
    assert shown(model) == [BOAT]


def test_recalled_text_is_never_indexed(memory, model):
    chain = memory.wrap(model)
    for number in range(3):
        chain.invoke(f"What about the boat, take {number}?", at("now"))
    memory.refresh(user_id="ana")
    found = memory.recall("boat", user_id="ana", k=10, threshold=-1.0)
    lines = [line for block in found.blocks for line in block.lines]
    assert [line.text for line in lines].count(str(TALK[0].content)) == 1
    kept = [
        piece for entry in memory.history("now", user_id="ana").entries for piece in entry.contents
    ]
    embedded = get_turn_memory(memory).line_recall.embeddings.lines
    assert not [text for text in (*kept, *embedded) if "recalled" in text]
    assert embedded.count(str(TALK[0].content)) == 1


def test_lines_that_come_into_view_leave_what_the_model_is_shown(memory, model):
    narrow = memory.wrap(model, history_tokens=1)
    narrow.invoke("My soup is too salty.", at("now"))
    narrow.invoke("Pardon?", at("now"))
    narrow.invoke("What was the soup like?", at("now"))
    assert shown(model) == [["User: My soup is too salty.", "Assistant: Fine."]]
    memory.wrap(model).invoke("What else?", at("now"))
    assert shown(model) == []
    narrow.invoke("What else?", at("now"))
    assert shown(model) != []


def test_a_thread_of_no_user_has_a_buffer_in_a_chain(memory, model):
    narrow = memory.wrap(model, history_tokens=1)
    for said_now in ("My soup is too salty.", "Pardon?", "What was the soup like?", "Pardon?"):
        narrow.invoke(said_now, at("alone", None))
    assert shown(model)[0][0] == "User: My soup is too salty."


# -- settings by name in a chain ----------------------------------------------------------------


def test_a_chain_goes_by_the_settings_unless_it_says_otherwise(memory, model):
    talk = [HumanMessage(f"Boat number {number}.") for number in range(9)]
    for number, message in enumerate(talk):
        memory.add_messages([message], thread_id=f"b{number}", user_id="ana")
    memory.wrap(model).invoke("Which boat?", at("now", remember=False))
    by_settings = len(shown(model))
    memory.wrap(model, recall_k=5).invoke("Which boat?", at("now", remember=False))
    assert (by_settings, len(shown(model))) == (3, 5)
