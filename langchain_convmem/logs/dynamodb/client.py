"""The table behind a DynamoDB log: the driver, a few calls on one table, and plain maps as items.

The only file that imports boto3 and botocore, and only where they are used. Reads are consistent
and go to the last page; writes may have a condition. Errors name the table and the key. Throttling
is retried with growing, random pauses before it is one: by the driver, and here for the writes of a
group that the service leaves undone. An answer without what it must hold was cut on its way.

All attributes of the log's items are texts: `Item` is an item without the types that the service
puts around them.
"""

from __future__ import annotations

import logging
import os
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from decimal import Decimal
from typing import Any

from langchain_convmem.errors import (
    ConfigError,
    LogClosedError,
    LogError,
    LogUnavailableError,
    MissingExtraError,
)
from langchain_convmem.logs.dynamodb.items import Item, KeyRange

INDEX = "by_thread"
SUMMARY = "pk, sk, tp, user_id, thread_id, entry_count, first_id, last_id, key_id, mark_checksum"
"""The `ProjectionExpression` of a listing: all but what changes a batch, and what items hold."""

_EXTRA = "aws"
_LOGGER = logging.getLogger(__name__)
_MAX_ATTEMPTS = 8
_MAX_PAUSE_S = 5.0
_WRITES_PER_CALL = 25
_SERVER_ERROR = 500
_WAITS = 240
_TRANSIENT = re.compile("Throttl|Exceeded|Timeout|Unavailable|Internal|SlowDown|Conflict|Progress")
_ADVICE = {
    "AccessDeniedException": "allow the actions that the page on DynamoDB in the docs lists",
    "ExpiredTokenException": "renew the credentials",
    "ItemCollectionSizeLimitExceededException": "one user holds at most 10 GB; forget old threads",
    "ResourceNotFoundException": "make it with DynamoDBLog(NAME).create_table(), or name another",
    "UnrecognizedClientException": "check the credentials and the region",
    "ValidationException": "make sure that create_table() made it; documents are up to 400 KB",
}


def choose_pause_s(attempt: int) -> float:
    """Return how long to wait after the failed attempt `attempt`, which counts from 0.

    Random up to a limit that doubles, so that writers who met do not meet again.
    """
    limit = min(0.05 * 2.0 ** min(attempt, 10), _MAX_PAUSE_S)
    return random.uniform(0, limit)  # noqa: S311 - spreads writers, guards no secret


