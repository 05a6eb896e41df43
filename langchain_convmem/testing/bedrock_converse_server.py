"""Bedrock's Converse on loopback for tests: real HTTP, scripted answers, strict input.

Speaks `POST /model/{modelId}/converse` (JSON) and `POST /model/{modelId}/converse-stream` (the
binary event stream), with nothing but the standard library, and refuses what the real service
refuses (see `bedrock_converse_rules`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from langchain_convmem.testing.bedrock_converse_rules import ConverseFault, find_converse_fault
from langchain_convmem.testing.bedrock_converse_wire import (
    EVENT_STREAM,
    converse_body,
    event_frame,
    exception_frame,
    exception_name,
    stream_events,
)
from langchain_convmem.testing.loopback_server import (
    Listener,
    LoopbackConnection,
    LoopbackServer,
)
from langchain_convmem.testing.scripted_replies import (
    ReplySource,
    Script,
    ScriptedError,
    ScriptedReply,
)

__all__ = ["BedrockConverseServer"]

_ADDRESS = re.compile(r"POST /model/[^/]+/(converse|converse-stream)")
_SIGNED = ("AWS4-HMAC-SHA256 ", "Bearer ")


class BedrockConverseServer(LoopbackServer):
    """Bedrock's conversation API on 127.0.0.1, for the time of a `with` block.

    Leaving the block closes every connection and joins every thread; an exception that `reply`
    raised is raised again there, unless the block itself failed. Any credentials will do: the
    signature of a request must be there, and is not checked. Safe to use from several threads.

    Example:
        ```python
        with BedrockConverseServer(reply="Level 3.") as server:
            model = ChatBedrockConverse(
                model="anthropic.claude-sonnet-4-20250514-v1:0",
                endpoint_url=server.url,
                region_name="us-east-1",
                aws_access_key_id="test",
                aws_secret_access_key="test",
            )
            model.invoke("Where did I park?")
            [message] = server.requests[0].body["messages"]
            assert message["content"] == [{"text": "Where did I park?"}]
        ```
    """

    def __init__(self, reply: ReplySource) -> None:
        """Create the server; it listens from `__enter__` on.

        Args:
            reply: What to answer: a text, a `ScriptedReply`, a `ScriptedError`; a list of them,
                one for each valid request in order, one request too many being an error; or a
                callable that gets each valid request's body and returns one of them. It runs in
                the thread of its connection.
        """
        script = Script(reply)
        super().__init__(script, lambda: Listener(script, _Connection))

    @property
    def url(self) -> str:
        """What to pass as `endpoint_url`."""
        return self.origin


class _Connection(LoopbackConnection):
    def heard(self, raw: bytes) -> None:
        if _ADDRESS.fullmatch(f"{self.command} {self.bare_path()}") is None:
            message = f"Unknown operation: {self.command} {self.path}"
            self._refuse(ConverseFault(message, "UnknownOperationException", 404))
            return
        request = self.recorded(raw)
        fault = _unsigned(request.headers) or find_converse_fault(request.body)
        if fault is not None:
            self._refuse(fault)
        else:
            self.answer(request.body)

    def say(self, request: dict[str, Any], reply: ScriptedReply) -> None:
        if not self.bare_path().endswith("-stream"):
            self.send_whole(converse_body(request, reply), reply)
            return
        cut = reply.cut_with
        self.send_stream(
            EVENT_STREAM,
            [event_frame(event) for event in stream_events(request, reply)],
            reply,
            None if cut is None else exception_frame(cut),
        )

    def say_error(self, error: ScriptedError) -> None:
        headers = {"x-amzn-ErrorType": exception_name(error), **self.when_to_retry(error)}
        self.send_json(error.status, {"message": error.message}, headers=headers)

    def _refuse(self, fault: ConverseFault) -> None:
        headers = {"x-amzn-ErrorType": fault.exception}
        self.send_json(fault.status, {"message": fault.message}, headers=headers)


def _unsigned(headers: Mapping[str, str]) -> ConverseFault | None:
    if headers.get("authorization", "").startswith(_SIGNED):
        return None
    return ConverseFault("Missing Authentication Token", "MissingAuthenticationTokenException", 403)
