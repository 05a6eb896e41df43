from __future__ import annotations

import pickle

import pytest

from langchain_convmem.errors import LogError, LogUnavailableError
from langchain_convmem.logs.dynamodb.client import (
    ConditionFailedError,
    Table,
    TableExistsError,
    choose_pause_s,
    make_table_definition,
    translate_errors,
)

botocore = pytest.importorskip("botocore.exceptions", reason="boto3 is not installed")


def refused(code, status=400, message="Not now."):
    response = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return botocore.ClientError(response, "PutItem")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (refused("ProvisionedThroughputExceededException"), LogUnavailableError),
        (refused("ThrottlingException"), LogUnavailableError),
        (refused("RequestLimitExceeded"), LogUnavailableError),
        (refused("SomethingNew", 503), LogUnavailableError),
        (botocore.EndpointConnectionError(endpoint_url="http://x"), LogUnavailableError),
        (botocore.ReadTimeoutError(endpoint_url="http://x"), LogUnavailableError),
        (botocore.ConnectionClosedError(endpoint_url="http://x"), LogUnavailableError),
        (botocore.NoCredentialsError(), LogError),
        (refused("AccessDeniedException"), LogError),
        (refused("ItemCollectionSizeLimitExceededException"), LogError),
        (refused("ConditionalCheckFailedException"), ConditionFailedError),
        (refused("ResourceInUseException"), TableExistsError),
        (refused("SomethingNew"), LogError),
    ],
)
def test_errors_of_the_driver_become_ours(error, kind):
    with pytest.raises(LogError) as caught, translate_errors("put_item failed on table 'log'"):
        raise error
    assert type(caught.value) is kind
    assert caught.value.__cause__ is error
    assert str(caught.value).startswith("put_item failed on table 'log': ")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301 - our own


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("ItemCollectionSizeLimitExceededException", "10 GB"),
        ("ResourceNotFoundException", "create_table()"),
        ("AccessDeniedException", "docs"),
        ("ExpiredTokenException", "credentials"),
    ],
)
def test_a_refusal_tells_the_way_out(code, advice):
    with pytest.raises(LogError) as caught, translate_errors("query failed"):
        raise refused(code)
    assert code in str(caught.value)
    assert advice in str(caught.value)


def test_other_errors_pass():
    with pytest.raises(ZeroDivisionError), translate_errors("query failed"):
        raise ZeroDivisionError


def test_pauses_grow_up_to_a_limit_and_differ():
    limits = [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    for attempt, limit in enumerate(limits):
        pauses = [choose_pause_s(attempt) for _ in range(200)]
        assert 0 <= min(pauses) < max(pauses) <= limit
        assert max(pauses) > limit / 2


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


def test_reads_are_consistent_and_go_to_the_last_page():
    client = _Answers(
        {"Items": [{"n": 1}], "LastEvaluatedKey": {"pk": {"S": "a"}}},
        {"Items": [], "LastEvaluatedKey": {"pk": {"S": "b"}}},
        {"Items": [{"n": 2}]},
    )
    found = Table("log", client=client).query("U#ana", ("a", "b"), fields=("pk", "last"))
    assert list(found) == [{"n": 1}, {"n": 2}]
    assert [asked.get("ExclusiveStartKey") for _, asked in client.asked] == [
        None,
        {"pk": {"S": "a"}},
        {"pk": {"S": "b"}},
    ]
    for operation, asked in client.asked:
        assert operation == "query"
        assert asked["ConsistentRead"]
        assert asked["TableName"] == "log"
        assert asked["ExpressionAttributeNames"]["#last"] == "last"


def test_pages_are_read_only_as_they_are_needed():
    client = _Answers({"Items": [{"n": 1}], "LastEvaluatedKey": {"pk": {"S": "a"}}})
    assert next(Table("log", client=client).query("U#ana", None)) == {"n": 1}
    assert len(client.asked) == 1


@pytest.mark.parametrize("undone", [0, 3, 25])
def test_writes_go_in_groups_until_none_is_left(undone):
    rest = [
        {"DeleteRequest": {"Key": {"pk": {"S": "p"}, "sk": {"S": str(n)}}}} for n in range(undone)
    ]
    client = _Answers({"UnprocessedItems": {"log": rest} if rest else {}}, {}, {}, {})
    pauses = []
    Table("log", client=client, pause=pauses.append).write(
        deletes=[("p", str(n)) for n in range(60)]
    )
    sizes = [len(asked["RequestItems"]["log"]) for _, asked in client.asked]
    assert sizes == ([25, undone, 25, 10] if undone else [25, 25, 10])
    assert len(pauses) == bool(undone)


LOST = botocore.ConnectionClosedError(endpoint_url="http://x")
FAILED = refused("ConditionalCheckFailedException")
MINE = {"pk": {"S": "p"}, "sk": {"S": "s"}, "mark": {"S": "mine"}}
OTHERS = {**MINE, "mark": {"S": "another's"}}


@pytest.mark.parametrize(
    ("answer", "there", "done"),
    [
        (LOST, {"Item": MINE}, True),
        (FAILED, {"Item": MINE}, True),
        (FAILED, {"Item": OTHERS}, False),
        (FAILED, {}, False),
    ],
)
def test_a_write_whose_answer_is_lost_is_found_by_its_mark(answer, there, done):
    table = Table("log", client=_Answers(answer, there))
    assert table.put_marked(MINE, "mark", "attribute_not_exists(#pk)") is done


@pytest.mark.parametrize("there", [{"Item": OTHERS}, {}])
def test_a_write_that_is_not_found_after_an_error_has_failed(there):
    table = Table("log", client=_Answers(LOST, there))
    with pytest.raises(LogUnavailableError):
        table.put_marked(MINE, "mark", "attribute_not_exists(#pk)")


def test_the_definition_is_plain_data_and_fresh():
    definition = make_table_definition("log")
    assert definition["TableName"] == "log"
    definition["KeySchema"].clear()
    assert make_table_definition("log")["KeySchema"]
