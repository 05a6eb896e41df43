"""The table behind a DynamoDB log: the driver, one table behind a few calls, and making it.

The only file that imports boto3 and botocore, and only when a log is made. Reads are consistent and
go to the last page; writes may have a condition. Errors name the table and the key. Throttling is
retried with growing, random pauses before it is one: by the driver, and here for the writes of a
group that the service leaves undone.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from langchain_convmem.errors import (
    ConfigError,
    LogClosedError,
    LogError,
    LogUnavailableError,
    MissingExtraError,
)
from langchain_convmem.logs.dynamodb.items import Item

INDEX = "by_thread"
"""Name of the index of batches by thread and number."""

_MAX_ATTEMPTS = 8
_WRITES_PER_CALL = 25
_MAX_PAUSE_S = 5.0
_NAME = re.compile(r"#(\w+)")


def choose_pause_s(attempt: int) -> float:
    """Return how long to wait after the failed attempt `attempt`, which counts from 0.

    Random up to a limit that doubles, so that writers who met do not meet again.
    """
    limit = min(0.05 * 2.0**attempt, _MAX_PAUSE_S)
    return random.uniform(0, limit)  # noqa: S311 - spreads writers, guards no secret


class Table:
    """One table. Thread-safe, and safe after a fork unless the client was given by the caller."""

    def __init__(
        self,
        name: str,
        *,
        client: Any = None,
        region_name: str | None = None,
        endpoint_url: str | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Prepare the driver; nothing is sent yet.

        Args:
            name: The table's name.
            client: A boto3 DynamoDB client that stays the caller's; None makes one.
            region_name: For a client made here.
            endpoint_url: For a client made here.
            pause: Waits so many seconds.
        """
        self.name = name
        self.pause = pause
        self._given = client
        self._options = {"region_name": region_name, "endpoint_url": endpoint_url}
        self._own: Any = None
        self._own_pid = 0
        self._closed = False
        self._get_client()

    def _get_client(self) -> Any:
        if self._given is not None:
            return self._given
        if self._own is None or self._own_pid != os.getpid():
            # Two processes that share the sockets of one client would read each other's answers.
            self._own, self._own_pid = make_client(**self._options), os.getpid()
        return self._own

    def check_open(self) -> None:
        """Refuse to go on after `close`.

        Raises:
            LogClosedError: If the log was closed.
        """
        if self._closed:
            raise LogClosedError(f"the log on table {self.name!r} is closed; make a new one")

    def close(self) -> None:
        """Close the client that was made here. Idempotent."""
        self._closed = True
        if self._own is not None and self._own_pid == os.getpid():
            self._own.close()
        self._own = None

    def call(self, operation: str, where: str = "", **parameters: Any) -> Any:
        """Return the service's answer to one operation on this table.

        Args:
            operation: A method of the client, such as `get_item`.
            where: Names the key in an error.
            parameters: Passed on, with the table's name.

        Raises:
            LogUnavailableError: If the service could not be reached or stayed too busy.
            LogError: If it refused.
            LogClosedError: If the log was closed.
        """
        self.check_open()
        place = f"table {self.name!r}" + (f", key {where}" if where else "")
        with translate_errors(f"{operation} failed on {place}"):
            return getattr(self._get_client(), operation)(TableName=self.name, **parameters)

    def create(self, definition: Mapping[str, Any]) -> bool:
        """Ask for the table to be made; return False if there is one of that name."""
        rest = {name: value for name, value in definition.items() if name != "TableName"}
        try:
            self.call("create_table", **rest)
        except TableExistsError:
            return False
        return True

    # -- single items ---------------------------------------------------------------------------

    def get(self, partition: str, sort: str) -> Item | None:
        """Return one item as the last write left it, or None."""
        found = self.call(
            "get_item",
            f"{partition!r} {sort!r}",
            Key={"pk": {"S": partition}, "sk": {"S": sort}},
            ConsistentRead=True,
        )
        item: Item | None = found.get("Item")
        return item

    def put(self, item: Item, condition: str = "", values: Mapping[str, Any] | None = None) -> bool:
        """Write one item; return whether the condition allowed it.

        Args:
            item: Replaces what is there under its key.
            condition: About the item that is there; attributes are written as `#name`.
            values: What the `:name`s of the condition stand for.
        """
        conditional: dict[str, Any] = {}
        if condition:
            conditional["ConditionExpression"] = condition
            conditional["ExpressionAttributeNames"] = _name_attributes(condition)
        if values:
            conditional["ExpressionAttributeValues"] = dict(values)
        where = f"{item['pk']['S']!r} {item['sk']['S']!r}"
        try:
            self.call("put_item", where, Item=item, **conditional)
        except ConditionFailedError:
            return False
        return True

    def put_marked(
        self, item: Item, mark: str, condition: str, values: Mapping[str, Any] | None = None
    ) -> bool:
        """Write one item under a condition, and recognise a write whose answer was lost.

        Args:
            item: As for `put`.
            mark: Name of an attribute whose value no other write has.
            condition: As for `put`.
            values: As for `put`.

        Returns:
            Whether the item is there.

        Raises:
            LogUnavailableError: If the service cannot be reached; the write may still arrive.
        """
        failure = None
        try:
            if self.put(item, condition, values):
                return True
        except LogUnavailableError as error:
            failure = error
        found = self.get(item["pk"]["S"], item["sk"]["S"])
        if found is not None and found.get(mark) == item[mark]:
            return True
        if failure is not None:
            raise failure
        return False

    def delete(self, partition: str, sort: str) -> None:
        """Delete one item, if it is there."""
        key = {"pk": {"S": partition}, "sk": {"S": sort}}
        self.call("delete_item", f"{partition!r} {sort!r}", Key=key)

    # -- many items -----------------------------------------------------------------------------

    def query(
        self,
        partition: str,
        between: tuple[str, str] | None,
        *,
        by_thread: bool = False,
        newest_first: bool = False,
        page: int | None = None,
        fields: Sequence[str] = (),
    ) -> Iterator[Item]:
        """Yield a partition's items in order of their key, a page at a time as they are asked for.

        Args:
            partition: Partition key.
            between: Closed range of sort keys; None for the whole partition.
            by_thread: The range is one of the index by thread.
            newest_first: Descending.
            page: At most so many items are read at once.
            fields: Only these attributes; all of them by default.
        """
        condition, values = "#pk = :pk", {":pk": {"S": partition}}
        if between is not None:
            condition += f" AND #{'tp' if by_thread else 'sk'} BETWEEN :first AND :last"
            values |= {":first": {"S": between[0]}, ":last": {"S": between[1]}}
        request = _project(fields, condition) | {
            "KeyConditionExpression": condition,
            "ExpressionAttributeValues": values,
            "ScanIndexForward": not newest_first,
        }
        if by_thread:
            request["IndexName"] = INDEX
        if page is not None:
            request["Limit"] = page
        return self._read_pages("query", f"{partition!r} {between}", request)

    def scan_index(self, fields: Sequence[str], prefix: str = "") -> Iterator[Item]:
        """Yield the batches of all partitions whose key begins with `prefix`: reads them all."""
        condition = "begins_with(#pk, :pk)" if prefix else ""
        request = _project(fields, condition) | {"IndexName": INDEX}
        if prefix:
            request["FilterExpression"] = condition
            request["ExpressionAttributeValues"] = {":pk": {"S": prefix}}
        return self._read_pages("scan", f"{prefix!r}...", request)

    def _read_pages(self, operation: str, where: str, request: dict[str, Any]) -> Iterator[Item]:
        start: dict[str, Any] = {}
        while True:
            page = self.call(operation, where, ConsistentRead=True, **request, **start)
            yield from page["Items"]
            if not page.get("LastEvaluatedKey"):
                return
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}

    def write(self, puts: Sequence[Item] = (), deletes: Sequence[tuple[str, str]] = ()) -> None:
        """Write and delete items, in any order, until the service has taken them all.

        Raises:
            LogUnavailableError: If it leaves some undone again and again.
        """
        requests = [{"PutRequest": {"Item": item}} for item in puts]
        requests += [
            {"DeleteRequest": {"Key": {"pk": {"S": partition}, "sk": {"S": sort}}}}
            for partition, sort in deletes
        ]
        for start in range(0, len(requests), _WRITES_PER_CALL):
            self._write_some(requests[start : start + _WRITES_PER_CALL])

    def _write_some(self, requests: list[dict[str, Any]]) -> None:
        for attempt in range(_MAX_ATTEMPTS):
            self.check_open()
            where = f"table {self.name!r}, key {_describe_key(requests[0])}"
            with translate_errors(f"batch_write_item failed on {where}"):
                answer = self._get_client().batch_write_item(RequestItems={self.name: requests})
            requests = answer.get("UnprocessedItems", {}).get(self.name, [])
            if not requests:
                return
            self.pause(choose_pause_s(attempt))
        msg = (
            f"table {self.name!r} left {len(requests)} writes undone after {_MAX_ATTEMPTS} "
            f"attempts, the first of them {_describe_key(requests[0])}; it is too busy, "
            "try again later"
        )
        raise LogUnavailableError(msg)


