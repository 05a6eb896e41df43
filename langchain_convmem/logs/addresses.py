"""From what a user types to an open log: a path, or the address of a server."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

from langchain_convmem.errors import ConfigError

if TYPE_CHECKING:
    from langchain_convmem.protocols import MessageLog

_FORMS = (
    "a path, dynamodb://TABLE?region=NAME&endpoint=URL, "
    "or postgresql://USER@HOST/DATABASE?schema=NAME"
)
_POSTGRES = ("postgres", "postgresql")


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
    parts = _split(address)
    if parts is None:
        return _open_file(address, must_exist=must_exist, signing_key=signing_key)
    # A server's log that takes no key refuses one.
    options: dict[str, Any] = {} if signing_key is None else {"signing_key": signing_key}
    if parts.scheme == "dynamodb":
        return _open_dynamodb(parts, options)
    if parts.scheme in _POSTGRES:
        return _open_postgres(parts, options)
    msg = f"no log is known by the name of {parts.scheme}://; expected {_FORMS}"
    raise ConfigError(msg)


def log_name(address: str) -> str:
    """Return the address as it may be shown and kept: paths whole, passwords left out."""
    parts = _split(address)
    if parts is None:
        return str(Path(address).resolve())
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2])
    kept = [(name, value) for name, value in parse_qsl(parts.query) if name != "password"]
    return _join(bare, kept)


def _split(address: str) -> SplitResult | None:
    """Return the parts of a URL; None for a path."""
    if "://" not in address:
        return None
    try:
        return urlsplit(address)
    except ValueError:
        # Not quoted: it may hold a password.
        raise ConfigError(f"this address of a log is no URL; expected {_FORMS}") from None


def _join(parts: SplitResult, options: Iterable[tuple[str, str]]) -> str:
    """Return a URL of these parts and options.

    `urlunsplit` drops the slashes of an address without a host, which is no URL to libpq then; and
    libpq reads a plus sign as itself, not as a space.
    """
    query = urlencode(list(options), quote_via=quote)
    tail = "".join(mark + part for mark, part in (("?", query), ("#", parts.fragment)) if part)
    return f"{parts.scheme}://{parts.netloc}{parts.path}{tail}"


def _open_file(path: str, *, must_exist: bool, signing_key: bytes | str | None) -> MessageLog:
    from langchain_convmem.logs.sqlite import SQLiteLog

    if must_exist and not Path(path).exists():
        raise ConfigError(f"there is no database at {path}")
    return SQLiteLog(path, signing_key=signing_key)


def _open_dynamodb(parts: SplitResult, signing: dict[str, Any]) -> MessageLog:
    from langchain_convmem.logs.dynamodb import DynamoDBLog

    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    region, endpoint = options.pop("region", None), options.pop("endpoint", None)
    if options or not parts.netloc or parts.path.strip("/"):
        found = f"; it knows no {', '.join(options)}" if options else ""
        msg = f"expected dynamodb://TABLE?region=NAME&endpoint=URL{found}"
        raise ConfigError(msg)
    # Names of tables keep their case, which the host of a URL does not.
    return DynamoDBLog(
        table_name=parts.netloc, region_name=region, endpoint_url=endpoint, **signing
    )


def _open_postgres(parts: SplitResult, signing: dict[str, Any]) -> MessageLog:
    from langchain_convmem.logs.postgres import PostgresLog

    options = parse_qsl(parts.query, keep_blank_values=True)
    schemas = [value for name, value in options if name == "schema"]
    dsn = _join(parts, (pair for pair in options if pair[0] != "schema"))
    chosen: dict[str, Any] = {"schema": schemas[-1]} if schemas else {}
    return PostgresLog(dsn, **chosen, **signing)
