import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_convmem import ConversationMemory
from langchain_convmem.errors import BudgetError, ConfigError
from langchain_convmem.views.messages import (
    TOKENS_PER_MEDIA,
    TOKENS_PER_MESSAGE,
    count_tokens,
    get_text_counter,
    read_counter,
)
from langchain_convmem.views.tokens import count_text_tokens

ENGLISH = "We are thinking about opening a small bakery together next year, my sister and I. "
SAID = [HumanMessage(ENGLISH * 30), AIMessage(ENGLISH * 10)]


class _CountingModel(GenericFakeChatModel):
    def get_num_tokens_from_messages(self, messages, tools=None):
        return 7 * len(messages)


def test_a_counter_of_the_application_counts_messages_and_texts():
    assert read_counter(_CountingModel(messages=iter(())))(SAID) == 14
    counter = read_counter(lambda messages: sum(len(one.text.split()) for one in messages))
    assert counter(SAID) == 40 * len(ENGLISH.split())
    assert get_text_counter(counter)("three plain words") == 3


@pytest.mark.parametrize("value", ["gpt-4", 7, [], GenericFakeChatModel])
def test_what_can_count_nothing_is_refused(value):
    with pytest.raises(ConfigError, match="token_counter"):
        read_counter(value)


@pytest.mark.parametrize("answer", [None, "9", 2.5, -1, True])
def test_a_counter_that_returns_no_number_of_tokens_is_named(answer):
    with pytest.raises(ConfigError, match="token_counter must return a whole number"):
        read_counter(lambda _: answer)(SAID)


DATA = Path(__file__).parent / "data"
TEXTS = json.loads((DATA / "texts.json").read_text(encoding="utf-8"))
COUNTS = json.loads((DATA / "counts.json").read_text(encoding="utf-8"))
SENTENCE = "I moved to Lisbon in March because my sister lives there."


@pytest.mark.parametrize("kind", list(TEXTS))
@pytest.mark.parametrize("vocabulary", list(COUNTS))
def test_no_script_and_no_kind_is_counted_more_than_a_few_percent_low(kind, vocabulary):
    real = sum(COUNTS[vocabulary][kind])
    assert sum(map(count_text_tokens, TEXTS[kind])) >= 0.97 * real


@pytest.mark.parametrize("vocabulary", list(COUNTS))
def test_english_is_counted_close(vocabulary):
    kind = "latin, English"
    assert sum(map(count_text_tokens, TEXTS[kind])) <= 1.2 * sum(COUNTS[vocabulary][kind])


@given(st.text(max_size=200))
def test_no_character_costs_less_than_a_sixth_of_a_token(text):
    assert count_text_tokens(text) >= len(text) / 6


@given(st.text(max_size=100), st.text("ทดสอบ漢字абв", min_size=1, max_size=50))
def test_letters_of_other_scripts_never_make_a_text_cheaper(text, more):
    assert count_text_tokens(text + more) >= count_text_tokens(text)


def test_a_message_costs_its_text_its_name_and_a_frame():
    text, name = count_text_tokens(SENTENCE), count_text_tokens("Bo")
    assert count_tokens([HumanMessage(SENTENCE)]) == TOKENS_PER_MESSAGE + text
    assert count_tokens([HumanMessage(SENTENCE, name="Bo")]) == TOKENS_PER_MESSAGE + text + name
    assert count_tokens([HumanMessage(SENTENCE, id="x" * 99)]) == TOKENS_PER_MESSAGE + text


def test_media_cost_the_same_whatever_their_bytes():
    image = {"type": "image", "source_type": "base64", "data": "A" * 100_000}
    assert count_tokens([HumanMessage([image, SENTENCE])]) == (
        TOKENS_PER_MESSAGE + TOKENS_PER_MEDIA + count_text_tokens(SENTENCE)
    )