def _describe_key(request: Mapping[str, Any]) -> str:
    key = request["PutRequest"]["Item"] if "PutRequest" in request else None
    key = key or request["DeleteRequest"]["Key"]
    return f"{key['pk']['S']!r} {key['sk']['S']!r}"


def _name_attributes(*expressions: str) -> dict[str, str]:
    """Return the names of attributes in expressions: spelt out, many would be reserved words."""
    return {f"#{name}": name for text in expressions for name in _NAME.findall(text)}


def _project(fields: Sequence[str], condition: str) -> dict[str, Any]:
    projection = ", ".join(f"#{name}" for name in fields)
    request: dict[str, Any] = {"ExpressionAttributeNames": _name_attributes(condition, projection)}
    return request | {"ProjectionExpression": projection} if projection else request


# -- the table --------------------------------------------------------------------------------

TTL_ATTRIBUTE = "expires"
"""Holds the second at which an item ends; the service deletes it some time after."""

_WAIT_S = 0.5
_WAITS = 240


def make_table_definition(table_name: str) -> dict[str, Any]:
    """Return the arguments of `create_table` that make a table for `DynamoDBLog`.

    As data, for tools that make tables themselves. Such a table should also have its time to live
    enabled on the attribute `expires`.
    """
    return {
        "TableName": table_name,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [
            {"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk", "tp")
        ],
        "KeySchema": _describe_keys("sk"),
        "LocalSecondaryIndexes": [
            {
                "IndexName": INDEX,
                "KeySchema": _describe_keys("tp"),
                "Projection": {"ProjectionType": "ALL"},
            }
        ],
    }