class Table:
    """One table. Thread-safe, and safe after a fork unless the client was given by the caller.

    Attributes:
        name: Its name.
    """

    def __init__(self, name: str, client: Any = None, **options: str | None) -> None:
        """Prepare the driver; nothing is sent yet.

        Args:
            name: The table's name.
            client: A boto3 DynamoDB client that stays the caller's; None makes one.
            **options: `region_name` and `endpoint_url` for a client made here.
        """
        self.name = name
        self._client = client
        self._own_pid = 0 if client is None else None
        self._options = options
        self._closed = False
        self._get_client()

    def _get_client(self) -> Any:
        if self._own_pid not in (None, os.getpid()):
            # Two processes that share the sockets of one client would read each other's answers.
            self._client, self._own_pid = _make_client(**self._options), os.getpid()
        return self._client

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
        if self._own_pid == os.getpid():
            self._client.close()

    def wait(self, attempt: int) -> None:
        """Wait after the failed attempt `attempt`, which counts from 0."""
        time.sleep(choose_pause_s(attempt))

    def call(
        self, operation: str, where: str = "", *, part: str = "", unless: str = "", **request: Any
    ) -> Any:
        """Return the service's answer to one operation.

        Args:
            operation: A method of the client, such as `query`.
            where: Names the key in an error.
            part: What the answer must hold to be complete.
            unless: The code of a refusal for which None is returned.
            **request: Passed on.

        Raises:
            LogUnavailableError: If the service could not be reached or stayed too busy, or its
                answer was cut.
            LogError: If it refused.
            LogClosedError: If the log was closed.
        """
        from botocore import exceptions, parsers  # type: ignore[import-untyped]  # has no types

        self.check_open()
        what = f"{operation} failed on table {self.name!r}" + (f", key {where}" if where else "")
        try:
            answer = getattr(self._get_client(), operation)(**request)
        except exceptions.ClientError as error:
            if error.response.get("Error", {}).get("Code") == unless:
                return None
            raise _make_refusal(what, error.response) from error
        except (exceptions.BotoCoreError, parsers.ResponseParserError, UnicodeDecodeError) as error:
            if isinstance(error, exceptions.NoCredentialsError | exceptions.ParamValidationError):
                raise LogError(f"{what}: {error}") from error
            raise LogUnavailableError(f"{what}: {type(error).__name__}; try again later") from error
        if part and not isinstance(answer.get(part), list | dict):
            raise LogUnavailableError(f"{what}: the answer has no {part!r}; try again later")
        return answer

    # -- writing --------------------------------------------------------------------------------

    def put(self, item: Item, **before: str) -> bool:
        """Write one item under a condition, and recognise a write whose answer was lost.

        Args:
            item: Replaces what is there under its key. Its `write_token` is that of no other write.
            **before: Attributes of the item that is there; without any, there must be none.

        Returns:
            Whether the item is there.

        Raises:
            LogUnavailableError: If the service cannot be reached; the write may still arrive.
        """
        same = " AND ".join(f"{name} = :{name}" for name in before)
        request: dict[str, Any] = {"ConditionExpression": same or "attribute_not_exists(pk)"}
        values = _wrap({f":{name}": text for name, text in before.items()})
        request |= {"ExpressionAttributeValues": values} if values else {}
        request |= {"TableName": self.name, "Item": _wrap(item)}
        refused = "ConditionalCheckFailedException"
        try:
            answer = self.call("put_item", _describe_key(item), unless=refused, **request)
        except LogUnavailableError:
            if not self._has_written(item):
                raise
            return True
        return answer is not None or self._has_written(item)

    def _has_written(self, item: Item) -> bool:
        found = self.get(item)
        return found is not None and found.get("write_token") == item["write_token"]

    def write(self, puts: Iterable[Item] = (), deletes: Iterable[Item] = ()) -> None:
        """Write and delete items, in any order, until the service has taken them all.

        Args:
            puts: What to write.
            deletes: What to delete; their keys are enough.

        Raises:
            LogUnavailableError: If it leaves some undone again and again.
        """
        requests = [{"PutRequest": {"Item": _wrap(item)}} for item in puts]
        keys = [_wrap({"pk": item["pk"], "sk": item["sk"]}) for item in deletes]
        requests += [{"DeleteRequest": {"Key": key}} for key in keys]
        part, attempt = "UnprocessedItems", 0
        while requests:
            now = requests[:_WRITES_PER_CALL]
            [first] = now[0].values()
            where = _describe_key(_unwrap(first.get("Item") or first["Key"]))
            answer = self.call("batch_write_item", where, part=part, RequestItems={self.name: now})
            undone = requests[:_WRITES_PER_CALL] = answer[part].get(self.name, [])
            attempt = attempt + 1 if undone else 0
            if attempt == _MAX_ATTEMPTS:
                msg = f"table {self.name!r} left {len(undone)} writes undone after {attempt} "
                raise LogUnavailableError(f"{msg}attempts, from key {where}; try again later")
            if undone:
                self.wait(attempt - 1)

    # -- reading --------------------------------------------------------------------------------

    def get(self, key: Item) -> Item | None:
        """Return the item of a key as the last write left it, or None."""
        return next(self.query((key["pk"], key["sk"], key["sk"])), None)

    def query(self, keys: KeyRange, **request: Any) -> Iterator[Item]:
        """Yield items in order of their key, a page at a time as they are asked for.

        Args:
            keys: Which items; their sort keys, or with an `IndexName` those of the index.
            **request: More of the request: `IndexName`, `Limit` (of a page),
                `ProjectionExpression`, `ScanIndexForward`.
        """
        sort = "tp" if "IndexName" in request else "sk"
        request["KeyConditionExpression"] = f"pk = :pk AND {sort} BETWEEN :first AND :last"
        values = dict(zip((":pk", ":first", ":last"), keys, strict=True))
        request["ExpressionAttributeValues"] = _wrap(values)
        return self._read_pages("query", f"{keys[0]!r} {keys[1:]}", **request)

    def scan_index(self) -> Iterator[Item]:
        """Yield the batches of all partitions, without their entries."""
        return self._read_pages("scan", IndexName=INDEX, ProjectionExpression=SUMMARY)

    def _read_pages(self, operation: str, where: str = "", **request: Any) -> Iterator[Item]:
        request |= {"TableName": self.name, "ConsistentRead": True}
        while True:
            page = self.call(operation, where, part="Items", **request)
            yield from map(_unwrap, page["Items"])
            if not page.get("LastEvaluatedKey"):
                return
            request["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    # -- the table ------------------------------------------------------------------------------

    def make(self) -> bool:
        """Make the table unless there is one of that name, and wait for it.

        Returns:
            Whether it was made.

        Raises:
            LogUnavailableError: If it does not become ready.
        """
        definition = make_table_definition(self.name)
        made = self.call("create_table", unless="ResourceInUseException", **definition)
        for _ in range(_WAITS):
            answer = self.call("describe_table", part="Table", TableName=self.name)["Table"]
            if answer.get("TableStatus") == "ACTIVE":
                return made is not None
            time.sleep(0.5)
        raise LogUnavailableError(f"table {self.name!r} is not ready yet; try again later")


def _describe_key(item: Item) -> str:
    return f"{item['pk']!r} {item['sk']!r}"


def _wrap(item: Item) -> dict[str, Any]:
    """Return an item as the service's low-level interface takes it."""
    return {name: {"S": text} for name, text in item.items()}


def _unwrap(item: Mapping[str, Any]) -> Item:
    """Return an item without types; what somebody made of another type counts as missing."""
    return {name: value["S"] for name, value in item.items() if "S" in value}


def _make_refusal(what: str, response: Mapping[str, Any]) -> LogError:
    fields = response.get("Error", {})
    code = str(fields.get("Code", "unknown"))
    said = f"{what}: {code}: {fields.get('Message', '')}"
    if code in _ADVICE:
        return LogError(f"{said}; {_ADVICE[code]}")
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if _TRANSIENT.search(code) or status >= _SERVER_ERROR:
        return LogUnavailableError(f"{said}; try again later")
    return LogError(said)


# -- making tables and clients --------------------------------------------------------------------


def make_table_definition(table_name: str) -> dict[str, Any]:
    """Return the arguments of `create_table` that make a table for `DynamoDBLog`.

    As data, for tools that make tables themselves.
    """
    names = ("pk", "sk", "tp")
    index = {"IndexName": INDEX, "KeySchema": _describe_keys("tp")}
    return {
        "TableName": table_name,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": n, "AttributeType": "S"} for n in names],
        "KeySchema": _describe_keys("sk"),
        "LocalSecondaryIndexes": [{**index, "Projection": {"ProjectionType": "ALL"}}],
    }


def _describe_keys(sort: str) -> list[dict[str, str]]:
    kinds = (("pk", "HASH"), (sort, "RANGE"))
    return [{"AttributeName": name, "KeyType": kind} for name, kind in kinds]


def _make_client(**options: str | None) -> Any:
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
        raise MissingExtraError.build("DynamoDBLog", _EXTRA) from error
    retries = {"mode": "standard", "total_max_attempts": _MAX_ATTEMPTS}
    config = Config(retries=retries, connect_timeout=5, read_timeout=20, max_pool_connections=32)
    try:
        # A session of its own: the default one must not be shared between threads.
        return boto3.session.Session().client("dynamodb", config=config, **options)
    except (BotoCoreError, ValueError) as error:
        given = ", ".join(f"{name}={value!r}" for name, value in options.items())
        advice = "Pass region_name=, set AWS_DEFAULT_REGION, or pass a client="
        msg = f"no DynamoDB client can be made for {given}: {error} {advice}"
        raise ConfigError(msg) from error


# -- plain maps as items --------------------------------------------------------------------------


def to_dynamodb(
    maps: Mapping[str, Any] | Iterable[Mapping[str, Any]],
    *,
    report: Callable[[str], None] | None = None,
) -> list[dict[str, Any]]:
    """Return maps of plain values as DynamoDB items, in order.

    A value that the service would refuse becomes NULL without affecting the others: a value of
    another type, an empty or mixed set, a set of booleans, a map with a key that is not a string,
    what is nested deeper than 32 levels, NaN, an infinity, a number of more than 38 digits, or text
    with lone surrogates. Floats become the decimal number that Python prints.

    Args:
        maps: One map or several, for example those that `ConversationHistory.to_maps` returns.
        report: Called with a sentence for each value that became NULL, naming its place; by
            default, it is logged as an error.

    Raises:
        MissingExtraError: If boto3 is not installed.
    """
    try:
        from boto3.dynamodb.types import TypeSerializer  # type: ignore[import-untyped]  # no types
    except ImportError as error:
        raise MissingExtraError.build("to_dynamodb", _EXTRA) from error
    serialize, tell = TypeSerializer().serialize, report or _LOGGER.error

    def convert(value: Any, path: str, levels: int = 32) -> dict[str, Any]:
        if levels and isinstance(value, list | tuple):
            return {"L": [convert(one, f"{path}[{n}]", levels - 1) for n, one in enumerate(value)]}
        if levels and isinstance(value, Mapping) and all(map(_is_text, value)):
            return {"M": {k: convert(one, f"{path}.{k}", levels - 1) for k, one in value.items()}}
        with suppress(TypeError, ArithmeticError):
            return dict(serialize(_prepare(value)))
        tell(f"{path} holds a {type(value).__name__} that DynamoDB cannot keep; it becomes NULL")
        return {"NULL": True}

    listed = [maps] if isinstance(maps, Mapping) else maps
    return [convert(one, f"[{n}]").get("M", {}) for n, one in enumerate(listed)]


def _is_text(value: object) -> bool:
    """Return whether a value is text that the service can keep: without lone surrogates."""
    return isinstance(value, str) and not re.search("[\ud800-\udfff]", value)


def _prepare(value: Any) -> Any:
    """Return a value as the serializer takes it, exactly.

    Raises:
        TypeError: If the service cannot keep it.
    """
    if isinstance(value, float):  # a subclass may print itself otherwise
        value = Decimal(float.__repr__(value))
    is_odd_text = isinstance(value, str) and not _is_text(value)
    is_odd_number = isinstance(value, Decimal) and not value.is_finite()
    is_set = isinstance(value, AbstractSet)  # booleans in one would count as numbers
    is_odd_set = is_set and {isinstance(one, bool) for one in value} != {False}
    if isinstance(value, Mapping | list | tuple) or is_odd_text or is_odd_number or is_odd_set:
        raise TypeError(type(value).__name__)
    return frozenset(map(_prepare, value)) if is_set else value
