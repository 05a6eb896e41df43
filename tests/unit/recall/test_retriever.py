import json
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import ConfigurableField
from pydantic import ValidationError

from langchain_convmem.errors import ConfigError
from langchain_convmem.recall import DialogLineRetriever, LineRecall

START = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
TEXTS = ["I parked the car on floor three", "Noted", "My dog likes the river", "Dogs do"]


@pytest.fixture
def recall(log, say, embedder):
    say(log, TEXTS, thread="t1", session="s1")
    say(log, ["The car is blue"], thread="t2")
    say(log, ["A lone car"], thread="t1", user=None)
    say(log, ["An old car"], thread=UUID(int=1), user=7)
    return LineRecall(log, embedder)


def lines(documents):
    """The lines of documents, without their headers."""
    return {line for one in documents for line in one.page_content.splitlines() if ": " in line}


def test_a_document_holds_a_block_and_plain_metadata(recall):
    [document] = DialogLineRetriever(recall=recall, user_id="ana", thread_id="t1").invoke(
        "car", k=1
    )
    assert isinstance(document, Document)
    header, *said = document.page_content.split("\n")
    assert header.startswith("[2023-11-14")
    assert said == ["Ana: I parked the car on floor three", "Bo: Noted", f"Ana: {TEXTS[2]}"]
    metadata = document.metadata
    assert json.loads(json.dumps(metadata)) == metadata
    exact = {"user_id": "ana", "thread_id": "t1", "session": "s1", "positions": [1, 2, 3]}
    exact |= {"time": "2023-11-14T22:13:20+00:00", "speakers": ["Ana", "Bo"]}
    assert {name: metadata[name] for name in exact} == exact
    assert (document.id, len(metadata["line_ids"])) == (metadata["line_ids"][0], 3)
    assert {type(metadata[name]) for name in ("similarity", "relevance")} == {float}
    assert "words: car" in metadata["why"]


@pytest.mark.parametrize(
    ("scope", "inside", "outside"),
    [
        ({"user_id": "ana"}, ["floor three", "is blue"], ["lone"]),
        ({"user_id": "ana", "thread_id": "t2"}, ["is blue"], ["floor", "lone"]),
        ({"thread_id": "t1"}, ["lone"], ["floor", "blue"]),
        ({"user_id": 7, "thread_id": UUID(int=1)}, ["old"], ["floor", "lone"]),
    ],
)
def test_the_scope_is_a_user_a_thread_of_theirs_or_a_lone_thread(recall, scope, inside, outside):
    documents = DialogLineRetriever(recall=recall, **scope).invoke("car")
    text = "\n".join(document.page_content for document in documents)
    assert all(part in text for part in inside)
    assert not any(part in text for part in outside)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"user_ids": []}, "user_ids"),
        ({"user_ids": ["ana", " "]}, "user_ids"),
        ({"user_ids": ["ana"], "user_id": "ana"}, "user_ids"),
        ({"user_ids": ["ana"], "thread_id": "t1"}, "user_ids"),
        ({"user_id": "ana", "filter": {"topic": object()}}, "topic"),
        ({"user_id": "ana", "since": datetime(2023, 1, 1)}, "since"),  # noqa: DTZ001
        ({"user_id": "ana", "since": "2026"}, "since"),
    ],
)
def test_a_scope_that_makes_no_sense_is_refused_by_name(recall, fields, named):
    with pytest.raises(ConfigError, match=named):
        DialogLineRetriever(recall=recall, **fields).invoke("car")


def test_a_scope_stands_in_the_fields_or_in_the_call_which_counts(recall):
    retriever = DialogLineRetriever(
        recall=recall, user_id="ana", filter={"speaker": "Ana"}, until=START + timedelta(minutes=2)
    )
    assert lines(retriever.invoke("car")) == {"Ana: " + TEXTS[0], "Ana: The car is blue"}
    assert lines(retriever.invoke("car", filter={"session": "s1"})) == {
        "Ana: " + TEXTS[0],
        "Bo: " + TEXTS[1],
    }
    later = {"since": START + timedelta(minutes=2), "until": START + timedelta(minutes=9)}
    assert lines(retriever.invoke("car", **later)) == {"Ana: " + TEXTS[2]}


@pytest.mark.parametrize(
    "query",
    [
        "car",
        HumanMessage("car"),
        [HumanMessage("dog"), AIMessage("yes?"), HumanMessage("car"), AIMessage("hm")],
        [HumanMessage([{"type": "text", "text": "car"}])],
    ],
)
def test_a_query_is_a_text_or_the_last_human_message(recall, query):
    retriever = DialogLineRetriever(recall=recall, user_id="ana", k=1)
    assert retriever.invoke(query) == retriever.invoke("car")


@pytest.mark.parametrize("query", [{"query": "car"}, 3, None, [], [AIMessage("car")], ["car"]])
def test_any_other_query_is_refused_by_kind(recall, query):
    with pytest.raises(ConfigError, match="a query must be a text"):
        DialogLineRetriever(recall=recall, user_id="ana").invoke(query)


def test_a_configured_copy_keeps_its_recall(recall):
    retriever = DialogLineRetriever(recall=recall, user_id="ana", k=1).configurable_fields(
        k=ConfigurableField(id="k"), user_id=ConfigurableField(id="user")
    )
    assert len(retriever.invoke("car", config={"configurable": {"k": 3}})) == 3
    assert (len(retriever.invoke("car")), len(retriever.invoke("car", k=3))) == (1, 3)
    assert retriever.invoke("car", k=2, threshold=1.0) == []
    assert retriever.invoke("car", config={"configurable": {"user": "nobody"}}) == []


@pytest.mark.parametrize("fields", [{"top_k": 3}, {"k": 0}, {"max_tokens": 0}, {"threshold": 2}])
def test_unknown_or_senseless_fields_are_refused(recall, fields):
    with pytest.raises(ValidationError, match=next(iter(fields))):
        DialogLineRetriever(recall=recall, user_id="ana", **fields)
