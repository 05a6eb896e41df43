"""Callers that send the whole chat, or its last messages, every time: each said thing once."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from scripted_chat import WAYS, ProviderError, ScriptedChatModel, at
from whole_chats import make_model, make_words

from langchain_convmem import ConversationMemory, InMemoryLog

# -- what a list means, by example ----------------------------------------------------------------


@pytest.fixture
def model():
    return make_model()


@pytest.fixture
def chain(memory, model):
    return memory.wrap(model, recall=False)


def _stored(memory):
    entries = memory.history("t", user_id="ana").entries
    return [(entry.role, str(entry.message.text)) for entry in entries if entry.message]


def _view(memory):
    return [str(one.text) for one in memory.history("t", user_id="ana").messages]


def _chat(*texts):
    """Return messages of the user and the assistant, in turn."""
    return [(HumanMessage, AIMessage)[n % 2](text) for n, text in enumerate(texts)]


def _say(chain, *texts):
    for text in texts:
        chain.invoke(text, at())


FORMS = {
    "strings": lambda texts: [text for _, text in texts],
    "messages": lambda texts: [HumanMessage(text) if u else AIMessage(text) for u, text in texts],
    "pairs": lambda texts: [("user" if u else "assistant", text) for u, text in texts],
    "under messages": lambda texts: {
        "messages": [{"role": "user" if u else "assistant", "content": t} for u, t in texts]
    },
}
"""Ways to say a list of (whether the user says it, text)."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("is_prompted", [False, True])
def test_every_new_message_of_the_user_is_stored_and_seen(memory, model, form, way, is_prompted):
    inner = ChatPromptTemplate([MessagesPlaceholder("messages")]) | model if is_prompted else model
    chain = memory.wrap(inner, recall=False)
    said = ["My bike is red.", "What colour is it?"]
    WAYS[way](chain, FORMS[form]([(True, text) for text in said]), at())
    assert _stored(memory) == [*(("user", text) for text in said), ("assistant", "Reply 1.")]
    assert all(text in "\n".join(one.text for one in model.seen[0]) for text in said)


@pytest.mark.parametrize("form", [name for name in FORMS if name != "strings"])
@pytest.mark.parametrize("before", [[], ["Where is the bike?"]], ids=["new", "known"])
def test_a_chat_that_began_elsewhere_is_stored_in_order(memory, model, chain, form, before):
    _say(chain, *before)
    chat = [(True, "Is it far?"), (False, "Two miles."), (True, "And back?")]
    chain.invoke(FORMS[form](chat), at())
    shown = [text for _, text in chat]
    assert _view(memory)[-4:-1] == shown
    assert [one.text for one in model.seen[-1]][-3:] == shown
    chain.invoke(FORMS[form]([*chat, (False, "<i>in HTML</i>"), (True, "Thanks")]), at())
    assert _view(memory)[-5:-1] == [*shown[1:], f"Reply {1 + len(before)}.", "Thanks"]


def test_examples_that_are_not_to_be_remembered_are_for_the_call_alone(memory, model, chain):
    aside = {"additional_kwargs": {"remember": False}}
    examples = [HumanMessage("Say it in Latin: yes", **aside), AIMessage("Ita", **aside)]
    chain.invoke([*examples, HumanMessage("And no?")], at())
    chain.invoke([*examples, *_chat("And no?", "Reply 1.", "And who?")], at())
    assert [one.text for one in model.seen[1]] == [
        "And no?",
        "Reply 1.",
        "Say it in Latin: yes",
        "Ita",
        "And who?",
    ]
    assert _view(memory) == ["And no?", "Reply 1.", "And who?", "Reply 2."]


def test_a_greeting_is_a_part_of_the_chat_that_it_opens(memory, model, chain):
    greeting = AIMessage("Hello, how can I help?")
    chain.invoke([greeting, HumanMessage("Where?")], at())
    chain.invoke([greeting, *_chat("Where?", "Reply 1.", "When?")], at())
    assert [text for _, text in _stored(memory)] == [
        greeting.text,
        "Where?",
        "Reply 1.",
        "When?",
        "Reply 2.",
    ]
    assert [one.text for one in model.seen[1]][-4:] == [
        greeting.text,
        "Where?",
        "Reply 1.",
        "When?",
    ]


@pytest.mark.parametrize(
    "later",
    [
        ["Where is it?", "Reply 1.", "How far is it?"],
        ["Where is it?", "Reply 1.", "How far is it, please?"],
        ["Where is it?", "Reply 1.", "Which train?"],
        ["Where is it?", "Reply 1.", "How far is it?", "Reply 2.", "Thanks"],
    ],
    ids=["again", "an edit", "a tab that knows less", "what follows"],
)
def test_a_greeting_is_shown_before_the_first_question_whatever_a_list_means(chain, model, later):
    greeting = AIMessage("Hello!")
    chain.invoke([greeting, *_chat("Where is it?")], at())
    chain.invoke([greeting, *_chat("Where is it?", "Reply 1.", "How far is it?")], at())
    chain.invoke([greeting, *_chat(*later)], at())
    shown = [one.text for one in model.seen[-1]]
    first = shown.index("Where is it?")
    assert shown[first - 1 : first + 2] == ["Hello!", "Where is it?", "Reply 1."]
    assert shown.count("Hello!") == 1


def test_a_message_edited_under_its_id_need_not_resemble_itself(memory, model, chain):
    for number, text in enumerate(["Where is the bike?", "In which town?", "Thanks"]):
        chain.invoke(HumanMessage(text, id=f"q{number}"), at())
    edited = HumanMessage("Play some jazz", id="q1")
    chain.invoke([*_chat("Where is the bike?", "Reply 1."), edited], at())
    assert _view(memory) == ["Where is the bike?", "Reply 1.", "Play some jazz", "Reply 4."]
    assert len(model.seen[-1]) == 3