def _describe_keys(sort: str) -> list[dict[str, str]]:
    return [
        {"AttributeName": "pk", "KeyType": "HASH"},
        {"AttributeName": sort, "KeyType": "RANGE"},
    ]


def make_table(table: Table, *, ttl: bool) -> bool:
    """Make the table unless there is one, wait for it, and enable its time to live.

    Returns:
        Whether it was made.

    Raises:
        ConfigError: If there is a table of that name with other keys or another index.
        LogUnavailableError: If it does not become ready.
    """
    made = table.create(make_table_definition(table.name))
    _check_keys(table.name, _wait_until_ready(table))
    if ttl:
        _enable_ttl(table)
    return made


def _wait_until_ready(table: Table) -> dict[str, Any]:
    for _ in range(_WAITS):
        description: dict[str, Any] = table.call("describe_table")["Table"]
        if description["TableStatus"] == "ACTIVE":
            return description
        table.pause(_WAIT_S)
    msg = f"table {table.name!r} is not ready after {_WAIT_S * _WAITS:.0f} s; try again later"
    raise LogUnavailableError(msg)


def _check_keys(name: str, description: Mapping[str, Any]) -> None:
    wanted = make_table_definition(name)
    indexes = {
        index["IndexName"]: (index["KeySchema"], index["Projection"]["ProjectionType"])
        for index in description.get("LocalSecondaryIndexes", [])
    }
    found = (description["KeySchema"], indexes.get(INDEX))
    expected = (wanted["KeySchema"], (_describe_keys("tp"), "ALL"))
    if found != expected:
        msg = (
            f"table {name!r} has keys and index {found!r}, but the log needs {expected!r}; neither "
            "can be changed later: name another table"
        )
        raise ConfigError(msg)


