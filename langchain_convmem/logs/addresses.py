"""From what a user types to an open log: a path, or the address of a server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote

from langchain_convmem.causes import describe_value
from langchain_convmem.errors import ConfigError

if TYPE_CHECKING:
    from langchain_convmem.message_log import MessageLog

_FORMS = (
    "a path, dynamodb://TABLE?region=NAME&endpoint=URL, "
    "or postgresql://USER@HOST/DATABASE?schema=NAME"
)
# A password may hold any character but '@' and '/', as libpq reads it.
_ADDRESS = re.compile(r"(.*?)://([^@/]*@)?([^?]*)\??(.*)", re.DOTALL)


def open_log(
    address: str, *, must_exist: bool = False, signing_key: bytes | str | None = None
) -> MessageLog:
    """Open the log at an address; the caller closes it.

    Args:
        address: A path of a SQLite file, or a URL; see `_FORMS`.
        must_exist: Refuse a path at which there is no file, instead of making one.
        signing_key: With what the log signs its entries; see `SQLiteLog`.

    Raises:
        ConfigError: If the address is none of these, or there is no such file.
        MissingExtraError: If the log's driver is not installed.
    """
    parts = _ADDRESS.fullmatch(address)
    if parts is None:
        from langchain_convmem.logs.sqlite import SQLiteLog

        if must_exist and not Path(address).exists():
            raise ConfigError(f"there is no database at {address}")
        return SQLiteLog(address, signing_key=signing_key)
    scheme, login, place, query = parts.groups(default="")
    options = dict(parse_qsl(query, keep_blank_values=True))
    if scheme == "dynamodb":
        return _open_dynamodb(place.rstrip("/"), options, signing_key)
    if scheme in ("postgres", "postgresql"):
        from langchain_convmem.logs.postgres import PostgresLog

        dsn = f"{scheme}://{login}{place}{_drop_options(query, 'schema')}"
        return PostgresLog(dsn, schema=options.get("schema", "convmem"), signing_key=signing_key)
    if scheme in ("sqlite", "file"):
        path = describe_value(place.removeprefix("/") or "memory.db")
        raise ConfigError(f"a SQLite file is opened by its path: open({path}), not {scheme}://")
    raise ConfigError(f"no log is known by the name of {scheme}://; expected {_FORMS}")


def log_name(address: str) -> str:
    """Return the address as it may be shown and kept: paths whole, passwords left out."""
    parts = _ADDRESS.fullmatch(address)
    if parts is None:
        return str(Path(address).resolve())
    scheme, _, place, query = parts.groups()
    return f"{scheme}://{place}{_drop_options(query, 'password', 'sslpassword')}"


def _drop_options(query: str, *names: str) -> str:
    """Return the end of an address without options of these names, the others as they are."""
    pairs = query.split("&")
    kept = "&".join(pair for pair in pairs if unquote(pair.partition("=")[0]) not in names)
    return f"?{kept}" if kept else ""


def _open_dynamodb(
    table: str, options: dict[str, str], signing_key: bytes | str | None
) -> MessageLog:
    from langchain_convmem.logs.dynamodb import DynamoDBLog

    region, endpoint = options.pop("region", None), options.pop("endpoint", None)
    if options or not table or "/" in table:
        found = f"; it knows no {', '.join(options)}" if options else ""
        raise ConfigError(f"expected dynamodb://TABLE?region=NAME&endpoint=URL{found}")
    return DynamoDBLog(table, region_name=region, endpoint_url=endpoint, signing_key=signing_key)
