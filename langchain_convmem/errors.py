"""Every exception the package raises: one class for each thing that a caller would do about it.

One base, `ConvMemError`; most are also a built-in, so that code which knows nothing of this package
can still catch them by kind. The message alone goes to the base class and all else is keyword-only,
so every error pickles. This module imports nothing of the package.
"""

from __future__ import annotations

from typing import Any, ClassVar

from langchain_core.exceptions import LangChainException


class ConvMemError(LangChainException):
    """Base of every error raised by langchain_convmem."""

    is_retryable: ClassVar[bool] = False
    """Whether the same call may succeed later without any change by the caller."""

    def __init__(self, message: str, **facts: Any) -> None:
        """Create the error; `facts` are values of the attributes that its class lists."""
        super().__init__(message)
        for name, fact in facts.items():
            getattr(type(self), name)  # a class lists what it may say
            setattr(self, name, fact)


class ConfigError(ConvMemError, ValueError):
    """A setting or an argument is missing, unknown, contradicts another, or asks for too much.

    Too much is what the model, its session or its template cannot do, or what lines that were
    embedded by another model do not allow.
    """


class MissingExtraError(ConvMemError, ImportError):
    """An optional dependency is not installed.

    Attributes:
        extra: What to install; the message ends with the pip line.
    """

    extra: str = ""

    @classmethod
    def build(cls, what: str, extra: str) -> MissingExtraError:
        """Return the error for `what`, which needs `extra`, with the command that fixes it."""
        return cls(
            f"{what} needs the '{extra}' extra. "
            f"Install it with: pip install 'langchain-convmem[{extra}]'",
            extra=extra,
        )


class InvalidMessageError(ConvMemError, ValueError):
    """A message cannot be stored; nothing was written."""


class ImportFormatError(ConvMemError, ValueError):
    """A file to import is not what its format promises; nothing was written.

    Attributes:
        path: The file.
        location: Where in it: a line or a JSON path.
    """

    path: str = ""
    location: str = ""


class PromptSyntaxError(ConvMemError, ValueError):
    """A prompt file does not follow the section syntax.

    Attributes:
        path: The file.
        line: Where in it, from 1.
        column: Where in the line, from 1.
        source_line: The line.
    """

    path: str = ""
    line: int = 0
    column: int = 0
    source_line: str = ""


class ChatTemplateError(ConvMemError, ValueError):
    """A chat template is not valid, or does not take what it was given.

    Attributes:
        reason: The template's own words.
        kind: Name of the exception that the template raised, or of ours.
        line: Line of the template, from 1; 0 if it is not known.
    """

    reason: str = ""
    kind: str = ""
    line: int = 0


class BudgetError(ConvMemError, ValueError):
    """Something that must not be cut has no room, or the model had none left for its reply.

    Attributes:
        needed: Tokens, where both numbers are known.
        available: Tokens.
        text: What the model had written.
    """

    needed: int = 0
    available: int = 0
    text: str = ""


class StaleWindowError(ConvMemError, ValueError):
    """A summary was made of something that its thread no longer says; nothing was written.

    Take a new window and summarise that.

    Attributes:
        thread_id: The thread.
    """

    thread_id: str = ""


class SummaryError(ConvMemError, RuntimeError):
    """No summary came about; the conversation stands as it was, and is tried again later.

    Attributes:
        is_outage: Whether the summariser could not be asked at all.
    """

    is_outage: bool = False


class ThreadBusyError(ConvMemError, RuntimeError):
    """Another turn holds the thread or conversation; waiting for it cannot or did not help.

    Attributes:
        thread_id: The thread, if it is known.
    """

    thread_id: str = ""


class ConversationError(ConvMemError, RuntimeError):
    """A turn of a conversation did not come about; the conversation is as it was before.

    Attributes:
        text: The reply as the model wrote it, where it cannot be read.
        rounds: How often tools were called, if the model went on calling them; what they did
            stands.
    """

    text: str = ""
    rounds: int = 0


class TurnCancelledError(ConversationError):
    """The turn was cancelled, by somebody or since it took longer than allowed."""


class LineStoreError(ConvMemError, ConnectionError):
    """A vector store, or its embedder, failed; the same call may succeed later."""

    is_retryable: ClassVar[bool] = True


class LogError(ConvMemError, RuntimeError):
    """A message log failed, cannot be written, or cannot read back what it stored.

    Attributes:
        thread_id: The thread; empty when no single one is concerned.
        position: Of the entry that cannot be read back; 0 if it is no entry.
        text: What the model replied, where a turn could not be stored.
    """

    thread_id: str = ""
    position: int = 0
    text: str = ""


class LogUnavailableError(LogError, ConnectionError):
    """The log's storage cannot be reached or is busy; the same call may succeed later."""

    is_retryable: ClassVar[bool] = True


class LogClosedError(LogError):
    """The log was used after `close()`."""
