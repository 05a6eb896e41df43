"""Where entries are kept. Logs that need a driver are imported when they are first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_convmem._lazy import load_lazily

if TYPE_CHECKING:
    from langchain_convmem.logs.dynamodb import DynamoDBLog as DynamoDBLog
    from langchain_convmem.logs.dynamodb import to_dynamodb as to_dynamodb
    from langchain_convmem.logs.postgres import PostgresLog as PostgresLog
    from langchain_convmem.logs.sqlite import InMemoryLog as InMemoryLog
    from langchain_convmem.logs.sqlite import SQLiteLog as SQLiteLog

__getattr__, __dir__, __all__ = load_lazily(__name__)
