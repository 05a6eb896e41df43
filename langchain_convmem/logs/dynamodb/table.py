"""The DynamoDB table of a log: its definition as data, and making it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_convmem.errors import ConfigError, LogUnavailableError
from langchain_convmem.logs.dynamodb.client import INDEX, Table

__all__ = ["TTL_ATTRIBUTE", "make_table", "table_definition"]

TTL_ATTRIBUTE = "expires"
"""Holds the second at which an item ends; the service deletes it some time after."""

_WAIT_S = 0.5
_WAITS = 240


def table_definition(table_name: str) -> dict[str, Any]:
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
        "KeySchema": _keys("sk"),
        "LocalSecondaryIndexes": [
            {
                "IndexName": INDEX,
                "KeySchema": _keys("tp"),
                "Projection": {"ProjectionType": "ALL"},
            }
        ],
    }


def _keys(sort: str) -> list[dict[str, str]]:
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
    made = table.create(table_definition(table.name))
    _check(table.name, _ready(table))
    if ttl:
        _enable_ttl(table)
    return made


def _ready(table: Table) -> dict[str, Any]:
    for _ in range(_WAITS):
        description: dict[str, Any] = table.call("describe_table")["Table"]
        if description["TableStatus"] == "ACTIVE":
            return description
        table.pause(_WAIT_S)
    msg = f"table {table.name!r} is not ready after {_WAIT_S * _WAITS:.0f} s; try again later"
    raise LogUnavailableError(msg)


def _check(name: str, description: Mapping[str, Any]) -> None:
    wanted = table_definition(name)
    indexes = {
        index["IndexName"]: (index["KeySchema"], index["Projection"]["ProjectionType"])
        for index in description.get("LocalSecondaryIndexes", [])
    }
    found = (description["KeySchema"], indexes.get(INDEX))
    expected = (wanted["KeySchema"], (_keys("tp"), "ALL"))
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
