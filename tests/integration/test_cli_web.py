"""`convmem web` as a process, and `convmem export --html` as a file."""

import html
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from langchain_convmem import ConversationMemory
from langchain_convmem.cli import main
from langchain_convmem.cli.servers import listen
from langchain_convmem.offline import OfflineChatModel

PARKED = "I parked on level C, next to the <b>blue</b> pillar."
ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with ConversationMemory.open("memory.db") as memory:
        chain = memory.wrap(OfflineChatModel(), record_recall=True)
        for thread, text in (("monday", PARKED), ("friday", "Where did I park?")):
            chain.invoke(text, {"configurable": {"user_id": "ana", "thread_id": thread}})
        memory.set_title("monday", "The car", user_id="ana")
        memory.archive("monday", user_id="ana")
    return tmp_path


@pytest.mark.sockets
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_no_answer_waits_for_the_receipt_of_its_head(host):
    with listen(host, 0) as listener, socket.create_connection(listener.getsockname()[:2]):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.sockets
def test_the_server_prints_its_address_answers_and_ends_by_ctrl_c(folder):
    command = [sys.executable, "-X", "utf8", "-m", "langchain_convmem.cli", "web", "--port", "0"]
    with subprocess.Popen(
        [*command, "--json", "--user", "ana"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as server:
        assert server.stdout is not None
        printed = json.loads(server.stdout.readline())
        assert printed["needs_token"] is False
        with httpx.Client(base_url=printed["url"], timeout=30) as client:
            page = client.get("/", follow_redirects=True)
            assert page.status_code == 200
            assert "Where did I park?" in page.text
            assert client.get("/chat?user=ben").status_code == 400
            fields = {"user": "ana", "thread": "sunday", "text": "Where did I park?"}
            said = client.post("/say", data=fields, headers={"origin": printed["url"].rstrip("/")})
            assert "level" in said.text
        server.send_signal(signal.SIGINT)
        assert server.wait(30) == 0
        assert server.stderr is not None
        assert "Traceback" not in server.stderr.read()
    with ConversationMemory.open("memory.db") as memory:
        assert len(memory.history("sunday", user_id="ana").entries) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--host", "0.0.0.0"], "add --token or --tokens"),  # noqa: S104
        (["--token", "short"], "at least 16 characters"),
        (["--tokens", "gone.txt"], "gone.txt cannot be read"),
        (["--model", "nowhere:x"], "the model 'nowhere:x' cannot be used"),
    ],
)
def test_what_cannot_be_served_is_said_before_a_database_is_made(
    tmp_path, monkeypatch, capsys, words, message
):
    monkeypatch.chdir(tmp_path)
    assert main(["web", *words]) == 1
    assert message in capsys.readouterr().err
    assert not Path("memory.db").exists()


def read_report(capsys, *words):
    assert main(["export", "--html", "--user", "ana", "-o", "r.html", "--json", *words]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["bytes"] == Path("r.html").stat().st_size
    return Path("r.html").read_text("utf-8")


def test_a_report_shows_what_was_said_and_recalled_and_needs_nothing(folder, capsys):
    page = read_report(capsys)
    assert html.escape(PARKED) in page
    assert "<b>blue" not in page
    assert "The car" in page
    assert "archived" in page
    assert "recalled" in page
    assert "<mark>parked</mark>" in page
    assert not re.search(r"<script|\ssrc=|<link|@import|url\(|\son\w+=", page)
    assert set(re.findall(r'href="([^"#]*)', page)) == {""}
    assert stat.S_IMODE((folder / "r.html").stat().st_mode) == 0o600


def test_a_redacted_report_holds_no_text_name_or_id_but_scores(folder, capsys):
    page = read_report(capsys, "--redact")
    for word in ("level", "pillar", "park", "The car", "monday", "friday", "ana<", ">ana"):
        assert word not in page.partition("<body")[2], word
    assert f"[{len(PARKED)} characters left out]" in page
    assert re.search(r"relevance -?\d+\.\d\d", page)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--user", "ben"], "user 'ben' has no messages"),
        (["--user", "ana", "--thread", "sunday"], "has no thread 'sunday'"),
    ],
)
def test_a_report_of_nothing_is_refused_and_no_file_is_made(folder, capsys, words, message):
    assert main(["export", "--html", "-o", "r.html", *words]) == 1
    assert message in capsys.readouterr().err
    assert not Path("r.html").exists()
