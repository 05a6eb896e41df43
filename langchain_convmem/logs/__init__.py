"""Where entries are kept. Logs that need a driver are imported when they are first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_convmem._lazy import load_lazily
from langchain_convmem.logs.sqlite import InMemoryLog, SQLiteLog

if TYPE_CHECKING:
    from langchain_convmem.logs.dynamodb import DynamoDBLog, to_dynamodb
    from langchain_convmem.logs.postgres import PostgresLog

__all__ = ["DynamoDBLog", "InMemoryLog", "PostgresLog", "SQLiteLog", "to_dynamodb"]

_HOMES = {
    "DynamoDBLog": "logs.dynamodb",
    "PostgresLog": "logs.postgres",
    "to_dynamodb": "logs.dynamodb",
}

__getattr__, __dir__ = load_lazily(__name__, _HOMES)
