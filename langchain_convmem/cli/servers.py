"""`convmem web` and `convmem mcp`: a memory served to browsers, and to MCP hosts."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from langchain_convmem.cli.models import OFFLINE_NOTICE, choose_model
from langchain_convmem.cli.options import (
    PROFILE_TOKENS,
    command,
    db_option,
    memory_options,
    open_memory,
    require_web,
)
from langchain_convmem.cli.output import Terminal
from langchain_convmem.errors import ConfigError

if TYPE_CHECKING:
    from langchain_convmem.memory import ConversationMemory
    from langchain_convmem.web.access import Access

_OFFLINE = "offline"
_TOKEN = "CONVMEM_MCP_TOKEN"  # noqa: S105 - the name of a variable
"""In the environment alone: what stands on a command line, others can see."""
_STOP_AFTER_S = 3
"""How long connections that are still open are waited for when the server ends."""


# -- a chat in a browser ---------------------------------------------------------------------------


@command(
    "web",
    "convmem web",
    "convmem web --model openai:gpt-5-mini --user ana",
    "convmem web --host 0.0.0.0 --tokens tokens.txt --allow-host chat.example.org",
    prints=False,
)
@db_option
@click.option("--user", metavar="ID", help="The only user.  [default: the visitor chooses]")
@click.option(
    "--model",
    "models",
    metavar="NAME",
    multiple=True,
    default=[_OFFLINE],
    envvar="CONVMEM_MODEL",
    show_default=True,
    show_envvar=True,
    help="Provider and model, such as openai:gpt-5, or offline. Pass it again to offer several.",
)
@click.option("--base-url", metavar="URL", help="The address of the model's server.")
@click.option(
    "--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Where to listen."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8501,
    show_default=True,
    help="0 takes any free port.",
)
@click.option(
    "--token",
    metavar="TEXT",
    envvar="CONVMEM_WEB_TOKEN",
    show_envvar=True,
    help="A secret that visitors must send; required if other machines can connect.",
)
@click.option(
    "--tokens",
    metavar="FILE",
    type=click.Path(),
    help="A file of tokens: each line has a user, a space and a token.",
)
@click.option(
    "--allow-host",
    metavar="NAME",
    multiple=True,
    help="A host name that browsers may use; may be repeated.",
)
@click.option("--no-summaries", is_flag=True, help="Never summarise long conversations.")
def serve_web(
    terminal: Terminal,
    *,
    db: str,
    user: str | None,
    models: tuple[str, ...],
    base_url: str | None,
    host: str,
    port: int,
    token: str | None,
    tokens: str | None,
    allow_host: tuple[str, ...],
    no_summaries: bool,
) -> int:
    """Chat in a browser, and see what is recalled and why.

    Prints the address and serves until Ctrl-C. On any address but 127.0.0.1, a token is required.
    Nothing is loaded from other hosts. With --json, the address is printed as JSON.
    """
    require_web("convmem web")
    from langchain_convmem.offline import ExtractiveSummarizer
    from langchain_convmem.web.access import Access, read_user_tokens

    access = Access(
        user_id=user,
        token=token or None,
        user_tokens={} if tokens is None else read_user_tokens(tokens),
        host=host,
        names=allow_host,
    )
    urls = dict.fromkeys(models, base_url) | ({_OFFLINE: None} if len(models) > 1 else {})
    chosen = {n: choose_model(None if n == _OFFLINE else n, base_url=urls[n]) for n in models}
    settings: dict[str, Any] = {"profile_tokens": PROFILE_TOKENS}
    if not no_summaries:
        settings["summarizer"] = ExtractiveSummarizer() if models[0] == _OFFLINE else "auto"
    with listen(host, port) as listener, open_memory(db, create=True, **settings) as memory:
        if models[0] == _OFFLINE:
            terminal.note(OFFLINE_NOTICE)
        _print_address(terminal, host, listener.getsockname()[1], access)
        _serve(memory, chosen, access, listener)
    return 0


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens, so that the address that is printed is one that answers.

    Raises:
        ConfigError: If the address cannot be had.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        msg = f"cannot listen on {host}, port {port}: {error.strerror or error}; try --port 0"
        raise ConfigError(msg) from error
    # Connections take this over. asyncio sets it only where a socket names its protocol, which this
    # one does not: each answer on an open connection would wait 40 ms for the reader's receipt.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _print_address(terminal: Terminal, host: str, port: int, access: Access) -> None:
    shown = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)  # noqa: S104
    shown = f"[{shown}]" if ":" in shown else shown
    address = f"http://{shown}:{port}/"
    if terminal.as_json:
        terminal.print_json_line({"url": address, "needs_token": access.has_tokens})
    else:
        terminal.print_line(address)
    sys.stdout.flush()
    terminal.note("stop it with Ctrl-C; all messages are kept")


def _serve(
    memory: ConversationMemory, models: dict[str, Any], access: Access, listener: socket.socket
) -> None:
    import uvicorn

    from langchain_convmem.web.server import build_app

    app = build_app(memory, models, access=access)

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: Any) -> None:
            # Pages that follow replies would keep their connections open until these are whole.
            app.state.chat.replies.stop_all()
            super().handle_exit(sig, frame)

    config = uvicorn.Config(
        app, log_level="warning", timeout_graceful_shutdown=_STOP_AFTER_S, server_header=False
    )
    try:
        Server(config).run(sockets=[listener])
    except KeyboardInterrupt:
        return  # how a server is ended


# -- tools for MCP hosts ---------------------------------------------------------------------------


@command(
    "mcp",
    "convmem mcp                             # desktop hosts start it like this",
    "convmem mcp --http                      # http://127.0.0.1:8000/mcp",
    "convmem mcp --http --tokens tokens.txt  # one memory for each token's user",
    prints=False,
)
@memory_options
@click.option("--http", is_flag=True, help="Serve over streamable HTTP instead.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535))
@click.option(
    "--tokens",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="A file of tokens: each line has a user, a space and a token. For --user alone, "
    f"set the environment variable {_TOKEN}.",
)
def serve_mcp(
    terminal: Terminal,
    *,
    db: str,
    user: str,
    http: bool,
    host: str,
    port: int,
    tokens: str | None,
) -> int:
    """Serve the memory to MCP hosts.

    --user or the request's token decides whose memory is used; a model cannot choose. If other
    machines can connect, a token is required.
    """
    from langchain_convmem.integrations.mcp_server import make_mcp_server
    from langchain_convmem.web.access import is_loopback

    known = read_tokens(tokens, os.environ.get(_TOKEN), user) if http else None
    if http and known is None and not is_loopback(host):
        msg = (
            f"--host {host} can be reached from other machines, so a token is needed: "
            f"set {_TOKEN}, or pass --tokens FILE"
        )
        raise ConfigError(msg)
    with open_memory(db, create=True) as memory:
        server = make_mcp_server(
            memory,
            user_id=None if known else user,
            tokens=known,
            address=f"http://{host}:{port}",
        )
        if http:
            terminal.note(f"MCP server at http://{host}:{port}/mcp")
            asyncio.run(server.run_streamable_http_async(host=host, port=port))
        else:
            asyncio.run(server.run_stdio_async())
    return 0


def read_tokens(path: str | None, token: str | None, user: str) -> dict[str, str] | None:
    """Return the user of each token; None where there are none.

    Args:
        path: A file of tokens, as `convmem web` takes it.
        token: The token of `user`.
        user: Whose that is.

    Raises:
        ConfigError: If the file is no such file, or others may read it; no token is quoted.
    """
    from langchain_convmem.web.access import read_user_tokens

    if path is None:
        return {token: user} if token else None
    if token:
        raise ConfigError(f"{_TOKEN} is set and --tokens is given; use one of the two")
    tokens = read_user_tokens(path)
    if os.name == "posix" and Path(path).stat().st_mode & 0o077:
        raise ConfigError(f"{path} contains tokens, and others can read it; run: chmod 600 {path}")
    return {one: user for user, one in tokens.items()}
