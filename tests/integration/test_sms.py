"""The SMS example over loopback: valid, forged, repeated, malformed and concurrent requests."""

import threading
import time
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda

pytest.importorskip("starlette")
pytest.importorskip("multipart")
httpx = pytest.importorskip("httpx")
uvicorn = pytest.importorskip("uvicorn")

from sms import app as sms  # noqa: E402 - needs what may be missing

pytestmark = pytest.mark.sockets
TOKEN, PUBLIC = "12345", "https://sms.example.org"
FORM = {
    "MessageSid": "SM1",
    "AccountSid": "AC1",
    "From": "+15550001",
    "To": "+15559999",
    "Body": "My bike key is under the blue pot.",
    "NumMedia": "0",
}


def test_a_signature_is_that_of_the_published_example():
    # https://www.twilio.com/docs/usage/security: its token, address and parameters
    form = {
        "CallSid": "CA1234567890ABCDE",
        "Caller": "+14158675309",
        "Digits": "1234",
        "From": "+14158675309",
        "To": "+18005551212",
    }
    url = "https://mycompany.com/myapp.php?foo=1&bar=2"
    assert sms.sign_request("12345", url, form) == "RSOYDt4T1cUTdK1PDd93/VVr8B8="


class Server:
    """The application on a port of its own; `calls` are the questions that reached the model."""

    def __init__(self, path, answer):
        self.calls = []

        def reply(given):
            messages = [*given["history"], *given["input"]]
            self.calls.append(messages[-1].text)
            return AIMessage(answer(messages))

        self.app = sms.make_app(str(path), TOKEN, PUBLIC, RunnableLambda(reply))
        config = uvicorn.Config(self.app, port=0, log_level="error")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run)

    def __enter__(self):
        self._thread.start()
        deadline = time.monotonic() + 20
        while not self._server.started and time.monotonic() < deadline:
            time.sleep(0.01)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=20)
        return self

    def __exit__(self, *_):
        self.client.close()
        self._server.should_exit = True
        self._thread.join(20)

    def send(self, signature=None, **fields):
        form = {**FORM, **fields}
        signed = sms.sign_request(TOKEN, f"{PUBLIC}/sms", form)
        headers = {"X-Twilio-Signature": signed if signature is None else signature}
        return self.client.post("/sms", data=form, headers=headers)

    def ask(self, text, sid, **fields):
        response = self.send(Body=text, MessageSid=sid, **fields)
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("application/xml")
        return [one.text for one in ET.fromstring(response.content)]  # noqa: S314 - our own


@pytest.fixture
def server(tmp_path):
    with Server(tmp_path / "sms.db", lambda messages: f"<b>&{len(messages)}</b>\x00") as running:
        yield running


def test_a_signed_message_is_answered_as_text_and_remembered(server):
    assert server.ask("Hi", "SM1") == ["<b>&1</b>"]
    assert server.ask("Again", "SM2") == ["<b>&3</b>"]  # the thread goes on
    assert server.ask("Hi", "SM3", From="+15550002") == ["<b>&1</b>"]  # another number


def test_a_message_that_comes_again_is_answered_as_before_without_the_model(server):
    first = server.ask("Hi", "SM1")
    assert server.ask("Hi", "SM1") == first
    assert len(server.calls) == 1
    entries = server.app.state.memory.history("sms", user_id=FORM["From"]).entries
    assert len(entries) == 2


def test_repeats_at_the_same_time_are_one_message(server):
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: server.ask("Hi", "SM1"), range(6)))
    assert len({tuple(one) for one in answers}) == 1
    assert len(server.calls) == 1


@pytest.mark.parametrize("signature", ["", "x", "RSOYDt4T1cUTdK1PDd93/VVr8B8=", "é"])
def test_a_forged_message_is_refused_and_nothing_is_stored(server, signature):
    response = server.send(signature=signature.encode())
    assert response.status_code == 403
    assert server.calls == []
    assert server.app.state.memory.threads(FORM["From"]) == []


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"From": ""}, 400),
        ({"MessageSid": ""}, 400),
        ({"Body": " "}, 200),
        ({"Body": "x" * 100_000}, 413),
        ({"NumMedia": "many"}, 200),
        ({"Body": "", "NumMedia": "1", "MediaUrl0": "http://evil.example.org/x"}, 200),
    ],
)
def test_a_malformed_message_breaks_nothing(server, fields, status):
    assert server.send(**fields).status_code == status
    assert server.ask("Hi", "SM9", From="+15550009") == ["<b>&1</b>"]


def test_words_stop_start_help_and_forget(server):
    server.ask("Hi", "SM1")
    assert server.ask("stop.", "SM2") == [sms.STOPPED]
    assert server.ask("Hello?", "SM3") == []
    assert server.ask("HELP", "SM4") == []
    assert server.ask("Start", "SM5") == [sms.STARTED]
    assert server.ask("help", "SM6") == [sms.HELPED]
    assert server.ask("Back", "SM7") == ["<b>&3</b>"]
    assert server.ask("forget  me!", "SM8") == [sms.FORGOTTEN]
    assert server.app.state.memory.threads(FORM["From"]) == []
    assert server.ask("Hi", "SM9") == ["<b>&1</b>"]
    assert len(server.calls) == 3


def test_long_answers_come_in_numbered_parts(tmp_path):
    with Server(tmp_path / "sms.db", lambda _: "word " * 300 + "y" * 700) as server:
        parts = server.ask("Tell me all", "SM1")
    assert [part.partition(" ")[0] for part in parts] == [
        f"({n}/{len(parts)})" for n in range(1, len(parts) + 1)
    ]
    assert all(len(part) <= sms.PART_CHARS + 8 for part in parts)
    said = "".join(part.partition(" ")[2] for part in parts).replace(" ", "")
    assert said == "word" * 300 + "y" * 700


def test_no_server_starts_without_a_token(tmp_path):
    with pytest.raises(ValueError, match="TWILIO_AUTH_TOKEN"):
        sms.make_app(str(tmp_path / "sms.db"), "", PUBLIC)
