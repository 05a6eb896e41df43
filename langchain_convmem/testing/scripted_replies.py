"""What scripted services answer: shared by every server of the kit, and by its engine."""

from __future__ import annotations

import json
import re
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import UnionType
from typing import Any, Generic, TypeAlias, TypeVar, cast

from langchain_convmem.errors import ConfigError
from langchain_convmem.views.tokens import count_text_tokens

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ScriptedToolCall:
    """A tool call of the scripted service.

    Attributes:
        name: Name of the tool.
        arguments: Its arguments; a text is sent as it is, valid JSON or not.
        call_id: Its id; two calls of one reply need different ones.
    """

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    call_id: str = "call_1"

    @property
    def arguments_text(self) -> str:
        """The arguments as sent."""
        if isinstance(self.arguments, str):
            return self.arguments
        return json.dumps(self.arguments, ensure_ascii=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedError:
    """An error that the scripted service returns.

    Attributes:
        status: HTTP status, 400 to 599.
        message: The error's sentence.
        kind: The error's `type`; Bedrock has none.
        code: The error's `code`; with Bedrock the name of its exception, None is the usual one of
            the status, such as `ThrottlingException` for 429.
        param: Path of the offending parameter, such as `messages[1].role`; Bedrock names none.
        retry_after_s: Sent as `Retry-After`, in seconds; None sends none.
    """

    status: int
    message: str = "scripted error"
    kind: str = "server_error"
    code: str | None = None
    param: str | None = None
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedReply:
    """A reply of the scripted service.

    Attributes:
        text: Its text; streamed word by word.
        tool_calls: Its calls; their arguments are streamed in pieces.
        reasoning: What it thought first. Bedrock shows it, signed; Chat Completions never does.
        cut_after_chunks: Close the connection after so many stream events, in the middle of the
            response; without streaming, after half of the body. None: answer whole.
        cut_with: What a cut stream says before it ends in order; without streaming, the whole
            answer. None: it says nothing, the connection breaks.
        before_chunk: Called with the number of each stream event, from 0, before it is sent; it
            may block, so that a test decides how far a stream has come.
    """

    text: str = ""
    tool_calls: Sequence[ScriptedToolCall] = ()
    reasoning: str = ""
    cut_after_chunks: int | None = None
    cut_with: ScriptedError | None = None
    before_chunk: Callable[[int], object] | None = None

    def __post_init__(self) -> None:
        """Refuse calls that could not be told apart, and last words that are never said."""
        ids = [call.call_id for call in self.tool_calls]
        if len(set(ids)) != len(ids):
            raise ConfigError(f"tool calls of one reply need different ids, got {ids}")
        if self.cut_with is not None and self.cut_after_chunks is None:
            raise ConfigError("cut_with is said by a cut stream; say where with cut_after_chunks")

    @property
    def tokens(self) -> int:
        """How many tokens the answer has, by the package's own count."""
        calls = sum(count_text_tokens(call.name + call.arguments_text) for call in self.tool_calls)
        return count_text_tokens(self.reasoning) + count_text_tokens(self.text) + calls


Reply: TypeAlias = str | ScriptedReply | ScriptedError

ReplySource: TypeAlias = Reply | Sequence[Reply] | Callable[[dict[str, Any]], Reply]
"""One reply for all requests, a list of one reply each, or a callable that decides."""


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request for a reply, including refused ones.

    Attributes:
        headers: By lower-case name.
        body: The parsed JSON; None if it was none.
        path: As sent, with what follows a question mark.
    """

    headers: Mapping[str, str]
    body: Any
    path: str = ""


class ReplyQueue(Generic[T]):
    """One reply for ever, or a list of replies that are used up in order. Thread-safe."""

    def __init__(self, replies: T | Sequence[T], kinds: type | UnionType, asking: str) -> None:
        """Take the replies.

        Args:
            replies: One, or a list of them.
            kinds: What one reply is an instance of, if it is not callable.
            asking: What uses up a reply, for the error that a list is at its end.
        """
        is_one = isinstance(replies, kinds) or callable(replies)
        self._always: list[Any] = [replies] if is_one else []
        self._left: deque[Any] = deque(() if is_one else cast("Sequence[T]", replies))
        self._length = len(self._left)
        self._asking = asking
        self._lock = threading.Lock()

    def take(self) -> T:
        """Return the next reply.

        Raises:
            ConfigError: If a list of replies has been played to its end.
        """
        if self._always:
            return cast("T", self._always[0])
        with self._lock:
            if not self._left:
                msg = f"the script has {self._length} replies, and one more {self._asking} came"
                raise ConfigError(msg)
            return cast("T", self._left.popleft())


def split_words(text: str) -> list[str]:
    """Return how a text is streamed: word by word, each with the blanks before it."""
    return re.findall(r"\s*\S+|\s+\Z", text)


def split_pieces(arguments: str) -> list[str]:
    """Return how the arguments of a call are streamed: cut anywhere."""
    return re.findall(r"(?s).{1,12}", arguments)
