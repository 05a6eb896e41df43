"""A message log in a PostgreSQL database."""

from langchain_convmem.logs.postgres.log import PostgresLog

__all__ = ["PostgresLog"]
