"""Batches that are too large for one item."""

from __future__ import annotations

import pytest
from dynamodb_servers import FaultyServer, items, kinds, new_client, once_only

from langchain_convmem.errors import LogError
from langchain_convmem.logs.dynamodb import DynamoDBLog
from langchain_convmem.testing.log_contract import ANA, list_texts, say, say_all

pytestmark = pytest.mark.sockets
ITEM_LIMIT = 400 * 1024


def stored_bytes(item):
    """Return the size of an item as the service counts it, nearly."""
    return sum(
        len(name) + len(value) if isinstance(value, bytes) else len(name) + len(value.encode())
        for name, attribute in item.items()
        for value in attribute.values()
    )


def test_no_item_is_larger_than_the_service_takes(client, log):
    texts = [f"{number} " + "汉" * 1000 for number in range(480)]
    say_all(log, ANA, texts)
    for text in ("y" * 150_000, "y" * 300_000, "🦊" * 300_000, "z" * 3_000_000):
        texts.append(text)
        say(log, ANA, text)
    assert list_texts(log.entries(ANA)) == texts
    assert list_texts(log.entries(ANA, last=2)) == texts[-2:]
    for item in items(log, client).values():
        copies = 2 if "tp" in item else 1  # the index holds the whole item once more
        assert copies * stored_bytes(item) < ITEM_LIMIT


def test_pieces_without_their_batch_are_no_entries(client, endpoint, open_log):
    name = open_log().table_name
    with FaultyServer(endpoint) as server:
        log = DynamoDBLog(name, client=new_client(server.url, config=once_only()))
        server.faults["PutItem"] = ["ValidationException"]
        with pytest.raises(LogError):
            say(log, ANA, "secret" * 100_000)
        assert set(kinds(log, client)) == {"P"}
        assert log.entries(ANA) == []
        assert log.threads("ana") == []
        say(log, ANA, "after")
        assert list_texts(log.changes(ANA.owner).entries) == ["after"]


def test_an_annotated_large_batch_keeps_no_old_pieces(client, log):
    first, second = say_all(log, ANA, ["a" * 400_000, "b" * 10])
    before = {key for key in items(log, client) if key[1].startswith("P#")}
    noted = log.annotate(ANA, second.id, attributes=["seen"], aux={"n": 1})
    assert noted.metadata.attributes == ("seen",)
    assert log.entries(ANA) == [first, noted]
    after = {key for key in items(log, client) if key[1].startswith("P#")}
    assert len(after) == len(before)
    assert not after & before


@pytest.mark.parametrize("texts", [["secret" * 100_000, "kept"], ["secret" * 100_000]])
def test_forgetting_an_entry_of_a_large_batch_erases_its_text(client, log, texts):
    first, *kept = say_all(log, ANA, texts)
    assert log.forget(ANA, [first.id]).entries == 1
    assert log.entries(ANA) == kept
    assert "secret" not in str(items(log, client))


@pytest.mark.parametrize("act", ["annotate", "forget"])
def test_a_reader_follows_a_batch_that_is_changed_while_it_is_read(log, open_log, client, act):
    entry = say(log, ANA, "a" * 400_000)
    other, waiting = open_log(), [1]

    def change(model, params, **_):
        pieces = params["ExpressionAttributeValues"][":first"]["S"].startswith("P#")
        if pieces and waiting:
            waiting.clear()
            if act == "annotate":
                other.annotate(ANA, entry.id, attributes=["seen"])
            else:
                other.forget(ANA)

    client.meta.events.register("before-parameter-build.dynamodb.Query", change)
    found = [one.metadata.attributes for one in log.changes(ANA.owner).entries]
    assert found == ([("seen",)] if act == "annotate" else [])
    assert not waiting
