"""What a request says: whose memory and which thread it is about, its form, its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from langchain_core.messages import BaseMessage
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.requests import Request

from langchain_convmem.errors import ConfigError
from langchain_convmem.records import ThreadKey
from langchain_convmem.web.display import PICTURES
from langchain_convmem.web.threads import WINDOW, ThreadPlace

_MOST_FORM = 16 * 1024 * 1024
"""Bytes of a form at most: what somebody says in one message, with what is attached."""
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


class Attachment(BaseModel):
    """A file that is sent with a message: `data` is text if `type` is `text`, else base64."""

    name: str
    type: str
    data: str

    def make_block(self) -> dict[str, Any]:
        """Return it as a content block.

        Raises:
            ConfigError: If no model reads its type.
        """
        if self.type in PICTURES:
            return {"type": "image", "base64": self.data, "mime_type": self.type}
        if self.type == "application/pdf":
            named = {"mime_type": self.type, "filename": self.name}
            return {"type": "file", "base64": self.data, **named}
        if self.type == "text":
            return {"type": "text", "text": f"{self.name}:\n\n{self.data}"}
        raise ConfigError(f"{self.name!r} is not text, a PDF or a picture ({', '.join(PICTURES)})")


_ATTACHMENTS = TypeAdapter(list[Attachment])


def read_said(form: Form, edited: BaseMessage | None = None) -> str | list[str | dict[str, Any]]:
    """Return what the user says, with the files beside it, as the content of a message.

    Args:
        form: With `text`, `files` or both.
        edited: The message whose place it takes; its files stay.

    Raises:
        ConfigError: If there is neither text nor a file, or a file cannot be sent to a model.
    """
    text, files = form.get("text"), form.get("files")
    try:
        found = _ATTACHMENTS.validate_json(files) if files else []
    except ValidationError as error:
        raise ConfigError("the page sent files that cannot be read") from error
    kept = edited.content if edited is not None and not isinstance(edited.content, str) else []
    blocks = [one for one in kept if isinstance(one, dict) and one.get("type") != "text"]
    blocks += [one.make_block() for one in found]
    words = [{"type": "text", "text": text}] if text.strip() else []
    return [*words, *blocks] if blocks else form.require("text")


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
        raise ConfigError("choose a user whose memory to show")
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
        ConfigError: If it is larger than 16 MB, or not UTF-8 text.
    """
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > _MOST_FORM:
            raise ConfigError("the message is too long; the limit is 16 MB, including files")
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
