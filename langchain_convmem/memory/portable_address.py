"""What may be written down of where a memory is kept, so that another process can open it."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from langchain_convmem.errors import ConfigError

__all__ = ["portable_address"]

_WAY_OUT = "pass the address instead, and call ConversationMemory.open(...) where it is needed"


def portable_address(address: str | None) -> str:
    """Return the address as any process of this machine can open it; paths become absolute.

    Args:
        address: What the memory was opened with; None if it was given its log.

    Raises:
        ConfigError: If there is no address, nobody else can open it, or it holds a password.
    """
    if address is None:
        msg = f"a memory that was given its log cannot be pickled, since its log cannot; {_WAY_OUT}"
        raise ConfigError(msg)
    if address == ":memory:":
        msg = (
            'a memory opened with ":memory:" cannot be pickled, since it lives in this process '
            "alone; keep it in a file: ConversationMemory.open('memory.db')"
        )
        raise ConfigError(msg)
    if "://" not in address:
        return str(Path(address).resolve())
    parts = urlsplit(address)
    if parts.password is not None or any(name == "password" for name, _ in parse_qsl(parts.query)):
        msg = (
            "a memory whose address holds a password cannot be pickled, since the password would "
            f"be readable in the pickle; {_WAY_OUT}"
        )
        raise ConfigError(msg)
    return address
