"""`convmem mcp` over standard input and over HTTP, with the SDK's own client."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from langchain_convmem import ConversationMemory

pytestmark = pytest.mark.sockets

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-X", "utf8", "-m", "langchain_convmem.cli", "mcp"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
USERS = [f"user{n}" for n in range(8)]
TOKENS = {f"token-of-{user}-{'x' * 16}": user for user in USERS}


@contextmanager
def serving(folder, *options, **environment):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [*COMMAND, "--db", str(folder / "memory.db"), "--http", "--port", str(port)]
    with (folder / "server.log").open("w") as log:
        server = subprocess.Popen(
            [*command, *options],
            env={**ENVIRONMENT, **environment},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        address = f"http://127.0.0.1:{port}/mcp"
        wait_for(address, server)
        yield address
    finally:
        server.terminate()
        server.wait(timeout=60)


def wait_for(address, server):
    until = time.monotonic() + 60
    while time.monotonic() < until:
        assert server.poll() is None, "the server ended"
        try:
            httpx.get(address)
        except httpx.TransportError:
            time.sleep(0.1)
        else:
            return
    pytest.fail("the server did not listen")


async def test_over_standard_input(tmp_path):
    options = ["--db", str(tmp_path / "memory.db"), "--user", "ana"]
    params = StdioServerParameters(
        command=COMMAND[0], args=[*COMMAND[1:], *options], env=ENVIRONMENT
    )
    async with Client(stdio_client(params)) as client:
        note_call = {"text": "I adopted a cat, Miso.", "said_by": "user"}
        assert not (await client.call_tool("remember", note_call)).is_error
        found = await client.call_tool("recall", {"query": "Which cat do I have?"})
    assert "User: I adopted a cat, Miso." in found.content[0].text
    with ConversationMemory.open(tmp_path / "memory.db") as memory:
        assert [info.key.thread_id for info in memory.threads(user_id="ana")] == ["mcp"]


async def post_blank(address, headers):
    async with httpx.AsyncClient(headers=headers) as http:
        return (await http.post(address, json={})).status_code


async def talk(address, user):
    """Store three lines of a user, and return what a recall of all of them brings."""
    [token] = [token for token, known in TOKENS.items() if known == user]
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(address, http_client=http)) as client,
    ):
        for number in range(3):
            text = f"The secret number {number} of {user} is kept in the cellar."
            await client.call_tool("remember", {"text": text, "said_by": "user"})
        found = await client.call_tool("recall", {"query": "Which secret numbers are kept?"})
        listed = await client.call_tool("list_threads", {})
    assert len(listed.structured_content["result"]) == 1
    blocks = found.structured_content["blocks"]
    return [line["text"] for block in blocks for line in block["lines"]]


async def test_over_http_each_token_has_a_memory_of_its_own(tmp_path):
    tokens = tmp_path / "tokens.txt"
    tokens.write_text("".join(f"{user} {token}\n" for token, user in TOKENS.items()))
    tokens.chmod(0o600)
    with serving(tmp_path, "--tokens", str(tokens)) as address:
        answers = await asyncio.gather(*(talk(address, user) for user in USERS))
        for headers in ({}, {"Authorization": "Bearer wrong-wrong-wrong-wrong"}):
            assert await post_blank(address, headers) == 401
    for user, lines in zip(USERS, answers, strict=True):
        assert {line for line in lines if user not in line.split()} == set()
        assert len(lines) == 3
    log = (tmp_path / "server.log").read_text()
    assert "secret number" not in log
    assert "Traceback" not in log
    assert not any(token in log for token in TOKENS)


async def test_over_http_without_a_token_it_serves_this_machine_and_no_other_site(tmp_path):
    with serving(tmp_path, "--user", "ana") as address:
        async with Client(address) as client:
            assert not (await client.call_tool("remember", {"text": "Likes tea."})).is_error
        for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
            assert await post_blank(address, headers) in (403, 421)


@pytest.mark.parametrize(
    ("mode", "line", "says"),
    [
        (0o644, "ana secret-token-0123456789", "chmod 600"),
        (0o600, "secret-token-0123456789", "expected a user, a space and a token"),
    ],
)
def test_what_makes_a_server_unsafe_is_refused(convmem, tmp_path, mode, line, says):
    tokens = tmp_path / "tokens.txt"
    tokens.write_text(line)
    tokens.chmod(mode)
    code, _, err = convmem("mcp", "--http", "--tokens", tokens)
    assert (code, says in err, "secret-token" in err) == (1, True, False)


def test_beyond_this_machine_a_token_is_needed(convmem, tmp_path):
    code, _, err = convmem("mcp", "--http", "--host", "0.0.0.0")  # noqa: S104
    assert (code, "CONVMEM_MCP_TOKEN" in err) == (1, True)
    assert list(tmp_path.iterdir()) == []
