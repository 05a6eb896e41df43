"""A message log in one SQLite file."""

from langchain_convmem.logs.sqlite.log import SQLiteLog
from langchain_convmem.logs.sqlite.verifying import VerifyReport

__all__ = ["SQLiteLog", "VerifyReport"]
