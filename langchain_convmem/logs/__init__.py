"""Where entries are kept. Logs that need a driver are imported when they are first asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from langchain_convmem.logs.in_memory import InMemoryLog
from langchain_convmem.logs.sqlite import SQLiteLog

if TYPE_CHECKING:
    from langchain_convmem.logs.dynamodb import DynamoDBLog, to_dynamodb
    from langchain_convmem.logs.postgres import PostgresLog

__all__ = ["DynamoDBLog", "InMemoryLog", "PostgresLog", "SQLiteLog", "to_dynamodb"]

_HOMES = {"DynamoDBLog": "dynamodb", "to_dynamodb": "dynamodb", "PostgresLog": "postgres"}


def __getattr__(name: str) -> Any:
    """Import a log when it is first asked for."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
