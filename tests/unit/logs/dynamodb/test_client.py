"""One table: what its driver is asked, and the keys and items of its layout."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.errors import LogError, LogUnavailableError
from langchain_convmem.ids import make_ulid
from langchain_convmem.logs.base import Row
from langchain_convmem.logs.dynamodb import items as layout
from langchain_convmem.logs.dynamodb.client import Table
from langchain_convmem.records import Owner, ThreadKey

botocore = pytest.importorskip("botocore.exceptions", reason="boto3 is not installed")


def refused(code, status=400, message="Not now."):
    response = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return botocore.ClientError(response, "PutItem")


class _Answers:
    """A client that answers each call with the next answer and keeps what it was asked."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    def __getattr__(self, operation):
        def answer(**parameters):
            self.asked.append((operation, parameters))
            found = self.answers.pop(0)
            if isinstance(found, Exception):
                raise found
            return found

        return answer


LOST = botocore.ConnectionClosedError(endpoint_url="http://x")


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (refused("ProvisionedThroughputExceededException"), LogUnavailableError, "try again"),
        (refused("ThrottlingException"), LogUnavailableError, "try again"),
        (refused("RequestLimitExceeded"), LogUnavailableError, "try again"),
        (refused("SomethingNew", 503), LogUnavailableError, "try again"),
        (botocore.EndpointConnectionError(endpoint_url="http://x"), LogUnavailableError, "try"),
        (botocore.ReadTimeoutError(endpoint_url="http://x"), LogUnavailableError, "try"),
        (LOST, LogUnavailableError, "ConnectionClosedError; try again"),
        (botocore.NoCredentialsError(), LogError, "credentials"),
        (refused("AccessDeniedException"), LogError, "docs"),
        (refused("ExpiredTokenException"), LogError, "credentials"),
        (refused("ItemCollectionSizeLimitExceededException"), LogError, "10 GB"),
        (refused("ResourceNotFoundException"), LogError, "create_table()"),
        (refused("SomethingNew"), LogError, "SomethingNew"),
        ({}, LogUnavailableError, "the answer has no 'Items'"),
        ({"Items": None}, LogUnavailableError, "the answer has no 'Items'"),
    ],
)
def test_errors_of_the_driver_and_cut_answers_become_ours(answer, kind, said):
    table = Table("log", _Answers(answer))
    with pytest.raises(LogError) as caught:
        table.get({"pk": "p", "sk": "s"})
    assert type(caught.value) is kind
    assert caught.value.__cause__ is (answer if isinstance(answer, Exception) else None)
    for part in ("query", "'log'", said):
        assert part in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301 - our own


def make_item(number):
    return {"pk": "p", "sk": f"{number}"}


def stored(item):
    return {name: {"S": text} for name, text in item.items()}


def test_reads_are_consistent_and_go_to_the_last_page():
    client = _Answers(
        {
            "Items": [stored(make_item(1)) | {"odd": {"N": "1"}}],
            "LastEvaluatedKey": {"pk": {"S": "a"}},
        },
        {"Items": [], "LastEvaluatedKey": {"pk": {"S": "b"}}},
        {"Items": [stored(make_item(2))]},
    )
    starts = []
    found = Table("log", client).query(("U#ana", "a", "b"), Limit=7)
    for item, number in zip(found, (1, 2), strict=False):
        assert item == make_item(number)
        starts.append(len(client.asked))
    assert starts == [1, 3], "a page at a time, as they are needed"
    assert client.asked[2][1]["ExclusiveStartKey"] == {"pk": {"S": "b"}}
    for operation, asked in client.asked:
        assert operation == "query"
        assert asked["ConsistentRead"]
        assert (asked["TableName"], asked["Limit"]) == ("log", 7)


@pytest.mark.parametrize("undone", [0, 3, 25])
def test_writes_go_in_groups_until_none_is_left(undone, monkeypatch):
    rest = [{"DeleteRequest": {"Key": stored(make_item(number))}} for number in range(undone)]
    done = {"UnprocessedItems": {}}
    client = _Answers({"UnprocessedItems": {"log": rest} if rest else {}}, *[done] * 3)
    pauses = []
    monkeypatch.setattr("time.sleep", pauses.append)
    table = Table("log", client)
    table.write(deletes=[make_item(number) for number in range(60)])
    written = [request for _, asked in client.asked for request in asked["RequestItems"]["log"]]
    assert len(written) == 60 + undone
    assert all(len(asked["RequestItems"]["log"]) <= 25 for _, asked in client.asked)
    assert len(pauses) == bool(undone)


FAILED = refused("ConditionalCheckFailedException")
MINE = {**make_item(1), "write_token": "mine"}
OTHERS = {**MINE, "write_token": "another's"}


@pytest.mark.parametrize(
    ("answer", "there", "done"),
    [
        ({}, None, True),
        (LOST, [MINE], True),
        (FAILED, [MINE], True),
        (FAILED, [OTHERS], False),
        (FAILED, [], False),
        (FAILED, None, LogUnavailableError),
        (LOST, [OTHERS], LogUnavailableError),
        (LOST, [], LogUnavailableError),
        (LOST, None, LogUnavailableError),
    ],
)
def test_a_write_whose_answer_is_lost_is_found_by_its_token(answer, there, done):
    table = Table(
        "log", _Answers(answer, {} if there is None else {"Items": list(map(stored, there))})
    )
    if done is LogUnavailableError:
        with pytest.raises(LogUnavailableError):
            table.put(MINE)
    else:
        assert table.put(MINE) is done


