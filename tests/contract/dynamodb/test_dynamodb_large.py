import pytest
from dynamodb_servers import FaultyServer, delete_item, items, kinds, new_client, once_only
from langchain_core.messages import HumanMessage

from langchain_convmem.errors import LogError
from langchain_convmem.logs.dynamodb import DynamoDBLog
from langchain_convmem.logs.verify import verify_log
from langchain_convmem.records import ThreadKey
from langchain_convmem.testing.log_contract import (
    ANA,
    ANAS_OTHER,
    BO,
    LONE,
    list_texts,
    say,
    say_all,
)

pytestmark = pytest.mark.sockets
ITEM_LIMIT = 400 * 1024


def stored_bytes(item):
    """Return the size of an item as the service counts it, nearly."""
    values = [(name, value) for name, held in item.items() for value in held.values()]
    return sum(
        len(name) + len(value if isinstance(value, bytes) else value.encode())
        for name, value in values
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
            acts = {"forget": {}, "annotate": {"entry_id": entry.id, "attributes": ["seen"]}}
            getattr(other, act)(ANA, **acts[act])

    client.meta.events.register("before-parameter-build.dynamodb.Query", change)
    found = [one.metadata.attributes for one in log.changes(ANA.owner).entries]
    assert found == ([("seen",)] if act == "annotate" else [])
    assert not waiting


LONG = "long é🦊 " * 83
"""An id as long as one may be."""


def test_owners_of_long_ids_are_listed_and_kept_apart(log):
    keys = [ThreadKey(LONG, LONG), ThreadKey(None, LONG), ThreadKey(LONG[:-1], "t1"), ANA, LONE]
    entries = [say(log, key, f"of {key}") for key in keys]
    for key in keys:
        log.set_state(key, LONG, str(key), expected=None)
    assert set(log.owners()) == {key.owner for key in keys}
    assert len(log.owners()) == len(keys)
    for key in keys:
        assert list_texts(log.entries(key)) == [f"of {key}"]
        assert log.get_state(key, LONG).value == str(key)
    log.annotate(keys[0], entries[0].id, attributes=["seen"])  # writes the batch anew
    say_all(log, keys[2], ["x" * 300_000, HumanMessage("y", id="m1")])  # in pieces
    assert set(log.owners()) == {key.owner for key in keys}
    log.forget(keys[0].owner)
    log.forget(LONE)
    assert set(log.owners()) == {key.owner for key in (keys[1], keys[2], ANA)}


@pytest.mark.parametrize("scope", [ANA, ANA.owner])
def test_nothing_of_what_is_forgotten_stays_but_marks(client, log, scope):
    say_all(log, ANA, ["secret one", HumanMessage("secret two", id="secret id")])
    say(log, ANA, "secret" * 100_000)
    other = say(log, BO, "another's")
    log.set_state(ANA, "secret", "secret", expected=None)
    assert log.forget(scope).entries == 3
    left = {key: item for key, item in items(log, client).items() if "user_id" not in item}
    for told in ("secret", "ana", "t1"):
        assert told not in str(left)
    fields = {name for item in left.values() for name in item}
    assert fields <= {"pk", "sk", "write_token", "mark_checksum", "generation"}
    # A mark for each batch and one more, the generation, and Bo's.
    assert kinds(log, client) == ["E"] * 5
    assert log.entries(BO) == [other]
    assert verify_log(log).ok
    assert log.changes(ANA.owner).entries == ()


def test_forgetting_finds_the_pieces_of_a_write_that_broke_off(log, client):
    say(log, ANA, "secret" * 100_000)
    delete_item(log, client, max(key for key in items(log, client) if key[1].startswith("E#")))
    log.forget(ANAS_OTHER)
    assert kinds(log, client).count("P") == 7, "they belong to another thread"
    log.forget(ANA)
    assert kinds(log, client).count("P") == 0
