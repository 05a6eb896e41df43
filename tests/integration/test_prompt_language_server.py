"""The language server over stdio: every typical mistake is shown as `prompts check` reports it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from langchain_convmem.prompts.parser import parse_prompt

pytest.importorskip("pygls")
MISTAKES = json.loads(
    (Path(__file__).parents[1] / "unit" / "prompts" / "typical_mistakes.json").read_text("utf-8")
)
LEVELS = {1: "error", 2: "warning", 3: "info"}
SERVE = [sys.executable, "-X", "utf8", "-m", "langchain_convmem.cli", "prompts", "serve"]


class Client:
    """An editor, as far as the server sees one."""

    def __init__(self):
        self._process = subprocess.Popen(
            [*SERVE, "--function", "getDate"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._number = 0

    def __enter__(self):
        self.ask("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
        self.tell("initialized", {})
        return self

    def __exit__(self, *_):
        self.ask("shutdown", None)
        self.tell("exit", None)
        self._process.communicate(timeout=20)

    def tell(self, method, params, **more):
        body = json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **more}).encode()
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self._process.stdin.flush()

    def ask(self, method, params):
        self._number += 1
        self.tell(method, params, id=self._number)
        while (said := self._read()).get("id") != self._number:
            pass
        return said["result"]

    def wait_for_findings(self, uri):
        while True:
            said = self._read()
            if said.get("method") == "textDocument/publishDiagnostics":
                assert said["params"]["uri"] == uri
                return said["params"]["diagnostics"]

    def open(self, uri, text):
        document = {"uri": uri, "languageId": "prompt", "version": 1, "text": text}
        self.tell("textDocument/didOpen", {"textDocument": document})
        return self.wait_for_findings(uri)

    def _read(self):
        length = 0
        while (line := self._process.stdout.readline().strip()) != b"":
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        return json.loads(self._process.stdout.read(length))


@pytest.fixture(scope="module")
def client():
    with Client() as running:
        yield running


@pytest.mark.parametrize("mistake", MISTAKES, ids=[one["name"] for one in MISTAKES])
def test_a_mistake_is_marked_where_the_check_reports_it(client, mistake):
    found = client.open(f"file:///{mistake['name'].replace(' ', '_')}.prompt", mistake["text"])
    shown = [
        (LEVELS[one["severity"]], one["range"]["start"]["line"] + 1, one["message"])
        for one in found
    ]
    expected = parse_prompt(mistake["text"], name="t", functions={"getDate"}).diagnostics
    assert shown == [(one.level, one.line, one.message) for one in expected]
    assert any(level == mistake["level"] and mistake["message"] in text for level, _, text in shown)


def test_findings_follow_the_text_and_columns_count_as_editors_do(client):
    uri = "file:///typed.prompt"
    [found] = client.open(uri, "__ Role __\n🦊 {{nobody}}\n")
    assert found["range"]["start"] == {"line": 1, "character": 3}  # the fox is two units of UTF-16
    change = {"text": "__ Role __\nYou help.\n"}
    document = {"uri": uri, "version": 2}
    client.tell("textDocument/didChange", {"textDocument": document, "contentChanges": [change]})
    assert client.wait_for_findings(uri) == []


def test_names_are_completed_in_a_placeholder_only(client):
    uri = "file:///names.prompt"
    text = (
        "__ *Const* __\n- city = Oslo\n__ *Var* __\n- today = getDate\n__ Role __\nIn {{ci\nIn ci\n"
    )
    client.open(uri, text)

    def complete(line, character):
        position = {"line": line, "character": character}
        found = client.ask(
            "textDocument/completion", {"textDocument": {"uri": uri}, "position": position}
        )
        return [(one["label"], one["detail"]) for one in found or []]

    assert complete(5, 7) == [("city", "constant"), ("today", "variable")]
    assert complete(6, 5) == []