names = st.one_of(st.text(min_size=1), st.text("s#%=~$0123", min_size=1, max_size=6)).filter(
    lambda name: not any("\ud800" <= character <= "\udfff" for character in name)
)
numbers = st.integers(1, layout.LAST_NUMBER)
KEY = ThreadKey("ana", "t1")


def owners(name):
    return st.sampled_from([Owner(user_id=name), Owner(thread_id=name)])


def is_between(key, bounds):
    return bounds[1] <= key <= bounds[2]


@given(names.flatmap(owners), names.flatmap(owners))
def test_owners_share_a_partition_only_if_they_are_one(first, second):
    same = layout.make_partition_key(first) == layout.make_partition_key(second)
    assert same == (first == second)


@given(names, names, numbers, numbers, numbers)
def test_a_range_holds_the_batches_and_pieces_of_its_thread(one, other, first, last, number):
    mine, others = ThreadKey("ana", one), ThreadKey("ana", other)
    found = layout.make_thread_key(others, number)
    bounds = layout.make_batch_range(mine, first, last)
    assert is_between(found, bounds) == (one == other and first <= number <= last)
    bounds = layout.make_batch_range(mine.owner, first, layout.LAST_NUMBER)
    assert is_between(layout.make_batch_key(number), bounds) == (number >= first)
    piece = f"{layout.make_version_range(others, number, 'token')[1]}00003"
    assert is_between(piece, layout.make_range("P", mine)) == (one == other)
    assert is_between(piece, layout.make_range("P", mine.owner))
    for token, expected in (((), True), (("token",), True), (("toke",), False)):
        bounds = layout.make_version_range(mine, first, *token)
        assert is_between(piece, bounds) == (expected and (one, first) == (other, number))


@given(names, names, names, names)
def test_a_range_holds_the_documents_of_its_thread_and_no_others(one, other, name, another):
    mine, others = ThreadKey("ana", one), ThreadKey("ana", other)
    for prefix in ("", "cache:"):
        key = layout.make_state_key(others, prefix + name)
        assert is_between(key, layout.make_range("S", mine)) == (one == other)
        caches = layout.make_range("S", mine, "cache")
        is_cache = (prefix + name).startswith("cache:")
        assert is_between(key, caches) == (one == other and is_cache)
    assert (layout.make_state_key(mine, name) == layout.make_state_key(mine, another)) == (
        name == another
    )


@given(numbers, st.integers(0, layout.ENTRIES_PER_BATCH - 1))
def test_a_position_names_its_batch(number, place):
    position = layout.compute_position(number, place)
    assert layout.compute_number(position) == number
    assert position < layout.compute_position(number + 1, 0)


texts = st.text(st.characters(codec="utf-8")).map(
    lambda text: text.replace("\n", "").replace("\t", "")
)
rows = st.builds(
    Row,
    id=st.builds(make_ulid),
    position=st.integers(0, 2),
    turn_id=st.text(min_size=1),
    role=st.sampled_from(["user", "assistant", "control"]),
    body=texts,
    metadata=st.none() | texts.filter(bool),
    signature=st.binary(max_size=16),
)


@given(numbers, st.lists(rows, min_size=1, max_size=4))
def test_rows_come_back(number, listed):
    position = layout.compute_position(number, -1)
    for row in listed:
        row.position = position = position + 1 + row.position
    text = layout.write_rows(listed, number)
    assert layout.read_rows(text, len(listed), number) == listed


@given(st.text())
def test_whatever_rows_hold_becomes_rows(text):
    found = layout.read_rows(text, 1, 7)
    assert [row.position for row in found] == sorted({row.position for row in found})
    assert all(layout.compute_number(row.position) == 7 for row in found)


@pytest.mark.parametrize("key", [KEY, ThreadKey(None, "t1")])
@pytest.mark.parametrize("size", [10, layout.INLINE_BYTES + 1])
def test_a_batch_comes_back(key, size):
    row = Row(make_ulid(), layout.compute_position(3, 0), "turn", "user", "x" * size, None)
    token = make_ulid()
    item, pieces = layout.make_batch_items(key, 3, token, [row], b"key")
    assert len(pieces) == (2 if size > layout.INLINE_BYTES else 0)
    assert layout.read_thread(item) == key
    for scope in (key, key.owner):
        batch = layout.read_batch(item, scope)
        assert (batch.key, batch.number, batch.token) == (key, 3, token)
        assert layout.read_bytes(batch.item, "key_id") == b"key"
        assert (batch.item["first_id"], batch.item["last_id"]) == (row.id, row.id)
        assert (batch.size, batch.pieces) == (1, len(pieces))
    text = "".join(piece["rows"] for piece in pieces) or batch.item["rows"]
    assert layout.read_rows(text, 1, 3) == [row]
    assert all(layout.read_piece_number(piece) == 3 for piece in pieces)
