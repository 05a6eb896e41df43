"""The quickstart and the README run as they stand, with each provider's client on loopback."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from pages import THEIRS, blocks_of, without_a_key

from benchmarks.quickstart import read_program
from langchain_convmem.testing import BedrockConverseServer, ChatCompletionsServer

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "get_started" / "quickstart.md"
TABS = {block.tab: block for block in blocks_of(PAGE) if block.tab is not None}
STEPS = [block for block in blocks_of(PAGE) if block.tab is None]
RECALLED = "I parked on level C, next to the blue pillar."
SCRIPT = ["Noted.", "You parked on level C, next to the blue pillar."]

pytestmark = pytest.mark.sockets


class _Messages(BaseHTTPRequestHandler):
    """What `ChatAnthropic` asks of the Messages API, and no more."""

    asked: list[dict[str, Any]]

    def do_POST(self):
        self.asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        text = SCRIPT[len(self.asked) - 1]
        reply = {
            "id": f"msg_{len(self.asked)}",
            "type": "message",
            "role": "assistant",
            "model": self.asked[-1]["model"],
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        body = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):  # noqa: A002 - named by the base
        """Say nothing on the terminal."""


@contextlib.contextmanager
def openai():
    asked = []
    with ChatCompletionsServer(SCRIPT) as server:
        yield {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "none"}, asked
        asked += [request.body for request in server.requests]


@contextlib.contextmanager
def bedrock():
    asked = []
    with BedrockConverseServer(SCRIPT) as server:
        keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
        address = {"AWS_ENDPOINT_URL_BEDROCK_RUNTIME": server.url, "AWS_REGION": "eu-central-1"}
        yield {**keys, **address, "AWS_DEFAULT_REGION": "eu-central-1"}, asked
        asked += [request.body for request in server.requests]


@contextlib.contextmanager
def anthropic():
    asked = []
    handler = type("Messages", (_Messages,), {"asked": asked})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none"}, asked
        finally:
            server.shutdown()
            thread.join()


SERVICES = {
    "OpenAI": (openai, "langchain_openai"),
    "Anthropic": (anthropic, "langchain_anthropic"),
    "Bedrock": (bedrock, "langchain_aws"),
    "Local": (openai, "langchain_openai"),
}


def run(block, directory, environment):
    return start([sys.executable, "-X", "utf8", "-c", block.code], directory, environment)


def start(command, directory, environment):
    done = subprocess.run(
        command,
        cwd=directory,
        env=os.environ | environment | {"PYTHONPATH": str(ROOT), "CONVMEM_EMBEDDER": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_the_quickstart_has_a_tab_for_each_way_to_begin():
    assert sorted(TABS) == sorted([*SERVICES, "Offline"])


def test_the_timed_walk_runs_the_program_that_the_page_shows():
    assert read_program() == f"{TABS['OpenAI'].code}{STEPS[0].code}"


@pytest.mark.parametrize("tab", SERVICES)
def test_a_tab_of_the_quickstart_answers_and_its_model_was_given_the_line(tab, tmp_path):
    serve, needs = SERVICES[tab]
    pytest.importorskip(needs, reason=f"{needs} is not installed")
    with serve() as (environment, asked):
        printed = run(replace(STEPS[0], code=TABS[tab].code + STEPS[0].code), tmp_path, environment)
    assert printed.strip() == SCRIPT[-1]
    assert [RECALLED in json.dumps(one) for one in asked] == [True, True]


def mask(text):
    text = re.sub(r"\d{4}-\d{2}-\d{2}( \d{2}:\d{2})?", "(a time)", text)
    return re.sub(r"(relevance|similarity) -?\d+\.\d+", r"\1 (a score)", text).splitlines()


def test_the_quickstart_followed_in_one_empty_directory_prints_what_it_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CONVMEM_EMBEDDER")  # a page runs as its reader runs it
    names = {"__name__": "quickstart"}
    for block in [TABS["Offline"], *STEPS]:
        block.run(names)
        assert block.output or block is TABS["Offline"]
    [console] = re.findall(
        r"^```console\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    typed = re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]
    assert len(typed) == 2
    for step in typed:
        line, _, shown = step.partition("\n")
        command = [sys.executable, "-m", "langchain_convmem.cli", *shlex.split(line)[1:]]
        printed = start(command, tmp_path, {"COLUMNS": "80"})
        assert mask(printed) == mask(shown), line


def test_the_home_page_shows_the_program_of_the_readme():
    home = next(block for block in blocks_of(ROOT / "docs" / "index.md"))
    assert (home.code, home.output) == (README.code, README.output)


README = next(block for block in blocks_of(ROOT / "README.md") if block.language == THEIRS)


def test_the_example_of_the_readme_prints_what_it_shows_with_its_providers_own_client(tmp_path):
    pytest.importorskip("langchain_openai", reason="langchain-openai is not installed")
    assert len(README.code.strip().splitlines()) <= 9
    with openai() as (environment, asked):
        README.compare(run(README, tmp_path, environment))
    assert [RECALLED in json.dumps(one) for one in asked] == [True, True]


def test_the_example_of_the_readme_runs_without_a_key_as_it_says(tmp_path):
    offline = replace(README, code=without_a_key(README.code))
    printed = run(offline, tmp_path, {})
    assert RECALLED in printed


def test_the_readme_has_a_hundred_lines_at_most_and_says_first_what_it_replaces():
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    assert len(lines) <= 100
    first = "\n".join(lines[:12])
    for name in ("LangChain 2.0", "RunnableWithMessageHistory", "BaseChatMessageHistory"):
        assert name in first


def test_the_page_for_langchains_docs_runs_and_its_model_was_given_the_line(tmp_path):
    pytest.importorskip("langchain_openai", reason="langchain-openai is not installed")
    page = ROOT / "docs" / "project" / "langchain_listing" / "convmem.mdx"
    blocks = [block for block in blocks_of(page) if "import" in block.code]
    whole = replace(blocks[0], code="".join(block.code for block in blocks))
    with openai() as (environment, asked):
        assert run(whole, tmp_path, environment).strip() == SCRIPT[-1]
    assert [RECALLED in json.dumps(one) for one in asked] == [True, True]
