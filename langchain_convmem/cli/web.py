"""`convmem web` and `convmem report`: the chat in a browser, and what is kept as one page."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from langchain_convmem.cli.data import write_rows
from langchain_convmem.cli.models import choose_model
from langchain_convmem.cli.options import (
    PROFILE_TOKENS,
    command,
    db_option,
    find_thread,
    open_memory,
    read_signing_key,
    user_option,
)
from langchain_convmem.cli.output import Terminal
from langchain_convmem.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from langchain_convmem.memory import ConversationMemory
    from langchain_convmem.web.access import Access

_OFFLINE = "offline"
_STOP_AFTER_S = 3
"""How long connections that are still open are waited for when the server ends."""


@command(
    "web",
    "convmem web",
    "convmem web --model openai:gpt-5-mini --user ana",
    "convmem web --host 0.0.0.0 --tokens tokens.txt --allow-host chat.example.org",
)
@db_option
@click.option(
    "--user", metavar="ID", help="The only user.  [default: whoever opens the page chooses]"
)
@click.option(
    "--model",
    metavar="NAME",
    default=_OFFLINE,
    envvar="CONVMEM_MODEL",
    show_default=True,
    show_envvar=True,
    help="Provider and model, such as openai:gpt-5, or offline.",
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
    help="0 is any free one.",
)
@click.option(
    "--token",
    metavar="TEXT",
    envvar="CONVMEM_WEB_TOKEN",
    show_envvar=True,
    help="What whoever comes in must know; required where other machines may call.",
)
@click.option(
    "--tokens",
    metavar="FILE",
    type=click.Path(),
    help="A token for each user: lines of a user, a blank and a token.",
)
@click.option(
    "--allow-host",
    metavar="NAME",
    multiple=True,
    help="A name that browsers may call it by; repeatable.",
)
@click.option("--no-summaries", is_flag=True, help="Never summarise long conversations.")
def serve_web(
    terminal: Terminal,
    *,
    db: str,
    user: str | None,
    model: str,
    base_url: str | None,
    host: str,
    port: int,
    token: str | None,
    tokens: str | None,
    allow_host: tuple[str, ...],
    no_summaries: bool,
) -> int:
    """Chat in a browser, and see what is remembered, and why.

    Prints the address and serves until Ctrl-C. On 127.0.0.1 it needs no token; anywhere else it
    does. Nothing is loaded from other hosts. With --json, the address is printed as JSON.
    """
    _require_extra("convmem web")
    from langchain_convmem.web.access import Access, read_user_tokens

    access = Access(
        user_id=user,
        token=token or None,
        user_tokens={} if tokens is None else read_user_tokens(tokens),
        host=host,
        names=allow_host,
    )
    name = None if model == _OFFLINE else model
    chosen, notice = choose_model(name, base_url=base_url)
    with listen(host, port) as listener, _open_memory(db, name, no_summaries) as memory:
        if notice is not None:
            terminal.note(notice)
        _print_address(terminal, host, listener.getsockname()[1], access)
        _serve(memory, chosen, access, name or _OFFLINE, listener)
    return 0


def _require_extra(what: str) -> None:
    for module in ("starlette", "uvicorn", "markdown_it"):
        if find_spec(module) is None:
            raise MissingExtraError.build(what, "web")


def _open_memory(db: str, model: str | None, no_summaries: bool) -> ConversationMemory:
    from langchain_convmem.memory import ConversationMemory
    from langchain_convmem.offline import ExtractiveSummarizer

    summarizer: Any = None
    if not no_summaries:
        summarizer = ExtractiveSummarizer() if model is None else "auto"
    key = read_signing_key()
    return ConversationMemory.open(
        db, summarizer=summarizer, signing_key=key, profile_tokens=PROFILE_TOKENS
    )


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
    terminal.note("stop it with Ctrl-C; what was said is kept")


def _serve(
    memory: ConversationMemory, model: Any, access: Access, name: str, listener: socket.socket
) -> None:
    import uvicorn

    from langchain_convmem.web.server import build_app

    app = build_app(memory, model, access=access, model_name=name)

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


# -- report ---------------------------------------------------------------------------------------


@command(
    "report",
    "convmem report -o report.html",
    "convmem report --thread garden --redact -o bug.html",
)
@db_option
@user_option
@click.option("--thread", metavar="ID", help="This thread only.")
@click.option("--redact", is_flag=True, help="Leave out every text, name and id.")
@click.option(
    "-o", "--out", metavar="FILE", type=click.Path(), required=True, help="The page to write."
)
def report(
    terminal: Terminal, *, db: str, user: str, thread: str | None, redact: bool, out: str
) -> int:
    """Write what is kept of a user as one HTML page.

    It shows what was said, what was recalled for each reply and why, and the summaries. It needs no
    server, no script and no network. The file is written whole or not at all, and only you may read
    it.
    """
    _require_extra("convmem report")
    with open_memory(db) as memory:
        if thread is not None:
            find_thread(memory, user, thread)
        write_rows(Path(out), _read_report(memory, user, thread, redact=redact))
    size = Path(out).stat().st_size
    if terminal.as_json:
        terminal.print_json({"path": out, "bytes": size, "redacted": redact})
    else:
        terminal.print_line(f"{out}: {size / 1000:,.0f} kB")
    return 0


def _read_report(
    memory: ConversationMemory, user: str, thread: str | None, *, redact: bool
) -> Iterator[str]:
    """Yield the report piece by piece, so that no more than a thread of it is held."""
    from langchain_convmem.web.report import stream_report

    pieces = stream_report(memory, user, thread_id=thread, redact=redact)

    async def read_next() -> str | None:
        return await anext(pieces, None)

    with asyncio.Runner() as runner:
        while (piece := runner.run(read_next())) is not None:
            yield piece