def _enable_ttl(table: Table) -> None:
    state = table.call("describe_time_to_live")["TimeToLiveDescription"]
    if state.get("TimeToLiveStatus") in ("ENABLED", "ENABLING"):
        return
    specification = {"Enabled": True, "AttributeName": TTL_ATTRIBUTE}
    table.call("update_time_to_live", TimeToLiveSpecification=specification)


# -- the driver -------------------------------------------------------------------------------

_TRANSIENT = frozenset(
    {
        "InternalFailure",
        "InternalServerError",
        "ProvisionedThroughputExceededException",
        "ReplicatedWriteConflictException",
        "RequestLimitExceeded",
        "RequestTimeout",
        "RequestTimeoutException",
        "ServiceUnavailable",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TransactionConflictException",
        "TransactionInProgressException",
    }
)
_ADVICE = {
    "AccessDeniedException": "allow the actions that the page on DynamoDB in the docs lists",
    "ExpiredTokenException": "renew the credentials",
    "ItemCollectionSizeLimitExceededException": "one user holds at most 10 GB; forget old threads",
    "ResourceNotFoundException": "create the table with create_table(), or name another one",
    "UnrecognizedClientException": "check the credentials and the region",
    "ValidationException": "make sure that create_table() or its definition made the table",
}
_SERVER_ERROR = 500


class ConditionFailedError(LogError):
    """The item that is there does not meet the condition of a write."""


class TableExistsError(LogError):
    """There is a table of that name."""


def make_client(*, region_name: str | None, endpoint_url: str | None) -> Any:
    """Return a DynamoDB client that retries throttled and broken calls with growing pauses.

    Raises:
        MissingExtraError: If boto3 is not installed.
        ConfigError: If no client can be made of the arguments and the environment.
    """
    try:
        import boto3  # type: ignore[import-untyped]  # the driver carries no types
        from botocore.config import Config  # type: ignore[import-untyped]  # the same
        from botocore.exceptions import BotoCoreError  # type: ignore[import-untyped]  # the same
    except ImportError as error:
        raise MissingExtraError.build("DynamoDBLog", "aws") from error
    config = Config(
        retries={"mode": "standard", "total_max_attempts": _MAX_ATTEMPTS},
        connect_timeout=5,
        read_timeout=20,
        max_pool_connections=32,
    )
    try:
        # A session of its own: the default one must not be shared between threads.
        return boto3.session.Session().client(
            "dynamodb", region_name=region_name, endpoint_url=endpoint_url, config=config
        )
    except (BotoCoreError, ValueError) as error:
        msg = (
            f"no DynamoDB client can be made for region_name={region_name!r}, "
            f"endpoint_url={endpoint_url!r}: {error} Pass region_name=, set AWS_DEFAULT_REGION, or "
            "pass a client="
        )
        raise ConfigError(msg) from error


_EXPECTED: dict[str, type[LogError]] = {
    "ConditionalCheckFailedException": ConditionFailedError,
    "ResourceInUseException": TableExistsError,
}


@contextmanager
def translate_errors(what: str) -> Iterator[None]:
    """Turn the driver's exceptions into ours; `what` says what was tried, and where.

    Raises:
        ConditionFailedError: If the condition of a write was not met.
        TableExistsError: If the table to be made is there.
        LogUnavailableError: If the service could not be reached or stayed too busy.
        LogError: If it refused for another reason.
    """
    from botocore.exceptions import (
        BotoCoreError,
        ClientError,
        ConnectionError,  # noqa: A004 - the driver's name for it
        HTTPClientError,
    )

    try:
        yield
    except ClientError as error:
        raise _make_refusal(what, error.response) from error
    except (ConnectionError, HTTPClientError) as error:
        raise LogUnavailableError(f"{what}: {error}; try again later") from error
    except BotoCoreError as error:
        raise LogError(f"{what}: {error}") from error


def _make_refusal(what: str, response: Mapping[str, Any]) -> LogError:
    fields = response.get("Error", {})
    code = str(fields.get("Code", "unknown"))
    said = f"{what}: {code}: {fields.get('Message', '')}"
    if code in _EXPECTED:
        return _EXPECTED[code](said)
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in _TRANSIENT or status >= _SERVER_ERROR:
        return LogUnavailableError(f"{said}; try again later")
    return LogError(f"{said}; {_ADVICE[code]}" if code in _ADVICE else said)
