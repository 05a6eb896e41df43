"""Who may ask the web chat for what: tokens, users, and requests that other sites send.

Three walls. The `Host` of every request must be a name of this server, so that no foreign name that
was bound to this address reads anything. What changes anything must come from a page of this
server. And where there are tokens, everything but the sign-in page needs one.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import socket
from collections.abc import Callable, Collection, Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from langchain_convmem.causes import describe_value
from langchain_convmem.errors import ConfigError

COOKIE = "convmem_session"
"""Name of the cookie of who is signed in."""
LEAST_TOKEN = 16
"""Characters of a token at least: shorter ones can be tried out."""
_SAFE_METHODS = frozenset({"GET", "HEAD"})
_OPEN_PATHS = frozenset({"/login"})
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_FOREVER = "public, max-age=31536000, immutable"
_PURPOSE = b"langchain-convmem web session"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    # Not `no-referrer`: with it, browsers hide the origin of forms from the check below.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
"""What every answer carries."""

Scope = MutableMapping[str, Any]


@dataclass(frozen=True, slots=True)
class Access:
    """Who may use a server.

    Attributes:
        user_id: The only user there is; None lets whoever may come in choose.
        token: What whoever comes in must know; None asks for nothing.
        user_tokens: Or the token of each user, who sees that user's memory alone.
        host: The address that the server listens on.
        names: Further names by which browsers may call it, such as that of a proxy.

    Raises:
        ConfigError: If the server is open to other machines without a token, a token is too short,
            or the options exclude each other.
    """

    user_id: str | None = None
    token: str | None = field(default=None, repr=False)
    user_tokens: Mapping[str, str] = field(default_factory=dict, repr=False)
    host: str = "127.0.0.1"
    names: Collection[str] = ()

    def __post_init__(self) -> None:
        """Refuse what would leave a door open."""
        if self.user_tokens and (self.token is not None or self.user_id is not None):
            msg = "a tokens file names the users; do not combine it with --token or --user"
            raise ConfigError(msg)
        if not (self.has_tokens or is_loopback(self.host)):
            msg = (
                f"--host {self.host} lets other machines connect; add --token or --tokens, or "
                "listen on 127.0.0.1"
            )
            raise ConfigError(msg)
        for token in (self.token, *self.user_tokens.values()):
            if token is not None and len(token) < LEAST_TOKEN:
                msg = f"a token needs at least {LEAST_TOKEN} characters; one has {len(token)}"
                raise ConfigError(msg)

    @property
    def has_tokens(self) -> bool:
        """Whether whoever comes in must know a token."""
        return self.token is not None or bool(self.user_tokens)

    def find_session(self, token: str) -> str | None:
        """Return the cookie of whoever knows this token; None if nobody's token is like it.

        Every token is compared, each in constant time.
        """
        found = None
        for known in self._list_tokens():
            if hmac.compare_digest(known.encode(), token.encode("utf-8", "replace")):
                found = _make_session(known)
        return found

    def check_session(self, session: str) -> bool:
        """Return whether this is the cookie of somebody who signed in."""
        return self._find_token(session) is not None

    def get_session_user(self, session: str) -> str | None:
        """Return the user that a cookie stands for; None where it may choose."""
        token = self._find_token(session)
        named = {one: user for user, one in self.user_tokens.items()}
        return self.user_id if token is None else named.get(token, self.user_id)

    def _find_token(self, session: str) -> str | None:
        found = None
        for known in self._list_tokens():
            if hmac.compare_digest(_make_session(known).encode(), session.encode()):
                found = known
        return found

    def _list_tokens(self) -> list[str]:
        own = [] if self.token is None else [self.token]
        return [*own, *self.user_tokens.values()]

    def check_host(self, host: str) -> bool:
        """Return whether a request may call the server by this name, with its port or without.

        An address in figures is always one: nobody can bind a name to it.
        """
        name = _read_host(host)
        if name is None:
            return False
        own = {self.host.lower(), *_LOOPBACK_NAMES, *(one.lower() for one in self.names)}
        if not is_loopback(self.host):
            own.add(socket.gethostname().lower())
        return name in own or _is_address(name)


def is_loopback(host: str) -> bool:
    """Return whether an address to listen on is reached from this machine alone."""
    if host == "localhost":
        return True
    return _is_address(host) and ipaddress.ip_address(host).is_loopback


def read_user_tokens(path: str) -> dict[str, str]:
    """Return the tokens of users from a file: a line each, the user, a blank, the token.

    Blank lines and lines that begin with `#` are left out.

    Raises:
        ConfigError: If the file cannot be read, a line has no token, or a user or token stands
            twice; the message names the line, never a token.
    """
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(f"the tokens file {path} cannot be read: {reason}") from error
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        user, _, token = text.rpartition(" ")
        if not user.strip():
            raise ConfigError(f"{path}, line {number}: expected a user, a space and a token")
        if user.strip() in found or token in found.values():
            raise ConfigError(f"{path}, line {number}: this user or token appears twice")
        found[user.strip()] = token
    if not found:
        raise ConfigError(f"the tokens file {path} names no user")
    return found


def _make_session(token: str) -> str:
    """Return a cookie from which the token cannot be read; a new token makes old cookies void."""
    return hmac.new(token.encode(), _PURPOSE, hashlib.sha256).hexdigest()


def _read_host(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


# -- every request ------------------------------------------------------------------------------


class Guard:
    """Middleware that refuses what `Access` does not allow, and stamps what goes out. ASGI."""

    def __init__(self, app: Callable[..., Any], access: Access) -> None:
        """Guard an application."""
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        # Their addresses name their content.
        is_asset = scope["path"].startswith("/static/") and b"v=" in scope["query_string"]

        async def send_stamped(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store" if not is_asset else _FOREVER)
            await send(message)

        refusal = self._find_refusal(scope)
        answer = self._app if refusal is None else refusal
        await answer(scope, receive, send_stamped)

    def _find_refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self._access.check_host(host):
            return PlainTextResponse(
                f"This server does not accept the host name {describe_value(host)}. Use the "
                "address that it printed, or start it with --allow-host.",
                status_code=421,
            )
        if scope["method"] not in _SAFE_METHODS and not is_own_page(headers):
            return PlainTextResponse("This request came from another site.", status_code=403)
        return self._find_stranger(scope, headers)

    def _find_stranger(self, scope: Scope, headers: Headers) -> Response | None:
        """Return the answer to somebody who is not signed in; note the user of somebody who is."""
        access = self._access
        scope["fixed_user"] = access.user_id
        path = scope["path"]
        if not access.has_tokens or path in _OPEN_PATHS or path.startswith("/static/"):
            return None
        session = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
        given = headers.get("authorization", "")
        if given.startswith("Bearer "):
            session = access.find_session(given.removeprefix("Bearer ")) or session
        if access.check_session(session):
            scope["fixed_user"] = access.get_session_user(session)
            return None
        if scope["method"] in _SAFE_METHODS and "text/html" in headers.get("accept", ""):
            return RedirectResponse("/login", status_code=303)
        return PlainTextResponse("Sign in first.", status_code=401)


def is_own_page(headers: Headers) -> bool:
    """Return whether a request comes from a page of this server, as browsers attest.

    Browsers name the origin of every request that may change something. What names none is no
    browser's page, and must show a token in its header instead.
    """
    site = headers.get("sec-fetch-site")
    if site is not None and site != "same-origin":
        return False
    origin = headers.get("origin")
    if origin is None:
        return site == "same-origin" or "authorization" in headers
    return urlsplit(origin).netloc.lower() == headers.get("host", "").lower()


def set_session(response: Response, session: str, *, is_secure: bool) -> None:
    """Let a browser keep who is signed in, out of the reach of scripts and of other sites."""
    response.set_cookie(
        COOKIE, session, max_age=30 * 86400, httponly=True, samesite="strict", secure=is_secure
    )
