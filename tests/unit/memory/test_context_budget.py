import random

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from scripted_chat import ProviderError, ScriptedChatModel, at, entries, texts
from summaries import bare
from watched_runs import RunWatcher

from langchain_convmem import ConversationMemory, InMemoryLog, RecallSettings, SummarySettings
from langchain_convmem.errors import ConfigError
from langchain_convmem.offline import ExtractiveSummarizer
from langchain_convmem.views.context import LEFT_OUT_TEXT
from langchain_convmem.views.messages import NOTED_TEXT, count_tokens

FACT = "My boat is called Wilhelmina and lies in Rotterdam."


def model():
    return ScriptedChatModel(replies=["Fine."])


def test_more_reserved_than_there_is_is_refused(memory):
    with pytest.raises(ConfigError, match="less than context_tokens=100, got 100"):
        memory.wrap(model(), context_tokens=100, reserved_tokens=100)


def test_a_chat_with_summaries_and_recall_stays_within_its_budget_at_every_turn():
    chance = random.Random(6)
    settings = SummarySettings(
        trigger=("tokens", 300), keep=("tokens", 100), max_summary_tokens=60, facts_tokens=40
    )
    options = {"summarizer": ExtractiveSummarizer(), "summary_settings": settings}
    with ConversationMemory(InMemoryLog(), summarize_when="foreground", **options) as memory:
        memory.add_messages([HumanMessage(FACT)], thread_id="before", user_id="ana")
        replies = ScriptedChatModel(
            replies=[lambda _: f"Number {chance.randint(1, 99)}. {'word ' * chance.randint(1, 30)}"]
        )
        chain = memory.wrap(replies, recall_tokens=120, context_tokens=700, reserved_tokens=100)
        questions = [f"What is {n}? {'word ' * chance.randint(1, 30)}" for n in range(20)]
        for asked in [*questions, "Where is my boat Wilhelmina?"]:
            chain.invoke(asked, at())
            assert count_tokens(replies.seen[-1]) <= 600
            assert replies.asked[-1].endswith(asked)
        # What was recalled beside the summary did not crowd out the latest exchange.
        assert "Rotterdam" in str(replies.seen[-1])
        assert replies.seen[-1][-2].type == "ai"


def test_a_thread_is_compacted_before_the_profile_crowds_out_what_no_summary_covers():
    settings = SummarySettings(max_summary_tokens=60, facts_tokens=0)
    options = {"summarizer": ExtractiveSummarizer(), "summary_settings": settings}
    with ConversationMemory(InMemoryLog(), summarize_when="foreground", **options) as memory:
        told = ["I am allergic to peanuts.", "I live in Porto.", "I work as a nurse.", FACT]
        memory.add_messages(list(map(HumanMessage, told)), thread_id="before", user_id="ana")
        replies = ScriptedChatModel(replies=["It is as long as the one before, and wide."])
        chain = memory.wrap(replies, recall_tokens=100, context_tokens=900)
        for number in range(40):
            chain.invoke(f"How long is river number {number} of the list, and how wide?", at())
    assert "<profile>" in str(replies.seen[-1])
    assert not any(LEFT_OUT_TEXT in str(seen) for seen in replies.seen)


def test_the_number_of_matches_that_settings_name_holds_in_a_budget():
    settings = RecallSettings(k=1, threshold=-1, refill=False)
    with ConversationMemory(InMemoryLog(), settings=settings) as memory:
        memory.add_messages([FACT, "It is a boat.", "A boat."], thread_id="before", user_id="ana")
        chat_model = model()
        memory.wrap(chat_model, context_tokens=4000).invoke("Which boat?", at())
    assert chat_model.asked[-1].count("boat") == 2, "the match, and the question"


def test_recalled_lines_leave_half_of_a_small_window(caplog):
    caplog.set_level("INFO", logger="langchain_convmem")
    with ConversationMemory(InMemoryLog(), summarizer=ExtractiveSummarizer()) as memory:
        memory.wrap(model(), context_tokens=1500)
    assert "a budget of 600 tokens" in caplog.text, "and the profile 150"


def test_between_compactions_what_a_model_reads_begins_alike(memory):
    memory.add_messages([HumanMessage(FACT)], thread_id="before", user_id="ana")
    chat_model = model()
    chain = memory.wrap(chat_model, recall_tokens=100, context_tokens=4000)
    for number in range(6):
        chain.invoke(f"{number}: where is my boat Wilhelmina?", at())
    for earlier, later in zip(chat_model.seen, chat_model.seen[1:], strict=False):
        assert earlier[:-1] == later[: len(earlier) - 1]


