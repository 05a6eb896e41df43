"""`convmem mcp`: the memory as an MCP server, over standard input or HTTP."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import click

from langchain_convmem.cli.options import command, db_option, open_memory, user_option
from langchain_convmem.cli.output import Terminal
from langchain_convmem.errors import ConfigError

_TOKEN = "CONVMEM_MCP_TOKEN"  # noqa: S105 - the name of a variable
"""In the environment alone: what stands on a command line, others can see."""


@command(
    "mcp",
    "convmem mcp                                # over standard input, as desktop hosts start it",
    "convmem mcp --http                         # http://127.0.0.1:8000/mcp",
    "convmem mcp --http --tokens tokens.txt     # one memory for each token's user",
)
@db_option
@user_option
@click.option("--http", is_flag=True, help="Serve over streamable HTTP instead.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535))
@click.option(
    "--tokens",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="A token for each user: lines of a user, a blank and a token. For one token of --user: "
    f"the environment variable {_TOKEN}.",
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
    """Serve the memory to hosts of MCP.

    Whose memory it is comes from --user or from the token of a request, never from what a model
    asks for. Beyond this machine, a token is required.
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
        raise ConfigError(f"{path} holds tokens and others may read it; run: chmod 600 {path}")
    return {one: user for user, one in tokens.items()}
