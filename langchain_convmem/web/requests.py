"""What a request says: whose memory and which thread it is about, its form, its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from starlette.requests import Request

from langchain_convmem.errors import ConfigError
from langchain_convmem.records import ThreadKey
from langchain_convmem.web.threads import WINDOW, ThreadPlace

_MOST_FORM = 4 * 1024 * 1024
"""Bytes of a form at most: what somebody says in one message."""
MOST_WINDOW = 20_000
"""Messages or threads of a page at most."""


@dataclass(frozen=True, slots=True)
class Form:
    """What a page sent: fields by name."""

    fields: Mapping[str, str]

    def get(self, name: str, default: str = "") -> str:
        """Return a field; the default where the page did not send it."""
        return self.fields.get(name, default)

    def require(self, name: str) -> str:
        """Return a field that must be there.

        Raises:
            ConfigError: If it is missing or blank.
        """
        value = self.fields.get(name, "")
        if not value.strip():
            raise ConfigError(f"{name} is missing")
        return value


def find_place(request: Request, named: Mapping[str, str] | None = None) -> ThreadPlace:
    """Return the user and the thread of a request.

    Raises:
        ConfigError: If it names no user, or another one than it may.
    """
    source = request.query_params if named is None else named
    fixed, asked = request.scope.get("fixed_user"), source.get("user")
    if fixed is not None and asked not in (None, "", fixed):
        raise ConfigError("this is another user's memory")
    user = fixed or asked
    if not user:
        raise ConfigError("say whose memory to show: choose a user")
    place = ThreadPlace(user, source.get("thread") or None)
    ThreadKey(user, place.thread_id or "-")  # refuses what cannot be an id
    return place


async def read_placed_form(request: Request) -> tuple[Form, ThreadPlace]:
    """Return the fields of a form, and the user and the thread that it names.

    Raises:
        ConfigError: See `read_form` and `find_place`.
    """
    form = await read_form(request)
    return form, find_place(request, form.fields)


async def read_form(request: Request) -> Form:
    """Return the fields of a form.

    Raises:
        ConfigError: If it is larger than 4 MB, or not UTF-8 text.
    """
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > _MOST_FORM:
            raise ConfigError("this is too long: a message may take 4 MB")
    try:
        text = body.decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=50)
    except ValueError as error:
        raise ConfigError("the page sent a form that cannot be read") from error
    return Form(dict(pairs))


def read_number(request: Request, name: str) -> int | None:
    """Return a number of the address; None where it is missing or none."""
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else None  # noqa: PLR2004


def read_window(request: Request) -> int:
    """Return how many messages the page shows."""
    return min(max(read_number(request, "window") or WINDOW, 1), MOST_WINDOW)


def get_theme(request: Request) -> str:
    """Return the colours that the browser keeps in a cookie: dark, light or auto."""
    theme = request.cookies.get("convmem_theme", "")
    return theme if theme in {"dark", "light"} else "auto"
