import pytest
from host_promises import kept_by_all
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from scripted_chat import ScriptedChatModel, at, entries, texts


def _stored(memory):
    assert all(one.control is None for one in entries(memory))
    return [one.contents[0] for one in entries(memory)]


def _texts(messages):
    return [str(one.text) for one in messages]


@kept_by_all("asked again")
def test_a_question_asked_again_under_its_id_has_the_newer_answer(host, run, memory):
    model = ScriptedChatModel(replies=["Noted.", "Level two.", "Level three."])
    app = host.app(memory, model, recall=False)
    run(app, "I am here.", at())
    for _ in range(2):
        run(app, HumanMessage("Where?", id="q1"), at())
    assert texts(memory) == ["I am here.", "Noted.", "Where?", "Level three."]
    assert _texts(model.seen[2]) == ["I am here.", "Noted.", "Where?"]
    replies = [one.contents[0] for one in entries(memory) if one.role == "assistant"]
    assert replies == ["Noted.", "Level two.", "Level three."], "the log loses nothing"


@kept_by_all("asked later")
def test_an_earlier_question_asked_again_is_answered_in_its_place(host, run, memory):
    model = ScriptedChatModel(replies=["One.", "Two.", "One, better."])
    app = host.app(memory, model, recall=False)
    for text, name in (("First?", "q1"), ("Second?", "q2"), ("First?", "q1")):
        run(app, HumanMessage(text, id=name), at())
    assert _texts(model.seen[2]) == ["First?"], "what came later is not before it"
    assert texts(memory) == ["First?", "One, better.", "Second?", "Two."]


@kept_by_all("edited")
def test_a_question_edited_under_its_id_is_replaced_with_its_answer(host, run, memory):
    model = ScriptedChatModel(replies=["On two.", "On three."])
    app = host.app(memory, model, recall=False)
    run(app, HumanMessage("Where is the bike?", id="q1"), at())
    run(app, HumanMessage("Where is the car?", id="q1"), at())
    assert _texts(model.seen[1]) == ["Where is the car?"]
    assert texts(memory) == ["Where is the car?", "On three."]


@kept_by_all("said twice")
def test_the_same_text_said_twice_is_two_turns(host, run, memory):
    app = host.app(memory, ScriptedChatModel(replies=["First.", "Second."]), recall=False)
    for _ in range(2):
        run(app, "And?", at())
    assert texts(memory) == ["And?", "First.", "And?", "Second."]


LISTS = {
    "several messages at once": ([], ["My name is Ana.", "-", "What is new?"], ["What is new?"]),
    "a chat that began elsewhere": ([], ["Where?", "There.", "When?"], None),
    "the whole chat": (["Where?"], ["Where?", "Reply 1.", "When?"], ["When?"]),
    "its last messages": (["Where?", "When?"], ["When?", "Reply 2.", "Why?"], ["Why?"]),
    "replies in another form": (["Where?"], ["Where?", "<b>Reply 1.</b>", "When?"], ["When?"]),
    "white space": (["Where  is it?"], ["Where is\nit? ", "Reply 1.", "When?"], ["When?"]),
    "a question of another tab": (
        ["Where?", "In which town?"],
        ["Where?", "Reply 1.", "Play some jazz"],
        ["Play some jazz"],
    ),
    "an answered question": (["Where?", "When?"], ["Where?", "Reply 1.", "When?"], ["When?"]),
    "a list that ends further up": (
        ["Where is it?", "In which town?", "Thanks"],
        ["In which town?", "Reply 2.", "Is it raining?"],
        ["Is it raining?"],
    ),
    "a question in other words": (
        ["Where is it?", "In which town?"],
        ["Where is it?", "Reply 1.", "In which town, please?"],
        ["In which town, please?"],
    ),
    "a greeting": ([], ["-", "How can I help?", "Where?"], None),
    "a greeting later": (["Where?"], ["-", "How can I help?", "When?"], ["When?"]),
    "words that come again": (
        ["Hi", "Where?", "Hi"],
        ["Hi", "Reply 1.", "Where?", "<i>Reply 2.</i>", "Hi", "Reply 3.", "So?"],
        ["So?"],
    ),
    "what was said elsewhere since": (
        ["Where?"],
        ["Where?", "Reply 1.", "Is it open?", "From nine.", "Thanks."],
        ["Is it open?", "From nine.", "Thanks."],
    ),
    "yes and yes": (["yes"], ["yes", "Reply 1.", "yes", "-", "yes"], ["yes", "yes"]),
}
"""What was said in turns of its own, what a list then holds (`-`: no reply), and what is new."""


@kept_by_all("lists")
@pytest.mark.parametrize("case", LISTS)
def test_of_a_list_what_follows_the_last_known_message_is_new(host, run, case, memory):
    before, given, new = LISTS[case]
    model = ScriptedChatModel(replies=[f"Reply {number}." for number in range(1, 9)])
    app = host.app(memory, model, recall=False)
    for text in before:
        run(app, text, at())
    earlier = _stored(memory)
    kinds = (HumanMessage, AIMessage)
    messages = [kinds[n % 2](text) for n, text in enumerate(given) if text != "-"]
    run(app, messages, at())
    if not before:
        new = _texts(messages)
    assert _stored(memory) == [*earlier, *new, f"Reply {len(before) + 1}."]
    assert "\n".join(_texts(model.seen[-1])).endswith("\n".join([*earlier, *new]))


@kept_by_all("for the call alone")
def test_what_is_for_the_call_alone_is_shown_and_not_stored(host, run, memory, model):
    alone = {"additional_kwargs": {"remember": False}}
    examples = [HumanMessage("2 + 2?", **alone), AIMessage("4", **alone)]
    app = host.app(memory, model, recall=False)
    run(app, [SystemMessage("Be brief."), *examples, HumanMessage("3 + 3?")], at())
    assert _texts(model.seen[-1]) == ["Be brief.", "2 + 2?", "4", "3 + 3?"]
    run(app, "And 4 + 4?", at())
    assert _texts(model.seen[-1]) == ["3 + 3?", "Yes.", "And 4 + 4?"]
    assert texts(memory) == ["3 + 3?", "Yes.", "And 4 + 4?", "Yes."]


@kept_by_all("users apart")
def test_threads_of_two_users_with_one_name_are_two_threads(host, run, memory, model):
    app = host.app(memory, model)
    run(app, "My bicycle is red.", at())
    for other in ("ben", None):
        run(app, "What is my bicycle like?", at(user_id=other))
        assert _texts(model.seen[-1]) == ["What is my bicycle like?"]
    assert texts(memory) == ["My bicycle is red.", "Yes."]
    assert texts(memory, user_id="ben") == ["What is my bicycle like?", "Yes."]
