import pickle

import pytest

from langchain_convmem.errors import LogError, LogUnavailableError
from langchain_convmem.logs.dynamodb.client import Table

botocore = pytest.importorskip("botocore.exceptions", reason="boto3 is not installed")


def refused(code, status=400):
    error, metadata = {"Code": code, "Message": "Not now."}, {"HTTPStatusCode": status}
    return botocore.ClientError({"Error": error, "ResponseMetadata": metadata}, "PutItem")


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
    first, second = stored(make_item(1)) | {"odd": {"N": "1"}}, stored(make_item(2))
    client = _Answers(
        {"Items": [first], "LastEvaluatedKey": {"pk": {"S": "a"}}},
        {"Items": [], "LastEvaluatedKey": {"pk": {"S": "b"}}},
        {"Items": [second]},
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
