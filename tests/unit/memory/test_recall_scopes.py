from datetime import UTC, datetime, timedelta

import pytest
from langchain_core.messages import HumanMessage

from langchain_convmem import ConversationMemory, RecallSettings

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def said(text, minute=0, **extra):
    stamp = (NOON + timedelta(minutes=minute)).isoformat()
    return HumanMessage(text, additional_kwargs={"timestamp": stamp, **extra})


@pytest.fixture
def memory():
    shop = said("The bicycle shop is shut", 5)
    with ConversationMemory.open(":memory:", settings=RecallSettings(buffer_size=5)) as opened:
        for user_id, thread_id, *lines in (
            ("ana", "old", said("My bicycle is green", topic="bikes"), shop),
            ("bo", "old", said("A bicycle costs too much", 9)),
            ("cy", "old", said("No bicycle for me", 9)),
            ("ana", "now", said("Which bicycle?", 99)),
        ):
            opened.add_messages(lines, user_id=user_id, thread_id=thread_id)
        yield opened


def shown(found):
    return {line.text for block in (*found.blocks, *found.buffer) for line in block.lines}


ANAS = {"My bicycle is green", "The bicycle shop is shut", "Which bicycle?"}


def test_an_explicit_set_of_users_is_recalled_together(memory):
    found = memory.recall("bicycle", user_ids={"ana", "bo"})
    # An earlier question is shown only where there is nothing else.
    assert shown(found) | {"Which bicycle?"} == ANAS | {"A bicycle costs too much"}
    assert shown(memory.recall("bicycle", user_ids=["ana"])) | {"Which bicycle?"} == ANAS
    documents = memory.retriever(user_ids=["bo", "cy"], k=9).invoke("bicycle")
    assert {document.metadata["user_id"] for document in documents} == {"bo", "cy"}


@pytest.mark.parametrize(
    ("scope", "texts"),
    [
        ({"filter": {"topic": "bikes"}}, {"My bicycle is green"}),
        ({"filter": {"thread_id": ["old"]}}, ANAS - {"Which bicycle?"}),
        ({"since": NOON + timedelta(minutes=5)}, ANAS - {"My bicycle is green"}),
        ({"until": NOON + timedelta(minutes=5)}, {"My bicycle is green"}),
    ],
)
async def test_a_filter_and_a_time_range_hold_for_every_way_of_recalling(memory, scope, texts):
    assert shown(memory.recall("bicycle", user_id="ana", **scope)) == texts
    assert shown(await memory.arecall("bicycle", user_id="ana", **scope)) == texts
    documents = memory.retriever(user_id="ana", **scope).invoke("bicycle")
    read = "\n".join(document.page_content for document in documents)
    assert {text for text in ANAS if text in read} == texts