def test_tool_calls_are_counted_once():
    call = {"name": "weather", "args": {"city": "x" * 400}, "id": "c1"}
    block = {"type": "tool_use", "id": "c1", "name": "weather", "input": call["args"]}
    alone = count_tokens([AIMessage("", tool_calls=[call])])
    assert alone > 100
    assert count_tokens([AIMessage([block], tool_calls=[call])]) == alone
    assert count_tokens([ToolMessage(SENTENCE, tool_call_id="c1")]) == (
        TOKENS_PER_MESSAGE + count_text_tokens(SENTENCE) + count_text_tokens("c1")
    )


NOTE = re.compile(r"\n\[\.\.\. ([\d,]+) more characters here, not shown\]\n")
PASTE = "".join(f"Line {n} of the report says that nothing happened.\n" for n in range(2000))


def see(messages, budget, **options):
    with ConversationMemory.open(":memory:") as memory:
        history = memory.history("t", user_id="ana")
        history.add_messages(messages)
        view = history.context(max_tokens=budget, **options)
        assert history.entries[-1].message.content == messages[-1].content
        return view


@pytest.mark.parametrize("budget", [200, 1000, 4000])
def test_a_long_paste_is_shown_by_its_beginning_and_its_end(budget):
    view = see([HumanMessage(PASTE + "What is in it?", id="p1")], budget)
    [shown] = view.messages
    assert view.tokens == count_tokens([shown]) <= budget
    assert view.tokens > 0.8 * budget
    first, left_out, last = NOTE.split(shown.content)
    text = f"{PASTE}What is in it?"
    assert text.startswith(first)
    assert text.endswith(last)
    assert len(first) + int(left_out.replace(",", "")) + len(last) == len(text)
    assert view.repairs == (f"show p1 cut to stay within {budget} tokens",)


def test_of_several_results_the_longest_are_cut_and_short_ones_stay_whole():
    calls = [{"name": "look", "args": {}, "id": f"c{n}"} for n in range(3)]
    texts = ("Nothing found.", PASTE, PASTE[:20_000])
    results = [ToolMessage(text, tool_call_id=f"c{n}") for n, text in enumerate(texts)]
    asked = [HumanMessage("Look at all three."), AIMessage("", tool_calls=calls)]
    view = see([*asked, *results], 2000)
    assert view.tokens <= 2000
    human, _, short, long, longer = view.messages
    assert (human.content, short.content) == ("Look at all three.", "Nothing found.")
    assert NOTE.search(long.content)
    assert NOTE.search(longer.content)
    assert abs(count_tokens([long]) - count_tokens([longer])) < 60


@pytest.mark.parametrize("later", [0, 3])
@pytest.mark.parametrize("at", [2, 3])
def test_a_long_exchange_is_shown_cut_with_what_is_said_next(at, later):
    said = ["Hello", "Hi.", "What is it?", "A log.", *["Why?", "So."] * later, "Who wrote it?"]
    said[at] = f"{PASTE}{said[at]}"
    view = see([(HumanMessage, AIMessage)[n % 2](text) for n, text in enumerate(said)], 1000)
    assert 800 < view.tokens <= 1000
    shown = [one.text for one in view.messages]  # the first exchange gave way to a note
    assert NOTE.search(shown[at])
    assert shown[2:at] + shown[at + 1 :] == said[2:at] + said[at + 1 :]


def test_recall_may_quote_the_rest_of_what_is_shown_cut(memory):
    seen = []
    chain = memory.wrap(lambda given: seen.append(given["messages"]) or "Oh.", context_tokens=2000)
    for text in (f"{PASTE}The boiler broke.\n{PASTE}What is in it?", "What did the boiler do?"):
        chain.invoke(text, {"configurable": {"thread_id": "t", "user_id": "ana"}})
    assert NOTE.search(seen[1][0].text)
    assert "The boiler broke." in seen[1][-1].text


def test_system_text_is_never_cut():
    with pytest.raises(BudgetError, match="system messages"):
        see([SystemMessage(PASTE), HumanMessage("Hello")], 1000)
    between = SystemMessage(PASTE[:3000])
    said = [HumanMessage("Hello"), AIMessage(PASTE[:2000]), between, HumanMessage("So?")]
    shown = see(said, 1100, provider="openai").messages  # where a system may speak in between
    assert [bool(NOTE.search(one.text)) for one in shown] == [False, True, False, False]
