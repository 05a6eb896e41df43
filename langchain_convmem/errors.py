"""Every exception the package raises: one class for each thing that a caller would do about it.

One base, `ConvMemError`; most are also a built-in, so that code which knows nothing of this package
can still catch them by kind. The message alone goes to the base class and all else is keyword-only,
so every error pickles. This module imports nothing of the package.
"""

from __future__ import annotations

from typing import Any, ClassVar

from langchain_core.exceptions import LangChainException


class ConvMemError(LangChainException):
    """The base class of all errors of langchain_convmem."""

    is_retryable: ClassVar[bool] = False
    """Whether the same call may succeed later without any change by the caller."""

    def __init__(self, message: str, **facts: Any) -> None:
        """Create the error; `facts` are values of the attributes that its class lists."""
        super().__init__(message)
        for name, fact in facts.items():
            getattr(type(self), name)  # a class lists what it may say
            setattr(self, name, fact)


class ConfigError(ConvMemError, ValueError):
    """A setting or an argument is missing, unknown, contradictory or unsupported.

    For example, the model, its session or its template does not support it, or the lines were
    embedded with another model.
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
    """A file to import does not follow its format; nothing was written.

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
    """A chat template is invalid or rejects its input.

    Attributes:
        reason: The template's own message.
        kind: Name of the exception that the template raised, or of ours.
        line: Line of the template, from 1; 0 if it is not known.
    """

    reason: str = ""
    kind: str = ""
    line: int = 0


class BudgetError(ConvMemError, ValueError):
    """The budget is too small for text that must not be cut, or for the model's reply.

    Attributes:
        needed: Tokens, if both numbers are known.
        available: Tokens.
        text: What the model had written.
    """

    needed: int = 0
    available: int = 0
    text: str = ""


class StaleWindowError(ConvMemError, ValueError):
    """The thread changed while a summary was written; nothing was stored.

    Take a new window and summarise that.

    Attributes:
        thread_id: The thread.
    """

    thread_id: str = ""


class SummaryError(ConvMemError, RuntimeError):
    """No summary was written; the thread is unchanged, and the memory tries again later.

    Attributes:
        is_outage: Whether the summarizer could not be called at all.
    """

    is_outage: bool = False


class ThreadBusyError(ConvMemError, RuntimeError):
    """Another turn is using the thread or conversation, and waiting did not or cannot help.

    Attributes:
        thread_id: The thread, if it is known.
    """

    thread_id: str = ""


class ConversationError(ConvMemError, RuntimeError):
    """A turn of a conversation failed; the conversation is unchanged.

    Attributes:
        text: The reply as the model wrote it, if it cannot be parsed.
        rounds: How often tools were called, if the model kept calling them; their effects remain.
    """

    text: str = ""
    rounds: int = 0


class TurnCancelledError(ConversationError):
    """The turn was cancelled or exceeded its timeout."""


class LineStoreError(ConvMemError, ConnectionError):
    """A vector store or its embedder failed; the same call may succeed later."""

    is_retryable: ClassVar[bool] = True


class LogError(ConvMemError, RuntimeError):
    """A message log failed, or cannot be written or read.

    Attributes:
        thread_id: The thread; empty if the error concerns no single one.
        position: The position of the entry that cannot be read; 0 if it is not an entry.
        text: The model's reply, if a turn could not be stored.
    """

    thread_id: str = ""
    position: int = 0
    text: str = ""


class LogUnavailableError(LogError, ConnectionError):
    """The log's storage cannot be reached or is busy; the same call may succeed later."""

    is_retryable: ClassVar[bool] = True


class LogClosedError(LogError):
    """The log was used after `close()`."""
