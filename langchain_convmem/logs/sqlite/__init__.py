"""A message log in one SQLite file."""

from langchain_convmem.logs.sqlite.log import SQLiteLog

__all__ = ["SQLiteLog"]
