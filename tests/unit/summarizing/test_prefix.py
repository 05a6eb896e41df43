"""A summary that the conversation's model writes on top of what it has read already."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableLambda
from scripted_chat import ScriptedChatModel, at

from langchain_convmem import ConversationMemory, SummarySettings
from langchain_convmem.errors import ConfigError
from langchain_convmem.summarizing import PrefixSummarizer, resummarize
from langchain_convmem.summarizing.summarizers import SummaryRequest, build_messages

MARKS = SummarySettings(trigger=("messages", 6), keep=("messages", 2))
TOPICS = (
    "the tide tables of Brest",
    "bread with walnuts",
    "a tent for rain",
    "old maps",
    "ferries",
)
PROMPT = ChatPromptTemplate.from_messages(
    [
        ("system", "You help travellers."),
        MessagesPlaceholder("history"),
        ("human", "{input}"),
    ]
)


def answer(messages):
    """Answer, or summarise when asked for that."""
    if not messages[-1].text.endswith("Write the summary now."):
        return AIMessage("Here is what I know of it.")
    text = "\n".join(message.text for message in messages)
    told = [topic for topic in TOPICS if f"Tell me about {topic}" in text]
    return AIMessage(f"The user asked about {'; '.join(told)}.")


def asked_model():
    return ScriptedChatModel(replies=[answer])


def talked(memory, chain, way):
    wrapped = memory.wrap(chain, recall=False)
    for topic in TOPICS:
        said = f"Tell me about {topic}"
        if way == "invoke":
            wrapped.invoke(said, at())
        else:
            asyncio.run(wrapped.ainvoke(said, at()))


def said_in(request):
    return [(message.type, message.text) for message in request]


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
@pytest.mark.parametrize("end", [(), (StrOutputParser(),)])
def test_its_request_is_the_beginning_of_the_conversations_and_one_message_more(way, end):
    model = asked_model()
    chain = PROMPT | model
    for step in end:
        chain = chain | step
    summarizer = PrefixSummarizer.from_chain(chain)
    with ConversationMemory.open(
        ":memory:", summarizer=summarizer, summary_settings=MARKS, summarize_when="foreground"
    ) as memory:
        talked(memory, chain, way)
        entries = memory.history("t", user_id="ana").entries
    requests = [said_in(request) for request in model.seen]
    asked = [n for n, one in enumerate(requests) if one[-1][1].endswith("Write the summary now.")]
    assert asked
    for number in asked:
        *prefix, (kind, instruction) = requests[number]
        assert kind == "human"
        assert prefix == requests[number - 1][: len(prefix)]
        assert prefix[-1][0] == "ai"
        assert "The application writes this" in instruction
        assert TOPICS[0] not in instruction
    summary = next(entry for entry in entries if entry.role == "summary")
    assert TOPICS[0] in summary.contents[0]


def test_the_transcript_stands_in_the_messages_alone():
    summarizer = PrefixSummarizer(asked_model(), before=[SystemMessage("s")])
    shown = (HumanMessage("q"), AIMessage("a"))
    asked = summarizer.build_messages(SummaryRequest(transcript="User: q", messages=shown))
    assert asked[:-1] == [SystemMessage("s"), *shown]
    assert "User: q" not in asked[-1].text


def test_without_messages_to_stand_on_it_asks_as_any_model_is_asked():
    request = SummaryRequest(transcript="User: q", previous="They met.")
    assert PrefixSummarizer(asked_model()).build_messages(request) == build_messages(request)


def test_a_stretch_that_is_too_long_for_one_request_is_summarised_in_parts():
    model = asked_model()
    settings = SummarySettings(trigger=("messages", 6), keep=("messages", 2), input_tokens=64)
    with ConversationMemory.open(
        ":memory:", summarizer=PrefixSummarizer(model), summary_settings=settings
    ) as memory:
        said = [m for t in TOPICS for m in (HumanMessage(f"Tell me about {t}. " * 9), AIMessage(t))]
        memory.add_messages(said, thread_id="t", user_id="ana")
        memory.summarize("t", user_id="ana", force=True)
    assert len(model.seen) > 1
    assert all(len(request) == 2 for request in model.seen)


def test_a_summary_that_is_written_anew_is_made_of_the_transcript():
    model = asked_model()
    with ConversationMemory.open(
        ":memory:", summarizer=PrefixSummarizer(model), summary_settings=MARKS
    ) as memory:
        said = [m for t in TOPICS for m in (HumanMessage(f"Tell me about {t}"), AIMessage(t))]
        memory.add_messages(said, thread_id="t", user_id="ana")
        assert memory.summarize("t", user_id="ana", force=True)
        assert len(model.seen[-1]) > 2
        resummarize(memory, "t", user_id="ana")
    assert [message.type for message in model.seen[-1]] == ["system", "human"]
    assert TOPICS[0] in model.seen[-1][1].text


@pytest.mark.parametrize(
    ("chain", "before"),
    [
        (asked_model(), ()),
        (PROMPT | asked_model(), ("You help travellers.",)),
        (PROMPT | asked_model().bind(stop=["x"]) | StrOutputParser(), ("You help travellers.",)),
    ],
)
def test_a_chain_says_itself_what_stands_before_a_thread(chain, before):
    found = PrefixSummarizer.from_chain(chain)
    assert found is not None
    assert tuple(message.text for message in found.before) == before


@pytest.mark.parametrize(
    "chain",
    [
        ChatPromptTemplate.from_messages([("system", "Hi {name}"), ("placeholder", "{history}")])
        | asked_model(),
        ChatPromptTemplate.from_messages([("human", "{input}")]) | asked_model(),
        RunnableLambda(str),
        RunnableLambda(str) | asked_model(),
    ],
)
def test_a_chain_whose_requests_cannot_be_seen_has_none(chain):
    assert PrefixSummarizer.from_chain(chain) is None


@pytest.mark.parametrize(
    "options", [{"model": "gpt"}, {"model": asked_model(), "provider": "lenient"}]
)
def test_what_is_no_model_and_no_profile_is_refused(options):
    with pytest.raises(ConfigError):
        PrefixSummarizer(**options)
