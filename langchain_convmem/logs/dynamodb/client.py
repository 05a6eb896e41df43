"""One DynamoDB table behind a few calls: consistent reads, to the last page; conditional writes.

Errors name the table and the key. Throttling is retried with growing, random pauses before it is
one: by the driver, and here for the writes of a group that the service leaves undone.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from langchain_convmem.errors import LogClosedError, LogUnavailableError
from langchain_convmem.logs.dynamodb.driver import (
    ConditionFailedError,
    TableExistsError,
    new_client,
    translated,
)
from langchain_convmem.logs.dynamodb.items import Item

__all__ = ["INDEX", "Table", "pause_s"]

INDEX = "by_thread"
"""Name of the index of batches by thread and number."""

_MAX_ATTEMPTS = 8
_WRITES_PER_CALL = 25
_MAX_PAUSE_S = 5.0
_NAME = re.compile(r"#(\w+)")


def pause_s(attempt: int) -> float:
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
        self._client()

    def _client(self) -> Any:
        if self._given is not None:
            return self._given
        if self._own is None or self._own_pid != os.getpid():
            # Two processes that share the sockets of one client would read each other's answers.
            self._own, self._own_pid = new_client(**self._options), os.getpid()
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
            parameters: Passed on, beside the table's name.

        Raises:
            LogUnavailableError: If the service could not be reached or stayed too busy.
            LogError: If it refused.
            LogClosedError: If the log was closed.
        """
        self.check_open()
        place = f"table {self.name!r}" + (f", key {where}" if where else "")
        with translated(f"{operation} failed on {place}"):
            return getattr(self._client(), operation)(TableName=self.name, **parameters)

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
            conditional["ExpressionAttributeNames"] = _names(condition)
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
        request = _projected(fields, condition) | {
            "KeyConditionExpression": condition,
            "ExpressionAttributeValues": values,
            "ScanIndexForward": not newest_first,
        }
        if by_thread:
            request["IndexName"] = INDEX
        if page is not None:
            request["Limit"] = page
        return self._pages("query", f"{partition!r} {between}", request)

    def scan_index(self, fields: Sequence[str], prefix: str = "") -> Iterator[Item]:
        """Yield the batches of all partitions whose key begins with `prefix`: reads them all."""
        condition = "begins_with(#pk, :pk)" if prefix else ""
        request = _projected(fields, condition) | {"IndexName": INDEX}
        if prefix:
            request["FilterExpression"] = condition
            request["ExpressionAttributeValues"] = {":pk": {"S": prefix}}
        return self._pages("scan", f"{prefix!r}...", request)

    def _pages(self, operation: str, where: str, request: dict[str, Any]) -> Iterator[Item]:
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
            where = f"table {self.name!r}, key {_key_of(requests[0])}"
            with translated(f"batch_write_item failed on {where}"):
                answer = self._client().batch_write_item(RequestItems={self.name: requests})
            requests = answer.get("UnprocessedItems", {}).get(self.name, [])
            if not requests:
                return
            self.pause(pause_s(attempt))
        msg = (
            f"table {self.name!r} left {len(requests)} writes undone after {_MAX_ATTEMPTS} "
            f"attempts, the first of them {_key_of(requests[0])}; it is too busy, try again later"
        )
        raise LogUnavailableError(msg)


def _key_of(request: Mapping[str, Any]) -> str:
    key = request["PutRequest"]["Item"] if "PutRequest" in request else None
    key = key or request["DeleteRequest"]["Key"]
    return f"{key['pk']['S']!r} {key['sk']['S']!r}"


def _names(*expressions: str) -> dict[str, str]:
    """Return the names of attributes in expressions: spelt out, many would be reserved words."""
    return {f"#{name}": name for text in expressions for name in _NAME.findall(text)}


def _projected(fields: Sequence[str], condition: str) -> dict[str, Any]:
    projection = ", ".join(f"#{name}" for name in fields)
    request: dict[str, Any] = {"ExpressionAttributeNames": _names(condition, projection)}
    return request | {"ProjectionExpression": projection} if projection else request