def test_blocks_and_text_are_the_samemake_words(memory, chain):
    _say(chain, "Where?")
    blocks = [{"type": "text", "text": "Whe"}, {"type": "text", "text": "re?"}]
    chain.invoke([HumanMessage(blocks), AIMessage("Reply 1."), HumanMessage("When?")], at())
    assert _view(memory) == ["Where?", "Reply 1.", "When?", "Reply 2."]


def test_what_was_taken_back_does_not_return_with_a_list(memory, chain):
    _say(chain, "Where?", "A secret")
    memory.history("t", user_id="ana").undo()
    chain.invoke(_chat("Where?", "Reply 1.", "A secret", "Reply 2.", "When?"), at())
    assert _view(memory) == ["Where?", "Reply 1.", "When?", "Reply 3."]


def test_what_the_write_hook_changes_is_recognised(model):
    def masked(message):
        return message.model_copy(update={"content": str(message.content).replace("7", "*")})

    memory = ConversationMemory(InMemoryLog(), before_write=masked)
    chain = memory.wrap(model, recall=False)
    chain.invoke("My code is 77", at())
    chain.invoke(_chat("My code is 77", "Reply 1.", "And 7?"), at())
    assert _view(memory) == ["My code is **", "Reply 1.", "And *?", "Reply 2."]


def test_a_summarised_beginning_is_no_news(memory, model, chain):
    _say(chain, *(make_words(number) for number in range(6)))
    history = memory.history("t", user_id="ana")
    window = history.summary_window()
    history.add_summary("What was said.", window)
    shown = []
    for number in range(6):
        shown += [HumanMessage(make_words(number)), AIMessage(f"Reply {number + 1}.")]
    before = _stored(memory)
    chain.invoke([*shown, HumanMessage("Go on")], at())
    assert _stored(memory)[len(before) :] == [("user", "Go on"), ("assistant", "Fine.")]
    assert "What was said." in model.seen[-1][0].text


def test_the_tool_loops_of_a_list_are_the_threads(memory):
    call = {"name": "look", "args": {}, "id": "c1", "type": "tool_call"}
    model = ScriptedChatModel(replies=[AIMessage("", tool_calls=[call]), "On level 3.", "Bye."])
    chain = memory.wrap(model, recall=False)
    shown = [HumanMessage("Where?")]
    shown.append(chain.invoke(shown, at()))
    shown.append(ToolMessage("level 3", tool_call_id="c1"))
    shown.append(chain.invoke(shown, at()))
    shown.append(HumanMessage("Thanks"))
    chain.invoke(shown, at())
    assert _stored(memory) == [
        ("user", "Where?"),
        ("assistant", ""),
        ("tool", "level 3"),
        ("assistant", "On level 3."),
        ("user", "Thanks"),
        ("assistant", "Bye."),
    ]
    assert [one.type for one in model.seen[1]] == ["human", "ai", "tool"]


def test_a_list_in_a_turn_that_is_not_stored_leaves_the_log_alone(memory, model, chain):
    _say(chain, "Where?")
    chain.invoke(_chat("Where?", "Reply 1.", "When?"), at(remember=False))
    assert _view(memory) == ["Where?", "Reply 1."]
    assert [one.text for one in model.seen[1]] == ["Where?", "Reply 1.", "When?"]


# -- the application's own retry ------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("sends", ["text", "the whole chat"])
def test_the_same_text_after_a_failure_is_the_same_turn(memory, way, sends):
    model = ScriptedChatModel(replies=["Yes.", ProviderError(), "No."])
    chain = memory.wrap(model, recall=False)
    _say(chain, "Where?")
    said = "When?" if sends == "text" else _chat("Where?", "Yes.", "When?")
    with pytest.raises(ProviderError):
        WAYS[way](chain, said, at())
    WAYS[way](chain, said, at())
    assert _stored(memory) == [
        ("user", "Where?"),
        ("assistant", "Yes."),
        ("user", "When?"),
        ("assistant", "No."),
    ]
    assert [one.text for one in model.seen[2]] == ["Where?", "Yes.", "When?"]


# -- long threads ---------------------------------------------------------------------------------


@pytest.fixture
def archived(tmp_path):
    """A memory whose thread is long enough that a turn reads its latest part alone."""
    with ConversationMemory.open(tmp_path / "memory.db") as memory:
        said = []
        for number in range(120):
            said += [
                HumanMessage(make_words(number), id=f"q{number}"),
                AIMessage(f"Reply {number}."),
            ]
        memory.add_messages(said, thread_id="t", user_id="ana")
        chain = memory.wrap(
            ScriptedChatModel(replies=[lambda given: f"Of {len(given)}."]),
            recall=False,
            history_tokens=95,
        )
        for number in range(2):
            chain.invoke(make_words(200 + number), at())
        yield memory, chain


def test_the_whole_of_a_long_chat_adds_one_turn(archived):
    memory, chain = archived
    history = memory.history("t", user_id="ana")
    shown = history.messages
    before = len(history.entries)
    chain.invoke([*shown, HumanMessage("Go on")], at())
    assert len(history.entries) == before + 2
    plain = [type(one)(one.content) for one in history.messages]
    chain.invoke([*plain, HumanMessage("And on")], at())
    assert len(history.entries) == before + 4


def test_an_edit_far_back_is_seen_with_what_stood_before_it(archived):
    memory, chain = archived
    reply = chain.invoke(HumanMessage("Other words", id="q3"), at())
    view = memory.history("t", user_id="ana").messages
    assert len(view) == 8
    assert [one.text for one in view[-2:]] == ["Other words", reply.text]
    assert reply.text == "Of 7."
