"""An assistant that people write to by SMS: Twilio's webhook, on Starlette.

    pip install langchain-convmem starlette uvicorn python-multipart
    TWILIO_AUTH_TOKEN=... PUBLIC_URL=https://sms.example.org uvicorn --app-dir examples sms.app:app

Each phone number is a user with one thread. The page docs/how_to/web.md says what each part is for.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakValueDictionary
from xml.sax.saxutils import escape

from langchain_core.messages import HumanMessage
from langchain_core.runnables import Runnable
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from langchain_convmem import ConversationMemory
from langchain_convmem.offline import OfflineChatModel
from langchain_convmem.records import ThreadKey

PART_CHARS = 600
"""Characters of one message; a carrier bills each 160, or 70 with letters beyond GSM's."""
MAX_PARTS = 8
MAX_BODY_BYTES = 64 * 1024
MAX_MEDIA = 10
THREAD = "sms"
OPTED_OUT = "sms_opted_out"
"""Name of the document that says that a user wants no answers, and of its owner."""

STOPPED = "You will get no more answers. Send START to go on, or FORGET ME to erase everything."
STARTED = "Welcome back. Ask me anything."
HELPED = "Write to me as to a friend; I remember. STOP: no answers. FORGET ME: erase all I know."
FORGOTTEN = "Everything you told me is erased."


class SmsAssistant:
    """Answers messages of any channel; one user has one thread, and a message one answer."""

    def __init__(self, memory: ConversationMemory, model: Runnable[Any, Any]) -> None:
        """Answer by a model that remembers.

        Args:
            memory: Where everything is kept.
            model: A chat model, or a prompt before one.
        """
        self._memory = memory
        self._chain = memory.wrap(model)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def __call__(
        self, user_id: str, message_id: str, text: str, media: list[str]
    ) -> list[str]:
        """Return the answer to a message in parts; none for a user who wants none.

        A message that comes again, as webhooks do, is answered as the first time, without a call
        of the model: its id is that of the stored message. Messages of one user wait for each
        other; with several workers, let a proxy send each number to the same one.

        Args:
            user_id: Who wrote, such as a phone number.
            message_id: The channel's own id of the message.
            text: What it says; may be empty beside media.
            media: Addresses of pictures and other files.
        """
        word = " ".join(text.upper().split()).rstrip(".!")
        if word == "FORGET ME":
            await self._memory.aforget(user_id=user_id)
            return [FORGOTTEN]
        if word in {"STOP", "STOPALL", "UNSUBSCRIBE", "CANCEL", "END", "QUIT"}:
            await self._set_opted_out(user_id, is_out=True)
            return [STOPPED]
        if await self._is_opted_out(user_id):
            if word not in {"START", "YES", "UNSTOP"}:
                return []
            await self._set_opted_out(user_id, is_out=False)
            return [STARTED]
        if word in {"HELP", "INFO"}:
            return [HELPED]
        async with self._locks.setdefault(user_id, asyncio.Lock()):
            reply = await self._find_reply(user_id, message_id)
            if reply is None:
                reply = await self._answer(user_id, message_id, text, media)
        return split_reply(reply)

    async def _find_reply(self, user_id: str, message_id: str) -> str | None:
        """Return what was answered to a message before; None if it is new, or has no answer."""
        log, key = self._memory.log, ThreadKey(user_id, THREAD)
        for asked in await log.afind(key, [message_id]):
            for entry in await log.aentries(key, after=asked.position):
                if entry.role == "assistant" and entry.turn_id == asked.turn_id:
                    return "\n".join(entry.contents)
        return None

    async def _answer(self, user_id: str, message_id: str, text: str, media: list[str]) -> str:
        names = {"user_id": user_id, "thread_id": THREAD}
        message = HumanMessage(_build_content(text, media), id=message_id)
        reply = await self._chain.ainvoke(message, {"configurable": names})
        return str(reply.text)

    async def _is_opted_out(self, user_id: str) -> bool:
        found = await self._memory.log.aget_state(_name_opt_out(user_id), OPTED_OUT)
        return found is not None

    async def _set_opted_out(self, user_id: str, *, is_out: bool) -> None:
        log, key = self._memory.log, _name_opt_out(user_id)
        if is_out:
            await log.aset_state(key, OPTED_OUT, True, expected=None)
        else:
            await log.adelete_state(key, OPTED_OUT)


def _name_opt_out(user_id: str) -> ThreadKey:
    """Return where an opt-out is kept: under a hash of the number, so that FORGET ME leaves it."""
    return ThreadKey(OPTED_OUT, hashlib.sha256(user_id.encode()).hexdigest())


def _build_content(text: str, media: list[str]) -> str:
    """Return the text with its media by reference: addresses that need the channel's password."""
    return "\n".join([text, *(f"[media: {address}]" for address in media)]).strip()