def _shown(model):
    shown = (message for message in model.seen[-1] if message.text != NOTED_TEXT)
    return [(message.type, bare(message.text)) for message in shown]


def test_what_was_never_answered_is_said_together_with_what_is_said_now(memory):
    model = ScriptedChatModel(replies=[ProviderError(), "Yes."])
    chain = memory.wrap(model, recall=False)
    with pytest.raises(ProviderError):
        chain.invoke("I parked on three.", at())
    chain.invoke(HumanMessage("Do you hear me?", id="q2", name="Ana"), at())
    assert _shown(model) == [("human", "I parked on three.\nDo you hear me?")]
    assert (model.seen[-1][0].id, model.seen[-1][0].name) == ("q2", "Ana")
    assert texts(memory) == ["I parked on three.\nDo you hear me?", "Yes."]


def test_a_prompt_with_a_place_for_the_summary_is_given_it_as_text(memory):
    history = memory.history("t", user_id="ana")
    history.add_messages([HumanMessage("I parked on three."), AIMessage("Noted.")])
    history.add_summary("Ana parked on level three.", history.summary_window())
    history.add("user", "And it rains.")
    model = ScriptedChatModel(replies=["Yes."])
    prompt = ChatPromptTemplate.from_messages(
        [("system", "So far: {summary}"), MessagesPlaceholder("history"), ("human", "{input}")]
    )
    memory.wrap(prompt | model, recall=False).invoke("Where?", at())
    assert _shown(model) == [
        ("system", "So far: Ana parked on level three."),
        ("human", "And it rains.\nWhere?"),
    ]


@pytest.mark.parametrize(("room", "searches"), [(0, 0), (90, 1)])
def test_where_no_room_is_left_nothing_is_searched_for(memory, room, searches):
    memory.add_messages([HumanMessage(FACT)], thread_id="before", user_id="ana")
    asked, watcher = "Where is my boat Wilhelmina?", RunWatcher()
    budget = count_tokens([HumanMessage(asked)]) + room
    chain = memory.wrap(model(), recall_tokens=90, context_tokens=budget)
    chain.invoke(asked, {**at("now"), "callbacks": [watcher]})
    assert len(watcher.from_chain("retriever")) == searches


def test_a_counter_of_the_application_counts_everywhere():
    def count_letters(messages):
        return sum(len(one.text) for one in messages)

    chat_model = model()
    with ConversationMemory.open(":memory:", token_counter=count_letters) as memory:
        boat = [HumanMessage("My boat is red. " * 4)] * 9
        memory.add_messages(boat, thread_id="a", user_id="ana")
        found = memory.recall("boat", user_id="ana", max_tokens=200)
        assert sum(len(block.text) for block in found.blocks) <= 200
        chain = memory.wrap(chat_model, recall_tokens=300, context_tokens=700)
        for number in range(12):
            chain.invoke(f"And number {number}, the boat? " * 3, at())
        assert memory.history("t", user_id="ana").context(max_tokens=400).tokens <= 400
    assert max(count_letters(messages) for messages in chat_model.seen) <= 700


@pytest.mark.parametrize("settings", [None, SummarySettings(trigger=("fraction", 0.5))])
def test_threads_are_compacted_by_the_window_of_the_models_own(settings):
    made = []
    options = {"summarizer": ExtractiveSummarizer(), "summary_settings": settings}
    for tokens in (4096, 200_000):
        windowed = ScriptedChatModel(replies=["Fine."], profile={"max_input_tokens": tokens})
        with ConversationMemory(InMemoryLog(), summarize_when="foreground", **options) as memory:
            chain = memory.wrap(windowed, recall=False)
            for number in range(12):
                chain.invoke(f"Number {number} is a matter of {'many words, ' * 90}", at())
            made.append(memory.history("t", user_id="ana").last_summary is not None)
    assert made == [True, False]


def test_auto_has_the_chains_own_model_summarise():
    told = "Ana moved to Lisbon and opens a bakery next year with her sister."
    said = "I moved to Lisbon and my sister and I open a bakery next year. "
    options = {"summarizer": "auto", "summarize_when": "foreground"}
    with ConversationMemory(InMemoryLog(), **options) as memory:
        writing = ScriptedChatModel(replies=[told])
        chain = memory.wrap(writing, recall=False, context_tokens=1000)
        for _ in range(12):
            chain.invoke(said * 4, at())
        told_of = {one.contents[0] for one in entries(memory) if one.role == "summary"}
    assert told_of == {told}
