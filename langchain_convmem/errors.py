"""Every exception the package raises.

One base, `ConvMemError`; each error is also a built-in, so that code which knows nothing of this
package can still catch it by kind. Attributes are keyword-only data and the message alone goes to
the base class, so every error pickles. This module imports nothing of the package.
"""

from __future__ import annotations

from typing import ClassVar

from langchain_core.exceptions import LangChainException


class ConvMemError(LangChainException):
    """Base of every error raised by langchain_convmem."""

    is_retryable: ClassVar[bool] = False
    """Whether the same call may succeed later without any change by the caller."""


class ConfigError(ConvMemError, ValueError):
    """A setting or an argument is missing, unknown or contradicts another."""


class MissingExtraError(ConvMemError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, message: str, *, extra: str = "") -> None:
        """Create the error; `message` should end with the pip line."""
        super().__init__(message)
        self.extra = extra

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
    """A file to import is not what its format promises; nothing was written."""

    def __init__(self, message: str, *, path: str = "", location: str = "") -> None:
        """Create the error for the file `path` at `location` (a line or a JSON path)."""
        super().__init__(message)
        self.path = path
        self.location = location


class BudgetError(ConvMemError, ValueError):
    """Something that must not be cut is larger than the token budget."""

    def __init__(self, message: str, *, needed: int = 0, available: int = 0) -> None:
        """Create the error; both numbers are tokens."""
        super().__init__(message)
        self.needed = needed
        self.available = available


class PromptSyntaxError(ConvMemError, ValueError):
    """A prompt file does not follow the section syntax."""

    def __init__(
        self,
        message: str,
        *,
        path: str = "",
        line: int = 0,
        column: int = 0,
        source_line: str = "",
    ) -> None:
        """Create the error; `line` and `column` count from 1."""
        super().__init__(message)
        self.path = path
        self.line = line
        self.column = column
        self.source_line = source_line


class ChatTemplateError(ConvMemError, ValueError):
    """A chat template is not valid, or does not take what it was given."""

    def __init__(self, message: str, *, reason: str = "", kind: str = "", line: int = 0) -> None:
        """Create the error.

        Args:
            message: All of it, for people.
            reason: The template's own words.
            kind: Name of the exception that the template raised, or of ours.
            line: Line of the template, from 1; 0 if it is not known.
        """
        super().__init__(message)
        self.reason = reason
        self.kind = kind
        self.line = line


class StaleWindowError(ConvMemError, ValueError):
    """A summary was made of something that its thread no longer says; nothing was written.

    Take a new window and summarise that.
    """

    def __init__(self, message: str, *, thread_id: str = "") -> None:
        """Create the error for the thread `thread_id`."""
        super().__init__(message)
        self.thread_id = thread_id


class SummaryError(ConvMemError, RuntimeError):
    """No summary came about; the conversation stands as it was, and is tried again later."""

    def __init__(self, message: str, *, is_outage: bool = False) -> None:
        """Create the error; `is_outage` says that the summariser could not be asked at all."""
        super().__init__(message)
        self.is_outage = is_outage


class ThreadBusyError(ConvMemError, RuntimeError):
    """Another turn holds the thread, and waiting for it cannot or did not help."""

    def __init__(self, message: str, *, thread_id: str = "") -> None:
        """Create the error for the thread `thread_id`."""
        super().__init__(message)
        self.thread_id = thread_id


class ConversationError(ConvMemError):
    """A turn of a conversation did not come about; the conversation is as it was before."""


class ConversationBusyError(ConversationError, RuntimeError):
    """Another turn is running, and waiting for it cannot or did not help."""


class ConversationClosedError(ConversationError, RuntimeError):
    """The conversation, or its engine, was used after `close()`."""


class TurnCancelledError(ConversationError, RuntimeError):
    """The turn was cancelled."""


class TurnTimeoutError(ConversationError, TimeoutError):
    """The turn took longer than allowed, and was cancelled."""


class ContextFullError(ConversationError, RuntimeError):
    """The model had no room left for its reply."""

    def __init__(self, message: str, *, text: str = "") -> None:
        """Create the error; `text` is what the model had written."""
        super().__init__(message)
        self.text = text


class ReplyFormatError(ConversationError, ValueError):
    """A reply cannot be read: a tool call in it is broken."""

    def __init__(self, message: str, *, text: str = "") -> None:
        """Create the error; `text` is the whole reply, as the model wrote it."""
        super().__init__(message)
        self.text = text


class ToolLoopLimitError(ConversationError, RuntimeError):
    """The model went on calling tools; what the tools did stands."""

    def __init__(self, message: str, *, rounds: int = 0) -> None:
        """Create the error; `rounds` is how often tools were called."""
        super().__init__(message)
        self.rounds = rounds


class UnknownCheckpointError(ConversationError, LookupError):
    """There is no such point to go back to, or no longer."""


class UnsupportedError(ConversationError, NotImplementedError):
    """The model, its session or its template cannot do what was asked."""


class LineIndexError(ConvMemError):
    """A line index cannot do what was asked."""


class DimensionMismatchError(LineIndexError, ValueError):
    """A vector has another number of components than the index."""

    def __init__(self, message: str, *, expected: int = 0, got: int = 0) -> None:
        """Create the error; both numbers are vector components."""
        super().__init__(message)
        self.expected = expected
        self.got = got


class EmbedderChangedError(LineIndexError, RuntimeError):
    """Stored vectors were made by another embedder; the new one is sent nothing before a reindex.

    Until then lines are found by their words.
    """

    def __init__(self, message: str, *, stored: str = "", current: str = "") -> None:
        """Create the error; both are fingerprints of embedders."""
        super().__init__(message)
        self.stored = stored
        self.current = current


class LineStoreError(LineIndexError, ConnectionError):
    """A vector store, or its embedder, failed; the same call may succeed later."""

    is_retryable: ClassVar[bool] = True


class LogError(ConvMemError):
    """A message log failed."""

    def __init__(self, message: str, *, thread_id: str = "") -> None:
        """Create the error; `thread_id` is empty when no single thread is concerned."""
        super().__init__(message)
        self.thread_id = thread_id


class LogUnavailableError(LogError, ConnectionError):
    """The log's storage cannot be reached or is busy; the same call may succeed later."""

    is_retryable: ClassVar[bool] = True


class LogClosedError(LogError, RuntimeError):
    """The log was used after `close()`."""


class ReadOnlyError(LogError, RuntimeError):
    """Something was to be written where nothing can be: into the past, or a file without rights."""


class HistoryWriteError(LogError, RuntimeError):
    """A turn could not be stored; the conversation is as it was, and the reply comes with this."""

    def __init__(self, message: str, *, thread_id: str = "", text: str = "") -> None:
        """Create the error; `text` is what the model replied."""
        super().__init__(message, thread_id=thread_id)
        self.text = text


class CorruptEntryError(LogError, ValueError):
    """A stored entry cannot be read back."""

    def __init__(self, message: str, *, thread_id: str = "", position: int = 0) -> None:
        """Create the error for the entry at `position` of `thread_id`."""
        super().__init__(message, thread_id=thread_id)
        self.position = position


class SchemaVersionError(LogError, RuntimeError):
    """The storage was written by a newer version of the package."""

    def __init__(self, message: str, *, found: int = 0, supported: int = 0) -> None:
        """Create the error; both numbers are schema versions."""
        super().__init__(message)
        self.found = found
        self.supported = supported