def split_reply(text: str) -> list[str]:
    """Return an answer in parts of at most `PART_CHARS`, cut between words, numbered if several."""
    words, parts, line = text.split(" "), [], ""
    for word in words:
        joined = f"{line} {word}" if line else word
        if len(joined) <= PART_CHARS:
            line = joined
            continue
        parts += [line] if line else []
        while len(word) > PART_CHARS:
            parts.append(word[:PART_CHARS])
            word = word[PART_CHARS:]  # noqa: PLW2901 - the rest of a word without blanks
        line = word
    parts = [part.strip() for part in [*parts, line] if part.strip()]
    if len(parts) > MAX_PARTS:
        parts = [*parts[: MAX_PARTS - 1], parts[MAX_PARTS - 1][: PART_CHARS - 4] + " ..."]
    if len(parts) < 2:  # noqa: PLR2004 - one needs no number
        return parts
    return [f"({number}/{len(parts)}) {part}" for number, part in enumerate(parts, start=1)]


# -- Twilio's side of it --------------------------------------------------------------------------


def sign_request(token: str, url: str, form: Mapping[str, str]) -> str:
    """Return the signature that Twilio puts on a request.

    Base64 of HMAC-SHA1 under the account's token, over the public address and then each parameter,
    name and value, sorted by name (https://www.twilio.com/docs/usage/security).

    Args:
        token: The account's auth token.
        url: The address that Twilio was told, with its query.
        form: The parameters of the request.
    """
    signed = url + "".join(f"{name}{form[name]}" for name in sorted(form))
    digest = hmac.new(token.encode(), signed.encode(), hashlib.sha1).digest()
    return base64.b64encode(digest).decode()


def build_twiml(parts: list[str]) -> str:
    """Return the answer as TwiML, one message a part; what is said stays text in it."""
    messages = "".join(f"<Message>{escape(_drop_controls(part))}</Message>" for part in parts)
    return f'<?xml version="1.0" encoding="UTF-8"?><Response>{messages}</Response>'


def _drop_controls(text: str) -> str:
    """Return the text without the characters that XML cannot hold."""
    return "".join(
        char
        for char in text
        if char in "\t\n\r"
        or (char >= " " and not "\ud800" <= char <= "\udfff" and char < "\ufffe")
        or char > "\uffff"
    )


async def receive_sms(request: Request) -> Response:
    """Answer one webhook call of Twilio."""
    if int(request.headers.get("content-length") or MAX_BODY_BYTES + 1) > MAX_BODY_BYTES:
        return Response("the request is too large, or does not say how large it is", 413)
    fields = await request.form()
    form = {name: value for name, value in fields.multi_items() if isinstance(value, str)}
    state = request.app.state
    query = f"?{request.url.query}" if request.url.query else ""
    expected = sign_request(state.token, f"{state.public_url}{request.url.path}{query}", form)
    given = request.headers.get("x-twilio-signature", "")
    if not hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace")):
        return Response("the signature does not fit", 403)
    sender, message_id = form.get("From", ""), form.get("MessageSid", "")
    if not sender or not message_id:
        return Response("From and MessageSid are needed", 400)
    media = _list_media(form)
    if not form.get("Body", "").strip() and not media:
        return Response(build_twiml([]), media_type="application/xml")
    async with state.turns:  # so many answers at once; others wait here
        parts = await state.handle(sender, message_id, form.get("Body", ""), media)
    return Response(build_twiml(parts), media_type="application/xml")


def _list_media(form: Mapping[str, str]) -> list[str]:
    count = form.get("NumMedia", "0")
    number = min(int(count), MAX_MEDIA) if count.isdecimal() else 0
    found = (form.get(f"MediaUrl{index}", "") for index in range(number))
    return [address for address in found if address.startswith("https://")]


def make_app(
    memory_path: str,
    token: str,
    public_url: str,
    model: Runnable[Any, Any] | None = None,
) -> Starlette:
    """Return the application.

    Args:
        memory_path: The memory: a file or an address, as for `ConversationMemory.open`.
        token: The account's auth token.
        public_url: The server's address as Twilio knows it, without a path.
        model: A chat model, or a prompt before one; None is the offline model.

    Raises:
        ValueError: If there is no token: every request could be forged.
    """
    if not token:
        msg = "set TWILIO_AUTH_TOKEN: without it, every request could be forged"
        raise ValueError(msg)

    @asynccontextmanager
    async def open_memory(app: Starlette) -> AsyncIterator[None]:
        async with ConversationMemory.open(memory_path) as memory:
            app.state.handle = SmsAssistant(memory, model or OfflineChatModel())
            app.state.memory = memory
            app.state.turns = asyncio.Semaphore(16)
            yield

    app = Starlette(routes=[Route("/sms", receive_sms, methods=["POST"])], lifespan=open_memory)
    app.state.token, app.state.public_url = token, public_url.rstrip("/")
    return app


def __getattr__(name: str) -> Starlette:
    """Make `app` when uvicorn asks for it, from the environment."""
    if name != "app":
        raise AttributeError(name)
    return make_app(
        os.environ.get("CONVMEM_LOG", "sms.db"),
        os.environ.get("TWILIO_AUTH_TOKEN", ""),
        os.environ.get("PUBLIC_URL", "http://127.0.0.1:8000"),
    )
