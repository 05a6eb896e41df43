import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnablePassthrough
from scripted_chat import ScriptedChatModel, at
from summary_trees import add_chat, add_leaf, add_parent
from watched_runs import RunWatcher

from langchain_convmem.records import ThreadKey

LINES = [
    HumanMessage("My bicycle is chained to the oak behind the library."),
    AIMessage("Good to know, the oak behind the library."),
]


@pytest.fixture
def model():
    return ScriptedChatModel(replies=["I see."])


def _remembering(memory, thread_id="earlier"):
    memory.add_messages(LINES, thread_id=thread_id, user_id="ana")
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


def test_a_place_for_recalled_lines_gets_them(memory, model):
    place = MessagesPlaceholder("recalled", optional=True)
    slotted = ChatPromptTemplate([place, ("human", "{input}")])
    step = RunnablePassthrough.assign(note=lambda _: "n")
    chain = _remembering(memory).wrap(step | (slotted | model).with_retry())
    chain.invoke("Where did I chain my bicycle?", at("now"))
    recalled, question = model.seen[0]
    assert recalled.text.startswith("<recalled>")
    assert question == HumanMessage("Where did I chain my bicycle?")


KEY = ThreadKey("ana", "t")
QUESTION = "What does my aunt breed?"
OPENED = "[2026-05-01 to 2026-05-03, from a summary]\n- Aunt Ottilie breeds alpacas."


@pytest.fixture
def folded(memory):
    """The memory, with a thread whose summary stands for two others."""
    leaves = [
        add_leaf(memory.log, KEY, text, add_chat(memory.log, KEY, [f"Line {number}"]))
        for number, text in enumerate(["Aunt Ottilie breeds alpacas.", "The boat is at pier 14."])
    ]
    add_parent(memory.log, KEY, "They talked about many things.", leaves)
    return memory


def test_what_the_summary_in_view_says_is_not_repeated(memory, model):
    said = add_chat(memory.log, KEY, ["Line 0"])
    leaf = add_leaf(memory.log, KEY, "Aunt Ottilie breeds alpacas. My aunt breeds bees.", said)
    add_parent(memory.log, KEY, "Aunt Ottilie breeds alpacas.", [leaf])
    memory.wrap(model).invoke(QUESTION, at())
    assert _last_shown(model).count("alpacas") == 0
    assert "- My aunt breeds bees." in _last_shown(model)


def test_forgetting_what_a_summary_tells_of_closes_it(folded, model):
    chain = folded.wrap(model)
    chain.invoke(QUESTION, at())
    assert OPENED in _last_shown(model)
    first = folded.history("t", user_id="ana").entries[0]
    folded.forget(user_id="ana", thread_id="t", entry_ids=[first.id])
    chain.invoke(QUESTION, at())
    assert "alpacas" not in "".join(str(message.text) for message in model.seen[-1])


def test_a_turn_counts_and_traces_what_it_opened(folded, model):
    watcher = RunWatcher()
    folded.wrap(model).invoke(QUESTION, {**at(), "callbacks": [watcher]})
    [counts] = [data for name, data, *_ in watcher.events if name == "convmem.context"]
    assert counts["opened"] == 1
    [found] = watcher.found.values()
    assert OPENED in [document.page_content for document in found]
